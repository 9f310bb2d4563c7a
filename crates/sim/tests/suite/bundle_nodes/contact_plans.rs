//! Contact plans: relays, outages, changes, fragments, and conservation under random disruptions.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Case, conserved, contact, hop, perf, range, rows, times};

/// Returns a triangle of nodes 1, 3 and 6. The direct hop has a contact until 4 s and again from 14 s.
fn triangle() -> Case {
    let contacts = vec![
        contact("1", "6", 0.0, 4.0, 10_000_000),
        contact("1", "6", 14.0, 60.0, 10_000_000),
        contact("6", "1", 0.0, 4.0, 10_000_000),
        contact("6", "1", 14.0, 60.0, 10_000_000),
        contact("1", "3", 0.0, 60.0, 10_000_000),
        contact("3", "1", 0.0, 60.0, 10_000_000),
        contact("3", "6", 0.0, 60.0, 10_000_000),
        contact("6", "3", 0.0, 60.0, 10_000_000),
    ];
    let ranges = vec![range("1", "6", 5), range("1", "3", 5), range("3", "6", 5)];
    let mut direct = hop("1", "6", 10_000_000, 5);
    direct.dark = vec![(4.0, 14.0)];
    let perf = perf(
        "1",
        "6",
        json!({"amount": {"kind": "time", "duration_ns": 20_000_000_000u64},
        "payload_bytes": 100_000, "pace": {"kind": "window", "bundles": 32}}),
    );
    Case {
        hops: vec![direct, hop("1", "3", 10_000_000, 5), hop("3", "6", 10_000_000, 5)],
        contacts,
        ranges,
        routes: BTreeMap::new(),
        perf: vec![perf],
        seconds: 30.0,
        ..Case::default()
    }
}

#[test]
fn the_relay_is_used_until_the_direct_contact_starts_again() {
    let run = triangle().run();
    conserved(&run);
    let by = |next: &str| -> Vec<f64> {
        rows(&run, "bundle_routes")
            .iter()
            .filter(|row| {
                row["node"] == "1" && row["source"] == "ipn:1.3000" && row["next"] == next
            })
            .map(|row| row["time_s"].parse().unwrap())
            .collect()
    };
    let (direct, relayed) = (by("6"), by("3"));
    assert!(direct.iter().any(|at| *at < 2.0) && direct.iter().any(|at| *at > 14.0));
    assert!(!direct.iter().any(|at| (4.0..10.0).contains(at)), "nothing waits ten seconds");
    // The queue of the direct hop sometimes makes the relay faster, even during a direct contact.
    assert!(relayed.iter().any(|at| (3.0..4.0).contains(at)));
    let delivered = times(&run, "delivered", "6");
    let meanwhile = delivered.iter().filter(|(_, at)| (5.0..13.0).contains(at)).count();
    assert!(meanwhile as f64 > 8.0 * 10e6 / 0.8e6 * 0.8, "{meanwhile} bundles by the relay");
    assert_eq!(delivered.len(), times(&run, "generated", "1").len());
}

#[test]
fn bundles_wait_for_the_end_of_an_unplanned_outage() {
    let mut case = triangle();
    case.hops.truncate(1);
    // The plan contains the only hop without interruption.
    case.contacts =
        vec![contact("1", "6", 0.0, 60.0, 10_000_000), contact("6", "1", 0.0, 60.0, 10_000_000)];
    let run = case.run();
    conserved(&run);
    let delivered = times(&run, "delivered", "6");
    assert_eq!(delivered.iter().filter(|(_, at)| (4.1..14.0).contains(at)).count(), 0);
    assert!(delivered.iter().any(|(_, at)| *at > 14.0));
    assert_eq!(delivered.len(), times(&run, "generated", "1").len());
    assert!(!rows(&run, "bundles").iter().any(|row| row["event"] == "returned"));
}

#[test]
fn a_plan_change_has_immediate_effect() {
    let mut case = triangle();
    case.contacts.retain(|one| one["from"] != json!("1") || one["to"] != json!("3"));
    case.changes = vec![json!({"at_ns": 6_000_000_000u64,
        "add": [contact("1", "3", 6.0, 60.0, 10_000_000)], "remove": []})];
    let run = case.run();
    conserved(&run);
    let delivered = times(&run, "delivered", "6");
    assert_eq!(delivered.iter().filter(|(_, at)| (4.2..6.0).contains(at)).count(), 0);
    let after = delivered.iter().filter(|(_, at)| (6.5..13.0).contains(at)).count();
    assert!(after > 50, "{after}: connections that are open know of it");
}

#[test]
fn a_bundle_is_fragmented_to_the_contact_volume_and_reassembled() {
    // 0.8 s of 10 Mbit/s carry one MB; the bundle has 3 MB.
    let contacts = vec![
        contact("1", "2", 0.5, 1.3, 10_000_000),
        contact("1", "2", 5.0, 20.0, 10_000_000),
        contact("2", "1", 0.0, 60.0, 10_000_000),
    ];
    let perf = |whole| {
        perf(
            "1",
            "2",
            json!({"amount": {"kind": "data", "bytes": 3_000_000}, "do_not_fragment": whole,
            "payload_bytes": 3_000_000, "reports": {"received": true, "forwarded": true,
            "delivered": true, "deleted": true}}),
        )
    };
    let case = |whole| Case {
        hops: vec![hop("1", "2", 10_000_000, 10)],
        contacts: contacts.clone(),
        ranges: vec![range("1", "2", 10)],
        routes: BTreeMap::new(),
        perf: vec![perf(whole)],
        ..Case::default()
    };
    let run = case(false).run();
    assert_eq!(rows(&run, "bundles").iter().filter(|row| row["event"] == "fragmented").count(), 1);
    let parts = rows(&run, "bundles");
    let parts = parts.iter().filter(|row| row["event"] == "received" && row["node"] == "2");
    let mut parts: Vec<(f64, f64)> = parts
        .map(|row| (row["time_s"].parse().unwrap(), row["payload_bytes"].parse().unwrap()))
        .collect();
    parts.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert_eq!(parts.iter().map(|one| one.1).sum::<f64>(), 3e6);
    assert!(parts[0].0 < 1.5 && parts[0].1 > 8e5 && parts[0].1 < 1e6, "{parts:?}");
    let [(_, at)] = times(&run, "delivered", "2")[..] else { panic!("one bundle is delivered") };
    assert!(at > 6.0 && at < 7.5);
    // The client's node receives reports with times; the whole bundle's report states its delivery.
    let reports = rows(&run, "bundle_status_reports");
    assert!(
        reports
            .iter()
            .any(|row| row["delivered_ms"].parse::<f64>().is_ok_and(|at| at > 850_000_006_000.0))
    );
    let run = case(true).run();
    conserved(&run);
    let [(_, at)] = times(&run, "delivered", "2")[..] else { panic!("one bundle is delivered") };
    assert!(at > 7.4, "it waits for a contact that carries all of it");
}

#[test]
fn bundles_are_conserved_under_random_disruptions() {
    let mut chance = units::RandomStream::named(1, "bundles", "disruptions");
    for case in 0..6 {
        let mut triangle = triangle();
        for hop in &mut triangle.hops {
            let mut at = 0.5;
            hop.dark = Vec::new();
            hop.loss = 0.02 * chance.uniform();
            while at < 20.0 {
                let (from, long) = (at + 4.0 * chance.uniform(), 0.01 + 3.0 * chance.uniform());
                hop.dark.push((from, from + long));
                at = from + long;
            }
        }
        triangle.link["closes_after_contact"] = json!(case % 2 == 0);
        triangle.link["shared"] = json!(case >= 3);
        triangle.link["opens_with_contact"] = json!(case >= 2);
        let layers = [
            json!({"kind": "qubicle"}),
            json!({"kind": "quiccl"}),
            json!({"kind": "quiccl", "streams": "each"}),
        ];
        triangle.link["cla"] = layers[case as usize % 3].clone();
        triangle.store_bytes = (case % 4 == 0).then_some(12_000_000);
        triangle.quic = json!({"idle_timeout_ns": 1_000_000_000u64 * (1 + case % 3)});
        triangle.seed = case;
        triangle.seconds = 25.0;
        triangle.perf[0]["lifetime_ns"] = json!(3_000_000_000u64 + 1_000_000_000 * case);
        triangle.perf[0]["pace"] = json!({"kind": "window", "bundles": 8});
        let run = triangle.run();
        conserved(&run);
        assert!(!times(&run, "delivered", "6").is_empty());
        if case < 3 {
            let again = format!("{:?}", triangle.run().tables);
            assert!(again == format!("{:?}", run.tables), "same seed, same bytes");
        }
    }
}
