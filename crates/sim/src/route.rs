//! Where a flow's packets go: from end to end, or from proxy to proxy where TCP is split.

use path::Topology;
use units::{Direction, NodeId};

use crate::addresses::Tuples;
use crate::seat::{Leg, Way};

/// Where a flow's packets go. Its stops are the client, the proxies that split it in order, the server.
#[derive(Clone, Debug)]
pub struct Route {
    stops: Vec<NodeId>,
}

/// The nodes of `split` on the first way that leads from `from` to `to`, in order.
fn crossed(topology: &Topology, from: NodeId, to: NodeId, split: &[NodeId]) -> Vec<NodeId> {
    if split.is_empty() {
        return Vec::new();
    }
    let way = topology.first_path_between(from, to);
    let ends = way.into_iter().map(|line| topology.line_end(line));
    ends.filter(|node| *node != to && split.contains(node)).collect()
}

impl Route {
    /// The route between two hosts; `split` are the nodes whose proxies split it. Where a way only ever leads in one
    /// direction, it is that one's.
    ///
    /// # Errors
    /// The ways of both directions do not cross the same proxies.
    pub fn new(
        topology: &Topology,
        client: NodeId,
        server: NodeId,
        split: &[NodeId],
    ) -> Result<Route, String> {
        let ever = |from, to| !topology.first_path_between(from, to).is_empty();
        let mut back = crossed(topology, server, client, split);
        back.reverse();
        let mut proxies = crossed(topology, client, server, split);
        if !split.is_empty() && !ever(client, server) {
            proxies.clone_from(&back);
        } else if !split.is_empty() && !ever(server, client) {
            back.clone_from(&proxies);
        }
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
        Ok(Route { stops })
    }

    /// The legs of the client, of the server, and of each proxy from client to server, for a flow and its user;
    /// `seats` are the client's and that of the first proxy, the server sits after the client.
    pub fn legs(
        &self,
        topology: &Topology,
        flow: (usize, u32),
        tuples: Tuples,
        seats: [usize; 2],
    ) -> Vec<Vec<Leg>> {
        let [client, first] = seats;
        let last = self.stops.len() - 1;
        // Who sits at a stop, and at which of its ends comes what goes `direction`.
        let seat = |stop: usize, direction: Direction| match stop {
            0 => (client, 0),
            stop if stop == last => (client + 1, 0),
            stop => (first + stop - 1, usize::from(direction == Direction::Down)),
        };
        let way = |from: usize, to: usize, direction| {
            Way::new(topology, self.stops[from], self.stops[to], seat(to, direction))
        };
        let leg = |from: usize, direction, far: usize, near: usize| {
            let ways = [way(from, far, direction), way(from, near, direction)];
            let (flow, user) = (flow.0 as u32, flow.1);
            Leg { flow, user, from: self.stops[from], direction, tuples, ways }
        };
        let mut legs = vec![
            vec![leg(0, Direction::Up, last, 1)],
            vec![leg(last, Direction::Down, 0, last - 1)],
        ];
        for stop in 1..last {
            legs.push(vec![
                leg(stop, Direction::Down, stop - 1, stop - 1),
                leg(stop, Direction::Up, stop + 1, stop + 1),
            ]);
        }
        legs
    }

    /// The nodes of the proxies, from the client to the server.
    pub fn proxies(&self) -> &[NodeId] {
        &self.stops[1..self.stops.len() - 1]
    }

    /// Propagation there and back between two neighbouring stops, in nanoseconds.
    pub fn round_trip_ns(&self, topology: &Topology, stop: usize) -> u64 {
        let (near, far) = (self.stops[stop], self.stops[stop + 1]);
        let one_way = |from, to| -> u64 {
            let lines = topology.first_path_between(from, to);
            lines.into_iter().map(|line| topology.lines[line].propagation_ns()).sum()
        };
        one_way(near, far) + one_way(far, near)
    }
}
