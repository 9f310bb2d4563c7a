//! The graph: nodes and two lines per link, with their names.

use std::collections::{BTreeMap, BTreeSet};

use units::{NodeId, Time};

use crate::routes::{Routes, Wiring};
use crate::{GraphSpec, Line, NodeKind, SpecError, changes};

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
}

impl Topology {
    /// Checks and builds `graph` for run `seed`.
    pub fn build(graph: &GraphSpec, seed: u64) -> Result<Topology, SpecError> {
        let ids = node_ids(graph)?;
        let mut topology = Topology {
            lines: Vec::new(),
            line_names: Vec::new(),
            ends: Vec::new(),
            kinds: graph.nodes.iter().map(|node| node.kind).collect(),
            names: graph.nodes.iter().map(|node| node.name.clone()).collect(),
            ids,
            routes: Routes::default(),
        };
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
                topology.lines.push(Line::build(stages, &name, seed)?);
                topology.line_names.push(name);
                topology.ends.push((start, end));
            }
        }
        let mut wiring = Wiring::new(&topology.ends, &topology.kinds);
        topology.check_reachable(&wiring)?;
        let mut routes = Routes::shortest(&wiring);
        changes::schedule(graph, &mut topology, &mut wiring, &mut routes)?;
        topology.routes = routes;
        topology.apply(Time::ZERO);
        Ok(topology)
    }

    /// The line that a packet for `destination`, a host or a proxy, takes at `at` by the routes in
    /// force; none at the destination itself and where no way leads through routers.
    #[inline]
    pub fn next_hop(&self, at: NodeId, destination: NodeId) -> Option<usize> {
        self.routes.next_hop(at, destination)
    }

    /// As [`Topology::next_hop`], but by the routes of the instant `when`, whatever is in force: for a
    /// driver that comes late.
    pub fn next_hop_at(&self, when: Time, at: NodeId, destination: NodeId) -> Option<usize> {
        self.routes.next_hop_at(when, at, destination)
    }

    /// When other routes than those in force hold; [`Time::MAX`]: never. Changes of stages lie with
    /// the lines and need nobody.
    #[inline]
    pub fn changes_at(&self) -> Time {
        self.routes.changes_at()
    }

    /// Brings the routes of `now` into force. A driver calls it before any packet of that instant.
    pub fn apply(&mut self, now: Time) {
        self.routes.apply(now);
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
        let mut at = a;
        std::iter::from_fn(|| {
            let line = self.next_hop(at, b)?;
            at = self.line_end(line);
            Some(line)
        })
        .collect()
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
