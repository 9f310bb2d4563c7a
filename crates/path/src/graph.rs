//! The graph: nodes and two lines per link, with their names.

use std::collections::{BTreeMap, BTreeSet};

use units::{NodeId, Packet, Time};

use crate::hold::Holds;
use crate::routes::{Routes, Wiring};
use crate::{Cause, Deciders, GraphSpec, Hold, Line, NodeKind, SpecError, changes};

/// A built graph. Line `2 * link` carries packets from a link's client side to its server side
/// (`"<link>.up"`), line `2 * link + 1` back (`"<link>.down"`).
pub struct Topology {
    /// The lines; the simulator drives them, an emulator may take them out, one thread each.
    pub lines: Vec<Line>,
    line_names: Vec<String>,
    /// The nodes at the near and the far end of each line.
    ends: Vec<(NodeId, NodeId)>,
    kinds: Vec<NodeKind>,
    names: Vec<String>,
    ids: BTreeMap<String, NodeId>,
    routes: Routes,
    /// Of the nodes that hold packets.
    holds: Holds,
}

impl Topology {
    /// Checks and builds `graph` for run `seed`.
    pub fn build(graph: &GraphSpec, seed: u64) -> Result<Topology, SpecError> {
        Topology::build_with(graph, seed, &|_, _, _| None)
    }

    /// The same, with schedulers that are given from outside.
    pub fn build_with(
        graph: &GraphSpec,
        seed: u64,
        deciders: &Deciders<'_>,
    ) -> Result<Topology, SpecError> {
        let ids = node_ids(graph)?;
        let mut topology = Topology {
            lines: Vec::new(),
            line_names: Vec::new(),
            ends: Vec::new(),
            kinds: graph.nodes.iter().map(|node| node.kind).collect(),
            names: graph.nodes.iter().map(|node| node.name.clone()).collect(),
            ids,
            routes: Routes::default(),
            holds: Holds::default(),
        };
        let mut holds = BTreeMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            let Some(bytes) = node.hold_bytes else { continue };
            if bytes == 0 {
                return Err(SpecError::new(format!("node {:?}", node.name), "hold_bytes is 0"));
            }
            holds.insert(NodeId(index as u32), Hold::new(bytes));
        }
        let mut link_names = BTreeSet::new();
        for link in &graph.links {
            let place = format!("link {:?}", link.name);
            if !link_names.insert(&link.name) {
                return Err(SpecError::new(place, "another link has this name"));
            }
            let end = |side: &str, name: &str| {
                topology.ids.get(name).copied().ok_or_else(|| {
                    SpecError::new(&*place, format!("{side} {name:?} is not a node"))
                })
            };
            let client = end("client_side", &link.client_side)?;
            let server = end("server_side", &link.server_side)?;
            if client == server {
                return Err(SpecError::new(place, "both sides are the same node"));
            }
            for (stages, direction, start, end) in
                [(&link.up, "up", client, server), (&link.down, "down", server, client)]
            {
                let name = format!("{}.{direction}", link.name);
                topology.lines.push(Line::build_with(stages, &name, seed, deciders)?);
                topology.line_names.push(name);
                topology.ends.push((start, end));
            }
        }
        let wiring = Wiring::new(&topology.ends, &topology.kinds);
        topology.check_reachable(&wiring)?;
        let versions = changes::schedule(graph, &mut topology, &wiring)?;
        topology.routes = Routes::new(wiring, versions);
        topology.holds = Holds::new(holds, &topology.routes);
        Ok(topology)
    }

    /// The line that a packet for `destination`, a host or a proxy, takes at `at` by the routes in
    /// force; none at the destination itself and where no way leads through routers.
    #[inline]
    pub fn next_hop(&self, at: NodeId, destination: NodeId) -> Option<usize> {
        self.routes.next_hop(at, destination)
    }

    /// As [`Topology::next_hop`], but by the routes of the instant `when`, whatever is in force: for a
    /// driver that comes late. Those of another version are searched anew.
    pub fn next_hop_at(&self, when: Time, at: NodeId, destination: NodeId) -> Option<usize> {
        self.routes.next_hop_at(when, at, destination)
    }

    /// When other routes than those in force hold; [`Time::MAX`]: never. Changes of stages lie with
    /// the lines and need nobody.
    #[inline]
    pub fn changes_at(&self) -> Time {
        self.routes.changes_at()
    }

    /// How many lines were looked at for routes so far: what they cost.
    pub fn lines_looked_at(&self) -> u64 {
        self.routes.looked()
    }

    /// Brings the routes of `now` into force, never of an earlier instant than before. A driver calls it before any
    /// packet of that instant.
    pub fn apply(&mut self, now: Time) {
        self.routes.apply(now);
    }

    /// No way leads on for `packet` from the node where it is. Either a node further on holds it: the line that leads
    /// there is returned. Or this one does, or drops it.
    ///
    /// # Errors
    /// It is dropped: the node holds nothing ([`Cause::Route`]), or there is no room ([`Cause::Overflow`]).
    pub fn hold(&mut self, at: NodeId, packet: &Packet) -> Result<Option<usize>, Cause> {
        if let Some(line) = self.holds.onward(&self.routes, at, packet.destination) {
            return Ok(Some(line));
        }
        let hold = self.holds.nodes.get_mut(&at).ok_or(Cause::Route)?;
        hold.take(packet).map(|()| None)
    }

    /// Takes out what is held and may go on by the routes in force, with its node and the line: node by node, of each
    /// in order of arrival. A driver that has called [`Topology::apply`] gives it to the lines before any other packet
    /// of the instant.
    pub fn release(&mut self) -> Vec<(NodeId, usize, Packet)> {
        self.holds.release(&self.routes)
    }

    /// When what is held may go on: when other routes hold; [`Time::MAX`]: nothing is held.
    pub fn releases_at(&self) -> Time {
        let held = self.holds().any(|(_, hold)| hold.counters().held_packets() > 0);
        if held { self.changes_at() } else { Time::MAX }
    }

    /// The nodes that hold packets, and what they hold.
    pub fn holds(&self) -> impl Iterator<Item = (NodeId, &Hold)> {
        self.holds.nodes.iter().map(|(node, hold)| (*node, hold))
    }

    /// The node at the far end of a line.
    pub fn line_end(&self, line: usize) -> NodeId {
        self.ends[line].1
    }

    /// The node at the near end of a line.
    pub fn line_start(&self, line: usize) -> NodeId {
        self.ends[line].0
    }

    /// `"<link>.up"` or `"<link>.down"`.
    pub fn line_name(&self, line: usize) -> &str {
        &self.line_names[line]
    }

    /// The lines from `a` to `b` in order by the routes in force; empty if `a` is `b` or no way leads there.
    pub fn path_between(&self, a: NodeId, b: NodeId) -> Vec<usize> {
        self.path_by(&self.routes, a, b)
    }

    fn path_by(&self, routes: &Routes, a: NodeId, b: NodeId) -> Vec<usize> {
        let mut at = a;
        std::iter::from_fn(|| {
            let line = routes.next_hop(at, b)?;
            at = self.line_end(line);
            Some(line)
        })
        .collect()
    }

    /// As [`Topology::path_between`], but if no way leads all the way yet, by the first routes to come by which one does;
    /// empty if none ever does.
    pub fn first_path_between(&self, a: NodeId, b: NodeId) -> Vec<usize> {
        let leads = |path: &[usize]| path.last().is_none_or(|line| self.line_end(*line) == b);
        let mut path = self.path_between(a, b);
        if a == b || !path.is_empty() && leads(&path) {
            return path;
        }
        let mut routes = self.routes.clone();
        path.clear();
        while (path.is_empty() || !leads(&path)) && routes.changes_at() < Time::MAX {
            routes.apply(routes.changes_at());
            path = self.path_by(&routes, a, b);
        }
        if leads(&path) { path } else { Vec::new() }
    }

    /// The node of this name.
    pub fn node_id(&self, name: &str) -> Option<NodeId> {
        self.ids.get(name).copied()
    }

    /// The name of a node.
    pub fn node_name(&self, node: NodeId) -> &str {
        &self.names[node.0 as usize]
    }

    /// What a node does.
    pub fn node_kind(&self, node: NodeId) -> NodeKind {
        self.kinds[node.0 as usize]
    }

    /// How many nodes there are; their identifiers count from 0.
    pub fn node_count(&self) -> usize {
        self.kinds.len()
    }

    /// Every host must be linked with every other, by whatever nodes lie between.
    fn check_reachable(&self, wiring: &Wiring) -> Result<(), SpecError> {
        let hosts = || (0..self.kinds.len()).filter(|node| self.kinds[*node] == NodeKind::Host);
        let Some(first) = hosts().next() else { return Ok(()) };
        let linked = wiring.linked_with(first);
        match hosts().find(|node| !linked[*node]) {
            None => Ok(()),
            Some(node) => Err(SpecError::new(
                format!("node {:?}", self.names[node]),
                format!("no link leads to it from {:?}", self.names[first]),
            )),
        }
    }
}

fn node_ids(graph: &GraphSpec) -> Result<BTreeMap<String, NodeId>, SpecError> {
    let mut ids = BTreeMap::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        if ids.insert(node.name.clone(), NodeId(index as u32)).is_some() {
            let place = format!("node {:?}", node.name);
            return Err(SpecError::new(place, "another node has this name"));
        }
    }
    Ok(ids)
}
