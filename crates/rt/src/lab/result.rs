//! The result of a session.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::simulated_users::UserBytes;
use emu::{Calibration, ForwarderStats, Lab, PathCheck};
use link::{DropReason, Histogram};
use serde::{Deserialize, Serialize};
use units::Span;

/// The complete result.
#[derive(Debug, Serialize)]
pub struct LabResult {
    /// Whether the machine was fast enough, so that the path determined the results.
    pub valid: bool,
    /// The reasons why the session is invalid.
    pub reasons: Vec<String>,
    /// Whether an external request ended the session before its commands.
    pub interrupted: bool,
    /// Whether the threads of the emulator had the real-time scheduler.
    pub realtime: bool,
    /// The error that ended the time series before the session.
    pub record_error: Option<String>,
    /// The bytes that each flow of the simulated users has received.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<UserBytes>,
    /// The exit status of each process, in the convention of shells.
    pub statuses: BTreeMap<String, u8>,
    /// The monotonic clock of the machine at the start of the schedule of the path, in ns.
    pub started_ns: u64,
    /// The time from there to the end of the last near command, in s.
    pub wall_s: f64,
    /// Processor time of the emulator in s.
    pub cpu_s: f64,
    /// The check of the path from client to server before the session.
    pub check: Option<PathCheck>,
    /// The bounds of the path: round-trip propagation delay and both rates.
    pub path_bounds: PathBoundsResult,
    /// For a general topology: the checks of all paths between hosts that exist at the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<PathCheckResult>,
    /// For a topology with route changes: their number and lateness.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes: Option<RouteUpdateResult>,
    /// The address of each host, including client and server.
    pub hosts: BTreeMap<String, HostResult>,
    /// The links of the path, from the client on.
    pub links: Vec<EmulatedLinkResult>,
}

/// The check of a path between two hosts.
#[derive(Debug, Serialize)]
pub struct PathCheckResult {
    pub from: String,
    pub to: String,
    #[serde(flatten)]
    pub check: PathCheck,
    pub path_bounds: PathBoundsResult,
    #[serde(skip)]
    pub emulator_bounds: emu::PathBounds,
}

/// The address of a host.
#[derive(Debug, Serialize)]
pub struct HostResult {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

/// The applied route changes.
#[derive(Debug, Serialize)]
pub struct RouteUpdateResult {
    changes: usize,
    pub lateness_max_ms: f64,
}

impl RouteUpdateResult {
    /// Creates the result from the lateness of each change; `None` without changes.
    pub fn new(late: &[Span]) -> Option<RouteUpdateResult> {
        let max = late.iter().max()?;
        Some(RouteUpdateResult { changes: late.len(), lateness_max_ms: max.millis() })
    }
}

/// The bounds of a path.
#[derive(Debug, Serialize)]
pub struct PathBoundsResult {
    rtt_ns: u64,
    up_bit_s: Option<u64>,
    down_bit_s: Option<u64>,
}

/// The part of a path between two namespaces.
#[derive(Debug, Serialize)]
pub struct EmulatedLinkResult {
    pub name: String,
    /// The end nodes, and the device at each. Packets upwards go from the first to the second.
    nodes: [String; 2],
    devices: [String; 2],
    /// Whether the kernel hands over super-frames, which the emulator splits.
    offload: bool,
    pub up: DirectionResult,
    pub down: DirectionResult,
}

/// One direction of a link.
#[derive(Debug, Serialize)]
pub struct DirectionResult {
    packets_in: u64,
    packets_out: u64,
    bytes_out: u64,
    dropped: BTreeMap<&'static str, u64>,
    /// Packets that the output device rejected, and super-frames that could not be split.
    pub device_rejected: u64,
    /// Packets (with offload: super-frames) that the input device dropped, because the emulator did not read in time.
    pub overrun: u64,
    #[serde(skip)]
    pub lateness: Histogram,
    lateness_mean_ms: Option<f64>,
    lateness_p50_ms: Option<f64>,
    lateness_p99_ms: Option<f64>,
    lateness_max_ms: Option<f64>,
    /// Classes of lateness with doubling width: upper bound in ms, packets. Empty classes are omitted.
    lateness_histogram: Vec<(f64, u64)>,
    cpu_s: f64,
    /// The measured wake-up latencies of the thread, which the emulator compensates.
    calibration_us: CalibrationResult,
}

/// Wake-up latencies measured before the session. Arrival times and sleeps are corrected by them.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationResult {
    pub arrival: f64,
    pub long_sleep: f64,
    pub short_sleep: f64,
}

impl CalibrationResult {
    fn new(calibration: &Calibration) -> CalibrationResult {
        let us = |span: Span| span.nanos() as f64 / 1e3;
        CalibrationResult {
            arrival: us(calibration.arrival),
            long_sleep: us(calibration.long_sleep),
            short_sleep: us(calibration.short_sleep),
        }
    }

    /// Returns the values in the type of the emulator.
    pub fn calibration(&self) -> Calibration {
        let span = |us: f64| Span((us.clamp(0.0, 200.0) * 1e3) as u64);
        Calibration {
            arrival: span(self.arrival),
            long_sleep: span(self.long_sleep),
            short_sleep: span(self.short_sleep),
        }
    }
}

impl DirectionResult {
    fn new(stats: &ForwarderStats, overrun: u64, calibration: &Calibration) -> DirectionResult {
        let quantile_ms = |q| stats.lateness.quantile(q).map(|span| span.millis());
        DirectionResult {
            packets_in: stats.packets_in,
            packets_out: stats.packets_out,
            bytes_out: stats.bytes_out,
            dropped: DropReason::ALL
                .iter()
                .zip(stats.dropped)
                .filter(|(_, count)| *count > 0)
                .map(|(cause, count)| (cause.name(), count))
                .collect(),
            device_rejected: stats.device_rejected,
            overrun,
            lateness: stats.lateness.clone(),
            lateness_mean_ms: stats.lateness.mean().map(Span::millis),
            lateness_p50_ms: quantile_ms(0.5),
            lateness_p99_ms: quantile_ms(0.99),
            lateness_max_ms: quantile_ms(1.0),
            lateness_histogram: lateness_classes(stats),
            cpu_s: stats.cpu_ns as f64 / 1e9,
            calibration_us: CalibrationResult::new(calibration),
        }
    }
}

/// Returns the histogram in classes from 1 us to half an hour, without the empty ones.
fn lateness_classes(stats: &ForwarderStats) -> Vec<(f64, u64)> {
    let mut counted = 0;
    let all = (0..=31).map(|power| {
        let end = Span(1_000 << power);
        let below = stats.lateness.at_most(end);
        (end.millis(), below - std::mem::replace(&mut counted, below))
    });
    all.filter(|(_, count)| *count > 0).collect()
}

/// The end nodes of a link, its device at each, and the packets that these devices dropped.
pub struct LinkEnds {
    pub nodes: [String; 2],
    pub devices: [String; 2],
    pub overruns: [u64; 2],
}

/// Builds the results of all links.
pub fn build_links(
    lab: &Lab,
    stats: &[[ForwarderStats; 2]],
    ends: Vec<LinkEnds>,
) -> Vec<EmulatedLinkResult> {
    lab.link_names
        .iter()
        .zip(stats)
        .zip(ends)
        .zip(lab.calibrations.iter().zip(&lab.has_offload))
        .map(|(((name, [up, down]), ends), (calibration, offload))| EmulatedLinkResult {
            name: name.clone(),
            nodes: ends.nodes,
            devices: ends.devices,
            offload: *offload,
            up: DirectionResult::new(up, ends.overruns[0], &calibration[0]),
            down: DirectionResult::new(down, ends.overruns[1], &calibration[1]),
        })
        .collect()
}

/// Builds the result of the bounds of a path.
pub fn build_path_bounds(bounds: &emu::PathBounds) -> PathBoundsResult {
    let [up_bit_s, down_bit_s] = bounds.rates;
    PathBoundsResult { rtt_ns: bounds.propagation.nanos(), up_bit_s, down_bit_s }
}
