//! Many concurrent connections, for profilers: `concurrent_connections LIVE CONNECTIONS [tcp]`. Prints packets (both directions), the
//! maximum number of open connections, and the CPU time per packet.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[path = "../tests/common/mod.rs"]
mod common;

use common::{cpu_seconds, max_open_connections};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default| {
        args.get(index).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let over_tcp = args.get(2).is_some_and(|word| word == "tcp");
    let spec = common::many_connections(number(0, 10_000), number(1, 20_000), over_tcp);
    let before = cpu_seconds();
    let run = sim::run(&spec, &mut |_, _| None).expect("the run is valid");
    let took = cpu_seconds() - before;
    println!(
        "packets {} most_open {} cpu_us_a_packet {:.2}",
        run.packets,
        max_open_connections(&run),
        took * 1e6 / run.packets as f64
    );
}
