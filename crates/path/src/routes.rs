//! Who is next on the way to whom and when: by the fewest links in use, ties by the lower link index,
//! through routers and proxies only, unless a way is set by hand.

use std::collections::{BTreeMap, VecDeque};

use units::{NodeId, Time};

use crate::NodeKind;

/// No line.
pub(crate) const NONE: u32 = u32::MAX;

/// Which line leads where, ordered so that the lines into a node lie beside each other.
pub(crate) struct Wiring {
    ends: Vec<(NodeId, NodeId)>,
    kinds: Vec<NodeKind>,
    /// Of each link whether routes may lead over it.
    pub in_use: Vec<bool>,
    /// Lines by the node they lead to, in order of their index.
    into: Vec<u32>,
    /// Where in `into` each node's begin, and the end of the last.
    first: Vec<usize>,
}

impl Wiring {
    /// Of lines with these ends, near and far, between nodes of these kinds, all in use.
    pub fn new(ends: &[(NodeId, NodeId)], kinds: &[NodeKind]) -> Wiring {
        let mut into: Vec<u32> = (0..ends.len() as u32).collect();
        into.sort_by_key(|line| ends[*line as usize].1);
        let first = (0..=kinds.len())
            .map(|node| into.partition_point(|line| (ends[*line as usize].1.0 as usize) < node))
            .collect();
        let in_use = vec![true; ends.len() / 2];
        Wiring { ends: ends.to_vec(), kinds: kinds.to_vec(), in_use, into, first }
    }

    /// The lines that lead to `node`, each with the node it comes from.
    fn into(&self, node: usize) -> impl Iterator<Item = (u32, usize)> {
        let lines = &self.into[self.first[node]..self.first[node + 1]];
        lines.iter().map(|line| (*line, self.ends[*line as usize].0.0 as usize))
    }

    /// Of each node whether lines lead from it to `destination`, over whatever nodes.
    pub fn linked_with(&self, destination: usize) -> Vec<bool> {
        let mut seen = vec![false; self.kinds.len()];
        seen[destination] = true;
        let mut frontier = VecDeque::from([destination]);
        while let Some(node) = frontier.pop_front() {
            for (_, before) in self.into(node) {
                if !std::mem::replace(&mut seen[before], true) {
                    frontier.push_back(before);
                }
            }
        }
        seen
    }

    /// Writes into `next` the line that each node takes to `destination`. One search, outwards from
    /// there: each line is looked at once.
    fn search(&self, destination: usize, next: &mut [u32]) {
        next.fill(NONE);
        let mut far = vec![u32::MAX; self.kinds.len()];
        far[destination] = 0;
        let mut frontier = VecDeque::from([destination]);
        while let Some(node) = frontier.pop_front() {
            if node != destination && self.kinds[node] == NodeKind::Host {
                continue;
            }
            let links = far[node] + 1;
            for (line, before) in self.into(node) {
                if !self.in_use[line as usize / 2] {
                    continue;
                }
                if far[before] > links {
                    far[before] = links;
                    frontier.push_back(before);
                }
                if far[before] == links {
                    next[before] = next[before].min(line);
                }
            }
        }
    }
}

/// Ways set by hand: of packets for a node (first) that are at a node (second) the line, or [`NONE`].
pub(crate) type Rules = BTreeMap<(usize, usize), u32>;

/// Why a version cannot be.
pub(crate) enum Fault {
    /// A way set by hand leads over a link that is not in use.
    Unused { line: u32, node: usize, to: usize },
    /// Ways set by hand lead back to where they come from.
    Circle { node: usize, to: usize },
}

/// The next line at every node on the way to every node that packets are sent to (hosts and proxies,
/// which are few where routers are many), in versions: each holds from its instant on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// Which column of a version is a node's; [`NONE`]: nothing is sent to it.
    columns: Vec<u32>,
    /// Of each version a column of all nodes for each destination.
    next: Vec<u32>,
    /// From when each version holds.
    from: Vec<Time>,
    /// The version in force, and where in `next` it begins.
    version: usize,
    begin: usize,
    /// When the next one holds.
    until: Time,
}

impl Routes {
    /// The shortest ways, at all times.
    pub fn shortest(wiring: &Wiring) -> Routes {
        let nodes = wiring.kinds.len();
        let mut columns = vec![NONE; nodes];
        let sent_to = (0..nodes).filter(|node| wiring.kinds[*node] != NodeKind::Router);
        for (place, node) in sent_to.enumerate() {
            columns[node] = place as u32;
        }
        let mut routes = Routes { columns, until: Time::MAX, ..Routes::default() };
        routes.search(Time::ZERO, wiring);
        routes
    }

    /// From `from` on, which is later than all before, these links and rules hold.
    pub fn add_version(&mut self, from: Time, wiring: &Wiring, rules: &Rules) -> Result<(), Fault> {
        self.search(from, wiring);
        let begin = (self.from.len() - 1) * self.stride();
        let nodes = self.columns.len();
        let column = |to: usize| begin + self.columns[to] as usize * nodes;
        for ((to, node), line) in rules {
            if *line != NONE && !wiring.in_use[*line as usize / 2] {
                return Err(Fault::Unused { line: *line, node: *node, to: *to });
            }
            self.next[column(*to) + node] = *line;
        }
        for (to, node) in rules.keys() {
            let (mut at, mut links) = (*node, 0);
            while at != *to {
                let line = self.next[column(*to) + at];
                if line == NONE {
                    break;
                }
                if links == nodes {
                    return Err(Fault::Circle { node: *node, to: *to });
                }
                at = wiring.ends[line as usize].1.0 as usize;
                links += 1;
            }
        }
        self.until = self.from.get(self.version + 1).copied().unwrap_or(Time::MAX);
        Ok(())
    }

    /// Appends a version of the shortest ways.
    fn search(&mut self, from: Time, wiring: &Wiring) {
        let nodes = self.columns.len();
        let begin = self.next.len();
        self.from.push(from);
        self.next.resize(begin + self.stride(), NONE);
        for (destination, column) in self.columns.iter().enumerate() {
            if *column != NONE {
                let place = begin + *column as usize * nodes;
                wiring.search(destination, &mut self.next[place..place + nodes]);
            }
        }
    }

    /// How long a version is.
    fn stride(&self) -> usize {
        self.columns.len() * self.columns.iter().filter(|column| **column != NONE).count()
    }

    /// The line that a packet for `destination` takes at `at` by the version in force.
    #[inline]
    pub fn next_hop(&self, at: NodeId, destination: NodeId) -> Option<usize> {
        self.look_up(self.begin, at, destination)
    }

    /// The same by the version of `when`.
    pub fn next_hop_at(&self, when: Time, at: NodeId, destination: NodeId) -> Option<usize> {
        self.look_up(self.version_at(when) * self.stride(), at, destination)
    }

    #[inline]
    fn look_up(&self, begin: usize, at: NodeId, destination: NodeId) -> Option<usize> {
        let nodes = self.columns.len();
        let column = *self.columns.get(destination.0 as usize)?;
        if column == NONE || at.0 as usize >= nodes {
            return None;
        }
        let line = self.next[begin + column as usize * nodes + at.0 as usize];
        (line != NONE).then_some(line as usize)
    }

    /// When the version after the one in force holds.
    #[inline]
    pub fn changes_at(&self) -> Time {
        self.until
    }

    /// Brings the version of `now` into force.
    pub fn apply(&mut self, now: Time) {
        self.version = self.version_at(now);
        self.begin = self.version * self.stride();
        self.until = self.from.get(self.version + 1).copied().unwrap_or(Time::MAX);
    }

    fn version_at(&self, when: Time) -> usize {
        self.from.partition_point(|from| *from <= when).saturating_sub(1)
    }
}
