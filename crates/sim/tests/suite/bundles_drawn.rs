//! Conservation of bundles under random plans, outages, losses, CLAs, stores, lifetimes, fragments, failures and
//! flooding. A failure prints the replay command. `bentpipe verify` checks the same
//! (tests/python/test_trace_check_bundles.py).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use sim::Measurements;

use crate::bundle_nodes::{Case, Hop, Id, contact, hop, id, perf, rows};
use crate::drawn::{run_twice, tries};

const SECONDS: f64 = 6.0;

/// Returns consecutive intervals from random gaps and lengths, in s.
fn spells(longest: f64, max: usize) -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((0.01..3.0f64, 0.01..longest), 0..=max).prop_map(|drawn| {
        let mut at = 0.0;
        let ends = drawn.into_iter().map(|(gap, long)| {
            let from = at + gap;
            at = from + long;
            (from, at)
        });
        ends.collect()
    })
}

/// Returns at most two changes of the light time: time in s, new value in ms.
fn light() -> impl Strategy<Value = Vec<(f64, u64)>> {
    prop::collection::vec((0.01..3.0f64, 1u64..300), 0..=2).prop_map(|drawn| {
        let mut at = 0.0;
        let next = drawn.into_iter().map(|(gap, owlt)| {
            at += gap;
            (at, owlt)
        });
        next.collect()
    })
}

fn hops() -> impl Strategy<Value = Vec<Hop>> {
    let shape = prop::sample::select(vec![
        vec![("1", "2")],
        vec![("1", "3"), ("3", "2")],
        vec![("1", "2"), ("1", "3"), ("3", "2")],
    ]);
    shape.prop_flat_map(|pairs| {
        let each = pairs.into_iter().map(|(from, to)| {
            let loss = prop_oneof![Just(0.0), 0.0..0.05f64];
            let drawn = (300_000u64..6_000_000, 1u64..300, loss, spells(3.0, 2), any::<bool>());
            (drawn, light()).prop_map(move |((rate, owlt, loss, dark, behind), light)| {
                let mut hop = hop(from, to, rate, owlt);
                (hop.loss, hop.dark, hop.behind, hop.light) = (loss, dark, behind, light);
                hop
            })
        });
        each.collect::<Vec<_>>()
    })
}

fn links() -> impl Strategy<Value = Value> {
    let layer = prop::sample::select(vec![
        json!({"kind": "qubicle"}),
        json!({"kind": "quiccl"}),
        json!({"kind": "quiccl", "streams": "each"}),
        json!({"kind": "quiccl", "streams": "priorities"}),
        json!({"kind": "tcpcl"}),
        json!({"kind": "tcpcl", "transfer_bytes": 100_000}),
        json!({"kind": "mtcp"}),
        json!({"kind": "ltp", "rate_bit_s": 1_000_000}),
        json!({"kind": "ltp", "rate_bit_s": 1_000_000, "colour": "green"}),
        // Limits that are reached, and timers that expire before responses can arrive.
        json!({"kind": "ltp", "rate_bit_s": 1_000_000, "max_incoming_sessions": 2, "incoming_bytes": 150_000,
            "margin_ns": 1_000_000, "max_retransmissions": 2, "max_retransmission_cycles": 3}),
    ]);
    (layer, any::<[bool; 3]>()).prop_map(|(layer, [shared, with_contact, closes])| {
        // MTCP is unidirectional.
        let shared = shared && layer["kind"] != json!("mtcp");
        json!({"cla": layer, "shared": shared, "opens_with_contact": with_contact, "closes_after_contact": closes})
    })
}

fn clients() -> impl Strategy<Value = Value> {
    let pace = prop_oneof![
        (1u32..20).prop_map(|bundles| json!({"kind": "window", "bundles": bundles})),
        (50_000u64..4_000_000).prop_map(|rate| json!({"kind": "rate", "bit_s": rate})),
    ];
    let amount = prop_oneof![
        (1u64..6_000).prop_map(|ms| json!({"kind": "time", "duration_ns": ms * 1_000_000})),
        (16u64..3_000_000).prop_map(|bytes| json!({"kind": "data", "bytes": bytes})),
    ];
    let size = prop_oneof![2_000u64..60_000, 60_000u64..1_000_000];
    let crc = prop::sample::select(vec!["none", "crc16", "crc32c"]);
    let priority = prop::sample::select(vec!["bulk", "normal", "expedited"]);
    let hops = prop::option::of(1u8..5);
    let flags = any::<[bool; 3]>();
    (pace, amount, size, 200u64..8_000, crc, priority, hops, flags).prop_map(
        |(pace, amount, size, lifetime, crc, priority, hop_limit, [whole, reports, critical])| {
            // One bundle in four is critical.
            let critical = critical && whole;
            json!({"pace": pace, "amount": amount, "payload_bytes": size, "crc": crc, "do_not_fragment": whole,
                "lifetime_ns": lifetime * 1_000_000, "priority": priority, "critical": critical,
                "hop_limit": hop_limit, "reports": {"received": reports, "forwarded": reports,
                "delivered": reports, "deleted": reports}})
        },
    )
}

/// Returns node failures with their durations.
fn stops() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let node = prop::sample::select(vec!["1", "2"]);
    let one = (node, 100u64..5_000, prop::option::of(1u64..2_000), any::<bool>(), 0u64..50)
        .prop_map(|(node, at, length, keeps, store)| {
            let until = length.map(|length| (at + length) * 1_000_000);
            let stop = json!({"at_ns": at * 1_000_000, "until_ns": until, "keeps_store": keeps});
            (node, json!({"store_delay_ns": store * 1_000_000, "outages": [stop]}))
        });
    prop_oneof![3 => Just(Vec::new()), 1 => one.prop_map(|one| vec![one])]
}

/// The contacts known to the nodes: no contacts, all times without outage, or random ones.
#[derive(Clone, Debug)]
enum Known {
    Nothing,
    Links,
    Drawn(Vec<(f64, f64)>, u64),
}

fn known() -> impl Strategy<Value = Known> {
    prop_oneof![
        Just(Known::Nothing),
        Just(Known::Links),
        (spells(4.0, 4), 200_000u64..8_000_000)
            .prop_map(|(spells, rate)| Known::Drawn(spells, rate)),
    ]
}

fn plan(hops: &[Hop], known: &Known) -> (Vec<Value>, Vec<Value>) {
    let (mut contacts, mut ranges) = (Vec::new(), Vec::new());
    for one in hops {
        let (from, to, rate, _) = one.ends();
        let (spells, rate) = match known {
            Known::Nothing => continue,
            Known::Links => {
                let mut at = 0.0;
                let mut light = Vec::new();
                for (start, stop) in &one.dark {
                    light.push((at, *start));
                    at = *stop;
                }
                light.push((at, 60.0));
                (light, rate)
            }
            Known::Drawn(spells, rate) => (spells.clone(), *rate),
        };
        for (start, stop) in spells {
            contacts.push(contact(from, to, start, stop, rate));
            contacts.push(contact(to, from, start, stop, rate));
        }
        ranges.extend(one.ranges());
    }
    (contacts, ranges)
}

/// Returns static routes, for nodes without contacts.
fn routes(hops: &[Hop]) -> BTreeMap<&'static str, Value> {
    let middle = hops.iter().any(|hop| hop.ends().1 == "3");
    let direct = hops.iter().any(|hop| hop.ends().1 == "2" && hop.ends().0 == "1");
    let via = |to: &'static str| if direct || !middle { to } else { "3" };
    let mut found = BTreeMap::from([
        ("1", json!([{"to": "2", "via": via("2")}])),
        ("2", json!([{"to": "1", "via": via("1")}])),
    ]);
    if middle {
        found.insert("3", json!([{"to": "1", "via": "1"}, {"to": "2", "via": "2"}]));
    }
    found
}

prop_compose! {
    fn cases()(
        hops in hops(),
        known in known(),
        link in links(),
        there in clients(),
        back in prop::option::of(clients()),
        store_bytes in prop::option::of(20_000u64..3_000_000),
        idle in prop::option::of(500u64..20_000),
        stops in stops(),
        learns in prop::option::of((any::<bool>(), 0.1..5.0f64)),
        floods in prop::option::of(prop::option::of(1u32..3)),
        seed in 0u64..1000,
    ) -> Case {
        let (contacts, ranges) = plan(&hops, &known);
        let mut clients = vec![perf("1", "2", there)];
        clients.extend(back.map(|back| perf("2", "1", back)));
        // Removes a contact, or adds one that overlaps no other.
        let learns = learns.filter(|_| !contacts.is_empty()).map(|(forgets, at)| {
            let (add, remove) = if forgets {
                (json!([]), json!([contacts[0]["declared_at"]]))
            } else {
                let (from, to, rate, _) = hops[0].ends();
                (json!([contact(from, to, 70.0, 80.0, rate)]), json!([]))
            };
            json!({"at_ns": (at * 1e9) as u64, "add": add, "remove": remove})
        });
        let quic = idle.map_or(json!({}), |idle| json!({"idle_timeout_ns": idle * 1_000_000}));
        Case {
            routes: if contacts.is_empty() { routes(&hops) } else { BTreeMap::new() },
            hops, contacts, ranges, store_bytes, link, quic, seed,
            perf: clients, changes: learns.into_iter().collect(), seconds: SECONDS,
            nodes: stops.into_iter().collect(),
            dtn: floods.map_or(json!({}), |copies| json!({"epidemic": {"copies": copies}})),
        }
    }
}

/// Checks conservation: at each node every bundle generated, received, created as fragment or reassembled ends once. No
/// destination delivers an id twice. No store exceeds its limit.
pub fn check(case: &Case, run: &Measurements) {
    let critical: BTreeSet<&str> = ["1", "2"]
        .into_iter()
        .filter(|node| {
            case.perf.iter().any(|one| one["client"] == *node && one["critical"] == true)
        })
        .collect();
    let is_critical = |row: &BTreeMap<&str, String>| {
        // Acknowledgements inherit the property from their bundles.
        let of =
            if row["kind"] == "acknowledgement" { &row["destination"] } else { &row["source"] };
        let floods = case.dtn.get("epidemic").is_some();
        floods
            || row["kind"] != "report"
                && critical.iter().any(|node| of.starts_with(&format!("ipn:{node}.")))
    };
    let mut left: BTreeMap<(String, Id), (i64, i64)> = BTreeMap::new();
    let mut delivered = BTreeSet::new();
    for row in rows(run, "bundles") {
        let one = left.entry((row["node"].clone(), id(&row))).or_default();
        match row["event"].as_str() {
            "generated" | "received" | "fragment_created" | "reassembled" => one.0 += 1,
            // A critical or flooded bundle is forwarded to several nodes. It leaves the store after the last.
            "forwarded" if is_critical(&row) => one.1 += 1,
            "forwarded" | "deleted" | "fragmented" | "fragment_merged" => one.0 -= 1,
            "delivered" => {
                one.0 -= 1;
                assert!(delivered.insert(id(&row)), "delivered twice: {row:?}");
            }
            "sent" | "returned" | "acknowledged" => {}
            other => panic!("{other} is not known here"),
        }
        assert!(row["event"] != "deleted" || !row["reason"].is_empty(), "{row:?}");
    }
    let mut stored: BTreeMap<String, f64> = BTreeMap::new();
    for row in rows(run, "bundle_store") {
        left.entry((row["node"].clone(), id(&row))).or_default().0 -= 1;
        *stored.entry(row["node"].clone()).or_default() +=
            row["payload_bytes"].parse::<f64>().unwrap();
    }
    for (what, (left, forwarded)) in left {
        assert!(
            left >= 0 && left <= forwarded,
            "{what:?}: {left} did not end, {forwarded} forwarded"
        );
    }
    for (node, bytes) in stored {
        assert!(case.store_bytes.is_none_or(|max| bytes <= max as f64), "{node}: {bytes}");
    }
}

proptest! {
    // This test takes a few seconds when run alone and unoptimised.
    #![proptest_config(tries(16))]

    #[test]
    fn bundles_are_conserved_and_the_same_seed_gives_the_same_bytes(case in cases()) {
        check(&case, &run_twice(&case.spec()));
    }
}
