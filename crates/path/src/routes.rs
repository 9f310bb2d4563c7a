//! Who is next on the way to whom: by the fewest links, ties by the lower link index, through
//! routers and proxies only.

use std::collections::VecDeque;

use units::NodeId;

use crate::NodeKind;

/// No line.
const NONE: u32 = u32::MAX;

/// Which line leads where, ordered so that the lines into a node lie beside each other.
pub(crate) struct Wiring<'a> {
    ends: &'a [(NodeId, NodeId)],
    kinds: &'a [NodeKind],
    /// Lines by the node they lead to, in order of their index.
    into: Vec<u32>,
    /// Where in `into` each node's begin, and the end of the last.
    first: Vec<usize>,
}

impl<'a> Wiring<'a> {
    /// Of lines with these ends, near and far, between nodes of these kinds.
    pub fn new(ends: &'a [(NodeId, NodeId)], kinds: &'a [NodeKind]) -> Wiring<'a> {
        let mut into: Vec<u32> = (0..ends.len() as u32).collect();
        into.sort_by_key(|line| ends[*line as usize].1);
        let first = (0..=kinds.len())
            .map(|node| into.partition_point(|line| (ends[*line as usize].1.0 as usize) < node))
            .collect();
        Wiring { ends, kinds, into, first }
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

/// The next line at every node on the way to every node that packets are sent to: hosts and
/// proxies, which are few where routers are many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// Which column of `next` is a node's; [`NONE`]: nothing is sent to it.
    columns: Vec<u32>,
    /// A column of all nodes for each destination.
    next: Vec<u32>,
}

impl Routes {
    /// The shortest ways.
    pub fn shortest(wiring: &Wiring) -> Routes {
        let nodes = wiring.kinds.len();
        let mut columns = vec![NONE; nodes];
        let destinations: Vec<usize> =
            (0..nodes).filter(|node| wiring.kinds[*node] != NodeKind::Router).collect();
        let mut next = vec![NONE; destinations.len() * nodes];
        for (place, destination) in destinations.into_iter().enumerate() {
            columns[destination] = place as u32;
            wiring.search(destination, &mut next[place * nodes..(place + 1) * nodes]);
        }
        Routes { columns, next }
    }

    /// The line that a packet for `destination` takes at `at`.
    #[inline]
    pub fn next_hop(&self, at: NodeId, destination: NodeId) -> Option<usize> {
        let nodes = self.columns.len();
        let column = *self.columns.get(destination.0 as usize)?;
        if column == NONE || at.0 as usize >= nodes {
            return None;
        }
        let line = self.next[column as usize * nodes + at.0 as usize];
        (line != NONE).then_some(line as usize)
    }
}
