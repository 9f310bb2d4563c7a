//! The graph: nodes, two lines per link, and who is next on the way to whom.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use units::NodeId;

use crate::{GraphSpec, Line, NodeKind, SpecError};

/// A built graph. Line `2 * link` carries packets from a link's client side to its server side
/// (`"<link>.up"`), line `2 * link + 1` back (`"<link>.down"`).
///
/// Routes are static: fewest links, ties by the lower link index, through routers and proxies only.
pub struct Topology {
    /// The lines; the simulator drives them, an emulator may take them out, one thread each.
    pub lines: Vec<Line>,
    line_names: Vec<String>,
    starts: Vec<NodeId>,
    ends: Vec<NodeId>,
    kinds: Vec<NodeKind>,
    names: Vec<String>,
    ids: BTreeMap<String, NodeId>,
    /// Next line at `at` towards `destination`, at `at * nodes + destination`.
    next: Vec<Option<usize>>,
}

impl Topology {
    /// Checks and builds `graph` for run `seed`.
    pub fn build(graph: &GraphSpec, seed: u64) -> Result<Topology, SpecError> {
        let ids = node_ids(graph)?;
        let mut topology = Topology {
            lines: Vec::new(),
            line_names: Vec::new(),
            starts: Vec::new(),
            ends: Vec::new(),
            kinds: graph.nodes.iter().map(|node| node.kind).collect(),
            names: graph.nodes.iter().map(|node| node.name.clone()).collect(),
            ids,
            next: Vec::new(),
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
                topology.starts.push(start);
                topology.ends.push(end);
            }
        }
        topology.check_reachable()?;
        topology.next = topology.routes();
        Ok(topology)
    }

    /// The line that a packet for `destination` takes at `at`; none at the destination itself and
    /// where no way leads through routers.
    pub fn next_hop(&self, at: NodeId, destination: NodeId) -> Option<usize> {
        let nodes = self.kinds.len();
        if destination.0 as usize >= nodes {
            return None;
        }
        *self.next.get(at.0 as usize * nodes + destination.0 as usize)?
    }

    /// The node at the far end of a line.
    pub fn line_end(&self, line: usize) -> NodeId {
        self.ends[line]
    }

    /// The node at the near end of a line.
    pub fn line_start(&self, line: usize) -> NodeId {
        self.starts[line]
    }

    /// `"<link>.up"` or `"<link>.down"`.
    pub fn line_name(&self, line: usize) -> &str {
        &self.line_names[line]
    }

    /// The lines from `a` to `b` in order; empty if `a` is `b` or no way leads there.
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
    fn check_reachable(&self) -> Result<(), SpecError> {
        let hosts = || (0..self.kinds.len()).filter(|node| self.kinds[*node] == NodeKind::Host);
        let Some(first) = hosts().next() else { return Ok(()) };
        let far = self.distances(first, |_| true);
        match hosts().find(|node| far[*node].is_none()) {
            None => Ok(()),
            Some(node) => Err(SpecError::new(
                format!("node {:?}", self.names[node]),
                format!("no link leads to it from {:?}", self.names[first]),
            )),
        }
    }

    /// Links from each node to `destination`; a way passes only nodes that `passes` lets through.
    fn distances(&self, destination: usize, passes: impl Fn(usize) -> bool) -> Vec<Option<u32>> {
        let mut far = vec![None; self.kinds.len()];
        far[destination] = Some(0);
        let mut frontier = VecDeque::from([destination]);
        while let Some(node) = frontier.pop_front() {
            if node != destination && !passes(node) {
                continue;
            }
            for (start, end) in self.starts.iter().zip(&self.ends) {
                let before = start.0 as usize;
                if end.0 as usize == node && far[before].is_none() {
                    far[before] = far[node].map(|links: u32| links + 1);
                    frontier.push_back(before);
                }
            }
        }
        far
    }

    fn routes(&self) -> Vec<Option<usize>> {
        let nodes = self.kinds.len();
        let mut next = vec![None; nodes * nodes];
        for destination in 0..nodes {
            let router = |node: usize| self.kinds[node] != NodeKind::Host;
            let far = self.distances(destination, router);
            for at in 0..nodes {
                next[at * nodes + destination] = (0..self.ends.len()).find(|line| {
                    let end = self.ends[*line].0 as usize;
                    self.starts[*line].0 as usize == at
                        && (end == destination || router(end))
                        && far[at].is_some_and(|links| far[end].is_some_and(|e| e + 1 == links))
                });
            }
        }
        next
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
