//! What a session measured.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::crowd::Had;
use emu::{Calibration, Check, Lab, Progress};
use path::{Cause, Histogram};
use serde::{Deserialize, Serialize};
use units::Span;

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
    /// What each flow of the simulated users has received.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crowd: Vec<Had>,
    /// Exit status of each process, as a shell gives it.
    pub statuses: BTreeMap<String, u8>,
    /// The machine's monotonic clock when the path's schedule began, ns.
    pub started_ns: u64,
    /// From there to the end of the last near command, s.
    pub wall_s: f64,
    /// Processor time of the emulator, s.
    pub cpu_s: f64,
    /// The path from client to server, measured before.
    pub check: Option<Check>,
    /// What the path promises: round-trip propagation and the two rates.
    pub promise: Promise,
    /// Of a graph: the ways between any two hosts, measured before, if there is one from the start on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Checked>,
    /// Of a graph whose routes change: how that went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes: Option<Routes>,
    /// The address of each host, client and server among them.
    pub hosts: BTreeMap<String, Host>,
    /// Each segment of the path, from the client on.
    pub segments: Vec<Segment>,
}

/// One way that was measured, between two hosts.
#[derive(Debug, Serialize)]
pub struct Checked {
    pub from: String,
    pub to: String,
    #[serde(flatten)]
    pub check: Check,
    pub promise: Promise,
    #[serde(skip)]
    pub way: emu::Promise,
}

/// The address of a host.
#[derive(Debug, Serialize)]
pub struct Host {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

/// Changes of routes that were made.
#[derive(Debug, Serialize)]
pub struct Routes {
    changes: usize,
    pub late_max_ms: f64,
}

impl Routes {
    /// Of how late each was; none where none was made.
    pub fn new(late: &[Span]) -> Option<Routes> {
        let most = late.iter().max()?;
        Some(Routes { changes: late.len(), late_max_ms: most.millis() })
    }
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
    pub name: String,
    /// The nodes at its ends, and its device at each: packets upwards go from the first to the second.
    between: [String; 2],
    devices: [String; 2],
    /// The kernel hands over super-frames, which the emulator cuts.
    offload: bool,
    pub up: Way,
    pub down: Way,
}

/// One direction.
#[derive(Debug, Serialize)]
pub struct Way {
    packets_in: u64,
    packets_out: u64,
    bytes_out: u64,
    dropped: BTreeMap<&'static str, u64>,
    /// Packets that the far device did not take, and super-frames that could not be cut.
    pub refused: u64,
    /// Packets (with offload: super-frames) that the near device did not take, because the emulator did not look in time.
    pub overrun: u64,
    #[serde(skip)]
    pub lateness: Histogram,
    late_mean_ms: Option<f64>,
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
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Wakes {
    pub arrival: f64,
    pub long_sleep: f64,
    pub short_sleep: f64,
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

    /// The same, as the emulator has it.
    pub fn calibration(&self) -> Calibration {
        let span = |us: f64| Span((us.clamp(0.0, 200.0) * 1e3) as u64);
        Calibration {
            arrival: span(self.arrival),
            long: span(self.long_sleep),
            short: span(self.short_sleep),
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
            lateness: progress.lateness.clone(),
            late_mean_ms: progress.lateness.mean().map(Span::millis),
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

/// Where a segment lies: the nodes at its ends, its device at each, and the packets that these did not take.
pub struct Ends {
    pub between: [String; 2],
    pub devices: [String; 2],
    pub overruns: [u64; 2],
}

/// The segments as they are reported.
pub fn segments(lab: &Lab, progress: &[[Progress; 2]], ends: Vec<Ends>) -> Vec<Segment> {
    lab.segments
        .iter()
        .zip(progress)
        .zip(ends)
        .zip(lab.calibrations.iter().zip(&lab.offload))
        .map(|(((name, [up, down]), ends), (calibration, offload))| Segment {
            name: name.clone(),
            between: ends.between,
            devices: ends.devices,
            offload: *offload,
            up: Way::new(up, ends.overruns[0], &calibration[0]),
            down: Way::new(down, ends.overruns[1], &calibration[1]),
        })
        .collect()
}

/// What a way promises.
pub fn promise(way: &emu::Promise) -> Promise {
    let [up_bit_s, down_bit_s] = way.rates;
    Promise { rtt_ns: way.propagation.nanos(), up_bit_s, down_bit_s }
}
