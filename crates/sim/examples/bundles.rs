//! The cost of 1 MB bundles beyond their transport: `bundles [quiccl|tcpcl|mtcp|qubicle] [HOPS] [BUNDLES] [ROUNDS]
//! [nodes|flows]`. Alternates runs of a chain of nodes with runs of plain flows that move the same bytes over the same
//! hops. Prints medians of CPU time per bundle and hop with nodes, without nodes, and the difference. Also prints peak
//! memory and the peak of stored bytes. The last argument selects one kind of run, for a profiler.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../../bundle/tests/memory/counting.rs"]
mod counting;

use common::cpu_seconds;
use counting::{Counting, peak, reset_peak, used};
use mimalloc::MiMalloc;
use serde_json::{Value, json};
use sim::Measurements;
use spec::RunSpec;

/// The engine's allocator with counters.
#[global_allocator]
static ALLOCATOR: Counting<MiMalloc> = Counting(MiMalloc);

const BUNDLE: u64 = 1_000_000;
const RATE: u64 = 100_000_000;

/// Returns a run with bundles from node 1 to the last over `hops`, or with one flow of equal size per hop.
fn spec(layer: &str, hops: usize, bundles: u64, nodes: bool) -> RunSpec {
    let names: Vec<String> = (1..=hops + 1).map(|number| number.to_string()).collect();
    let line = json!([
        {"kind": "transmit", "queue": {"kind": "drop_tail", "limit": {"bytes": 64_000_000}},
         "service": {"kind": "rate", "rate_bit_s": RATE}},
        {"kind": "delay", "delay_ns": 5_000_000}
    ]);
    let congestion = json!({"name": "fixed", "options": {"window_bytes": 250_000}});
    let transport = match layer {
        "tcpcl" | "mtcp" => common::tcp(&json!({})),
        _ => common::quic(&json!({})),
    };
    let load = if nodes { json!({"kind": "bundles"}) } else { common::data(bundles * BUNDLE, 0) };
    let (mut graph, mut flows, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for (index, name) in names.iter().enumerate() {
        graph.push(json!({"name": name, "kind": "host"}));
        let Some(next) = names.get(index + 1) else { break };
        links.push(json!({"name": format!("{name}-{next}"), "client_side": name,
            "server_side": next, "up": line, "down": line}));
        // MTCP is unidirectional: the reverse direction uses another connection.
        let back = nodes && layer == "mtcp";
        for (from, to) in [(name, next), (next, name)].into_iter().take(1 + usize::from(back)) {
            flows.push(json!({"name": format!("{from}to{to}"), "client": from, "server": to,
                "start_ns": 0, "start_jitter_ns": 0, "client_congestion": congestion,
                "server_congestion": congestion, "transport": transport, "load": load}));
        }
    }
    let seconds = (bundles * BUNDLE * 8 / RATE) * 11 / 10 + 10;
    let mut run = json!({"seed": 1, "duration_ns": seconds * 1_000_000_000,
        "sample_interval_ns": 1_000_000_000u64, "graph": {"nodes": graph, "links": links}, "flows": flows});
    if nodes {
        let route = |from: usize, to: usize| {
            let via = if to > from { from + 1 } else { from - 1 };
            json!({"to": names[to], "via": names[via]})
        };
        let nodes: Vec<Value> = (0..names.len())
            .map(|node| {
                let others = (0..names.len()).filter(|other| *other != node);
                json!({"name": names[node], "eid": format!("ipn:{}.0", names[node]),
                    "store_bytes": null,
                    "routes": others.map(|other| route(node, other)).collect::<Vec<_>>()})
            })
            .collect();
        let links: Vec<Value> = flows
            .iter()
            .map(|flow| {
                json!({"flow": flow["name"], "shared": layer != "mtcp", "opens_with_contact": true,
                    "closes_after_contact": false, "cla": {"kind": layer}})
            })
            .collect();
        run["dtn"] = json!({"epoch_ms": 850_000_000_000u64, "nodes": nodes, "links": links,
            "plan": {"contacts": [], "ranges": []}, "changes": [],
            "perf": [{"name": "main", "client": names[0], "server": names[hops], "start_ns": 0,
                "amount": {"kind": "data", "bytes": bundles * BUNDLE},
                "pace": {"kind": "window", "bundles": 32}, "payload_bytes": BUNDLE,
                "lifetime_ns": 3_600_000_000_000u64, "priority": "normal", "crc": "none",
                "do_not_fragment": false}]});
    }
    RunSpec::from_json(&run.to_string()).expect("a valid specification")
}

/// Returns the maximum payload stored at all nodes, and the number of bundles that the last node delivered.
fn stored(run: &Measurements) -> (u64, u64) {
    let table = run.table("bundles");
    let (events, kinds) = (table.names("event"), table.names("kind"));
    let (times, bytes) = (table.numbers("time_s"), table.numbers("payload_bytes"));
    let mut rows: Vec<usize> = (0..events.len()).filter(|row| kinds[*row] == "data").collect();
    rows.sort_by(|one, other| times[*one].total_cmp(&times[*other]));
    let (mut now, mut peak, mut delivered) = (0, 0, 0);
    for row in rows {
        match events[row] {
            "generated" | "received" => now += bytes[row] as u64,
            "forwarded" | "deleted" => now -= bytes[row] as u64,
            "delivered" => {
                now -= bytes[row] as u64;
                delivered += 1;
            }
            _ => {}
        }
        peak = peak.max(now);
    }
    (peak, delivered)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default| {
        args.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(default)
    };
    let layer = args.first().map_or("quiccl", String::as_str);
    let (hops, bundles, rounds) = (number(1, 1) as usize, number(2, 300), number(3, 5));
    let only = args.get(4).map(|only| only == "nodes");
    let mut costs: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    let (mut memory, mut max_stored) = ([0, 0], 0);
    for _ in 0..rounds {
        for nodes in
            [false, true].into_iter().filter(|nodes| only.is_none_or(|only| only == *nodes))
        {
            let spec = spec(layer, hops, bundles, nodes);
            let used = used();
            reset_peak();
            let before = cpu_seconds();
            let run = sim::run(&spec, &mut |_, _| None).expect("the run is valid");
            let took = (cpu_seconds() - before) * 1e3 / (bundles * hops as u64) as f64;
            costs[usize::from(nodes)].push(took);
            memory[usize::from(nodes)] = peak() - used;
            if nodes {
                let (stored_bytes, delivered) = stored(&run);
                assert_eq!(delivered, bundles, "bundles are missing");
                max_stored = stored_bytes;
            }
        }
    }
    let beside = costs[1].iter().zip(&costs[0]).map(|(with, without)| with - without).collect();
    let [without, with] = costs.map(median);
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    println!(
        "layer {layer} hops {hops} bundles {bundles} cpu_ms_with {with:.3} cpu_ms_without {without:.3} \
         cpu_ms_beside {:.3} peak_MB_with {:.1} peak_MB_without {:.1} stored_MB {:.1}",
        median(beside),
        megabytes(memory[1]),
        megabytes(memory[0]),
        max_stored as f64 / 1e6
    );
}
