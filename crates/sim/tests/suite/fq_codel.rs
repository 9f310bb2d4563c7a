//! FQ-CoDel shares a link among connections (RFC 8290), not among flows of the scenario.

use crate::common::{MSS, number, tcp};
use serde_json::{Value, json};

const RATE: f64 = 20e6;
const SECONDS: u64 = 60;

fn flow(name: &str, connections: u64) -> Value {
    let streams = (0..connections).map(|stream| {
        json!({"stream_id": 4 * stream, "after": null,
            "amount": {"mode": "time", "duration_ns": SECONDS * 1_000_000_000, "direction": "up"}})
    });
    json!({
        "name": name, "client": "client", "server": "server", "start_ns": 0,
        "start_jitter_ns": 1_000_000, "client_congestion": {"name": "cubic"},
        "server_congestion": {"name": "cubic"}, "transport": tcp(&json!({})),
        "load": {"kind": "perf", "streams": streams.collect::<Value>()}
    })
}

#[test]
fn six_connections_beside_one_get_six_shares() {
    let direction = json!([
        {"kind": "transmit",
         "queue": {"kind": "fq_codel", "limit_packets": 10_240, "flows": 1024, "quantum_bytes": 1514,
            "target_ns": 5_000_000, "interval_ns": 100_000_000, "ecn": true},
         "service": {"kind": "rate", "rate_bit_s": RATE as u64}},
        {"kind": "delay", "delay_ns": 20_000_000}
    ]);
    let spec = json!({
        "seed": 1, "duration_ns": SECONDS * 1_000_000_000, "sample_interval_ns": 1_000_000_000u64,
        "graph": {
            "nodes": [{"name": "client", "kind": "host"}, {"name": "server", "kind": "host"}],
            "links": [{"name": "link", "client_side": "client", "server_side": "server",
                "up": direction, "down": direction}]
        },
        "flows": [flow("six", 6), flow("one", 1)]
    });
    let spec = spec::RunSpec::from_json(&spec.to_string()).expect("a valid specification");
    let run = sim::run(&spec, &mut |_, _| None).expect("the run is valid");
    let goodput = |flow| {
        let keys = [("flow", flow), ("side", "client")];
        number(&run, "flow_summary", &keys, "delivered_in_order_bytes") * 8.0 / SECONDS as f64
    };
    // Each queue sends one quantum of 1,514 bytes per round (RFC 8290 section 4.2), here one segment.
    let share = RATE * MSS as f64 / 1500.0 / 7.0;
    let (six, one) = (goodput("six"), goodput("one"));
    assert!((one / share - 1.0).abs() < 0.03, "{one} of {share}");
    assert!((six / (6.0 * share) - 1.0).abs() < 0.03, "{six} of {}", 6.0 * share);
}
