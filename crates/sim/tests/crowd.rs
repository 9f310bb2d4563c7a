//! The cost of a packet does not grow with the number of live connections.

mod common;

use common::{cpu_seconds, many_connections, max_open_connections};

/// Returns the minimum CPU time per packet for each number of live connections. The runs alternate, so that other load
/// on the machine affects both.
fn costs(live: [u64; 2], connections: [u64; 2], over_tcp: bool) -> [f64; 2] {
    let mut min_cost = [f64::MAX; 2];
    for _ in 0..3 {
        for ((live, connections), min_cost) in live.into_iter().zip(connections).zip(&mut min_cost)
        {
            let spec = many_connections(live, connections, over_tcp);
            let before = cpu_seconds();
            let run = sim::run(&spec, &mut |_, _| None).expect("the run is valid");
            let cost = (cpu_seconds() - before) / run.packets as f64;
            assert!(max_open_connections(&run) >= live, "{} of {live}", max_open_connections(&run));
            *min_cost = min_cost.min(cost);
        }
    }
    min_cost
}

fn assert_flat(over_tcp: bool) {
    // A search through all connections would cost about 30 us per packet. Slower memory at most doubles the cost.
    let [one, many] = costs([1, 300], [1000, 3000], over_tcp);
    assert!(
        many < 4.0 * one,
        "{:.1} us a packet beside 300, {:.1} beside none",
        many * 1e6,
        one * 1e6
    );
}

#[test]
fn a_packet_costs_the_same_beside_300_quic_connections() {
    assert_flat(false);
}

#[test]
fn a_packet_costs_the_same_beside_300_tcp_connections() {
    assert_flat(true);
}
