//! LTP between bundle nodes: closed forms of when bundles arrive, in light and in the dark.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::bundles::{Case, conserved, contact, hop, perf, range, rows, times};

/// Headers of IP and UDP, and of a segment of these tests at the most.
const HEADERS: (f64, f64) = (28.0, 28.0 + 24.0);

fn link(changes: &Value) -> Value {
    let mut layer = json!({"kind": "ltp"});
    for (key, value) in changes.as_object().into_iter().flatten() {
        layer[key] = value.clone();
    }
    json!({"shared": true, "with_contact": true, "closes": false, "layer": layer})
}

/// Ten bundles of 100 kB over a hop of 10 Mbit/s with contacts, of which each is in light both ways.
fn case(owlt_ms: u64, contacts: &[(f64, f64)]) -> Case {
    let mut plan = Vec::new();
    for (start, stop) in contacts {
        plan.push(contact("1", "2", *start, *stop, 10_000_000));
        plan.push(contact("2", "1", *start, *stop, 10_000_000));
    }
    Case {
        hops: vec![hop("1", "2", 10_000_000, owlt_ms)],
        contacts: plan,
        ranges: vec![range("1", "2", owlt_ms)],
        routes: BTreeMap::new(),
        perf: vec![perf(
            "1",
            "2",
            json!({"amount": {"kind": "data", "bytes": 1_000_000}, "payload_bytes": 100_000,
                "pace": {"kind": "rate", "bit_s": 10_000_000_000u64}, "lifetime_ns": 9_000_000_000_000u64}),
        )],
        link: link(&json!({})),
        seconds: 3000.0,
        ..Case::default()
    }
}

#[test]
fn a_lossless_hop_delivers_bundle_n_at_n_times_its_time_and_light_without_a_handshake() {
    for owlt_ms in [50, 60_000] {
        let run = case(owlt_ms, &[(0.0, 1000.0)]).run();
        conserved(&run);
        let delivered = times(&run, "delivered", "2");
        assert_eq!(delivered.len(), 10);
        for (place, (number, at)) in delivered.iter().enumerate() {
            assert_eq!(place as u64, *number, "one block after the other");
            let bundles = (place + 1) as f64;
            // 100 kB in segments of at most 1,472 B.
            let least = (100_000.0 + 68.0 * HEADERS.0) * 8e-7;
            let most = (100_100.0 + 70.0 * HEADERS.1) * 8e-7 + 0.002;
            let took = (at - owlt_ms as f64 / 1e3) / bundles;
            assert!((least..most).contains(&took), "{number}: {took} not in {least} to {most}");
        }
        // The report that claims a whole block is there a light time later.
        let forwarded = times(&run, "forwarded", "1");
        for ((_, there), (_, back)) in delivered.iter().zip(&forwarded) {
            let took = back - there - owlt_ms as f64 / 1e3;
            assert!((0.0..0.01).contains(&took), "{took}");
        }
    }
}

#[test]
fn a_bundle_that_a_contact_cannot_end_waits_and_reports_come_when_the_peer_may_send() {
    // Light of 100 s; contacts of 20 s: a report on what is sent in one comes in the next, or in the one after.
    let mut case = case(100_000, &[(0.0, 20.0), (300.0, 320.0), (600.0, 900.0)]);
    case.hops[0].dark = vec![(20.0, 300.0), (320.0, 600.0)];
    case.hops[0].loss = 0.02;
    case.seconds = 2000.0;
    let run = case.run();
    conserved(&run);
    assert_eq!(times(&run, "delivered", "2").len(), 10);
    assert_eq!(times(&run, "forwarded", "1").len(), 10);
    // Nothing is given up while the peer is not heard: no bundle is sent anew.
    assert_eq!(rows(&run, "bundles").iter().filter(|row| row["event"] == "returned").count(), 0);
    assert_eq!(times(&run, "sent", "1").len(), 10);
}

#[test]
fn green_bundles_may_be_lost_and_red_ones_are_not() {
    for (colour, seed) in [("red", 1), ("red", 2), ("green", 1), ("green", 2)] {
        let mut case = case(1000, &[(0.0, 1000.0)]);
        case.hops[0].loss = 0.01;
        case.link = link(&json!({"colour": colour}));
        case.seed = seed;
        let run = case.run();
        let delivered = times(&run, "delivered", "2").len();
        // A block of 70 segments is whole with a chance of a half.
        match colour {
            "red" => conserved(&run),
            _ => assert!((1..10).contains(&delivered), "{delivered}"),
        }
        assert!(colour == "green" || delivered == 10);
        assert_eq!(times(&run, "forwarded", "1").len(), 10, "{colour}");
    }
}
