//! Epidemic routing: a bundle arrives once, at the time that a search over all contacts finds. Nodes without contacts
//! in the plan carry it too.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use units::RandomStream;

use crate::bundle_nodes::{Case, contact, hop, perf, range, rows, times};
use crate::bundles_drawn::check;

const NAMES: [&str; 5] = ["1", "2", "3", "4", "5"];
const RATE: u64 = 100_000_000;

/// Returns a client that sends one small bundle from node 1 to the last of `nodes`.
fn one(nodes: usize, changes: Value) -> Value {
    let mut client = json!({"amount": {"kind": "data", "bytes": 1000}, "payload_bytes": 1000,
        "pace": {"kind": "rate", "bit_s": RATE}});
    for (key, value) in changes.as_object().into_iter().flatten() {
        client[key] = value.clone();
    }
    perf("1", NAMES[nodes - 1], client)
}

fn link(layer: &Value) -> Value {
    json!({"shared": true, "opens_with_contact": true, "closes_after_contact": false, "cla": layer})
}

fn name(number: usize) -> &'static str {
    NAMES[number]
}

/// A contact as (from, to, start, stop, light time).
type Passage = (usize, usize, f64, f64, f64);

/// Returns earliest arrivals in s by relaxation over all contacts, with a `margin` before each contact's end.
fn earliest(nodes: usize, passages: &[Passage], margin: f64) -> Vec<f64> {
    let mut at = vec![f64::INFINITY; nodes];
    at[0] = 0.0;
    for _ in 0..nodes {
        for (from, to, start, stop, light) in passages {
            let leaves = at[*from].max(*start);
            if leaves + margin < *stop {
                at[*to] = at[*to].min(leaves + light);
            }
        }
    }
    at
}

#[test]
fn a_flooded_bundle_arrives_at_the_earliest_time_of_all_contacts() {
    let mut chance = RandomStream::named(1, "bundles", "epidemic");
    let (mut arrived, mut never, mut relayed) = (0, 0, 0);
    for case in 0..60 {
        let nodes = 3 + case % 3;
        let (mut hops, mut contacts, mut ranges, mut passages) = (vec![], vec![], vec![], vec![]);
        for from in 0..nodes {
            for to in from + 1..nodes {
                if chance.uniform() < 0.35 {
                    continue;
                }
                let owlt_ms = 1 + (2000.0 * chance.uniform()) as u64;
                hops.push(hop(name(from), name(to), RATE, owlt_ms));
                ranges.push(range(name(from), name(to), owlt_ms));
                for (from, to) in [(from, to), (to, from)] {
                    let mut at = 0.0;
                    for _ in 0..2 {
                        let start = at + 12.0 * chance.uniform();
                        at = start + 0.5 + 6.0 * chance.uniform();
                        contacts.push(contact(name(from), name(to), start, at, RATE));
                        passages.push((from, to, start, at, owlt_ms as f64 / 1e3));
                    }
                }
            }
        }
        let always = |one: &Passage| (one.0, one.1, 0.0, f64::INFINITY, 0.0);
        let linked = earliest(nodes, &passages.iter().map(always).collect::<Vec<_>>(), 0.0);
        let sure = earliest(nodes, &passages, 0.02);
        // Every node needs a link. Cases in which a bundle barely fits a contact are ambiguous.
        if linked.iter().any(|at| at.is_infinite()) || sure != earliest(nodes, &passages, 0.0) {
            continue;
        }
        let case = Case {
            hops,
            contacts,
            ranges,
            routes: BTreeMap::new(),
            perf: vec![one(nodes, json!({}))],
            link: link(&json!({"kind": "ltp", "rate_bit_s": RATE, "colour": "green"})),
            dtn: json!({"epidemic": {}}),
            seconds: 60.0,
            ..Case::default()
        };
        let run = case.run();
        check(&case, &run);
        let goal = NAMES[nodes - 1];
        let delivered = times(&run, "delivered", goal);
        let expected = sure[nodes - 1];
        if expected.is_infinite() {
            never += 1;
            assert!(delivered.is_empty(), "{delivered:?}");
            continue;
        }
        let [(_, at)] = delivered[..] else { panic!("{case:?}: {delivered:?}, not {expected}") };
        // A kilobyte with headers takes a tenth of a millisecond per hop.
        assert!(at > expected && at < expected + 0.0005 * nodes as f64, "{at}, not {expected}");
        arrived += 1;
        let bundles = rows(&run, "bundles");
        let last = bundles.iter().find(|row| row["event"] == "received" && row["node"] == goal);
        relayed += usize::from(last.is_some_and(|row| row["peer"] != "1"));
    }
    assert!(arrived > 20 && relayed > 5, "{arrived} arrived, {relayed} by a relay, {never} never");
}

#[test]
fn a_neighbour_outside_the_plan_receives_bundles_when_connected() {
    for layer in [json!({"kind": "quiccl"}), json!({"kind": "tcpcl"}), json!({"kind": "qubicle"})] {
        let (mut near, mut far) = (hop("1", "2", RATE, 5), hop("2", "3", RATE, 5));
        near.dark = vec![(0.0, 5.0), (20.0, 100.0)];
        far.dark = vec![(0.0, 30.0)];
        let case = Case {
            hops: vec![near, far],
            routes: BTreeMap::new(),
            perf: vec![one(3, json!({}))],
            link: link(&layer),
            quic: json!({"idle_timeout_ns": 2_000_000_000u64}),
            dtn: json!({"epidemic": {}}),
            seconds: 100.0,
            ..Case::default()
        };
        let run = case.run();
        check(&case, &run);
        let [(_, relay)] = times(&run, "received", "2")[..] else { panic!("{layer}: no relay") };
        let [(_, at)] = times(&run, "delivered", "3")[..] else { panic!("{layer}: nothing") };
        assert!((5.0..20.0).contains(&relay) && at > 30.0, "{layer}: {relay} {at}");
    }
}

/// Returns node 1 with three relays, each of which reaches node 5.
fn star(dtn: Value, client: Value, direct: bool) -> Case {
    let mut hops = Vec::new();
    for relay in ["2", "3", "4"] {
        hops.extend([hop("1", relay, RATE, 10), hop(relay, "5", RATE, 10)]);
    }
    if direct {
        hops.push(hop("1", "5", RATE, 10));
    }
    Case {
        hops,
        routes: BTreeMap::new(),
        perf: vec![one(5, client)],
        link: link(&json!({"kind": "quiccl"})),
        dtn,
        ..Case::default()
    }
}

#[test]
fn copies_hops_and_duplicates_are_bounded() {
    for direct in [false, true] {
        for copies in 1..4 {
            let case = star(json!({"epidemic": {"copies": copies}}), json!({}), direct);
            let run = case.run();
            check(&case, &run);
            let events = rows(&run, "bundles");
            let sent = events.iter().filter(|row| row["event"] == "sent" && row["node"] == "1");
            assert_eq!(sent.count(), copies + usize::from(direct));
            assert_eq!(times(&run, "delivered", "5").len(), 1);
            assert!(rows(&run, "bundle_store").is_empty(), "all who are there have it");
        }
    }
    let case = star(json!({"epidemic": {}}), json!({"hop_limit": 1}), false);
    let run = case.run();
    check(&case, &run);
    assert!(times(&run, "delivered", "5").is_empty());
    let events = rows(&run, "bundles");
    assert!(events.iter().any(|row| row["node"] == "5" && row["reason"] == "hop limit exceeded"));
    // A relay with copies from two neighbours offers the bundle to no other node.
    let sent = events.iter().filter(|row| row["event"] == "sent").count();
    assert!(sent <= 6, "{sent}");
}
