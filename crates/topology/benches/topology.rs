//! The time to build a constellation of 1,600 routers. Prints the median of seven and the spread.

use std::hint::black_box;
use std::time::Instant;

use link::{
    BernoulliLossSpec, DelaySpec, DropTailSpec, LossModel, LossSpec, QueueLimit, QueueSpec,
    ServiceSpec, StageSpec, TransmitSpec,
};
use topology::{
    LinkAdminState, LinkSpec, NodeKind, NodeSpec, Topology, TopologyChange, TopologySpec,
};
use units::Time;

const REPEATS: usize = 7;

fn line_stages(window: u64) -> [StageSpec; 3] {
    // A packet of 1,500 bytes lasts 120 us. Half of the window is in flight while the other half is queued.
    [
        StageSpec::Delay(DelaySpec { delay_ns: window / 2 * 120_000, changes: Vec::new() }),
        StageSpec::Transmit(TransmitSpec {
            queue: QueueSpec::DropTail(DropTailSpec { limit: Some(QueueLimit::Packets(window)) }),
            service: ServiceSpec::Rate { rate_bit_s: 100_000_000, changes: Vec::new() },
        }),
        StageSpec::Loss(LossSpec {
            model: LossModel::Bernoulli(BernoulliLossSpec { probability: 1e-3 }),
            changes: Vec::new(),
        }),
    ]
}

/// Returns satellites in `orbits` orbits of `orbits` each, with four neighbours each, and hosts.
fn constellation(orbits: usize, hosts: usize) -> TopologySpec {
    let name = |plane: usize, index: usize| format!("{}.{}", plane % orbits, index % orbits);
    let node = |name: String, kind| NodeSpec { name, kind, store_and_forward_bytes: None };
    let join = |a: String, b: String| {
        let stages = line_stages(800);
        let (up, down) = (stages.to_vec(), stages.to_vec());
        LinkSpec { name: format!("{a}-{b}"), client_side: a, server_side: b, up, down }
    };
    let (mut nodes, mut links) = (Vec::new(), Vec::new());
    for (plane, index) in (0..orbits).flat_map(|plane| (0..orbits).map(move |at| (plane, at))) {
        nodes.push(node(name(plane, index), NodeKind::Router));
        links.push(join(name(plane, index), name(plane, index + 1)));
        links.push(join(name(plane, index), name(plane + 1, index)));
    }
    for number in 0..hosts {
        nodes.push(node(format!("host{number}"), NodeKind::Host));
        let at = number * orbits / hosts;
        links.push(join(format!("host{number}"), name(at, at)));
    }
    TopologySpec { nodes, links, changes: vec![] }
}

/// Builds a topology and applies all its routing updates.
#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn millis_to_build(graph: &TopologySpec) -> f64 {
    let start = Instant::now();
    let mut topology = black_box(Topology::build(graph, 1).expect("a good specification"));
    while topology.next_route_change_at() < Time::MAX {
        topology.apply_routes(topology.next_route_change_at());
    }
    start.elapsed().as_secs_f64() * 1e3
}

/// Returns median, minimum and maximum.
fn spread(mut of: Vec<f64>) -> (f64, f64, f64) {
    of.sort_by(f64::total_cmp);
    (of[of.len() / 2], of[0], of[of.len() - 1])
}

fn main() {
    let graph = constellation(40, 4);
    // The first build has cold caches, as in a run.
    println!(
        "1,600 routers, 3,204 links, 4 hosts: {:.1} ms the first time",
        millis_to_build(&graph)
    );
    for hosts in [4, 300] {
        let graph = constellation(40, hosts);
        let (median, min, max) = spread((0..REPEATS).map(|_| millis_to_build(&graph)).collect());
        println!("1,600 routers, {hosts} hosts: {median:.1} ms ({min:.1} to {max:.1})");
        // One hour of handovers, one every 15 s.
        let uses = |link: usize, in_use| LinkAdminState {
            link: graph.links[link].name.clone(),
            enabled: in_use,
        };
        let changes = (0..240).map(|n| TopologyChange {
            at_ns: (n as u64 + 1) * 15_000_000_000,
            links: vec![uses(n, false), uses((n + 239) % 240, true)],
            ..TopologyChange::default()
        });
        let graph = TopologySpec { changes: changes.collect(), ..graph.clone() };
        let (median, min, max) = spread((0..REPEATS).map(|_| millis_to_build(&graph)).collect());
        println!("the same and 240 hand-overs: {median:.1} ms ({min:.1} to {max:.1})");
    }
}
