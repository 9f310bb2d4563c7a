//! The checks of the paths of a session before its commands.

use std::io;

use emu::{PathBounds, PathCheck, RunningLab};
use units::{Span, Time};

use super::LabSession;
use crate::lab::result::{self, PathCheckResult};

impl LabSession {
    /// Returns the estimated duration of the check as text.
    pub(super) fn estimate_check_time(&self) -> String {
        let initial_bounds =
            self.lab.path_bounds.iter().filter(|bounds| bounds.valid_from == Time::ZERO);
        let ns: u64 = initial_bounds
            .map(|bounds| emu::estimate_check_duration(bounds.rates, bounds.propagation).nanos())
            .sum();
        match ns.div_ceil(1_000_000_000) {
            1 => "1 second or less".to_owned(),
            seconds => format!("about {seconds} seconds"),
        }
    }

    /// Checks the paths between all pairs of hosts that exist at the start.
    pub(super) fn check_paths(&self) -> io::Result<Vec<PathCheckResult>> {
        let initial_bounds =
            self.lab.path_bounds.iter().filter(|bounds| bounds.valid_from == Time::ZERO);
        initial_bounds.map(|promise| self.check_path(promise)).collect()
    }

    fn check_path(&self, bounds: &PathBounds) -> io::Result<PathCheckResult> {
        let hosts = bounds.hosts.map(|node| self.hosts.host_of_node(node));
        let [first, second] = hosts
            .map(|host| (&self.hosts.namespace_of(host).network, self.hosts.addresses[host].v4));
        let check = emu::check_path(first, second, bounds.rates, bounds.propagation)?;
        let stats = self.preliminary.as_ref().map(RunningLab::read_stats).unwrap_or_default();
        let latenesses = stats
            .iter()
            .flatten()
            .filter_map(|stats_of_direction| stats_of_direction.lateness.quantile(1.0))
            .max();
        let [from, to] = hosts.map(|host| self.hosts.name(host).to_owned());
        let check = PathCheck { late_ns: latenesses.map(Span::nanos), ..check };
        Ok(PathCheckResult {
            from,
            to,
            check,
            path_bounds: result::build_path_bounds(bounds),
            emulator_bounds: *bounds,
        })
    }
}

/// Formats the measured values next to the bounds of the path.
pub(super) fn format_check(check: &PathCheck, bounds: &PathBounds) -> String {
    let format_rate = |rate: Option<u64>| {
        rate.map_or("unlimited".to_owned(), |rate| format!("{:.4} Mbit/s", rate as f64 / 1e6))
    };
    // A shorter wait has no effect on programs behind a network (`MAX_LATENESS` of overrun_check.rs).
    let wait_note = match check.waited_ns as f64 / 1e6 {
        ms if ms > 1.0 => format!("; the host delayed the measuring process by {ms:.1} ms"),
        _ => String::new(),
    };
    format!(
        "measured RTT {:.1} ms, up {}, down {}; expected {:.1} ms or more, up {}, down {}{wait_note}",
        check.rtt_ns as f64 / 1e6,
        format_rate(check.up_bit_s),
        format_rate(check.down_bit_s),
        bounds.propagation.millis(),
        format_rate(bounds.rates[0]),
        format_rate(bounds.rates[1]),
    )
}
