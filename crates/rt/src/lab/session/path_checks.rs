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

/// Formats the measured values with the bounds of the path. Random rates and delays of a path are between bounds, so
/// that a measured value below the largest rate is no error.
pub(super) fn format_check(check: &PathCheck, bounds: &PathBounds) -> String {
    // A shorter wait has no effect on programs behind a network (`MAX_LATENESS` of overrun_check.rs).
    let wait_note = match check.waited_ns as f64 / 1e6 {
        ms if ms > 1.0 => format!("; the host delayed the measuring process by {ms:.1} ms"),
        _ => String::new(),
    };
    format!(
        "measured RTT {} ms ({}), up {}, down {}{wait_note}",
        format_significant(check.rtt_ns as f64 / 1e6),
        format_rtt_bounds(bounds),
        format_rate(check.up_bit_s, bounds.rates[0]),
        format_rate(check.down_bit_s, bounds.rates[1]),
    )
}

fn format_rtt_bounds(bounds: &PathBounds) -> String {
    let min = format_significant(bounds.propagation.millis());
    match bounds.max_propagation {
        Some(max) if max > bounds.propagation => {
            format!("{min} to {}", format_significant(max.millis()))
        }
        _ => format!("at least {min}"),
    }
}

fn format_rate(measured: Option<u64>, bound: Option<u64>) -> String {
    let format_mbit_s = |rate: u64| format_significant(rate as f64 / 1e6);
    match (measured, bound) {
        (Some(rate), Some(bound)) => {
            format!("{} of at most {} Mbit/s", format_mbit_s(rate), format_mbit_s(bound))
        }
        (Some(rate), None) => format!("{} Mbit/s", format_mbit_s(rate)),
        (None, _) => "unlimited".to_owned(),
    }
}

/// Formats a value with three significant digits; the integer part keeps all its digits.
fn format_significant(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_has_the_bounds_of_the_path() {
        let bounds = PathBounds {
            hosts: [0, 1],
            valid_from: Time::ZERO,
            rates: [Some(10_900_000), Some(71_000_000)],
            propagation: Span(16_000_000),
            max_propagation: Some(Span(156_000_000)),
        };
        let check = PathCheck {
            rtt_ns: 63_312_345,
            up_bit_s: Some(7_342_200),
            down_bit_s: Some(51_602_000),
            waited_ns: 0,
            late_ns: None,
        };
        assert_eq!(
            format_check(&check, &bounds),
            "measured RTT 63.3 ms (16 to 156), up 7.34 of at most 10.9 Mbit/s, down 51.6 of at most 71 Mbit/s"
        );
        let bounds = PathBounds {
            rates: [None, Some(25_000_000)],
            propagation: Span(750_000_000),
            max_propagation: Some(Span(750_000_000)),
            ..bounds
        };
        let check = PathCheck {
            rtt_ns: 750_312_345,
            up_bit_s: None,
            down_bit_s: Some(25_003_000),
            waited_ns: 2_500_000,
            late_ns: None,
        };
        assert_eq!(
            format_check(&check, &bounds),
            "measured RTT 750 ms (at least 750), up unlimited, down 25 of at most 25 Mbit/s; \
             the host delayed the measuring process by 2.5 ms"
        );
        let unknown = PathBounds { max_propagation: None, ..bounds };
        assert!(format_check(&check, &unknown).contains("(at least 750)"));
        assert_eq!([0.125, 4.9997, 1234.5].map(format_significant), ["0.12", "5", "1234"]);
    }
}
