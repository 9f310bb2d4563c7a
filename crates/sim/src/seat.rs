//! Nodes at their places in the graph, and the legs between their ends.

use path::Topology;
use transport::{Node, Payload};
use units::{Direction, NodeId, Packet, Time};

use crate::addresses::{Addresses, Tuples};

/// In the place of a line: none leads on.
pub const NOWHERE: usize = usize::MAX;

fn first_line(topology: &Topology, from: NodeId, to: NodeId) -> usize {
    topology.next_hop(from, to).unwrap_or(NOWHERE)
}

/// Where a packet of an end goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The first line, by the routes in force, or [`NOWHERE`].
    pub line: usize,
    /// The node of the graph that it leads to.
    pub to: NodeId,
    /// Who sits there, and at which of its ends it arrives.
    pub seat: (usize, usize),
}

impl Way {
    /// From `from` to `to`, where `seat` receives it.
    pub fn new(topology: &Topology, from: NodeId, to: NodeId, seat: (usize, usize)) -> Way {
        Way { line: first_line(topology, from, to), to, seat }
    }
}

/// The near side of a leg: one end of a node.
#[derive(Clone, Copy, Debug)]
pub struct Leg {
    /// The flow whose packets leave here.
    pub flow: u32,
    /// Whose they are.
    pub user: u32,
    /// The node of the graph.
    pub from: NodeId,
    /// The flow's direction.
    pub direction: Direction,
    /// Hashes the 5-tuples of what leaves.
    pub tuples: Tuples,
    /// Where datagrams go, and where segments: proxies on the way take those.
    pub ways: [Way; 2],
}

impl Leg {
    /// The two sides of a leg between nodes of one's own: each a node of the graph, with its seat and end.
    pub fn between(
        topology: &Topology,
        flow: u32,
        [near, far]: [(NodeId, (usize, usize)); 2],
    ) -> [Leg; 2] {
        let tuples = Tuples::new(Addresses::new(flow as usize, flow as usize + 1, 28));
        let leg = |(from, _), (to, seat), direction| {
            let ways = [Way::new(topology, from, to, seat); 2];
            Leg { flow, user: 0, from, direction, tuples, ways }
        };
        [leg(near, far, Direction::Up), leg(far, near, Direction::Down)]
    }

    /// Where `payload` goes.
    #[inline]
    pub fn way(&self, payload: &Payload) -> Way {
        self.ways[usize::from(matches!(payload, Payload::Segment(_)))]
    }

    /// The header of a packet that leaves at `now`; its handle is missing.
    #[inline]
    pub fn header(&self, now: Time, way: Way, payload: &Payload) -> Packet {
        Packet {
            flow: self.flow,
            user: self.user,
            source: self.from,
            destination: way.to,
            ecn: payload.ecn(),
            created_at: now,
            tuple: self.tuples.hash(self.direction, payload),
            sequence: payload.sequence(),
            ..Packet::of_bytes(payload.wire_bytes())
        }
    }
}

/// A node, and who it is for those who tell of it.
pub type Known<T> = (T, Box<dyn Node>);

/// A node and its ends.
pub struct Seat {
    /// The node.
    pub node: Box<dyn Node>,
    /// One an end.
    pub legs: Vec<Leg>,
}

impl Seat {
    /// Other routes are in force.
    pub fn reroute(&mut self, topology: &Topology) {
        for leg in &mut self.legs {
            for way in &mut leg.ways {
                way.line = first_line(topology, leg.from, way.to);
            }
        }
    }
}
