//! Maps the topology of a path to its emulation. The emulation has nodes with a namespace, the links between them, and
//! the routes of each node over time.
//!
//! Hosts and proxies have a namespace. A router has one if paths diverge, converge or end at it. All consecutive links
//! between two namespaces form one *emulated link*: one pair of devices, one thread per direction.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use link::SimplexLink;
use topology::{NodeKind, Topology};
use units::{NodeId, Span, Time};

use crate::lab_spec::LabSpec;

/// Maximum number of links of a lab. Each takes two threads, and a third of a second of calibration at the start.
pub(crate) const MAX_LINKS: usize = 64;

/// Maximum number of hosts of a lab. One network has addresses for all of them.
const MAX_HOSTS: usize = 100;

/// A node with a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceNode {
    /// The name of the node.
    pub name: String,
    /// The kind of the node.
    pub kind: NodeKind,
}

/// The part of a path between two namespaces.
pub(crate) struct EmulatedLink {
    pub name: String,
    /// The indices of its end nodes. Packets upwards go from the first to the second.
    pub ends: [usize; 2],
    /// The names of the simplex links of both directions, each in the sequence that a packet crosses.
    pub simplex_link_names: [Vec<String>; 2],
    /// The simplex links, up and down.
    pub simplex_links: [Vec<SimplexLink>; 2],
}

/// The interface of a node to an emulated link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatedInterface {
    /// The index of the link.
    pub link: usize,
    /// Whether the node is the first end (0) or the second end (1) of the link.
    pub side: usize,
}

/// A route of a node to a host. Without an interface the packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRoute {
    /// The index of the node.
    pub node: usize,
    /// The index of the host.
    pub destination: usize,
    /// The outgoing interface.
    pub interface: Option<EmulatedInterface>,
}

/// Routes that are valid from a time on. Earlier routes to other destinations stay valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedHostRoutes {
    /// The time since the start of the schedule of the path.
    pub valid_from: Time,
    /// The routes.
    pub routes: Vec<HostRoute>,
}

/// Bounds of the path between two hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathBounds {
    /// The indices of the two hosts.
    pub hosts: [usize; 2],
    /// The time from which both directions have a path.
    pub valid_from: Time,
    /// The rates of both directions in bit/s; `None` if unlimited.
    pub rates: [Option<u64>; 2],
    /// Lower bound of the round-trip propagation delay.
    pub propagation: Span,
    /// Upper bound of the round-trip time without queueing and serialisation; `None` if unknown.
    pub max_propagation: Option<Span>,
}

/// The nodes, links and routes of a lab.
pub(crate) struct NetworkLayout {
    /// The nodes: from client to server on a linear path; otherwise the hosts as in the plan, then the routers.
    pub nodes: Vec<NamespaceNode>,
    pub links: Vec<EmulatedLink>,
    /// Routes sorted by time. The first entry is complete and valid from the start.
    pub timed_routes: Vec<TimedHostRoutes>,
    /// Bounds per pair of hosts, client and server first, from the first routes that connect both directions.
    pub path_bounds: Vec<PathBounds>,
    /// Whether client and server are the only hosts, with one path between them.
    pub is_linear: bool,
}

/// Consecutive simplex links between two nodes with namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SimplexChain {
    ends: [NodeId; 2],
    links: Vec<usize>,
}

/// A path from one host to another, complete or not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct HostPath {
    from: NodeId,
    to: NodeId,
    links: Vec<usize>,
}

/// The paths between hosts over all versions of the routes.
struct HostPaths {
    /// Each path once, in the sequence of [`host_pairs`] and of time.
    paths: Vec<HostPath>,
    /// The first complete path of both directions for each pair of hosts, with its time.
    first_complete: BTreeMap<usize, (Time, [HostPath; 2])>,
}

impl HostPaths {
    fn new(topology: &mut Topology, hosts: &[NodeId]) -> HostPaths {
        let (mut paths, mut seen, mut first_complete) =
            (Vec::new(), BTreeSet::new(), BTreeMap::new());
        let mut at = Time::ZERO;
        loop {
            for (number, ends) in host_pairs(hosts).enumerate() {
                let directions = [ends, [ends[1], ends[0]]].map(|[from, to]| HostPath {
                    from,
                    to,
                    links: topology.path_between(from, to),
                });
                for path in &directions {
                    if seen.insert(path.clone()) {
                        paths.push(path.clone());
                    }
                }
                let is_complete = |path: &HostPath| {
                    path.links.last().is_some_and(|line| topology.far_end(*line) == path.to)
                };
                if !first_complete.contains_key(&number) && directions.iter().all(is_complete) {
                    first_complete.insert(number, (at, directions));
                }
            }
            at = topology.next_route_change_at();
            if at == Time::MAX {
                return HostPaths { paths, first_complete };
            }
            topology.apply_routes(at);
        }
    }
}

impl NetworkLayout {
    /// Computes the layout for the hosts of `spec`.
    ///
    /// # Errors
    /// Returns an error message if the path is invalid.
    pub fn new(spec: &LabSpec) -> io::Result<NetworkLayout> {
        let build = || {
            let built = Topology::build(&spec.graph, spec.seed);
            built.map_err(|error| io::Error::other(error.to_string()))
        };
        let mut topology = build()?;
        let hosts = find_hosts(spec, &topology)?;
        let paths = HostPaths::new(&mut build()?, &hosts);
        let is_linear = hosts.len() == 2 && paths.paths.len() == 2;
        let namespace_nodes = find_namespace_nodes(&topology, &hosts, &paths.paths);
        let node_ids =
            nodes(&topology, &hosts, &namespace_nodes, is_linear.then_some(&paths.paths[0]));
        let chains = split_paths(&topology, &namespace_nodes, &paths.paths);
        let pairs = pair_directions(&topology, chains, is_linear)?;
        if pairs.len() > MAX_LINKS {
            return Err(io::Error::other(format!(
                "the path has {} links between nodes of their own, expected at most {MAX_LINKS}",
                pairs.len()
            )));
        }
        reject_store_forward(spec, &topology, &paths.paths)?;
        let index: BTreeMap<NodeId, usize> = node_ids
            .iter()
            .enumerate()
            .map(|(namespace_node, node)| (*node, namespace_node))
            .collect();
        let path_bounds = compute_path_bounds(&topology, &paths, &index);
        let ends = [index[&hosts[0]], index[&hosts[1]]];
        if path_bounds.first().is_none_or(|first| first.hosts != ends) {
            let (client, server) = (&spec.client, &spec.server);
            let text = format!("the path never has routes from {client:?} to {server:?} and back");
            return Err(io::Error::other(text));
        }
        let timed_routes = compute_timed_routes(&mut build()?, &hosts, &pairs, &index);
        let links = build_links(&mut topology, &pairs, &index);
        let build_node = |node: &NodeId| NamespaceNode {
            name: topology.node_name(*node).to_owned(),
            kind: topology.node_kind(*node),
        };
        let nodes = node_ids.iter().map(build_node).collect();
        Ok(NetworkLayout { nodes, links, timed_routes, path_bounds, is_linear })
    }
}

/// Returns client, server and the other hosts, each once.
fn find_hosts(spec: &LabSpec, topology: &Topology) -> io::Result<Vec<NodeId>> {
    let mut found = Vec::new();
    for name in [&spec.client, &spec.server].into_iter().chain(&spec.hosts) {
        let node = topology
            .node_id(name)
            .ok_or_else(|| io::Error::other(format!("the path has no node {name:?}")))?;
        if found.contains(&node) {
            return Err(io::Error::other(format!("the node {name:?} is a duplicate")));
        }
        if found.len() >= 2 && topology.node_kind(node) != NodeKind::Host {
            return Err(io::Error::other(format!("the node {name:?} is not a host")));
        }
        found.push(node);
    }
    if found.len() > MAX_HOSTS {
        let count = found.len();
        return Err(io::Error::other(format!("{count} hosts, expected at most {MAX_HOSTS}")));
    }
    Ok(found)
}

/// Returns all pairs of hosts, client and server first.
fn host_pairs(hosts: &[NodeId]) -> impl Iterator<Item = [NodeId; 2]> {
    (1..hosts.len())
        .flat_map(move |index| hosts[..index].iter().map(move |other| [*other, hosts[index]]))
}

/// Returns the nodes that need a namespace.
fn find_namespace_nodes(
    topology: &Topology,
    hosts: &[NodeId],
    paths: &[HostPath],
) -> BTreeSet<NodeId> {
    let mut nodes: BTreeSet<NodeId> = hosts.iter().copied().collect();
    let (mut after, mut before) = (BTreeMap::new(), BTreeMap::new());
    for path in paths {
        for pair in path.links.windows(2) {
            let node = topology.far_end(pair[0]);
            let diverges = after.insert(pair[0], pair[1]).is_some_and(|other| other != pair[1]);
            let converges = before.insert(pair[1], pair[0]).is_some_and(|other| other != pair[0]);
            if diverges || converges || topology.node_kind(node) == NodeKind::Proxy {
                nodes.insert(node);
            }
        }
        nodes.extend(path.links.last().map(|link| topology.far_end(*link)));
    }
    nodes
}

/// Returns the nodes with a namespace in their final sequence. `single_path` is the path of a linear topology.
fn nodes(
    topology: &Topology,
    hosts: &[NodeId],
    namespace_nodes: &BTreeSet<NodeId>,
    single_path: Option<&HostPath>,
) -> Vec<NodeId> {
    if let Some(path) = single_path {
        let ends = path.links.iter().map(|link| topology.far_end(*link));
        let inner_nodes = ends.filter(|node| namespace_nodes.contains(node) && *node != path.to);
        return [path.from].into_iter().chain(inner_nodes).chain([path.to]).collect();
    }
    let others = namespace_nodes.iter().copied().filter(|node| !hosts.contains(node));
    hosts.iter().copied().chain(others).collect()
}

/// Splits all paths at the nodes with a namespace. Returns each chain once, in the sequence of the paths.
fn split_paths(
    topology: &Topology,
    namespace_nodes: &BTreeSet<NodeId>,
    paths: &[HostPath],
) -> Vec<SimplexChain> {
    let mut found: Vec<SimplexChain> = Vec::new();
    for path in paths {
        let (mut from, mut links) = (path.from, Vec::new());
        for link in &path.links {
            links.push(*link);
            let end = topology.far_end(*link);
            if namespace_nodes.contains(&end) {
                let chain = SimplexChain { ends: [from, end], links: std::mem::take(&mut links) };
                if !found.contains(&chain) {
                    found.push(chain);
                }
                from = end;
            }
        }
    }
    found
}

/// Pairs the chains of both directions. They use the same links; on a linear path the links may differ.
fn pair_directions(
    topology: &Topology,
    mut chains: Vec<SimplexChain>,
    is_linear: bool,
) -> io::Result<Vec<[SimplexChain; 2]>> {
    let mut pairs = Vec::new();
    while !chains.is_empty() {
        let chain = chains.remove(0);
        let ends = [chain.ends[1], chain.ends[0]];
        let reverse =
            SimplexChain { ends, links: chain.links.iter().rev().map(|link| link ^ 1).collect() };
        let partner = chains
            .iter()
            .position(|other| *other == reverse)
            .or_else(|| chains.iter().position(|other| is_linear && other.ends == ends));
        let back = match partner {
            Some(index) => chains.remove(index),
            None if is_linear => {
                let text = "both directions have to pass the same proxies";
                return Err(io::Error::other(text));
            }
            // No packet is sent in this direction.
            None => reverse,
        };
        // The name of a link defines which direction is up.
        let reversed = !is_linear && topology.simplex_link_name(chain.links[0]).ends_with(".down");
        pairs.push(if reversed { [back, chain] } else { [chain, back] });
    }
    let mut seen = BTreeSet::new();
    let mut lines = pairs.iter().flatten().flat_map(|hop| &hop.links);
    if let Some(link) = lines.find(|line| !seen.insert(**line)) {
        let message = format!(
            "{}: forward and return routes differ on this link",
            topology.simplex_link_name(*link)
        );
        return Err(io::Error::other(message));
    }
    Ok(pairs)
}

/// Rejects nodes with a store-and-forward buffer, because the kernel has none.
fn reject_store_forward(spec: &LabSpec, topology: &Topology, paths: &[HostPath]) -> io::Result<()> {
    let stores = |node: NodeId| {
        let name = topology.node_name(node);
        spec.graph.nodes.iter().any(|one| one.name == name && one.store_and_forward_bytes.is_some())
    };
    let storing = paths.iter().find_map(|path| {
        let end = path.links.last().map_or(path.from, |link| topology.far_end(*link));
        (end != path.to && stores(end)).then_some(end)
    });
    storing.map_or(Ok(()), |node| {
        let name = topology.node_name(node);
        Err(io::Error::other(format!(
            "{name:?} has store_and_forward, which emulation does not support"
        )))
    })
}

fn compute_path_bounds(
    topology: &Topology,
    paths: &HostPaths,
    index: &BTreeMap<NodeId, usize>,
) -> Vec<PathBounds> {
    let bounds_of = |(valid_from, [forward, reverse]): &(Time, [HostPath; 2])| {
        let slowest = |path: &HostPath| {
            path.links.iter().filter_map(|l| topology.simplex_links[*l].rate_bit_s()).min()
        };
        let links = || {
            let links = forward.links.iter().chain(&reverse.links);
            links.map(|link| &topology.simplex_links[*link])
        };
        PathBounds {
            hosts: [index[&forward.from], index[&forward.to]],
            valid_from: *valid_from,
            rates: [slowest(forward), slowest(reverse)],
            propagation: Span(links().map(SimplexLink::propagation_ns).sum()),
            max_propagation: links()
                .map(SimplexLink::max_propagation_ns)
                .sum::<Option<u64>>()
                .map(Span),
        }
    };
    paths.first_complete.values().map(bounds_of).collect()
}

/// Returns the routes of each node to each host, then their changes.
fn compute_timed_routes(
    topology: &mut Topology,
    hosts: &[NodeId],
    pairs: &[[SimplexChain; 2]],
    index: &BTreeMap<NodeId, usize>,
) -> Vec<TimedHostRoutes> {
    let mut interfaces = BTreeMap::new();
    for (link, pair) in pairs.iter().enumerate() {
        for (side, chain) in pair.iter().enumerate() {
            interfaces.insert(chain.links[0], EmulatedInterface { link, side });
        }
    }
    let mut current: BTreeMap<(usize, usize), Option<EmulatedInterface>> = BTreeMap::new();
    let (mut found, mut valid_from) = (Vec::new(), Time::ZERO);
    while valid_from < Time::MAX {
        topology.apply_routes(valid_from);
        let mut routes = Vec::new();
        for (node, node_index) in index {
            for host in hosts.iter().filter(|host| *host != node) {
                let interface = match topology.next_hop(*node, *host) {
                    // No packet for this host reaches this node.
                    Some(next_link) if !interfaces.contains_key(&next_link) => continue,
                    next_link => next_link.map(|next_link| interfaces[&next_link]),
                };
                let destination = index[host];
                if current.insert((*node_index, destination), interface) != Some(interface) {
                    routes.push(HostRoute { node: *node_index, destination, interface });
                }
            }
        }
        if !routes.is_empty() {
            found.push(TimedHostRoutes { valid_from, routes });
        }
        valid_from = topology.next_route_change_at();
    }
    found
}

fn build_links(
    topology: &mut Topology,
    pairs: &[[SimplexChain; 2]],
    index: &BTreeMap<NodeId, usize>,
) -> Vec<EmulatedLink> {
    let mut available: Vec<Option<SimplexLink>> =
        std::mem::take(&mut topology.simplex_links).into_iter().map(Some).collect();
    let mut build_link = |pair: &[SimplexChain; 2]| {
        let names: [Vec<String>; 2] = [0, 1].map(|direction| {
            pair[direction]
                .links
                .iter()
                .map(|link| topology.simplex_link_name(*link).to_owned())
                .collect()
        });
        let links = names[0].iter().map(|name| name.trim_end_matches(".up"));
        let simplex_links = [0, 1].map(|direction| {
            pair[direction].links.iter().filter_map(|line| available[*line].take()).collect()
        });
        EmulatedLink {
            name: links.collect::<Vec<_>>().join("+"),
            ends: pair[0].ends.map(|node| index[&node]),
            simplex_link_names: names,
            simplex_links,
        }
    };
    pairs.iter().map(&mut build_link).collect()
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
