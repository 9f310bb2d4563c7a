//! What a session measured, and whether the machine kept up.

use std::collections::BTreeMap;

use emu::{Calibration, Check, Lab, Progress};
use path::Cause;
use serde::Serialize;
use units::Span;

/// Lateness that no program behind a network notices: a tenth of the least round trip of any access here, and
/// what an idle machine stays well below.
const TOLERATED: Span = Span(1_000_000);

/// On a long path this share of the round-trip propagation is as little.
const SHARE: f64 = 0.01;

/// The whole result.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The machine kept up: what was measured is the path's.
    pub valid: bool,
    /// Why not.
    pub reasons: Vec<String>,
    /// Ended from outside before the commands had.
    pub interrupted: bool,
    /// The emulator's threads had the real-time scheduler.
    pub realtime: bool,
    /// Why the series end before the session.
    pub record_error: Option<String>,
    /// Exit status of each process, as a shell gives it.
    pub statuses: BTreeMap<String, u8>,
    /// The machine's monotonic clock when the path's schedule began, ns.
    pub started_ns: u64,
    /// From there to the end of the last near command, s.
    pub wall_s: f64,
    /// Processor time of the emulator, s.
    pub cpu_s: f64,
    /// The path, measured before.
    pub check: Option<Check>,
    /// What the path promises: round-trip propagation and the two rates.
    pub promise: Promise,
    /// Each segment of the path, from the client on.
    pub segments: Vec<Segment>,
}

/// What a path cannot exceed.
#[derive(Debug, Serialize)]
pub struct Promise {
    rtt_ns: u64,
    up_bit_s: Option<u64>,
    down_bit_s: Option<u64>,
}

/// The part of a path between two namespaces.
#[derive(Debug, Serialize)]
pub struct Segment {
    name: String,
    /// The kernel hands over super-frames, which the emulator cuts.
    offload: bool,
    up: Way,
    down: Way,
}

/// One direction.
#[derive(Debug, Serialize)]
struct Way {
    packets_in: u64,
    packets_out: u64,
    bytes_out: u64,
    dropped: BTreeMap<&'static str, u64>,
    /// Packets that the far device did not take, and super-frames that could not be cut.
    refused: u64,
    /// Packets (with offload: super-frames) that the near device did not take, because the emulator did not look in time.
    overrun: u64,
    late_p50_ms: Option<f64>,
    late_p99_ms: Option<f64>,
    late_max_ms: Option<f64>,
    /// Classes of lateness that double: upper end in ms, packets; empty ones are left out.
    late_histogram: Vec<(f64, u64)>,
    cpu_s: f64,
    /// Wake-up times of the thread that were measured and taken off.
    calibration_us: Wakes,
}

/// What waking the thread cost before the session: arrivals are stamped so much earlier, sleeps end so much earlier.
#[derive(Debug, Serialize)]
struct Wakes {
    arrival: f64,
    long_sleep: f64,
    short_sleep: f64,
}

impl Wakes {
    fn new(calibration: &Calibration) -> Wakes {
        let us = |span: Span| span.nanos() as f64 / 1e3;
        Wakes {
            arrival: us(calibration.arrival),
            long_sleep: us(calibration.long),
            short_sleep: us(calibration.short),
        }
    }
}

impl Way {
    fn new(progress: &Progress, overrun: u64, calibration: &Calibration) -> Way {
        let late = |q| progress.lateness.quantile(q).map(|span| span.millis());
        Way {
            packets_in: progress.packets_in,
            packets_out: progress.packets_out,
            bytes_out: progress.bytes_out,
            dropped: Cause::ALL
                .iter()
                .zip(progress.dropped)
                .filter(|(_, count)| *count > 0)
                .map(|(cause, count)| (cause.name(), count))
                .collect(),
            refused: progress.refused,
            overrun,
            late_p50_ms: late(0.5),
            late_p99_ms: late(0.99),
            late_max_ms: late(1.0),
            late_histogram: classes(progress),
            cpu_s: progress.cpu_ns as f64 / 1e9,
            calibration_us: Wakes::new(calibration),
        }
    }
}

/// The histogram in classes from 1 us to half an hour, of which few are not empty.
fn classes(progress: &Progress) -> Vec<(f64, u64)> {
    let mut before = 0;
    let all = (0..=31).map(|power| {
        let end = Span(1_000 << power);
        let below = progress.lateness.at_most(end);
        (end.millis(), below - std::mem::replace(&mut before, below))
    });
    all.filter(|(_, count)| *count > 0).collect()
}

/// The segments as they are reported; `overruns` are those of the two devices of each.
pub fn segments(lab: &Lab, progress: &[[Progress; 2]], overruns: &[[u64; 2]]) -> Vec<Segment> {
    lab.segments
        .iter()
        .zip(progress)
        .zip(overruns)
        .zip(lab.calibrations.iter().zip(&lab.offload))
        .map(|(((name, [up, down]), overrun), (calibration, offload))| Segment {
            name: name.clone(),
            offload: *offload,
            up: Way::new(up, overrun[0], &calibration[0]),
            down: Way::new(down, overrun[1], &calibration[1]),
        })
        .collect()
}

/// What the path promises.
pub fn promise(lab: &Lab) -> Promise {
    Promise { rtt_ns: lab.propagation.nanos(), up_bit_s: lab.rates[0], down_bit_s: lab.rates[1] }
}

/// Why the run does not count: packets later than 1 ms, or 1 % of the round-trip propagation if that is
/// longer, in the 99th percentile; packets lost between a device and the emulator.
pub fn reasons(lab: &Lab, segments: &[Segment]) -> Vec<String> {
    let bound = TOLERATED.millis().max(lab.propagation.millis() * SHARE);
    let mut reasons = Vec::new();
    for segment in segments {
        for (direction, way) in [("up", &segment.up), ("down", &segment.down)] {
            let place = format!("{}.{direction}", segment.name);
            if let Some(late) = way.late_p99_ms.filter(|late| *late > bound) {
                reasons.push(format!(
                    "{place}: 1 % of the packets left more than {late:.1} ms late; \
                     {bound:.1} ms are tolerated"
                ));
            }
            for (count, what) in [(way.refused, "were refused"), (way.overrun, "overran")] {
                if count > 0 {
                    reasons.push(format!("{place}: {count} packets {what}"));
                }
            }
        }
    }
    reasons
}
