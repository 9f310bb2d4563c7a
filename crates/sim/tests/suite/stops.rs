//! Disruptions: packets in flight pass or are lost, and bundles of a failed node persist or are reported.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sim::Measurements;

use crate::bundle_nodes::{Case, conserved, contact, hop, perf, range, rows, times};

fn stop(at: f64, until: f64, keeps: bool) -> Value {
    json!({"at_ns": (at * 1e9) as u64, "until_ns": (until * 1e9) as u64, "keeps_store": keeps})
}

fn stopped(run: &Measurements, node: &str) -> usize {
    rows(run, "bundles")
        .iter()
        .filter(|row| row["event"] == "deleted" && row["reason"] == "the node stopped")
        .filter(|row| row["node"] == node && row["kind"] == "data")
        .count()
}

#[test]
fn the_outage_position_decides_about_packets_in_flight() {
    // Bundles of one packet every 100 ms, light time of a second.
    let client = perf(
        "1",
        "2",
        json!({"amount": {"kind": "time", "duration_ns": 40_000_000_000u64}, "payload_bytes": 600,
        "pace": {"kind": "rate", "bit_s": 48_000}}),
    );
    for behind in [false, true] {
        let mut only = hop("1", "2", 100_000_000, 1000);
        (only.dark, only.behind) = (vec![(10.0, 20.0)], behind);
        let link = json!({"shared": true, "opens_with_contact": true, "closes_after_contact": false,
            "cla": {"kind": "quiccl"}});
        let perf = vec![client.clone()];
        let run = Case { hops: vec![only], link, perf, seconds: 200.0, ..Case::default() }.run();
        conserved(&run);
        let delivered = times(&run, "delivered", "2");
        let meanwhile: Vec<f64> =
            delivered.iter().map(|one| one.1).filter(|at| (10.0..20.0).contains(at)).collect();
        if behind {
            assert!(meanwhile.is_empty(), "{meanwhile:?}");
        } else {
            // The bundles sent in the second before the outage.
            assert!((9..=11).contains(&meanwhile.len()), "{meanwhile:?}");
            assert!(meanwhile.iter().all(|at| *at < 11.0), "{meanwhile:?}");
        }
        assert_eq!(delivered.len(), 400, "a reliable layer repeats what is lost");
    }
}

const BUNDLES: usize = 40;

/// Returns the numbers of bundles forwarded by node 1 but never delivered, and of delivered ones. Node 2 fails `at` for
/// two seconds and retains durable bundles, that is, 30 ms after arrival.
fn lost(layer: &Value, at: f64) -> (usize, usize) {
    let link = json!({"shared": false, "opens_with_contact": true, "closes_after_contact": false, "cla": layer});
    let client = perf(
        "1",
        "2",
        json!({"amount": {"kind": "data", "bytes": 50_000 * BUNDLES}, "payload_bytes": 50_000,
        "pace": {"kind": "window", "bundles": BUNDLES}}),
    );
    let case = Case {
        hops: vec![hop("1", "2", 20_000_000, 50)],
        link,
        perf: vec![client],
        nodes: BTreeMap::from([(
            "2",
            json!({"store_delay_ns": 30_000_000, "outages": [stop(at, at + 2.0, true)]}),
        )]),
        seconds: 60.0,
        ..Case::default()
    };
    let run = case.run();
    conserved(&run);
    let set = |event, node| -> BTreeSet<u64> {
        times(&run, event, node).into_iter().map(|one| one.0).collect()
    };
    let (accepted, delivered) = (set("forwarded", "1"), set("delivered", "2"));
    assert_eq!(accepted.len(), BUNDLES, "{layer}, stopped at {at}: all have an answer");
    (accepted.difference(&delivered).count(), delivered.len())
}

/// The table of docs/explanation/bundles.md.
#[test]
fn a_failed_node_loses_no_bundle_confirmed_as_durable() {
    for (layer, answers) in [
        (json!({"kind": "quiccl"}), true),
        (json!({"kind": "quiccl", "streams": "each"}), true),
        (json!({"kind": "quiccl", "streams": "priorities"}), true),
        (json!({"kind": "tcpcl"}), true),
        (json!({"kind": "ltp", "rate_bit_s": 20_000_000, "owlt_ns": 50_000_000}), true),
        (json!({"kind": "ltp", "rate_bit_s": 20_000_000, "colour": "green"}), false),
        (json!({"kind": "qubicle"}), false),
        (json!({"kind": "mtcp"}), false),
    ] {
        let found: Vec<(usize, usize)> =
            (0..12).map(|step| lost(&layer, 0.25 + 0.08 * f64::from(step))).collect();
        let max = found.iter().map(|one| one.0).max().unwrap_or(0);
        println!("{layer}: at most {max} of {BUNDLES}: {found:?}");
        for (lost, delivered) in found {
            assert_eq!(lost + delivered, BUNDLES, "{layer}");
        }
        assert_eq!(max == 0, answers, "{layer}: {max}");
    }
}

#[test]
fn a_restarted_relay_forwards_durable_bundles_and_reports_lost_ones() {
    for keeps in [true, false] {
        // The second hop's contact starts after the failure of the relay.
        let mut contacts = Vec::new();
        for (one, other, start) in [("1", "2", 0.0), ("2", "3", 10.0)] {
            contacts.push(contact(one, other, start, 60.0, 100_000_000));
            contacts.push(contact(other, one, start, 60.0, 100_000_000));
        }
        let case = Case {
            hops: vec![hop("1", "2", 100_000_000, 5), hop("2", "3", 100_000_000, 5)],
            contacts,
            ranges: vec![range("1", "2", 5), range("2", "3", 5)],
            routes: BTreeMap::new(),
            perf: vec![perf("1", "3", json!({}))],
            nodes: BTreeMap::from([("2", json!({"outages": [stop(5.0, 7.0, keeps)]}))]),
            seconds: 60.0,
            link: json!({"shared": true, "opens_with_contact": true, "closes_after_contact": false,
                "cla": {"kind": "quiccl"}}),
            ..Case::default()
        };
        let run = case.run();
        conserved(&run);
        let delivered = times(&run, "delivered", "3").len();
        assert_eq!((delivered, stopped(&run, "2")), if keeps { (10, 0) } else { (0, 10) });
        // No node can report the deletion.
        assert!(rows(&run, "bundle_status_reports").is_empty());
    }
}

#[test]
fn bundles_are_conserved_over_node_failures() {
    let mut chance = units::RandomStream::named(1, "bundles", "stops");
    let layers = [
        json!({"kind": "qubicle"}),
        json!({"kind": "quiccl"}),
        json!({"kind": "quiccl", "streams": "each"}),
        json!({"kind": "tcpcl"}),
    ];
    for case in 0..10_u64 {
        let mut nodes = BTreeMap::new();
        for name in ["1", "2", "3"] {
            let (mut at, mut stops) = (0.0, Vec::new());
            while stops.len() < 3 {
                let (from, long) = (at + 0.3 + 5.0 * chance.uniform(), 0.01 + chance.uniform());
                stops.push(stop(from, from + long, chance.uniform() < 0.5));
                at = from + long;
            }
            let store_ns = (chance.uniform() * 1e8) as u64;
            nodes.insert(name, json!({"outages": stops, "store_delay_ns": store_ns}));
        }
        let mut first = hop("1", "2", 10_000_000, 20);
        let from = 8.0 * chance.uniform();
        first.dark = vec![(from, from + 2.0)];
        let client = perf(
            "1",
            "3",
            json!({"amount": {"kind": "time", "duration_ns": 20_000_000_000u64},
            "payload_bytes": 100_000, "pace": {"kind": "rate", "bit_s": 2_000_000}}),
        );
        let mut contacts = Vec::new();
        for (one, other) in [("1", "2"), ("2", "1"), ("2", "3"), ("3", "2")] {
            contacts.push(contact(one, other, 0.0, 9.0, 10_000_000));
            contacts.push(contact(one, other, 11.0, 60.0, 10_000_000));
        }
        // The last two cases use no connections.
        let layer = match case {
            0..8 => layers[case as usize % 4].clone(),
            _ => json!({"kind": "ltp"}),
        };
        let on_return = match case % 4 {
            _ if case >= 8 => "keep",
            0 => ["keep", "reopen", "link_up"][case as usize % 3],
            3 => "reopen",
            _ => ["resume", "keep", "link_up", "reopen"][(case as usize + case as usize / 4) % 4],
        };
        let case = Case {
            hops: vec![first, hop("2", "3", 10_000_000, 20)],
            contacts,
            ranges: vec![range("1", "2", 20), range("2", "3", 20)],
            routes: BTreeMap::new(),
            perf: vec![client],
            nodes,
            seconds: 90.0,
            seed: case,
            link: json!({"shared": case % 2 == 0, "opens_with_contact": case % 3 > 0, "closes_after_contact": case % 5 == 0,
                "on_contact_start": on_return, "cla": layer}),
            quic: json!({"idle_timeout_ns": 5_000_000_000u64}),
            ..Case::default()
        };
        let run = case.run();
        conserved(&run);
        assert!(!times(&run, "delivered", "3").is_empty());
        if case.seed < 2 || case.seed == 8 {
            let again = format!("{:?}", case.run().tables);
            assert!(again == format!("{:?}", run.tables), "same seed, same bytes");
        }
    }
}
