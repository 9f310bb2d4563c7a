//! Bundles over one hop with each CLA: startup, window, early data and timers.

use serde_json::json;

use super::{Case, conserved, contact, hop, in_order, perf, range, rows, times};

#[test]
fn bundle_n_arrives_after_startup_n_transmissions_and_the_owlt() {
    let (rate, owlt) = (100e6, 0.05);
    let run = Case { link: in_order(), ..Case::default() }.run();
    conserved(&run);
    let delivered = times(&run, "delivered", "2");
    assert_eq!(delivered.iter().map(|one| one.0).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    // 1,252 B of payload carry at least 1,214 B of a stream; IP and UDP headers make it 1,280 B.
    let wire = 1e6 * 8.0 / rate;
    for pair in delivered.windows(2) {
        let took = pair[1].1 - pair[0].1;
        assert!(took > wire * 1280.0 / 1252.0 && took < wire * 1280.0 / 1212.0, "{took}");
    }
    // One round trip of handshake and one of SESS_INIT precede the first bundle.
    let first = delivered[0].1 - (4.0 * owlt + wire + owlt);
    assert!(first > 0.0 && first < 0.01, "{first}");
    let acknowledged = times(&run, "acknowledged", "1");
    for ((_, there), (_, back)) in delivered.iter().zip(&acknowledged) {
        assert!(back - there > owlt && back - there < owlt + 2.0 * owlt + 0.02, "a handshake back");
    }
    assert_eq!(
        rows(&run, "bundle_routes").iter().filter(|row| row["decision"] == "static").count(),
        20
    );
}

#[test]
fn every_cla_carries_bundles_and_acknowledgements() {
    for (layer, shared) in [
        (json!({"kind": "qubicle"}), false),
        (json!({"kind": "qubicle"}), true),
        (json!({"kind": "quiccl", "streams": "each"}), true),
        (json!({"kind": "quiccl", "streams": "priorities"}), false),
        (json!({"kind": "tcpcl"}), true),
        (json!({"kind": "tcpcl"}), false),
        (json!({"kind": "mtcp"}), false),
    ] {
        let link = json!({"shared": shared, "opens_with_contact": true, "closes_after_contact": false, "cla": layer});
        let run = Case { link, ..Case::default() }.run();
        conserved(&run);
        assert_eq!(times(&run, "acknowledged", "1").len(), 10, "{layer}");
        let sent = rows(&run, "bundles").iter().filter(|row| row["event"] == "sent").count();
        assert_eq!(sent, 20, "{layer}: each once");
    }
}

#[test]
fn goodput_with_a_window_is_the_window_per_round_trip() {
    // After startup only the window of 8 bundles limits goodput, 1 MB each, round trip 2 s: 8 S / (RTT + S / R).
    let perf = perf(
        "1",
        "2",
        json!({"amount": {"kind": "time", "duration_ns": 60_000_000_000u64},
        "pace": {"kind": "window", "bundles": 8}}),
    );
    let hops = vec![hop("1", "2", 100_000_000, 1000)];
    let run =
        Case { hops, link: in_order(), perf: vec![perf], seconds: 60.0, ..Case::default() }.run();
    conserved(&run);
    let acknowledged = times(&run, "acknowledged", "1");
    let late: Vec<f64> = acknowledged.iter().map(|one| one.1).filter(|at| *at > 20.0).collect();
    let goodput = (late.len() - 1) as f64 * 8e6 / (late.last().unwrap() - late[0]);
    let expected = 8.0 * 8e6 / (2.0 + 0.08);
    assert!((goodput / expected - 1.0).abs() < 0.06, "{goodput} {expected}");
}

#[test]
fn early_data_is_refused_for_a_cla_that_forbids_it() {
    let quic = json!({"handshake": "0-rtt"});
    let case = Case { quic: quic.clone(), ..Case::default() };
    let refused = sim::run(&case.spec(), &mut |_, _| None).map(|_| ()).unwrap_err();
    assert!(refused.contains("1to2") && refused.contains("early data"), "{refused}");
    // QUICCL permits early data; a first connection has no session to resume.
    let run = Case { link: in_order(), quic, ..Case::default() }.run();
    assert_eq!(times(&run, "delivered", "2").len(), 10);
}

#[test]
fn timers_adapt_to_the_planned_light_time() {
    let packets = |layer: &str, by_plan: bool| {
        let link = json!({"shared": true, "opens_with_contact": false, "closes_after_contact": false, "adapts_to_plan": by_plan,
            "cla": {"kind": layer}});
        let case = Case {
            hops: vec![hop("1", "2", 1_000_000, 60_000)],
            contacts: vec![
                contact("1", "2", 0.0, 2000.0, 1_000_000),
                contact("2", "1", 0.0, 2000.0, 1_000_000),
            ],
            ranges: vec![range("1", "2", 60_000)],
            perf: vec![perf(
                "1",
                "2",
                json!({"amount": {"kind": "data", "bytes": 5000},
                "payload_bytes": 5000, "lifetime_ns": 3_600_000_000_000u64}),
            )],
            link,
            seconds: 2000.0,
            ..Case::default()
        };
        let run = case.run();
        let acknowledged = times(&run, "acknowledged", "1").len();
        (run.packets, acknowledged)
    };
    for layer in ["qubicle", "quiccl", "tcpcl"] {
        let ((known, acknowledged), (unknown, _)) = (packets(layer, true), packets(layer, false));
        println!("{layer}: {known} and {unknown} packets");
        assert_eq!(acknowledged, 1, "{layer}");
        assert!(known < 60 && known < unknown, "{layer}: {known} {unknown}");
    }
}
