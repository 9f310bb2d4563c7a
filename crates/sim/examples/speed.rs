//! One bulk run, for profilers: `speed RATE_MBIT RTT_MS CONTROLLER LOSS SECONDS|BYTES [CRYPTO|tcp] [MTU]`, with bytes
//! in the form `100MB`. `speed 'JSON'` takes any resolved run, as `replay` does. Prints packets (both directions),
//! events, goodput until completion, packets per CPU second, CPU seconds, and a digest of all measurements. Equal
//! digests of two builds mean equal behaviour.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Case, cpu_seconds, data, digest, goodput_up, number, time_up};
use serde_json::json;
use spec::RunSpec;

fn bulk(args: &[String]) -> RunSpec {
    let number = |index: usize, default: f64| {
        args.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (rate_mbit, rtt_ms) = (number(0, 10.0), number(1, 500.0));
    let bytes = args.get(4).and_then(|text| text.strip_suffix("MB"));
    let (seconds, load) = match bytes.and_then(|text| text.parse::<f64>().ok()) {
        None => (number(4, 300.0), time_up(number(4, 300.0))),
        // The transfer ends before the limit: twice the transmission time and a hundred round trips.
        Some(megabytes) => {
            (megabytes * 16.0 / rate_mbit + rtt_ms / 10.0, data((megabytes * 1e6) as u64, 0))
        }
    };
    let transport = args.get(5).map_or("modelled", String::as_str);
    Case {
        rate_up: (rate_mbit * 1e6) as u64,
        rate_down: (rate_mbit * 1e6) as u64,
        rtt_ms,
        loss: number(3, 1e-4),
        congestion: json!({"name": args.get(2).map_or("cubic", String::as_str)}),
        load,
        duration_s: seconds,
        quic: json!({"crypto": transport, "mtu_bytes": number(6, common::MTU as f64) as u64}),
        tcp: (transport == "tcp").then(|| json!({})),
        ..Case::default()
    }
    .spec()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let spec = match args.first() {
        Some(text) if text.starts_with('{') => RunSpec::from_json(text).expect("a resolved run"),
        _ => bulk(&args),
    };
    let before = cpu_seconds();
    let run = sim::run(&spec, &mut |_, _| None).expect("the run is valid");
    let took = cpu_seconds() - before;
    let until = number(&run, "flow_summary", &[("side", "client")], "fin_s");
    println!(
        "packets {} events {} goodput_mbit_s {:.3} packets_per_cpu_s {:.0} cpu_s {took:.3} digest {}",
        run.packets,
        run.events,
        goodput_up(&run, until.min(spec.duration_ns as f64 / 1e9)) / 1e6,
        run.packets as f64 / took,
        digest(&run)
    );
}
