//! Routes: the fewest links, ties by the lower index, and the build time of a constellation.

use std::time::Duration;

use proptest::prelude::*;
use topology::{
    LinkAdminState, LinkSpec, NodeKind, NodeSpec, RouteChange, RouteOverride, Topology,
    TopologyChange, TopologySpec,
};
use units::{NodeId, Time};

use crate::common::{constellation, link, node};

/// Returns the number of links from each node to `destination`, by relaxing every simplex link once per node.
fn distances(topology: &Topology, destination: NodeId) -> Vec<Option<u32>> {
    let mut far = vec![None; topology.node_count()];
    far[destination.0 as usize] = Some(0);
    for _ in 0..topology.node_count() {
        for line in 0..topology.simplex_links.len() {
            let (start, end) = (topology.near_end(line), topology.far_end(line));
            let passes = end == destination || topology.node_kind(end) != NodeKind::Host;
            if let Some(links) = far[end.0 as usize].filter(|_| passes) {
                let before = &mut far[start.0 as usize];
                *before = Some(before.map_or(links + 1, |links_now: u32| links_now.min(links + 1)));
            }
        }
    }
    far
}

/// Returns nodes of random kinds, and links between random end points.
fn drawn(kinds: &[u8], ends: &[(usize, usize)]) -> (Vec<NodeSpec>, Vec<LinkSpec>) {
    let kind = |kind: &u8| match kind {
        0 => NodeKind::Host,
        1 => NodeKind::Proxy,
        _ => NodeKind::Router,
    };
    let nodes: Vec<_> =
        kinds.iter().enumerate().map(|(n, k)| node(&format!("n{n}"), kind(k))).collect();
    let ends = ends.iter().map(|(a, b)| (a % nodes.len(), b % nodes.len()));
    let links = ends
        .filter(|(a, b)| a != b)
        .enumerate()
        .map(|(n, (a, b))| link(&format!("l{n}"), &nodes[a].name, &nodes[b].name, vec![], vec![]))
        .collect();
    (nodes, links)
}

/// Changes of links and routes at each instant, as random indexes.
type Drawn = Vec<(Vec<(usize, bool)>, Option<(usize, usize, usize)>)>;

/// Returns `graph` with the valid ones of the random changes.
fn changing(mut graph: TopologySpec, drawn: &Drawn) -> TopologySpec {
    for (number, (links, route)) in drawn.iter().enumerate() {
        let of = |link: usize| graph.links[link % graph.links.len()].name.clone();
        let uses =
            links.iter().map(|(link, in_use)| LinkAdminState { link: of(*link), enabled: *in_use });
        let routes = route.iter().map(|(node, to, link)| {
            let name = |node: &usize| graph.nodes[node % graph.nodes.len()].name.clone();
            let route = match link % 3 {
                0 => RouteOverride::Shortest,
                1 => RouteOverride::NoRoute,
                _ => RouteOverride::Link(of(link / 3)),
            };
            RouteChange { node: name(node), to: name(to), route }
        });
        let at_ns = number as u64 + 1;
        let change = TopologyChange {
            at_ns,
            links: uses.collect(),
            routes: routes.collect(),
            stages: vec![],
        };
        graph.changes.push(change);
        if Topology::build(&graph, 1).is_err() {
            graph.changes.pop();
        }
    }
    graph
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn incremental_routes_equal_a_new_search(
        kinds in prop::collection::vec(0u8..6, 2..14),
        ends in prop::collection::vec((0usize..14, 0usize..14), 1..40),
        changes in prop::collection::vec((
            prop::collection::vec((0usize..40, prop::bool::ANY), 0..6),
            prop::option::of((0usize..14, 0usize..14, 0usize..120)),
        ), 1..12),
    ) {
        let (nodes, links) = drawn(&kinds, &ends);
        let still = TopologySpec { nodes, links, changes: vec![] };
        if still.links.is_empty() || Topology::build(&still, 1).is_err() { return Ok(()) }
        let graph = changing(still, &changes);
        let (mut topology, anew) = (Topology::build(&graph, 1).unwrap(), Topology::build(&graph, 1).unwrap());
        for at in graph.changes.iter().map(|change| Time(change.at_ns)) {
            topology.apply_routes(at);
            let every = || (0..topology.node_count() as u32).map(NodeId);
            for (node, to) in every().flat_map(|node| every().map(move |to| (node, to))) {
                prop_assert_eq!(topology.next_hop(node, to), anew.next_hop_at(at, node, to), "{:?}", at);
            }
        }
    }

    #[test]
    fn the_next_hop_is_the_first_link_on_a_shortest_path(
        kinds in prop::collection::vec(0u8..4, 2..12),
        ends in prop::collection::vec((0usize..12, 0usize..12), 1..40),
    ) {
        let (nodes, links) = drawn(&kinds, &ends);
        // The build rejects hosts without a path between them.
        let Ok(topology) = Topology::build(&TopologySpec { nodes, links, changes: vec![] }, 1) else { return Ok(()) };
        let every = || (0..topology.node_count() as u32).map(NodeId);
        for to in every().filter(|node| topology.node_kind(*node) != NodeKind::Router) {
            let far = distances(&topology, to);
            for at in every() {
                let leads = |line: &usize| {
                    let end = topology.far_end(*line);
                    topology.near_end(*line) == at
                        && (end == to || topology.node_kind(end) != NodeKind::Host)
                        && far[at.0 as usize].is_some()
                        && far[end.0 as usize].map(|links| links + 1) == far[at.0 as usize]
                };
                prop_assert_eq!(topology.next_hop(at, to), (0..topology.simplex_links.len()).find(leads));
            }
        }
    }
}

/// Returns the processor time of this thread (proc(5)), which excludes other processes.
fn processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_constellation_of_1600_routers_is_built_at_once() {
    let graph = constellation(40, 40, 4);
    let begin = processor();
    let topology = Topology::build(&graph, 1).unwrap();
    // 0.03 s in a release build. A search of all pairs over all simplex links takes minutes.
    let took = processor() - begin;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!((topology.node_count(), topology.simplex_links.len()), (1604, 2 * 3204));
    // On a torus of 40 by 40 the far corner is 20 links away in each direction.
    let [west, east] = ["host0", "host2"].map(|name| topology.node_id(name).unwrap());
    assert_eq!(topology.path_between(west, east).len(), 1 + 20 + 20 + 1);
    assert_eq!(topology.path_between(east, west).len(), 1 + 20 + 20 + 1);
}

/// 100 hosts, 1,600 satellites, and a handover of one host every 15 s, for an hour.
#[test]
fn a_handover_does_not_recompute_all_routes() {
    let mut graph = constellation(40, 40, 100);
    let (hosts, lines) = (100, 2 * graph.links.len() as u64);
    for number in 0..240 {
        let (host, satellite) = (number % hosts, &graph.nodes[(number * 7 + 3) % 1600].name);
        let name = format!("next{number}");
        let host_name = format!("host{host}");
        graph.links.push(link(&name, &host_name, satellite, vec![], vec![]));
    }
    let uses = |link: &str, in_use| LinkAdminState { link: link.into(), enabled: in_use };
    let unused = (0..240).map(|n| uses(&format!("next{n}"), false)).collect();
    graph.changes = vec![TopologyChange { links: unused, ..TopologyChange::default() }];
    let mut last: Vec<String> = (0..hosts)
        .map(|host| {
            graph
                .links
                .iter()
                .find(|l| l.client_side == format!("host{host}"))
                .unwrap()
                .name
                .clone()
        })
        .collect();
    for number in 0..240 {
        let next = format!("next{number}");
        let before = std::mem::replace(&mut last[number % hosts], next.clone());
        let links = vec![uses(&before, false), uses(&next, true)];
        let at_ns = (number as u64 + 1) * 15_000_000_000;
        graph.changes.push(TopologyChange { at_ns, links, ..TopologyChange::default() });
    }
    let mut topology = Topology::build(&graph, 1).unwrap();
    let start = topology.visited_links();
    assert!(start < 100 * 3 * lines, "a search a destination: {start} of {lines} lines");
    while topology.next_route_change_at() < Time::MAX {
        topology.apply_routes(topology.next_route_change_at());
    }
    // The routes of the other 99 hosts to each other do not change, only those of the host in handover.
    let each = (topology.visited_links() - start) / 240;
    assert!(each < 10 * lines, "{each} lines a hand-over, of {lines}");
    let [west, east] = ["host39", "host0"].map(|name| topology.node_id(name).unwrap());
    let path = topology.path_between(west, east);
    assert_eq!(topology.simplex_link_name(path[0]), "next239.up");
}
