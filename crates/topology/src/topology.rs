//! The topology: nodes and two simplex links per link, with their names.

use std::collections::{BTreeMap, BTreeSet};

use link::{DropReason, ExternalSchedulers, SimplexLink, SpecError};
use units::{NodeId, Packet, Time};

use crate::routes::{Adjacency, RoutingTables};
use crate::store_forward::StoreForwardBuffers;
use crate::{NodeKind, StoreForwardBuffer, TopologySpec};

/// A built topology. Simplex link `2 * link` (`"<link>.up"`) carries packets from a link's client side to its server
/// side. Simplex link `2 * link + 1` (`"<link>.down"`) is the reverse direction.
pub struct Topology {
    /// The simplex links. The simulator polls them; an emulator can move each to a thread.
    pub simplex_links: Vec<SimplexLink>,
    simplex_link_names: Vec<String>,
    /// The nodes at the near and the far end of each simplex link.
    endpoints: Vec<(NodeId, NodeId)>,
    kinds: Vec<NodeKind>,
    names: Vec<String>,
    ids: BTreeMap<String, NodeId>,
    routes: RoutingTables,
    /// The store-and-forward buffers of the nodes.
    store_forward: StoreForwardBuffers,
}

impl Topology {
    /// Validates and builds `graph` for run `seed`.
    pub fn build(graph: &TopologySpec, seed: u64) -> Result<Topology, SpecError> {
        Topology::build_with(graph, seed, &|_, _, _| None)
    }

    /// Builds the topology with external schedulers.
    pub fn build_with(
        graph: &TopologySpec,
        seed: u64,
        schedulers: &ExternalSchedulers<'_>,
    ) -> Result<Topology, SpecError> {
        let ids = node_ids(graph)?;
        let mut topology = Topology {
            simplex_links: Vec::new(),
            simplex_link_names: Vec::new(),
            endpoints: Vec::new(),
            kinds: graph.nodes.iter().map(|node| node.kind).collect(),
            names: graph.nodes.iter().map(|node| node.name.clone()).collect(),
            ids,
            routes: RoutingTables::default(),
            store_forward: StoreForwardBuffers::default(),
        };
        let mut buffers = BTreeMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            let Some(bytes) = node.store_and_forward_bytes else { continue };
            if bytes == 0 {
                return Err(SpecError::new(
                    format!("node {:?}", node.name),
                    "store_and_forward_bytes is 0",
                ));
            }
            buffers.insert(NodeId(index as u32), StoreForwardBuffer::new(bytes));
        }
        let mut link_names = BTreeSet::new();
        for link in &graph.links {
            let location = format!("link {:?}", link.name);
            if !link_names.insert(&link.name) {
                return Err(SpecError::new(location, "another link has this name"));
            }
            let end = |side: &str, name: &str| {
                topology.ids.get(name).copied().ok_or_else(|| {
                    SpecError::new(&*location, format!("{side} {name:?} is not a node"))
                })
            };
            let client = end("client_side", &link.client_side)?;
            let server = end("server_side", &link.server_side)?;
            if client == server {
                return Err(SpecError::new(location, "both sides are the same node"));
            }
            for (stages, direction, start, end) in
                [(&link.up, "up", client, server), (&link.down, "down", server, client)]
            {
                let name = format!("{}.{direction}", link.name);
                topology
                    .simplex_links
                    .push(SimplexLink::build_with(stages, &name, seed, schedulers)?);
                topology.simplex_link_names.push(name);
                topology.endpoints.push((start, end));
            }
        }
        let adjacency = Adjacency::new(&topology.endpoints, &topology.kinds);
        topology.check_reachable(&adjacency)?;
        let updates = topology.schedule_changes(graph, &adjacency)?;
        topology.routes = RoutingTables::new(adjacency, updates);
        topology.store_forward = StoreForwardBuffers::new(buffers, &topology.routes);
        Ok(topology)
    }

    /// Returns the simplex link from `at` towards `destination`, a host or a proxy, by the current routes. `None` at
    /// the destination itself and without a route through routers.
    #[inline]
    pub fn next_hop(&self, at: NodeId, destination: NodeId) -> Option<usize> {
        self.routes.next_hop(at, destination)
    }

    /// Returns the next hop by the routes of the instant `when`, for a driver that runs late. Routes of another instant
    /// than the current one are recomputed.
    pub fn next_hop_at(&self, when: Time, at: NodeId, destination: NodeId) -> Option<usize> {
        self.routes.next_hop_at(when, at, destination)
    }

    /// Returns the time of the next route change; [`Time::MAX`] if there is none. Updates of stages are scheduled in
    /// the simplex links and need no call.
    #[inline]
    pub fn next_route_change_at(&self) -> Time {
        self.routes.next_update_at()
    }

    /// Returns the number of simplex links visited by route computations, as a measure of their cost.
    pub fn visited_links(&self) -> u64 {
        self.routes.visited_links()
    }

    /// Applies the routes of `now`, which must not decrease. A driver calls it before any packet of that instant.
    pub fn apply_routes(&mut self, now: Time) {
        self.routes.apply(now);
    }

    /// Handles `packet`, for which node `at` has no route. Returns the simplex link towards a later node that buffers
    /// the packet, if there is one. Otherwise, this node buffers it.
    ///
    /// # Errors
    /// The reason for which the caller must drop the packet: there is no buffer ([`DropReason::NoRoute`]), or it is full
    /// ([`DropReason::QueueOverflow`]).
    pub fn buffer_unrouted(
        &mut self,
        at: NodeId,
        packet: &Packet,
    ) -> Result<Option<usize>, DropReason> {
        if let Some(simplex_link) =
            self.store_forward.next_buffering_hop(&self.routes, at, packet.destination)
        {
            return Ok(Some(simplex_link));
        }
        let buffer = self.store_forward.nodes.get_mut(&at).ok_or(DropReason::NoRoute)?;
        buffer.enqueue(packet).map(|()| None)
    }

    /// Removes the buffered packets that have a route now, with their node and simplex link: node by node, in order of
    /// arrival. A driver calls [`Topology::apply_routes`] before and pushes these packets before any other packet of
    /// the instant.
    pub fn release(&mut self) -> Vec<(NodeId, usize, Packet)> {
        self.store_forward.release(&self.routes)
    }

    /// Returns the next time at which buffered packets can get a route; [`Time::MAX`] if the buffers are empty.
    pub fn release_at(&self) -> Time {
        let is_buffering = self
            .store_forward_buffers()
            .any(|(_, buffer)| buffer.counters().buffered_packets() > 0);
        if is_buffering { self.next_route_change_at() } else { Time::MAX }
    }

    /// Returns the nodes with a store-and-forward buffer, and the buffers.
    pub fn store_forward_buffers(&self) -> impl Iterator<Item = (NodeId, &StoreForwardBuffer)> {
        self.store_forward.nodes.iter().map(|(node, buffer)| (*node, buffer))
    }

    /// Returns the node at the far end of a simplex link.
    pub fn far_end(&self, simplex_link: usize) -> NodeId {
        self.endpoints[simplex_link].1
    }

    /// Returns the node at the near end of a simplex link.
    pub fn near_end(&self, simplex_link: usize) -> NodeId {
        self.endpoints[simplex_link].0
    }

    /// Returns `"<link>.up"` or `"<link>.down"`.
    pub fn simplex_link_name(&self, simplex_link: usize) -> &str {
        &self.simplex_link_names[simplex_link]
    }

    /// Returns the simplex links from `a` to `b` by the current routes; empty if `a` is `b` or without a route.
    pub fn path_between(&self, a: NodeId, b: NodeId) -> Vec<usize> {
        self.path_with(&self.routes, a, b)
    }

    fn path_with(&self, routes: &RoutingTables, a: NodeId, b: NodeId) -> Vec<usize> {
        let mut at = a;
        std::iter::from_fn(|| {
            let simplex_link = routes.next_hop(at, b)?;
            at = self.far_end(simplex_link);
            Some(simplex_link)
        })
        .collect()
    }

    /// Returns the path like [`Topology::path_between`], but by the first future routes with a complete path, if there
    /// is none yet. Empty if there never is one.
    pub fn first_path_between(&self, a: NodeId, b: NodeId) -> Vec<usize> {
        let leads = |path: &[usize]| {
            path.last().is_none_or(|simplex_link| self.far_end(*simplex_link) == b)
        };
        let mut path = self.path_between(a, b);
        if a == b || !path.is_empty() && leads(&path) {
            return path;
        }
        let mut routes = self.routes.clone();
        path.clear();
        while (path.is_empty() || !leads(&path)) && routes.next_update_at() < Time::MAX {
            routes.apply(routes.next_update_at());
            path = self.path_with(&routes, a, b);
        }
        if leads(&path) { path } else { Vec::new() }
    }

    /// Returns the node with this name.
    pub fn node_id(&self, name: &str) -> Option<NodeId> {
        self.ids.get(name).copied()
    }

    /// Returns the name of a node.
    pub fn node_name(&self, node: NodeId) -> &str {
        &self.names[node.0 as usize]
    }

    /// Returns the role of a node.
    pub fn node_kind(&self, node: NodeId) -> NodeKind {
        self.kinds[node.0 as usize]
    }

    /// Returns the number of nodes; their identifiers start at 0.
    pub fn node_count(&self) -> usize {
        self.kinds.len()
    }

    /// Checks that every host is connected to every other host, through nodes of any kind.
    fn check_reachable(&self, adjacency: &Adjacency) -> Result<(), SpecError> {
        let hosts = || (0..self.kinds.len()).filter(|node| self.kinds[*node] == NodeKind::Host);
        let Some(first) = hosts().next() else { return Ok(()) };
        let linked = adjacency.connected_to(first);
        match hosts().find(|node| !linked[*node]) {
            None => Ok(()),
            Some(node) => Err(SpecError::new(
                format!("node {:?}", self.names[node]),
                format!("no link leads to it from {:?}", self.names[first]),
            )),
        }
    }
}

fn node_ids(graph: &TopologySpec) -> Result<BTreeMap<String, NodeId>, SpecError> {
    let mut ids = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        if ids.insert(node.name.clone(), NodeId(index as u32)).is_some() {
            let location = format!("node {:?}", node.name);
            return Err(SpecError::new(location, "another node has this name"));
        }
    }
    Ok(ids)
}
