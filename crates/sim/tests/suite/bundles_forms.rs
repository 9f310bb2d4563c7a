//! Closed forms of bundles: goodput of a window over a long delay, and deliveries when a link closes.

use std::collections::BTreeMap;

use serde_json::json;

use crate::bundle_nodes::{Case, conserved, contact, hop, in_order, perf, range, times};

/// Link bytes per stream byte: 1,280 B of a packet with IP and UDP carry 1,212 to 1,252 B.
const WIRE: [f64; 2] = [1280.0 / 1252.0, 1280.0 / 1212.0];

const WINDOW: usize = 4;

/// Returns the acknowledged bits per second between the last bundles of two windows.
fn goodput(acknowledged: &[f64], bundle_bits: f64, from: usize, to: usize) -> f64 {
    let (first, last) = (acknowledged[from * WINDOW - 1], acknowledged[to * WINDOW - 1]);
    ((to - from) * WINDOW) as f64 * bundle_bits / (last - first)
}

/// Returns the acknowledgement times of bundles of 100 kB with window 4. The path has 1 Mbit/s, a hundredth of the rate
/// in chapter 5, and a round trip of 2 s. Excess data waits at the sender, where streams share it, and not in the queue
/// of the link.
fn window(streams: &str) -> Vec<f64> {
    let perf = perf(
        "1",
        "2",
        json!({"amount": {"kind": "time", "duration_ns": 60_000_000_000u64},
        "pace": {"kind": "window", "bundles": WINDOW}, "payload_bytes": 100_000}),
    );
    let layer = json!({"kind": "quiccl", "streams": streams});
    let link = json!({"shared": true, "opens_with_contact": true, "closes_after_contact": false, "cla": layer});
    let hops = vec![hop("1", "2", 1_000_000, 1000)];
    let case = Case { hops, link, perf: vec![perf], seconds: 60.0, ..Case::default() };
    let mut spec = serde_json::to_value(case.spec()).unwrap();
    let link_bytes = 1_000_000 / 8 * 2;
    for side in ["client_congestion", "server_congestion"] {
        spec["flows"][0][side]["options"] = json!({"window_bytes": link_bytes * 21 / 20});
    }
    let spec = spec::RunSpec::from_json(&spec.to_string()).unwrap();
    let run = sim::run(&spec, &mut |_, _| None).unwrap();
    conserved(&run);
    times(&run, "acknowledged", "1").iter().map(|one| one.1).collect()
}

#[test]
fn goodput_of_a_window_on_one_stream_and_on_a_stream_per_bundle() {
    let (rate, bundle_bits, rtt) = (1e6, 8e5, 2.0);
    let window_bits = WINDOW as f64 * bundle_bits;
    // On one stream, a bundle's acknowledgement follows its transmission: min(R, W S / (RTT + S / R)), here R.
    assert!(window_bits / (rtt + WIRE[1] * bundle_bits / rate) > rate);
    let one = goodput(&self::window("one"), bundle_bits, 2, 15);
    assert!(one > rate / WIRE[1] * 0.99 && one < rate / WIRE[0], "{one}");
    // Streams share the link fairly. Bundles of a window that start together also end together: W S / (RTT + W S / R).
    let acknowledged = self::window("each");
    let each = goodput(&acknowledged, bundle_bits, 1, 2);
    let [max, min] = WIRE.map(|wire| window_bits / (rtt + wire * window_bits / rate));
    assert!(each > 0.97 * min && each < 1.03 * max, "{each}: {min} to {max}");
    // A bundle that starts one packet earlier ends W packets earlier. The effect accumulates until the link is full.
    let later = goodput(&acknowledged, bundle_bits, 6, 12);
    assert!(later > 1.3 * each && later < rate / WIRE[0], "{later}");
}

#[test]
fn the_last_bundle_sent_before_an_outage_arrives() {
    let (rate, owlt, size, dark) = (10e6, 0.2, 250_000.0, 3.0);
    let mut link = hop("1", "2", 10_000_000, 200);
    link.dark = vec![(dark, 60.0)];
    let perf = perf(
        "1",
        "2",
        json!({"payload_bytes": size as u64, "pace": {"kind": "window", "bundles": 40}}),
    );
    let case = Case { hops: vec![link], link: in_order(), perf: vec![perf], ..Case::default() };
    let run = Case { seconds: 10.0, ..case }.run();
    conserved(&run);
    // Bundle n is sent after two round trips of startup and n + 1 transmission times.
    let [max, min] = WIRE.map(|wire| ((dark - 4.0 * owlt) * rate / (8.0 * size * wire)).floor());
    assert_eq!(max, min, "headers do not decide");
    let delivered = times(&run, "delivered", "2");
    assert_eq!(delivered.len() as f64, max);
    let last = delivered.last().unwrap().1;
    assert!(last < dark + owlt && last > dark + owlt - 8.0 * size * WIRE[1] / rate, "{last}");
}

#[test]
fn the_booked_bundles_are_those_sent_before_the_contact_ends() {
    let (rate, closes, size) = (10e6, 3.0, 250_000.0);
    let perf = perf(
        "1",
        "2",
        json!({"payload_bytes": size as u64, "do_not_fragment": true,
        "pace": {"kind": "window", "bundles": 40}}),
    );
    let run = Case {
        hops: vec![hop("1", "2", 10_000_000, 1)],
        contacts: vec![
            contact("1", "2", 0.0, closes, 10_000_000),
            contact("1", "2", 20.0, 60.0, 10_000_000),
            contact("2", "1", 0.0, 60.0, 10_000_000),
        ],
        ranges: vec![range("1", "2", 1)],
        routes: BTreeMap::new(),
        link: in_order(),
        perf: vec![perf],
        seconds: 10.0,
        ..Case::default()
    }
    .run();
    conserved(&run);
    // A bundle books 3 % more of the contact than its size (CCSDS 734.3-B-1), which exceeds the overhead of QUIC.
    let [max, min] =
        [0.0, 200.0].map(|blocks| (closes * rate / (8.0 * 1.03 * (size + blocks))).floor());
    assert_eq!(max, min, "blocks do not decide");
    let delivered = times(&run, "delivered", "2");
    assert_eq!(delivered.len() as f64, max);
    let last = delivered.last().unwrap().1;
    assert!(last < closes + 0.001, "{last}");
    assert_eq!(times(&run, "sent", "1").len() as f64, max, "no bundle waits in the layer");
}
