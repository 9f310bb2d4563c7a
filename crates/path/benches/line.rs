//! The cost of a packet in a line of three stages (delay, transmit, loss), with windows of 800 and
//! 8,000 packets: each packet that leaves is replaced at once. Prints nanoseconds per packet,
//! median of seven and spread.

use std::hint::black_box;
use std::time::Instant;

use path::{Limit, Line, LossSpec, Output, QueueSpec, ServiceSpec, StageSpec};
use units::{Packet, Time};

const PACKETS: u64 = 2_000_000;
const REPEATS: usize = 7;

fn line(window: u64) -> Line {
    // A packet of 1,500 bytes lasts 120 us, and half of the window
    // is on the way while the other half waits.
    let stages = [
        StageSpec::Delay { delay_ns: window / 2 * 120_000, changes: Vec::new() },
        StageSpec::Transmit {
            queue: QueueSpec::DropTail { limit: Some(Limit::Packets(window)) },
            service: ServiceSpec::Rate { rate_bit_s: 100_000_000, changes: Vec::new() },
        },
        StageSpec::Loss { model: LossSpec::Bernoulli { probability: 1e-3 }, changes: Vec::new() },
    ];
    Line::build(&stages, "bench.up", 1).expect("a good specification")
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn nanos_per_packet(window: u64) -> f64 {
    let mut line = line(window);
    let mut out = Output::default();
    let mut next = Vec::new();
    for _ in 0..window {
        line.push(Time::ZERO, Packet::of_bytes(1500), &mut out);
    }
    let mut done = 0;
    let start = Instant::now();
    while done < PACKETS {
        line.poll(line.poll_at(), &mut out);
        next.append(&mut out.delivered);
        next.extend(out.dropped.drain(..).map(|(due, packet, _)| (due, packet)));
        for (due, packet) in next.drain(..) {
            done += 1;
            line.push(due, black_box(packet), &mut out);
        }
    }
    start.elapsed().as_nanos() as f64 / done as f64
}

fn main() {
    for window in [800, 8_000] {
        let mut costs: Vec<f64> = (0..REPEATS).map(|_| nanos_per_packet(window)).collect();
        costs.sort_by(f64::total_cmp);
        println!(
            "line of 3 stages, window {window:>5}: {:6.1} ns/packet ({:.1} to {:.1})",
            costs[REPEATS / 2],
            costs[0],
            costs[REPEATS - 1]
        );
    }
}
