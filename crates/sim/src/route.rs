//! Where a flow's packets go: from end to end, or from proxy to proxy where TCP is split.

use path::Topology;
use transport::{Direction, Payload, Side};
use units::NodeId;

/// The first line on the way to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The line.
    pub line: usize,
    /// The node.
    pub to: NodeId,
}

/// The ways of one flow. Its stops are the client, the proxies that split it in order, the server.
#[derive(Clone, Debug)]
pub struct Route {
    stops: Vec<NodeId>,
    /// From each stop but the last to the next.
    up: Vec<Way>,
    /// From each stop but the first to the one before it.
    down: Vec<Way>,
    /// From the client to the server and back, for what no proxy splits.
    ends: [Way; 2],
    /// Index of its first proxy among the proxies of all flows.
    pub first_proxy: usize,
}

fn way(topology: &Topology, from: NodeId, to: NodeId) -> Result<Way, String> {
    let line = topology.next_hop(from, to).ok_or("no way between its nodes")?;
    Ok(Way { line, to })
}

/// The nodes of `split` on the way from `from` to `to`, in order.
fn crossed(topology: &Topology, from: NodeId, to: NodeId, split: &[NodeId]) -> Vec<NodeId> {
    let ends = topology.path_between(from, to).into_iter().map(|line| topology.line_end(line));
    ends.filter(|node| *node != to && split.contains(node)).collect()
}

impl Route {
    /// The route between two hosts; `split` are the nodes whose proxies split it.
    ///
    /// # Errors
    /// There is no way, or the ways of both directions do not cross the same proxies.
    pub fn new(
        topology: &Topology,
        client: NodeId,
        server: NodeId,
        split: &[NodeId],
    ) -> Result<Route, String> {
        let ends = [way(topology, client, server)?, way(topology, server, client)?];
        let proxies = crossed(topology, client, server, split);
        let mut back = crossed(topology, server, client, split);
        back.reverse();
        let mut stops = vec![client];
        stops.extend(&proxies);
        stops.push(server);
        let mut legs = stops.windows(2).flat_map(|leg| [(leg[0], leg[1]), (leg[1], leg[0])]);
        if proxies != back || !legs.all(|(from, to)| crossed(topology, from, to, split).is_empty())
        {
            return Err(
                "its packets cross other proxies on the way back than on the way there, so \
                 TCP cannot be split"
                    .to_owned(),
            );
        }
        let pairs = || stops.windows(2);
        let up = pairs().map(|leg| way(topology, leg[0], leg[1])).collect::<Result<_, _>>()?;
        let down = pairs().map(|leg| way(topology, leg[1], leg[0])).collect::<Result<_, _>>()?;
        Ok(Route { up, down, ends, first_proxy: 0, stops })
    }

    /// The nodes of the proxies, from the client to the server.
    pub fn proxies(&self) -> &[NodeId] {
        &self.stops[1..self.stops.len() - 1]
    }

    /// The stops: client, proxies, server.
    pub fn stops(&self) -> &[NodeId] {
        &self.stops
    }

    /// The node of one side.
    #[inline]
    pub fn end(&self, side: Side) -> NodeId {
        match side {
            Side::Client => self.ends[1].to,
            Side::Server => self.ends[0].to,
        }
    }

    /// Where `payload`, sent by an end of the flow, goes.
    #[inline]
    pub fn way_from_end(&self, side: Side, payload: &Payload) -> Way {
        match (payload, side) {
            (Payload::Datagram(_), Side::Client) => self.ends[0],
            (Payload::Datagram(_), Side::Server) => self.ends[1],
            (Payload::Segment(_), Side::Client) => self.up[0],
            (Payload::Segment(_), Side::Server) => self.down[self.down.len() - 1],
        }
    }

    /// Where a segment, sent at stop `stop` in `direction`, goes.
    #[inline]
    pub fn way_from_stop(&self, stop: usize, direction: Direction) -> Way {
        match direction {
            Direction::Up => self.up[stop],
            Direction::Down => self.down[stop - 1],
        }
    }

    /// The stop at `node`, to which a packet was addressed.
    #[inline]
    pub fn stop_at(&self, node: NodeId) -> usize {
        self.stops.iter().position(|stop| *stop == node).unwrap_or(0)
    }

    /// Propagation there and back between two neighbouring stops, in nanoseconds.
    pub fn round_trip_ns(&self, topology: &Topology, stop: usize) -> u64 {
        let (near, far) = (self.stops[stop], self.stops[stop + 1]);
        let one_way = |from, to| -> u64 {
            let lines = topology.path_between(from, to);
            lines.into_iter().map(|line| topology.lines[line].propagation_ns()).sum()
        };
        one_way(near, far) + one_way(far, near)
    }
}
