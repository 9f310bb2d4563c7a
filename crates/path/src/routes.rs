//! Who is next on the way to whom and when: by the fewest links in use, ties by the lower link index,
//! through routers and proxies only, unless a way is set by hand.
//!
//! Routes are kept for the instant in force. From one version to the next only those places are looked at
//! whose way is another ([`Table::change`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use units::{NodeId, Time};

use crate::NodeKind;

/// No line.
pub(crate) const NONE: u32 = u32::MAX;
/// No way, as a number of links.
const FAR: u32 = u32::MAX;

/// Which line leads where, ordered so that the lines into a node lie beside each other. Those out of it
/// are the same, the other way round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wiring {
    ends: Vec<(NodeId, NodeId)>,
    kinds: Vec<NodeKind>,
    /// Of each link whether routes may lead over it.
    in_use: Vec<bool>,
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
    fn lines_into(&self, node: usize) -> impl Iterator<Item = (u32, usize)> {
        let lines = &self.into[self.first[node]..self.first[node + 1]];
        lines.iter().map(|line| (*line, self.ends[*line as usize].0.0 as usize))
    }

    /// Those of them that are in use.
    fn used_into(&self, node: usize) -> impl Iterator<Item = (u32, usize)> {
        self.lines_into(node).filter(|(line, _)| self.is_used(*line))
    }

    fn is_used(&self, line: u32) -> bool {
        self.in_use[line as usize / 2]
    }

    /// Of each node whether lines lead from it to `destination`, over whatever nodes.
    pub fn linked_with(&self, destination: usize) -> Vec<bool> {
        let mut seen = vec![false; self.kinds.len()];
        seen[destination] = true;
        let mut frontier = VecDeque::from([destination]);
        while let Some(node) = frontier.pop_front() {
            for (_, before) in self.lines_into(node) {
                if !std::mem::replace(&mut seen[before], true) {
                    frontier.push_back(before);
                }
            }
        }
        seen
    }

    /// How many lines there are into `node`.
    fn degree(&self, node: usize) -> u64 {
        (self.first[node + 1] - self.first[node]) as u64
    }
}

/// Ways set by hand: of packets for a node (first) that are at a node (second) the line, or [`NONE`].
type Rules = BTreeMap<(usize, usize), u32>;

/// What changes of the routes at an instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Version {
    /// From when it holds.
    pub from: Time,
    /// Links, and whether they are in use.
    pub links: Vec<(usize, bool)>,
    /// Ways of packets for a node (first) that are at a node (second); none: the shortest again.
    pub ways: Vec<((usize, usize), Option<u32>)>,
}

/// Why a version cannot be.
pub(crate) enum Fault {
    /// A way set by hand leads over a link that is not in use.
    Unused { line: u32, node: usize, to: usize },
    /// Ways set by hand lead back to where they come from.
    Circle { node: usize, to: usize },
}

/// The ways to one node.
#[derive(Clone, Debug)]
struct Column {
    to: usize,
    /// Links from each node to it, if no way is set by hand.
    far: Vec<u32>,
}

/// The next line at every node on the way to those nodes that have a column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    wiring: Wiring,
    rules: Rules,
    /// Which column is a node's; [`NONE`]: it has none.
    places: Vec<u32>,
    columns: Vec<Column>,
    /// A column after the other, of all nodes.
    next: Vec<u32>,
    /// How many lines were looked at.
    looked: u64,
}

impl Table {
    /// Without a column.
    pub fn new(wiring: Wiring) -> Table {
        Table { places: vec![NONE; wiring.kinds.len()], wiring, ..Table::default() }
    }

    /// From now on the ways to `to` are known.
    pub fn add(&mut self, to: usize) {
        if self.places[to] != NONE {
            return;
        }
        let nodes = self.wiring.kinds.len();
        self.places[to] = self.columns.len() as u32;
        let mut column = Column { to, far: vec![FAR; nodes] };
        column.far[to] = 0;
        let mut frontier = VecDeque::from([to]);
        while let Some(node) = frontier.pop_front() {
            if !self.passes(node, to) {
                continue;
            }
            self.looked += self.wiring.degree(node);
            for (_, before) in self.wiring.used_into(node) {
                if column.far[before] == FAR {
                    column.far[before] = column.far[node] + 1;
                    frontier.push_back(before);
                }
            }
        }
        self.columns.push(column);
        self.next.resize(self.next.len() + nodes, NONE);
        for node in 0..nodes {
            self.choose(self.columns.len() - 1, node);
        }
    }

    /// The line that a packet for `destination` takes at `at`.
    #[inline]
    pub fn next_hop(&self, at: NodeId, destination: NodeId) -> Option<usize> {
        let nodes = self.places.len();
        let column = *self.places.get(destination.0 as usize)?;
        if column == NONE || at.0 as usize >= nodes {
            return None;
        }
        let line = self.next[column as usize * nodes + at.0 as usize];
        (line != NONE).then_some(line as usize)
    }

    /// Whether packets for `to` go on from `node`.
    fn passes(&self, node: usize, to: usize) -> bool {
        node == to || self.wiring.kinds[node] != NodeKind::Host
    }

    /// Says anew where packets for the node of column `number` go on from `node`: by hand, or over the first line that
    /// brings them nearer.
    fn choose(&mut self, number: usize, node: usize) {
        let Column { to, far } = &self.columns[number];
        let rule = self.rules.get(&(*to, node)).copied();
        let line = rule.unwrap_or_else(|| self.nearer(*to, far, node).min().unwrap_or(NONE));
        self.next[number * self.places.len() + node] = line;
        self.looked += self.wiring.degree(node);
    }

    /// The lines from `node` that bring packets for `to` nearer, by these distances.
    fn nearer(&self, to: usize, far: &[u32], node: usize) -> impl Iterator<Item = u32> {
        let here = far[node];
        let out = self.wiring.lines_into(node).map(|(line, other)| (line ^ 1, other));
        out.filter(move |(line, other)| {
            let leads = self.wiring.is_used(*line) && self.passes(*other, to);
            leads && far[*other] < here && far[*other] + 1 == here
        })
        .map(|(line, _)| line)
    }

    /// Another version is in force.
    pub fn change(&mut self, version: &Version) {
        let mut changed = BTreeSet::new();
        for (link, used) in &version.links {
            if std::mem::replace(&mut self.wiring.in_use[*link], *used) != *used
                && !changed.insert(*link)
            {
                changed.remove(link);
            }
        }
        for (place, way) in &version.ways {
            match way {
                Some(line) => self.rules.insert(*place, *line),
                None => self.rules.remove(place),
            };
        }
        if !changed.is_empty() {
            for number in 0..self.columns.len() {
                self.update(number, &changed);
            }
        }
        for ((to, node), _) in &version.ways {
            if self.places[*to] != NONE {
                self.choose(self.places[*to] as usize, *node);
            }
        }
    }

    /// Of column `number` what is another way because links have come into use or gone out of it: first those who
    /// have lost all lines that led nearer, outwards; then the distances of those and of whoever has a shorter way now,
    /// nearest first.
    fn update(&mut self, number: usize, links: &BTreeSet<usize>) {
        let to = self.columns[number].to;
        let mut far = std::mem::take(&mut self.columns[number].far);
        let mut touched = BTreeSet::new();
        let mut looked = 2 * links.len() as u64;
        // The lines by which it may be nearer from their near ends, each with both.
        let lines = || {
            let both = links.iter().flat_map(|link| [2 * link, 2 * link + 1]);
            let ends = both.map(|line| (line as u32, self.wiring.ends[line]));
            ends.map(|(line, (near, end))| (line, near.0 as usize, end.0 as usize))
                .filter(|(_, _, end)| self.passes(*end, to))
        };
        let mut orphans = BinaryHeap::new();
        for (_, near, end) in lines().filter(|(line, ..)| !self.wiring.is_used(*line)) {
            if far[end] < far[near] {
                orphans.push(Reverse((far[near], near)));
                touched.insert(near);
            }
        }
        let mut lost = Vec::new();
        while let Some(Reverse((links, node))) = orphans.pop() {
            looked += self.wiring.degree(node);
            if far[node] != links || self.nearer(to, &far, node).next().is_some() {
                continue;
            }
            far[node] = FAR;
            lost.push(node);
            touched.insert(node);
            if self.passes(node, to) {
                looked += self.wiring.degree(node);
                for (_, before) in self.wiring.used_into(node) {
                    touched.insert(before);
                    if far[before] == links + 1 {
                        orphans.push(Reverse((links + 1, before)));
                    }
                }
            }
        }
        let mut settling = BinaryHeap::new();
        for (_, near, end) in lines().filter(|(line, ..)| self.wiring.is_used(*line)) {
            if far[end] < far[near] {
                settling.push(Reverse((far[end] + 1, near)));
                touched.insert(near);
            }
        }
        for node in lost {
            looked += self.wiring.degree(node);
            let out = self
                .wiring
                .used_into(node)
                .filter(|(_, other)| self.passes(*other, to) && far[*other] != FAR);
            if let Some(least) = out.map(|(_, other)| far[other] + 1).min() {
                settling.push(Reverse((least, node)));
            }
        }
        while let Some(Reverse((links, node))) = settling.pop() {
            if links >= far[node] {
                continue;
            }
            far[node] = links;
            touched.insert(node);
            if self.passes(node, to) {
                looked += self.wiring.degree(node);
                for (_, before) in self.wiring.used_into(node) {
                    touched.insert(before);
                    if links + 1 < far[before] {
                        settling.push(Reverse((links + 1, before)));
                    }
                }
            }
        }
        self.columns[number].far = far;
        self.looked += looked;
        for node in touched {
            self.choose(number, node);
        }
    }

    /// Checks the ways that are set by hand and in force.
    pub fn check(&mut self) -> Result<(), Fault> {
        for ((to, node), line) in &self.rules {
            if *line != NONE && !self.wiring.is_used(*line) {
                return Err(Fault::Unused { line: *line, node: *node, to: *to });
            }
        }
        let places: Vec<(usize, usize)> = self.rules.keys().copied().collect();
        // Nodes from which packets for `of` are known to come somewhere.
        let (mut of, mut sound) = (usize::MAX, Vec::new());
        for (to, node) in places {
            if of != to {
                (of, sound) = (to, vec![false; self.places.len()]);
                self.add(to);
            }
            let begin = self.places[to] as usize * self.places.len();
            let (mut at, mut way) = (node, Vec::new());
            while at != to && !sound[at] {
                if way.len() == self.places.len() {
                    return Err(Fault::Circle { node, to });
                }
                way.push(at);
                let line = self.next[begin + at];
                if line == NONE {
                    break;
                }
                at = self.wiring.ends[line as usize].1.0 as usize;
            }
            way.into_iter().for_each(|node| sound[node] = true);
        }
        Ok(())
    }
}

/// The next line at every node on the way to every node that packets are sent to (hosts and proxies,
/// which are few where routers are many), in versions: each holds from its instant on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// The version in force.
    table: Table,
    /// What all of them begin with.
    wiring: Wiring,
    /// Those that change something, in order of time.
    versions: Vec<Version>,
    /// How many of them are in force.
    in_force: usize,
    /// When the next one is.
    until: Time,
}

impl Routes {
    /// The routes of the start; `versions` are in order of time.
    pub fn new(wiring: Wiring, versions: Vec<Version>) -> Routes {
        let table = Table::new(wiring.clone());
        let mut routes = Routes { table, wiring, versions, in_force: 0, until: Time::ZERO };
        routes.apply(Time::ZERO);
        let sent_to: Vec<usize> = routes.sent_to().collect();
        sent_to.into_iter().for_each(|node| routes.table.add(node));
        routes
    }

    /// The line that a packet for `destination` takes at `at` by the version in force.
    #[inline]
    pub fn next_hop(&self, at: NodeId, destination: NodeId) -> Option<usize> {
        self.table.next_hop(at, destination)
    }

    /// The same by the version of `when`, searched anew if it is not the one in force.
    pub fn next_hop_at(&self, when: Time, at: NodeId, destination: NodeId) -> Option<usize> {
        let version = self.version_at(when);
        if version == self.in_force {
            return self.next_hop(at, destination);
        }
        let place = destination.0 as usize;
        if self.table.places.get(place).is_none_or(|column| *column == NONE) {
            return None;
        }
        let mut table = Table::new(self.wiring.clone());
        self.versions[..version].iter().for_each(|version| table.change(version));
        table.add(place);
        table.next_hop(at, destination)
    }

    /// The routes if all links were in use at all times and no way were set by hand.
    pub fn if_all_were_in_use(&self) -> Table {
        let mut table = Table::new(self.wiring.clone());
        self.sent_to().for_each(|node| table.add(node));
        table
    }

    /// Whether `line` is in use and no way is set by hand at `at`, where it begins, for packets for `to`.
    pub fn leads_over(&self, line: usize, at: NodeId, to: NodeId) -> bool {
        let ruled = self.table.rules.contains_key(&(to.0 as usize, at.0 as usize));
        !ruled && self.table.wiring.is_used(line as u32)
    }

    /// The node at the far end of a line.
    pub fn end(&self, line: usize) -> NodeId {
        self.wiring.ends[line].1
    }

    fn sent_to(&self) -> impl Iterator<Item = usize> {
        let kinds = &self.wiring.kinds;
        (0..kinds.len()).filter(|node| kinds[*node] != NodeKind::Router)
    }

    /// When the version after the one in force holds.
    #[inline]
    pub fn changes_at(&self) -> Time {
        self.until
    }

    /// Brings the version of `now` into force; it is not earlier than the one that is.
    pub fn apply(&mut self, now: Time) {
        let version = self.version_at(now);
        while self.in_force < version {
            self.table.change(&self.versions[self.in_force]);
            self.in_force += 1;
        }
        self.until = self.versions.get(self.in_force).map_or(Time::MAX, |next| next.from);
    }

    /// How many lines were looked at so far: what routes cost.
    pub fn looked(&self) -> u64 {
        self.table.looked
    }

    /// How many versions are in force at `when`.
    fn version_at(&self, when: Time) -> usize {
        self.versions.partition_point(|version| version.from <= when)
    }
}
