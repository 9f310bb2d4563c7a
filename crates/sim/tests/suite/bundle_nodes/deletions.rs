//! Deleted bundles: lifetime, storage, hop limit, and the largest bundle of a neighbour.

use std::collections::BTreeMap;

use serde_json::json;
use sim::Measurements;

use super::{Case, conserved, contact, hop, perf, range, rows, times};

#[test]
fn lifetime_storage_and_hop_limit_delete_bundles() {
    let deleted = |run: &Measurements, reason: &str| {
        rows(run, "bundles")
            .iter()
            .filter(|row| row["event"] == "deleted" && row["reason"] == reason)
            .count()
    };
    let contacts = vec![contact("1", "2", 20.0, 60.0, 100_000_000)];
    let base = || Case {
        contacts: contacts.clone(),
        ranges: vec![range("1", "2", 50)],
        routes: BTreeMap::new(),
        ..Case::default()
    };
    let short = perf("1", "2", json!({"lifetime_ns": 5_000_000_000u64}));
    let run = Case { perf: vec![short], ..base() }.run();
    conserved(&run);
    assert_eq!((deleted(&run, "lifetime expired"), times(&run, "delivered", "2").len()), (10, 0));
    let run = Case { store_bytes: Some(4_500_000), ..base() }.run();
    conserved(&run);
    assert_eq!((deleted(&run, "depleted storage"), times(&run, "delivered", "2").len()), (6, 4));
    // Each node has a route to node 3 via the other.
    let mut circle = Case {
        routes: BTreeMap::from([
            ("1", json!([{"to": "3", "via": "2"}])),
            ("2", json!([{"to": "3", "via": "1"}])),
        ]),
        hops: vec![hop("1", "2", 100_000_000, 50), hop("3", "2", 100_000_000, 50)],
        perf: vec![perf("1", "3", json!({"hop_limit": 4}))],
        ..Case::default()
    };
    circle.contacts = vec![];
    let run = circle.run();
    conserved(&run);
    assert!(deleted(&run, "hop limit exceeded") + deleted(&run, "it is known here") >= 10);
    assert!(times(&run, "delivered", "3").is_empty());
}

#[test]
fn a_bundle_too_large_for_the_neighbour_is_sent_once_and_expires() {
    for kind in ["tcpcl", "quiccl"] {
        let layer = json!({"kind": kind, "transfer_bytes": 500_000});
        let link = json!({"shared": true, "opens_with_contact": true, "closes_after_contact": false, "cla": layer});
        let client = perf("1", "2", json!({"lifetime_ns": 20_000_000_000u64}));
        let run = Case { link, perf: vec![client], ..Case::default() }.run();
        conserved(&run);
        let of = |event: &str, reason: &str| {
            let rows = rows(&run, "bundles");
            rows.iter().filter(|row| row["event"] == event && row["reason"] == reason).count()
        };
        assert_eq!(of("returned", "the neighbour takes no bundle so large"), 10, "{kind}");
        assert_eq!(of("deleted", "lifetime expired"), 10, "{kind}");
    }
}
