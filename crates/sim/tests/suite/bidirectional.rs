//! Bulk transfers in both directions at once. The stack sends no pure ACK while data waits for the window. The driver
//! therefore leaves waiting data in the application, so that ACKs remain possible.
//!
//! Two controls for a bidirectional connection: each direction alone, and two connections on the same path, one per
//! direction. The second control shares the queues but never mixes data and ACKs. Its loss against one direction is
//! thus due to the path (ACKs wait behind data) and not to the stack.

use crate::common::{Case, goodput_down, goodput_up, number, streams};
use serde_json::{Value, json};

const CONTROLLERS: [&str; 4] = ["newreno", "cubic", "hybla", "bbr"];

fn bulk(directions: &[&str], seconds: f64) -> Value {
    let list: Vec<Value> = directions
        .iter()
        .enumerate()
        .map(|(index, send)| {
            json!({"stream_id": 4 * index, "after": null, "amount":
                {"mode": "time", "duration_ns": (seconds * 1e9) as u64, "direction": send}})
        })
        .collect();
    streams(json!(list))
}

/// Goodput up and down, and PTOs.
#[derive(Debug)]
struct Total {
    up: f64,
    down: f64,
    ptos: f64,
}

fn one_connection(case: &Case, directions: &[&str]) -> Total {
    let run = Case { load: bulk(directions, case.duration_s), ..case.clone() }.run();
    Total {
        up: goodput_up(&run, case.duration_s),
        down: goodput_down(&run, case.duration_s),
        ptos: run.table("flow_summary").numbers("ptos").iter().sum(),
    }
}

fn two_connections(case: &Case) -> Total {
    let mut spec = Case { load: bulk(&["up"], case.duration_s), ..case.clone() }.spec();
    let mut other = spec.flows[0].clone();
    other.name = "other".into();
    other.load =
        serde_json::from_str(&bulk(&["down"], case.duration_s).to_string()).expect("a valid load");
    spec.flows.push(other);
    let run = sim::run(&spec, &mut |_, _| None).expect("a valid run");
    let bits = |flow, side| {
        let keys = [("flow", flow), ("side", side)];
        number(&run, "flow_summary", &keys, "delivered_in_order_bytes") * 8.0 / case.duration_s
    };
    Total { up: bits("main", "client"), down: bits("other", "server"), ptos: 0.0 }
}

#[test]
fn cubic_and_hybla_reach_nine_tenths_of_one_direction() {
    for congestion in ["cubic", "hybla"] {
        let case = Case { congestion: json!({"name": congestion}), ..Case::default() };
        let up = one_connection(&case, &["up"]);
        let down = one_connection(&case, &["down"]);
        let both = one_connection(&case, &["up", "down"]);
        let shares = (both.up / up.up, both.down / down.down);
        println!("{congestion}: {shares:.3?} of one way, {} PTOs", both.ptos);
        assert!(shares.0 >= 0.9 && shares.1 >= 0.9, "{congestion}: {shares:?}");
    }
}

#[test]
fn one_connection_reaches_the_goodput_of_two() {
    let lossy = Case {
        rate_up: 5_000_000,
        rate_down: 20_000_000,
        loss: 1e-3,
        duration_s: 30.0,
        ..Case::default()
    };
    for case in [Case::default(), lossy] {
        for congestion in CONTROLLERS {
            let case = Case { congestion: json!({"name": congestion}), ..case.clone() };
            let one = one_connection(&case, &["up", "down"]);
            let two = two_connections(&case);
            let share = (one.up + one.down) / (two.up + two.down);
            println!(
                "{congestion}, loss {}: {share:.3} of two connections, {} PTOs",
                case.loss, one.ptos
            );
            assert!(share >= 0.9, "{congestion}: {one:?} {two:?}");
            // Some PTOs remain. While many retransmissions wait for the window (overshoot of Hybla's and BBR's
            // startup), the stack still withholds ACKs, which can end in a probe.
            let max_ptos = if ["newreno", "cubic"].contains(&congestion) { 0.0 } else { 4.0 };
            if case.loss == 0.0 {
                assert!(one.ptos <= max_ptos, "{congestion}: {} PTOs", one.ptos);
            }
        }
    }
}
