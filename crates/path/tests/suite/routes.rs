//! Routes: the fewest links, ties by the lower index, and a constellation in no time.

use std::time::{Duration, Instant};

use path::{GraphSpec, NodeKind, Topology};
use proptest::prelude::*;
use units::NodeId;

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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_first_line_of_those_that_bring_nearer(
        kinds in prop::collection::vec(0u8..4, 2..12),
        ends in prop::collection::vec((0usize..12, 0usize..12), 1..40),
    ) {
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

#[test]
#[allow(clippy::disallowed_methods, reason = "how long building takes is what is tested")]
fn a_constellation_of_1600_routers_is_built_at_once() {
    let graph = constellation(40, 40, 4);
    let begin = Instant::now();
    let topology = Topology::build(&graph, 1).unwrap();
    // 0.03 s in a release build. A search of all pairs over all lines takes minutes.
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert_eq!((topology.node_count(), topology.lines.len()), (1604, 2 * 3204));
    // On a torus of 40 by 40 the far corner is 20 links away in each direction.
    let [west, east] = ["host0", "host2"].map(|name| topology.node_id(name).unwrap());
    assert_eq!(topology.path_between(west, east).len(), 1 + 20 + 20 + 1);
    assert_eq!(topology.path_between(east, west).len(), 1 + 20 + 20 + 1);
}
