//! Store-and-forward buffers for packets without a route, and the selection of the next buffering node.

use std::collections::{BTreeMap, VecDeque};

use link::DropReason;
use units::{NodeId, Packet};

use crate::routes::{RoutingTable, RoutingTables};

/// Packets without a route from their node, in order of arrival, with a limit in bytes. Packets above the limit are
/// dropped ([`DropReason::QueueOverflow`]). When a route exists again, the packets depart at that instant, in order.
#[derive(Clone, Debug)]
pub struct StoreForwardBuffer {
    limit: u64,
    packets: VecDeque<Packet>,
    counters: StoreForwardCounters,
}

/// Counters of a store-and-forward buffer since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreForwardCounters {
    /// Packets without a route.
    pub arrived_packets: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets released to a route.
    pub released_packets: u64,
    /// Their bytes.
    pub released_bytes: u64,
    /// Packets dropped because the buffer was full.
    pub dropped_packets: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
}

impl StoreForwardCounters {
    /// Returns the number of buffered packets.
    pub fn buffered_packets(&self) -> u64 {
        self.arrived_packets - self.released_packets - self.dropped_packets
    }

    /// Returns the number of buffered bytes.
    pub fn buffered_bytes(&self) -> u64 {
        self.arrived_bytes - self.released_bytes - self.dropped_bytes
    }
}

impl StoreForwardBuffer {
    /// Creates a buffer of at most `limit` bytes.
    pub fn new(limit: u64) -> StoreForwardBuffer {
        StoreForwardBuffer {
            limit,
            packets: VecDeque::new(),
            counters: StoreForwardCounters::default(),
        }
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> &StoreForwardCounters {
        &self.counters
    }

    /// Enqueues `packet`, which has no route.
    ///
    /// # Errors The buffer is full.
    pub fn enqueue(&mut self, packet: &Packet) -> Result<(), DropReason> {
        let bytes = u64::from(packet.bytes);
        let fits = self.counters.buffered_bytes() + bytes <= self.limit;
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += bytes;
        if !fits {
            self.counters.dropped_packets += 1;
            self.counters.dropped_bytes += bytes;
            return Err(DropReason::QueueOverflow);
        }
        self.packets.push_back(*packet);
        Ok(())
    }

    /// Removes the packets for which `next` returns a simplex link, and returns both.
    pub fn release(&mut self, next: impl Fn(NodeId) -> Option<usize>) -> Vec<(usize, Packet)> {
        let mut released = Vec::new();
        self.packets.retain(|packet| {
            let simplex_link = next(packet.destination);
            released.extend(simplex_link.map(|simplex_link| (simplex_link, *packet)));
            simplex_link.is_none()
        });
        self.counters.released_packets += released.len() as u64;
        self.counters.released_bytes +=
            released.iter().map(|(_, packet)| u64::from(packet.bytes)).sum::<u64>();
        released
    }
}

/// The store-and-forward buffers of all nodes.
#[derive(Default)]
pub(crate) struct StoreForwardBuffers {
    /// Buffers by node.
    pub nodes: BTreeMap<NodeId, StoreForwardBuffer>,
    /// The routes if all links were in use.
    routes_with_all_links: RoutingTable,
}

impl StoreForwardBuffers {
    /// Creates the buffers of these nodes in a topology with these routes.
    pub fn new(
        nodes: BTreeMap<NodeId, StoreForwardBuffer>,
        routes: &RoutingTables,
    ) -> StoreForwardBuffers {
        let routes_with_all_links =
            if nodes.is_empty() { RoutingTable::default() } else { routes.table_with_all_links() };
        StoreForwardBuffers { nodes, routes_with_all_links }
    }

    /// Returns the simplex link from `at` towards the next node that buffers packets for `to`, which has no route. The
    /// path is that with all links in use, up to the first unused link. `None`: no later node has a buffer.
    pub fn next_buffering_hop(
        &self,
        routes: &RoutingTables,
        at: NodeId,
        to: NodeId,
    ) -> Option<usize> {
        let (mut here, mut first_link, mut found) = (at, None, None);
        while let Some(simplex_link) = self.routes_with_all_links.next_hop(here, to)
            && routes.is_shortest_route_usable(simplex_link, here, to)
        {
            first_link = first_link.or(Some(simplex_link));
            here = routes.far_end(simplex_link);
            if self.nodes.contains_key(&here) && routes.next_hop(here, to).is_none() {
                found = first_link;
            }
        }
        found
    }

    /// Removes the packets with a route, or with a path to a later buffer, node by node.
    pub fn release(&mut self, routes: &RoutingTables) -> Vec<(NodeId, usize, Packet)> {
        let mut released = Vec::new();
        let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
        for node in nodes {
            let Some(mut buffer) = self.nodes.remove(&node) else { continue };
            let next = |to| {
                routes.next_hop(node, to).or_else(|| self.next_buffering_hop(routes, node, to))
            };
            released.extend(
                buffer
                    .release(next)
                    .into_iter()
                    .map(|(simplex_link, packet)| (node, simplex_link, packet)),
            );
            self.nodes.insert(node, buffer);
        }
        released
    }
}
