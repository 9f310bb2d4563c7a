//! Bundle nodes in virtual time: closed forms, conservation, contact plans.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use sim::{ColumnData, Measurements, Table};
use spec::RunSpec;

use crate::common::{quic, tcp};

/// A hop of a case.
#[derive(Clone, Debug)]
pub struct Hop {
    from: &'static str,
    to: &'static str,
    rate_bit_s: u64,
    owlt_ms: u64,
    /// The outages in seconds, by send time, or by arrival time if `behind`.
    pub dark: Vec<(f64, f64)>,
    pub behind: bool,
    pub loss: f64,
    /// Changes of the light time: from when in seconds, and the new value in milliseconds.
    pub light: Vec<(f64, u64)>,
}

pub fn hop(from: &'static str, to: &'static str, rate_bit_s: u64, owlt_ms: u64) -> Hop {
    let (dark, light) = (Vec::new(), Vec::new());
    Hop { from, to, rate_bit_s, owlt_ms, dark, behind: false, loss: 0.0, light }
}

impl Hop {
    /// Returns both nodes, rate and light time.
    pub fn ends(&self) -> (&'static str, &'static str, u64, u64) {
        (self.from, self.to, self.rate_bit_s, self.owlt_ms)
    }

    /// Returns the ranges of a contact plan for the light times.
    pub fn ranges(&self) -> Vec<Value> {
        let (mut start, mut owlt) = (0.0, self.owlt_ms);
        let mut found = Vec::new();
        for (at, next) in self.light.iter().copied().chain([(1e6, 0)]) {
            let mut one = range(self.from, self.to, owlt);
            (one["start_ns"], one["stop_ns"]) = (nanos(start), nanos(at));
            found.push(one);
            (start, owlt) = (at, next);
        }
        found
    }
}

fn nanos(seconds: f64) -> Value {
    json!((seconds * 1e9) as u64)
}

fn line(hop: &Hop, seconds: f64) -> Value {
    let mut stages = vec![json!({"kind": "transmit",
        "queue": {"kind": "drop_tail", "limit": {"bytes": 64_000_000}},
        "service": {"kind": "rate", "rate_bit_s": hop.rate_bit_s}})];
    if hop.loss > 0.0 {
        let model = json!({"kind": "bernoulli", "probability": hop.loss});
        stages.insert(0, json!({"kind": "loss", "model": model}));
    }
    let changes: Vec<Value> = hop
        .light
        .iter()
        .map(|(at, owlt)| json!({"at_ns": nanos(*at), "delay_ns": owlt * 1_000_000}))
        .collect();
    let delay_ns = hop.owlt_ms * 1_000_000;
    stages.push(json!({"kind": "delay", "delay_ns": delay_ns, "changes": changes}));
    if !hop.dark.is_empty() {
        let windows: Vec<Value> = hop
            .dark
            .iter()
            .map(|(from, to)| json!([(from * 1e9) as u64, (to * 1e9) as u64]))
            .collect();
        let outage =
            json!({"kind": "outage", "windows": windows, "repeat_ns": null, "hold": false});
        stages.insert(if hop.behind { stages.len() } else { stages.len() - 1 }, outage);
    }
    let _ = seconds;
    json!(stages)
}

/// Nodes `1`, `2`, ... over hops, with a contact plan and clients.
#[derive(Clone, Debug)]
pub struct Case {
    pub hops: Vec<Hop>,
    pub contacts: Vec<Value>,
    pub ranges: Vec<Value>,
    pub routes: BTreeMap<&'static str, Value>,
    pub store_bytes: Option<u64>,
    /// Additional keys of each node.
    pub nodes: BTreeMap<&'static str, Value>,
    pub perf: Vec<Value>,
    pub changes: Vec<Value>,
    pub seconds: f64,
    pub seed: u64,
    pub link: Value,
    pub quic: Value,
    /// Additional keys of all nodes.
    pub dtn: Value,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            hops: vec![hop("1", "2", 100_000_000, 50)],
            contacts: Vec::new(),
            ranges: Vec::new(),
            routes: BTreeMap::from([
                ("1", json!([{"to": "2", "via": "2"}])),
                ("2", json!([{"to": "1", "via": "1"}])),
            ]),
            store_bytes: None,
            nodes: BTreeMap::new(),
            perf: vec![perf("1", "2", json!({}))],
            changes: Vec::new(),
            seconds: 30.0,
            seed: 1,
            link: json!({"shared": false, "with_contact": true, "closes": false}),
            quic: json!({}),
            dtn: json!({}),
        }
    }
}

pub fn perf(client: &str, server: &str, changes: Value) -> Value {
    let mut perf = json!({
        "name": "main", "client": client, "server": server, "start_ns": 0,
        "amount": {"kind": "data", "bytes": 10_000_000}, "pace": {"kind": "window", "bundles": 10},
        "payload_bytes": 1_000_000, "lifetime_ns": 600_000_000_000u64, "priority": "normal",
        "crc": "none", "whole": false
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        perf[key] = value.clone();
    }
    perf
}

pub fn contact(from: &str, to: &str, start_s: f64, stop_s: f64, rate_bit_s: u64) -> Value {
    json!({"from": from, "to": to, "start_ns": (start_s * 1e9) as u64,
        "stop_ns": (stop_s * 1e9) as u64, "rate_bit_s": rate_bit_s,
        "at": format!("{from}-{to}@{start_s}")})
}

pub fn range(from: &str, to: &str, owlt_ms: u64) -> Value {
    json!({"from": from, "to": to, "start_ns": 0, "stop_ns": 1_000_000_000_000_000u64,
        "owlt_ns": owlt_ms * 1_000_000, "implies_reverse": true, "at": "range"})
}

impl Case {
    pub fn spec(&self) -> RunSpec {
        let names: BTreeSet<&str> = self.hops.iter().flat_map(|hop| [hop.from, hop.to]).collect();
        let graph: Vec<Value> =
            names.iter().map(|name| json!({"name": name, "kind": "host"})).collect();
        let links: Vec<Value> = self
            .hops
            .iter()
            .map(|hop| {
                json!({"name": format!("{}-{}", hop.from, hop.to), "client_side": hop.from,
                "server_side": hop.to, "up": line(hop, self.seconds), "down": line(hop, self.seconds)})
            })
            .collect();
        let shared = self.link["shared"] == json!(true);
        let mut directions: Vec<(&str, &str)> = Vec::new();
        for hop in &self.hops {
            directions.push((hop.from, hop.to));
            if !shared {
                directions.push((hop.to, hop.from));
            }
        }
        let congestion = json!({"name": "fixed", "options": {"window_bytes": 64_000_000}});
        let kind = self.link["layer"]["kind"].as_str().unwrap_or("qubicle");
        let transport = match kind {
            "tcpcl" | "mtcp" => tcp(&json!({})),
            "ltp" => json!({"kind": "udp", "header_bytes": 28}),
            _ => quic(&self.quic),
        };
        let flows: Vec<Value> = directions
            .iter()
            .map(|(from, to)| {
                json!({"name": format!("{from}to{to}"), "client": from, "server": to,
                    "start_ns": 0, "start_jitter_ns": 0, "client_congestion": congestion,
                    "server_congestion": congestion, "transport": transport,
                    "load": {"kind": "bundles"}})
            })
            .collect();
        let dtn_links: Vec<Value> = directions
            .iter()
            .map(|(from, to)| {
                let mut link = self.link.clone();
                link["flow"] = json!(format!("{from}to{to}"));
                if link.get("layer").is_none() {
                    link["layer"] = json!({"kind": "qubicle"});
                }
                link
            })
            .collect();
        let nodes: Vec<Value> = names
            .iter()
            .map(|name| {
                let mut node = json!({"name": name, "eid": format!("ipn:{name}.0"),
                    "store_bytes": self.store_bytes,
                    "routes": self.routes.get(name).cloned().unwrap_or(json!([]))});
                for (key, value) in
                    self.nodes.get(name).and_then(Value::as_object).into_iter().flatten()
                {
                    node[key] = value.clone();
                }
                node
            })
            .collect();
        let mut dtn = json!({"epoch_ms": 850_000_000_000u64, "nodes": nodes, "links": dtn_links,
            "plan": {"contacts": self.contacts, "ranges": self.ranges},
            "changes": self.changes, "perf": self.perf});
        for (key, value) in self.dtn.as_object().into_iter().flatten() {
            dtn[key] = value.clone();
        }
        RunSpec::from_json(
            &json!({
                "seed": self.seed, "duration_ns": (self.seconds * 1e9) as u64,
                "sample_ns": 1_000_000_000u64,
                "graph": {"nodes": graph, "links": links},
                "flows": flows,
                "dtn": dtn
            })
            .to_string(),
        )
        .expect("a valid specification")
    }

    pub fn run(&self) -> Measurements {
        sim::run(&self.spec(), &mut |_, _| None).expect("a valid run")
    }
}

fn table<'a>(run: &'a Measurements, name: &str) -> Option<&'a Table> {
    run.tables.iter().find(|table| table.name == name)
}

/// Returns the rows as text, by column.
pub fn rows(run: &Measurements, name: &str) -> Vec<BTreeMap<&'static str, String>> {
    let Some(table) = table(run, name) else { return Vec::new() };
    let count = table.columns.first().map_or(0, |column| match &column.data {
        ColumnData::Float(values) => values.len(),
        ColumnData::Int(values) => values.len(),
        ColumnData::Category(_, values) => values.len(),
    });
    let cell = |data: &ColumnData, row: usize| match data {
        ColumnData::Float(values) => values[row].to_string(),
        ColumnData::Int(values) => values[row].to_string(),
        ColumnData::Category(names, values) => names[values[row] as usize].clone(),
    };
    (0..count)
        .map(|row| {
            table.columns.iter().map(|column| (column.name, cell(&column.data, row))).collect()
        })
        .collect()
}

/// Returns sequence number and time of each `event` of data bundles at `node`.
pub fn times(run: &Measurements, event: &str, node: &str) -> Vec<(u64, f64)> {
    rows(run, "bundles")
        .iter()
        .filter(|row| row["event"] == event && row["kind"] == "data" && row["node"] == node)
        .map(|row| (row["sequence"].parse().unwrap(), row["time_s"].parse().unwrap()))
        .collect()
}

pub type Id = [String; 4];

pub fn id(row: &BTreeMap<&'static str, String>) -> Id {
    ["source", "created_ms", "sequence", "offset_bytes"].map(|key| row[key].clone())
}

/// Checks conservation. Each bundle generated or received at a node is stored, delivered, fragmented, deleted or
/// forwarded exactly once. A destination delivers an id once.
pub fn conserved(run: &Measurements) {
    let mut balance: BTreeMap<(String, Id), i64> = BTreeMap::new();
    let mut delivered = BTreeSet::new();
    for row in rows(run, "bundles") {
        let one = balance.entry((row["node"].clone(), id(&row))).or_default();
        match row["event"].as_str() {
            "generated" | "received" | "part" | "reassembled" => *one += 1,
            "forwarded" | "deleted" | "cut" | "joined" => *one -= 1,
            "delivered" => {
                *one -= 1;
                assert!(delivered.insert(id(&row)), "delivered twice: {row:?}");
            }
            _ => {}
        }
    }
    for row in rows(run, "stored") {
        *balance.entry((row["node"].clone(), id(&row))).or_default() -= 1;
    }
    for ((node, id), left) in balance {
        if left != 0 {
            let events = rows(run, "bundles");
            let events = events.iter().filter(|row| row["node"] == node && self::id(row) == id);
            let events: Vec<_> =
                events.map(|row| (&row["event"], &row["time_s"], &row["reason"])).collect();
            panic!("node {node}: {id:?}: {left} too many: {events:?}");
        }
    }
}

/// Returns a link on which bundles follow each other on one stream.
pub fn in_order() -> Value {
    json!({"shared": false, "with_contact": true, "closes": false,
        "layer": {"kind": "quiccl"}})
}

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
    assert_eq!(rows(&run, "routes").iter().filter(|row| row["decision"] == "static").count(), 20);
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
        let link = json!({"shared": shared, "with_contact": true, "closes": false, "layer": layer});
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
        let link = json!({"shared": true, "with_contact": false, "closes": false, "by_plan": by_plan,
            "layer": {"kind": layer}});
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
        rows(&run, "routes")
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
            json!({"amount": {"kind": "data", "bytes": 3_000_000}, "whole": whole,
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
    assert_eq!(rows(&run, "bundles").iter().filter(|row| row["event"] == "cut").count(), 1);
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
    let reports = rows(&run, "reports");
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
        let link = json!({"shared": true, "with_contact": true, "closes": false, "layer": layer});
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
        triangle.link["closes"] = json!(case % 2 == 0);
        triangle.link["shared"] = json!(case >= 3);
        triangle.link["with_contact"] = json!(case >= 2);
        let layers = [
            json!({"kind": "qubicle"}),
            json!({"kind": "quiccl"}),
            json!({"kind": "quiccl", "streams": "each"}),
        ];
        triangle.link["layer"] = layers[case as usize % 3].clone();
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
