//! Bundle nodes in virtual time: closed forms, conservation, contact plans.

mod contact_plans;
mod convergence_layers;
mod deletions;

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
        let outage = json!({"kind": "outage", "windows": windows, "repeat_ns": null, "buffer_packets": false});
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
            link: json!({"shared": false, "opens_with_contact": true, "closes_after_contact": false}),
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
        "crc": "none", "do_not_fragment": false
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        perf[key] = value.clone();
    }
    perf
}

pub fn contact(from: &str, to: &str, start_s: f64, stop_s: f64, rate_bit_s: u64) -> Value {
    json!({"from": from, "to": to, "start_ns": (start_s * 1e9) as u64,
        "stop_ns": (stop_s * 1e9) as u64, "rate_bit_s": rate_bit_s,
        "declared_at": format!("{from}-{to}@{start_s}")})
}

pub fn range(from: &str, to: &str, owlt_ms: u64) -> Value {
    json!({"from": from, "to": to, "start_ns": 0, "stop_ns": 1_000_000_000_000_000u64,
        "owlt_ns": owlt_ms * 1_000_000, "implies_reverse": true, "declared_at": "range"})
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
        let kind = self.link["cla"]["kind"].as_str().unwrap_or("qubicle");
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
                if link.get("cla").is_none() {
                    link["cla"] = json!({"kind": "qubicle"});
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
                "sample_interval_ns": 1_000_000_000u64,
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
            "generated" | "received" | "fragment_created" | "reassembled" => *one += 1,
            "forwarded" | "deleted" | "fragmented" | "fragment_merged" => *one -= 1,
            "delivered" => {
                *one -= 1;
                assert!(delivered.insert(id(&row)), "delivered twice: {row:?}");
            }
            _ => {}
        }
    }
    for row in rows(run, "bundle_store") {
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
    json!({"shared": false, "opens_with_contact": true, "closes_after_contact": false,
        "cla": {"kind": "quiccl"}})
}
