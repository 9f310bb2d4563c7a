//! One bulk run, for profilers: `speed RATE_MBIT RTT_MS CONTROLLER LOSS SECONDS [CRYPTO|tcp]`.
//! Prints packets (both directions), goodput, events of the loop and packets a CPU second.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Case, cpu_seconds, goodput_up, time_up};
use serde_json::json;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: f64| {
        args.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let seconds = number(4, 300.0);
    let transport = args.get(5).map_or("modelled", String::as_str);
    let case = Case {
        rate_up: (number(0, 10.0) * 1e6) as u64,
        rate_down: (number(0, 10.0) * 1e6) as u64,
        rtt_ms: number(1, 500.0),
        loss: number(3, 1e-4),
        congestion: json!({"name": args.get(2).map_or("cubic", String::as_str)}),
        load: time_up(seconds),
        duration_s: seconds,
        quic: json!({"crypto": transport}),
        tcp: (transport == "tcp").then(|| json!({})),
        ..Case::default()
    };
    let before = cpu_seconds();
    let run = case.run();
    let took = cpu_seconds() - before;
    println!(
        "packets {} events {} goodput_mbit_s {:.3} packets_per_cpu_s {:.0}",
        run.packets,
        run.events,
        goodput_up(&run, seconds) / 1e6,
        run.packets as f64 / took
    );
}
