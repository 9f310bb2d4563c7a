//! One bulk run, for profilers: `speed RATE_MBIT RTT_MS CONTROLLER LOSS SECONDS [CRYPTO]`.
//! Prints packets (both directions), goodput and events of the loop.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Case, goodput_up, time_up};
use serde_json::json;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: f64| {
        args.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let seconds = number(4, 300.0);
    let case = Case {
        rate_up: (number(0, 10.0) * 1e6) as u64,
        rate_down: (number(0, 10.0) * 1e6) as u64,
        rtt_ms: number(1, 500.0),
        loss: number(3, 1e-4),
        congestion: json!({"name": args.get(2).map_or("cubic", String::as_str)}),
        load: time_up(seconds),
        duration_s: seconds,
        quic: json!({"crypto": args.get(5).map_or("modelled", String::as_str)}),
        ..Case::default()
    };
    let run = case.run();
    println!(
        "packets {} events {} goodput_mbit_s {:.3}",
        run.packets,
        run.events,
        goodput_up(&run, seconds) / 1e6
    );
}
