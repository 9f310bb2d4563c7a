//! Attachments of nodes to the topology, and the interfaces of each node.

use std::ops::{Deref, DerefMut};

use bundle::BundleNode;
use topology::Topology;
use transport::{Node, Payload, Probe};
use units::{Direction, NodeId, Packet, Time};

use crate::nodes::addresses::{FlowAddresses, FlowHasher};

/// The link index that means: no route to the destination.
pub const NO_ROUTE: usize = usize::MAX;

fn first_link(topology: &Topology, from: NodeId, to: NodeId) -> usize {
    topology.next_hop(from, to).unwrap_or(NO_ROUTE)
}

/// The forwarding decision for a packet that an interface sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardingEntry {
    /// The index of the first simplex link by the current routes, or `NO_ROUTE`.
    pub first_link: usize,
    /// The topology node of the destination.
    pub destination: NodeId,
    /// The receiving attachment and its interface.
    pub receiver: (usize, usize),
}

impl ForwardingEntry {
    /// Creates the entry from `from` to `destination`, where `receiver` takes the packets.
    pub fn new(
        topology: &Topology,
        from: NodeId,
        destination: NodeId,
        receiver: (usize, usize),
    ) -> ForwardingEntry {
        ForwardingEntry {
            first_link: first_link(topology, from, destination),
            destination,
            receiver,
        }
    }
}

/// A sending interface of a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeInterface {
    /// The flow of the packets.
    pub flow: u32,
    /// The user of the packets.
    pub user: u32,
    /// The topology node.
    pub node: NodeId,
    /// The direction of the packets within the flow.
    pub direction: Direction,
    /// The hasher of the 5-tuples of sent packets.
    pub flow_hasher: FlowHasher,
    /// The entries for datagrams and for TCP segments. Only segments go to the proxies on the path.
    pub forwarding: [ForwardingEntry; 2],
}

impl NodeInterface {
    /// Creates the two interfaces between two (topology node, receiver) pairs, for nodes built outside this crate.
    pub fn build_pair(
        topology: &Topology,
        flow: u32,
        [near, far]: [(NodeId, (usize, usize)); 2],
    ) -> [NodeInterface; 2] {
        let flow_hasher = FlowHasher::new(FlowAddresses::new(flow as usize, flow as usize + 1, 28));
        let interface = |(node, _), (destination, receiver), direction| {
            let forwarding = [ForwardingEntry::new(topology, node, destination, receiver); 2];
            NodeInterface { flow, user: 0, node, direction, flow_hasher, forwarding }
        };
        [interface(near, far, Direction::Up), interface(far, near, Direction::Down)]
    }

    /// Returns the forwarding entry of `payload`.
    #[inline]
    pub fn forwarding_entry(&self, payload: &Payload) -> ForwardingEntry {
        self.forwarding[usize::from(matches!(payload, Payload::Segment(_)))]
    }

    /// Returns the header of a packet sent at `now`. The caller adds the handle.
    #[inline]
    pub fn header(&self, now: Time, entry: ForwardingEntry, payload: &Payload) -> Packet {
        Packet {
            flow: self.flow,
            user: self.user,
            source: self.node,
            destination: entry.destination,
            ecn: payload.ecn(),
            created_at: now,
            tuple: self.flow_hasher.hash(self.direction, payload),
            sequence: payload.sequence_numbers(),
            ..Packet::of_bytes(payload.wire_bytes())
        }
    }
}

/// A node with readable state.
pub trait ProbedNode: Node + Probe {}

impl<T: Node + Probe> ProbedNode for T {}

/// A node of a run, by its tables.
pub enum AttachedNode {
    /// A bundle node. Its agent records tables.
    Bundle(Box<BundleNode>),
    /// Any other node.
    Other(Box<dyn ProbedNode>),
}

impl Deref for AttachedNode {
    type Target = dyn ProbedNode;

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            AttachedNode::Bundle(node) => node.as_ref(),
            AttachedNode::Other(node) => node.as_ref(),
        }
    }
}

impl DerefMut for AttachedNode {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            AttachedNode::Bundle(node) => node.as_mut(),
            AttachedNode::Other(node) => node.as_mut(),
        }
    }
}

/// A node with its label for messages and results.
pub type Labelled<T> = (T, Box<dyn ProbedNode>);

/// A node with its interfaces.
pub struct Attachment {
    /// The node.
    pub node: AttachedNode,
    /// One entry per interface of the node.
    pub interfaces: Vec<NodeInterface>,
}

impl Attachment {
    /// Attaches a node that is no bundle node.
    pub fn new(node: Box<dyn ProbedNode>, interfaces: Vec<NodeInterface>) -> Attachment {
        Attachment { node: AttachedNode::Other(node), interfaces }
    }

    /// Updates the first links after a route change.
    pub fn update_routes(&mut self, topology: &Topology) {
        for interface in &mut self.interfaces {
            for entry in &mut interface.forwarding {
                entry.first_link = first_link(topology, interface.node, entry.destination);
            }
        }
    }
}
