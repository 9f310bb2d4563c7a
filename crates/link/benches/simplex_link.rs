//! The cost of a packet in a simplex link of three stages (delay, transmit, loss). The windows are 800 and 8,000 packets,
//! and each departed packet is replaced at once. Prints the median of seven and the spread.

use std::hint::black_box;
use std::time::Instant;

use link::{
    BernoulliLossSpec, DelaySpec, DropTailSpec, LinkOutput, LossModel, LossSpec, QueueLimit,
    QueueSpec, ServiceSpec, SimplexLink, StageSpec, TransmitSpec,
};
use units::{Packet, Time};

const PACKETS: u64 = 2_000_000;
const REPEATS: usize = 7;

fn line_stages(window: u64) -> [StageSpec; 3] {
    // A packet of 1,500 bytes lasts 120 us. Half of the window is in flight while the other half is queued.
    [
        StageSpec::Delay(DelaySpec { delay_ns: window / 2 * 120_000, changes: Vec::new() }),
        StageSpec::Transmit(TransmitSpec {
            queue: QueueSpec::DropTail(DropTailSpec { limit: Some(QueueLimit::Packets(window)) }),
            service: ServiceSpec::Rate { rate_bit_s: 100_000_000, changes: Vec::new() },
        }),
        StageSpec::Loss(LossSpec {
            model: LossModel::Bernoulli(BernoulliLossSpec { probability: 1e-3 }),
            changes: Vec::new(),
        }),
    ]
}

fn line(window: u64) -> SimplexLink {
    SimplexLink::build(&line_stages(window), "bench.up", 1).expect("a good specification")
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn nanos_per_packet(window: u64) -> f64 {
    let mut line = line(window);
    let mut out = LinkOutput::default();
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

/// Returns median, minimum and maximum.
fn spread(mut of: Vec<f64>) -> (f64, f64, f64) {
    of.sort_by(f64::total_cmp);
    (of[of.len() / 2], of[0], of[of.len() - 1])
}

fn main() {
    for window in [800, 8_000] {
        let (median, min, max) = spread((0..REPEATS).map(|_| nanos_per_packet(window)).collect());
        println!(
            "line of 3 stages, window {window:>5}: {median:6.1} ns/packet ({min:.1} to {max:.1})"
        );
    }
}
