//! What nodes hold while no way leads on, and which of them a packet goes to.

use std::collections::{BTreeMap, VecDeque};

use units::{NodeId, Packet};

use crate::Cause;
use crate::routes::{Routes, Table};

/// Packets for which no way leads on from their node, in order of arrival, bounded in bytes. What does not fit is
/// dropped ([`Cause::Overflow`]). Those for whom a way leads on again leave at that instant, in order.
#[derive(Clone, Debug)]
pub struct Hold {
    limit: u64,
    packets: VecDeque<Packet>,
    counters: HoldCounters,
}

/// What a node has held since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldCounters {
    /// Packets that found no way.
    pub arrived_packets: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Those that have gone on.
    pub released_packets: u64,
    /// Their bytes.
    pub released_bytes: u64,
    /// Those that found no room.
    pub dropped_packets: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
}

impl HoldCounters {
    /// Packets that are held now.
    pub fn held_packets(&self) -> u64 {
        self.arrived_packets - self.released_packets - self.dropped_packets
    }

    /// Bytes that are held now.
    pub fn held_bytes(&self) -> u64 {
        self.arrived_bytes - self.released_bytes - self.dropped_bytes
    }
}

impl Hold {
    /// Of at most `limit` bytes.
    pub fn new(limit: u64) -> Hold {
        Hold { limit, packets: VecDeque::new(), counters: HoldCounters::default() }
    }

    /// What it has held since the start.
    pub fn counters(&self) -> &HoldCounters {
        &self.counters
    }

    /// `packet` finds no way.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn take(&mut self, packet: &Packet) -> Result<(), Cause> {
        let bytes = u64::from(packet.bytes);
        let fits = self.counters.held_bytes() + bytes <= self.limit;
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += bytes;
        if !fits {
            self.counters.dropped_packets += 1;
            self.counters.dropped_bytes += bytes;
            return Err(Cause::Overflow);
        }
        self.packets.push_back(*packet);
        Ok(())
    }

    /// Removes those that `next` knows a line for, and returns them with it.
    pub fn release(&mut self, next: impl Fn(NodeId) -> Option<usize>) -> Vec<(usize, Packet)> {
        let mut released = Vec::new();
        self.packets.retain(|packet| {
            let line = next(packet.destination);
            released.extend(line.map(|line| (line, *packet)));
            line.is_none()
        });
        self.counters.released_packets += released.len() as u64;
        self.counters.released_bytes +=
            released.iter().map(|(_, packet)| u64::from(packet.bytes)).sum::<u64>();
        released
    }
}

/// The nodes that hold packets.
#[derive(Default)]
pub(crate) struct Holds {
    /// By node.
    pub nodes: BTreeMap<NodeId, Hold>,
    /// The ways if all links were in use.
    ways: Table,
}

impl Holds {
    /// Of these nodes, in a graph with these routes.
    pub fn new(nodes: BTreeMap<NodeId, Hold>, routes: &Routes) -> Holds {
        let ways = if nodes.is_empty() { Table::default() } else { routes.if_all_were_in_use() };
        Holds { nodes, ways }
    }

    /// The line on which a packet for `to` goes on from `at`, where no way leads there: along the way that would be if all
    /// links were in use, as far as they are, if a node further on holds it. None: no node does.
    pub fn onward(&self, routes: &Routes, at: NodeId, to: NodeId) -> Option<usize> {
        let (mut here, mut first, mut found) = (at, None, None);
        while let Some(line) = self.ways.next_hop(here, to)
            && routes.leads_over(line, here, to)
        {
            first = first.or(Some(line));
            here = routes.end(line);
            if self.nodes.contains_key(&here) && routes.next_hop(here, to).is_none() {
                found = first;
            }
        }
        found
    }

    /// Removes what has a way by these routes, or one to a node further on: node by node.
    pub fn release(&mut self, routes: &Routes) -> Vec<(NodeId, usize, Packet)> {
        let mut released = Vec::new();
        let places: Vec<NodeId> = self.nodes.keys().copied().collect();
        for node in places {
            let Some(mut hold) = self.nodes.remove(&node) else { continue };
            let next = |to| routes.next_hop(node, to).or_else(|| self.onward(routes, node, to));
            released
                .extend(hold.release(next).into_iter().map(|(line, packet)| (node, line, packet)));
            self.nodes.insert(node, hold);
        }
        released
    }
}
