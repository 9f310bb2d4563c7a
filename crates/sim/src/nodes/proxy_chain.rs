//! The proxy chain of a flow: client, splitting proxies and server.

use topology::Topology;
use units::{Direction, NodeId};

use crate::nodes::addresses::FlowHasher;
use crate::nodes::attachment::{ForwardingEntry, NodeInterface};

/// The hops of a flow's TCP packets: the client, the proxies from client to server, the server.
#[derive(Clone, Debug)]
pub struct ProxyChain {
    hops: Vec<NodeId>,
}

/// Returns the nodes of `split` on the first path from `from` to `to`, in path sequence.
fn proxies_on_path(topology: &Topology, from: NodeId, to: NodeId, split: &[NodeId]) -> Vec<NodeId> {
    if split.is_empty() {
        return Vec::new();
    }
    let path = topology.first_path_between(from, to);
    let hop_nodes = path.into_iter().map(|link| topology.far_end(link));
    hop_nodes.filter(|node| *node != to && split.contains(node)).collect()
}

impl ProxyChain {
    /// Builds the chain between two hosts; `split` contains the nodes of the proxies. If only one direction ever has a
    /// path, its proxies apply to both.
    ///
    /// # Errors
    /// Different proxies on the forward and the reverse path.
    pub fn new(
        topology: &Topology,
        client: NodeId,
        server: NodeId,
        split: &[NodeId],
    ) -> Result<ProxyChain, String> {
        let has_path = |from, to| !topology.first_path_between(from, to).is_empty();
        let mut reverse_proxies = proxies_on_path(topology, server, client, split);
        reverse_proxies.reverse();
        let mut forward_proxies = proxies_on_path(topology, client, server, split);
        if !split.is_empty() && !has_path(client, server) {
            forward_proxies.clone_from(&reverse_proxies);
        } else if !split.is_empty() && !has_path(server, client) {
            reverse_proxies.clone_from(&forward_proxies);
        }
        let mut hops = vec![client];
        hops.extend(&forward_proxies);
        hops.push(server);
        let mut segments =
            hops.windows(2).flat_map(|pair| [(pair[0], pair[1]), (pair[1], pair[0])]);
        if forward_proxies != reverse_proxies
            || !segments.all(|(from, to)| proxies_on_path(topology, from, to, split).is_empty())
        {
            return Err("its forward and return paths have different proxies, which cannot \
                 split TCP"
                .to_owned());
        }
        Ok(ProxyChain { hops })
    }

    /// Builds the interfaces of the client, of the server, and of each proxy from client to server. `attachments`
    /// contains the client's index, which the server's follows, and the first proxy's.
    pub fn build_interfaces(
        &self,
        topology: &Topology,
        flow: (usize, u32),
        flow_hasher: FlowHasher,
        attachments: [usize; 2],
    ) -> Vec<Vec<NodeInterface>> {
        let [client, first] = attachments;
        let last = self.hops.len() - 1;
        // The attachment at a hop, and the interface that receives packets of `direction`.
        let receiver = |hop: usize, direction: Direction| match hop {
            0 => (client, 0),
            hop if hop == last => (client + 1, 0),
            hop => (first + hop - 1, usize::from(direction == Direction::Down)),
        };
        let entry = |from: usize, to: usize, direction| {
            ForwardingEntry::new(topology, self.hops[from], self.hops[to], receiver(to, direction))
        };
        let interface = |from: usize, direction, far: usize, near: usize| {
            let forwarding = [entry(from, far, direction), entry(from, near, direction)];
            let (flow, user) = (flow.0 as u32, flow.1);
            NodeInterface { flow, user, node: self.hops[from], direction, flow_hasher, forwarding }
        };
        let mut interfaces = vec![
            vec![interface(0, Direction::Up, last, 1)],
            vec![interface(last, Direction::Down, 0, last - 1)],
        ];
        for hop in 1..last {
            interfaces.push(vec![
                interface(hop, Direction::Down, hop - 1, hop - 1),
                interface(hop, Direction::Up, hop + 1, hop + 1),
            ]);
        }
        interfaces
    }

    /// Returns the nodes of the proxies, from the client to the server.
    pub fn proxies(&self) -> &[NodeId] {
        &self.hops[1..self.hops.len() - 1]
    }

    /// Returns the round-trip propagation delay between hop `hop` and the next one, in nanoseconds.
    pub fn round_trip_ns(&self, topology: &Topology, hop: usize) -> u64 {
        let (near, far) = (self.hops[hop], self.hops[hop + 1]);
        let delay_ns = |from, to| -> u64 {
            let links = topology.first_path_between(from, to);
            links.into_iter().map(|link| topology.simplex_links[link].propagation_ns()).sum()
        };
        delay_ns(near, far) + delay_ns(far, near)
    }
}
