//! Routes: the fewest links, ties by the lower index, and a constellation in no time.

use std::time::Duration;

use path::{
    GraphChange, GraphSpec, LinkSpec, LinkUse, NodeKind, NodeSpec, Topology, Way, WayChange,
};
use proptest::prelude::*;
use units::{NodeId, Time};

use crate::common::{constellation, link, node};

/// Links from each node to `destination`, by trying every line as often as there are nodes.
fn distances(topology: &Topology, destination: NodeId) -> Vec<Option<u32>> {
    let mut far = vec![None; topology.node_count()];
    far[destination.0 as usize] = Some(0);
    for _ in 0..topology.node_count() {
        for line in 0..topology.lines.len() {
            let (start, end) = (topology.line_start(line), topology.line_end(line));
            let passes = end == destination || topology.node_kind(end) != NodeKind::Host;
            if let Some(links) = far[end.0 as usize].filter(|_| passes) {
                let before = &mut far[start.0 as usize];
                *before = Some(before.map_or(links + 1, |links_now: u32| links_now.min(links + 1)));
            }
        }
    }
    far
}

/// Nodes of drawn kinds, and links between drawn ends.
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

/// Links and ways that change at each instant, as far as they can be said of the graph.
type Drawn = Vec<(Vec<(usize, bool)>, Option<(usize, usize, usize)>)>;

/// `graph` with those of the drawn changes that are allowed.
fn changing(mut graph: GraphSpec, drawn: &Drawn) -> GraphSpec {
    for (number, (links, way)) in drawn.iter().enumerate() {
        let of = |link: usize| graph.links[link % graph.links.len()].name.clone();
        let uses = links.iter().map(|(link, in_use)| LinkUse { link: of(*link), in_use: *in_use });
        let ways = way.iter().map(|(node, to, link)| {
            let name = |node: &usize| graph.nodes[node % graph.nodes.len()].name.clone();
            let way = match link % 3 {
                0 => Way::Shortest,
                1 => Way::None,
                _ => Way::Link(of(link / 3)),
            };
            WayChange { node: name(node), to: name(to), way }
        });
        let at_ns = number as u64 + 1;
        let change =
            GraphChange { at_ns, links: uses.collect(), ways: ways.collect(), stages: vec![] };
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
    fn from_version_to_version_is_as_if_searched_anew(
        kinds in prop::collection::vec(0u8..6, 2..14),
        ends in prop::collection::vec((0usize..14, 0usize..14), 1..40),
        changes in prop::collection::vec((
            prop::collection::vec((0usize..40, prop::bool::ANY), 0..6),
            prop::option::of((0usize..14, 0usize..14, 0usize..120)),
        ), 1..12),
    ) {
        let (nodes, links) = drawn(&kinds, &ends);
        let still = GraphSpec { nodes, links, changes: vec![] };
        if still.links.is_empty() || Topology::build(&still, 1).is_err() { return Ok(()) }
        let graph = changing(still, &changes);
        let (mut topology, anew) = (Topology::build(&graph, 1).unwrap(), Topology::build(&graph, 1).unwrap());
        for at in graph.changes.iter().map(|change| Time(change.at_ns)) {
            topology.apply(at);
            let every = || (0..topology.node_count() as u32).map(NodeId);
            for (node, to) in every().flat_map(|node| every().map(move |to| (node, to))) {
                prop_assert_eq!(topology.next_hop(node, to), anew.next_hop_at(at, node, to), "{:?}", at);
            }
        }
    }

    #[test]
    fn the_first_line_of_those_that_bring_nearer(
        kinds in prop::collection::vec(0u8..4, 2..12),
        ends in prop::collection::vec((0usize..12, 0usize..12), 1..40),
    ) {
        let (nodes, links) = drawn(&kinds, &ends);
        // Hosts apart are refused.
        let Ok(topology) = Topology::build(&GraphSpec { nodes, links, changes: vec![] }, 1) else { return Ok(()) };
        let every = || (0..topology.node_count() as u32).map(NodeId);
        for to in every().filter(|node| topology.node_kind(*node) != NodeKind::Router) {
            let far = distances(&topology, to);
            for at in every() {
                let leads = |line: &usize| {
                    let end = topology.line_end(*line);
                    topology.line_start(*line) == at
                        && (end == to || topology.node_kind(end) != NodeKind::Host)
                        && far[at.0 as usize].is_some()
                        && far[end.0 as usize].map(|links| links + 1) == far[at.0 as usize]
                };
                prop_assert_eq!(topology.next_hop(at, to), (0..topology.lines.len()).find(leads));
            }
        }
    }
}

/// Processor time of this thread, by proc(5): what others run meanwhile does not count.
fn processor() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn a_constellation_of_1600_routers_is_built_at_once() {
    let graph = constellation(40, 40, 4);
    let begin = processor();
    let topology = Topology::build(&graph, 1).unwrap();
    // 0.03 s in a release build. A search of all pairs over all lines takes minutes.
    let took = processor() - begin;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!((topology.node_count(), topology.lines.len()), (1604, 2 * 3204));
    // On a torus of 40 by 40 the far corner is 20 links away in each direction.
    let [west, east] = ["host0", "host2"].map(|name| topology.node_id(name).unwrap());
    assert_eq!(topology.path_between(west, east).len(), 1 + 20 + 20 + 1);
    assert_eq!(topology.path_between(east, west).len(), 1 + 20 + 20 + 1);
}

/// 100 hosts under 1,600 satellites, and a hand-over of one of them every 15 s, for an hour.
#[test]
fn a_hand_over_looks_at_what_it_changes() {
    let mut graph = constellation(40, 40, 100);
    let (hosts, lines) = (100, 2 * graph.links.len() as u64);
    for number in 0..240 {
        let (host, satellite) = (number % hosts, &graph.nodes[(number * 7 + 3) % 1600].name);
        let name = format!("next{number}");
        let host_name = format!("host{host}");
        graph.links.push(link(&name, &host_name, satellite, vec![], vec![]));
    }
    let uses = |link: &str, in_use| LinkUse { link: link.into(), in_use };
    let unused = (0..240).map(|n| uses(&format!("next{n}"), false)).collect();
    graph.changes = vec![GraphChange { links: unused, ..GraphChange::default() }];
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
        graph.changes.push(GraphChange { at_ns, links, ..GraphChange::default() });
    }
    let mut topology = Topology::build(&graph, 1).unwrap();
    let start = topology.lines_looked_at();
    assert!(start < 100 * 3 * lines, "a search a destination: {start} of {lines} lines");
    while topology.changes_at() < Time::MAX {
        topology.apply(topology.changes_at());
    }
    // Nobody's way to the other 99 hosts is another, but that of the one who is handed over.
    let each = (topology.lines_looked_at() - start) / 240;
    assert!(each < 10 * lines, "{each} lines a hand-over, of {lines}");
    let [west, east] = ["host39", "host0"].map(|name| topology.node_id(name).unwrap());
    let path = topology.path_between(west, east);
    assert_eq!(topology.line_name(path[0]), "next239.up");
}
