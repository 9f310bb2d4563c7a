//! Checks whether the machine was fast enough for the path. If not, the machine determined the results of the session.

use emu::Lab;
use libm::{exp, log};
use link::Histogram;
use units::Span;

use super::result::{EmulatedLinkResult, RouteUpdateResult};

/// Lateness without effect on programs behind a network: a tenth of the minimum round trip of all accesses here. An
/// idle machine stays well below.
pub const MAX_LATENESS: Span = Span(1_000_000);

/// The tolerated lateness of a long path, as a share of its round-trip propagation delay.
const MAX_LATENESS_OF_RTT: f64 = 0.01;

/// The tolerated share of packets with a larger lateness.
const TOLERATED_LATE_SHARE: f64 = 0.01;

/// Probability that a direction passes on a machine with exactly this share of late packets.
const CONFIDENCE: f64 = 0.99;

/// Tolerated lateness of a route change, which takes a message to another process on a machine with moderate load.
const MAX_ROUTE_LATENESS_MS: f64 = 10.0;

/// Returns the reasons why a session is invalid: late packets, packets lost between a device and the emulator, late
/// route changes. With several paths between hosts the shortest one defines the bound.
pub fn overrun_reasons(
    lab: &Lab,
    links: &[EmulatedLinkResult],
    routes: Option<&RouteUpdateResult>,
) -> Vec<String> {
    let shortest =
        lab.path_bounds.iter().map(|bounds| bounds.propagation).min().unwrap_or_default();
    let bound = MAX_LATENESS.max(Span((shortest.nanos() as f64 * MAX_LATENESS_OF_RTT) as u64));
    let mut reasons = Vec::new();
    for link in links {
        for (direction, result) in [("up", &link.up), ("down", &link.down)] {
            let simplex_link = format!("{}.{direction}", link.name);
            if let Some(what) = lateness_reason(&result.lateness, bound) {
                reasons.push(format!("{simplex_link}: {what}"));
            }
            for (count, what) in [
                (result.device_rejected, "were rejected by the device"),
                (result.overrun, "overran"),
            ] {
                if count > 0 {
                    reasons.push(format!("{simplex_link}: {count} packets {what}"));
                }
            }
        }
    }
    if let Some(routes) = routes.filter(|one| one.lateness_max_ms > MAX_ROUTE_LATENESS_MS) {
        let late = routes.lateness_max_ms;
        reasons
            .push(format!("routes changed {late:.1} ms late; {MAX_ROUTE_LATENESS_MS} ms allowed"));
    }
    reasons
}

/// Returns the defect of one direction. Either more packets exceed `bound` than chance allows at a late share of
/// [`TOLERATED_LATE_SHARE`], or the mean lateness exceeds it.
fn lateness_reason(lateness: &Histogram, bound: Span) -> Option<String> {
    let (count, late_count) = (lateness.count(), lateness.count() - lateness.at_most(bound));
    let (max_late, mean) = (max_late_packets(count), lateness.mean()?);
    let bound_ms = bound.millis();
    if late_count > max_late {
        return Some(format!(
            "{late_count} of {count} packets left more than {bound_ms:.1} ms late; {max_late} allowed"
        ));
    }
    (mean > bound).then(|| {
        format!("packets left {:.1} ms late on average; {bound_ms:.1} ms allowed", mean.millis())
    })
}

/// Returns the maximum number of late packets of `count` with the probability [`CONFIDENCE`]. Each packet is late with
/// the probability [`TOLERATED_LATE_SHARE`]. The result is the quantile of the binomial distribution.
fn max_late_packets(count: u64) -> u64 {
    let n = count as f64;
    let odds = log(TOLERATED_LATE_SHARE / (1.0 - TOLERATED_LATE_SHARE));
    let mut term = n * log(1.0 - TOLERATED_LATE_SHARE);
    let mut sum = exp(term);
    let mut late = 0;
    while sum < CONFIDENCE && late < count {
        term += log((n - late as f64) / (late as f64 + 1.0)) + odds;
        sum += exp(term);
        late += 1;
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks `in_time` packets below the bound of 1 ms, and a packet for each lateness of `late` in ms.
    fn wrong(in_time: u64, late: &[u64]) -> Option<String> {
        let mut lateness = Histogram::default();
        (0..in_time).for_each(|_| lateness.record(Span(50_000)));
        late.iter().for_each(|ms| lateness.record(Span(ms * 1_000_000)));
        lateness_reason(&lateness, MAX_LATENESS)
    }

    #[test]
    fn more_late_packets_than_chance_allows_are_reported() {
        assert_eq!(wrong(982, &[20; 18]), None);
        let message = "19 of 1000 packets left more than 1.0 ms late; 18 allowed";
        assert_eq!(wrong(981, &[20; 19]), Some(message.to_owned()));
        assert_eq!(wrong(28, &[5; 2]), None);
        assert!(wrong(27, &[5; 3]).is_some());
        assert_eq!(wrong(0, &[]), None);
    }

    #[test]
    fn a_large_mean_lateness_is_reported() {
        let message = "packets left 1.4 ms late on average; 1.0 ms allowed".to_owned();
        assert_eq!(wrong(29, &[40]), Some(message), "40 ms of 30");
        assert_eq!(wrong(9_999, &[9_000]), None);
        assert!(wrong(9_950, &[500; 50]).is_some(), "one in 200, by half a second");
    }

    /// The quantiles of the binomial distribution, from exact sums of integers (Python). For larger counts the normal
    /// distribution with the Cornish-Fisher term of its skewness, within one.
    #[test]
    fn max_late_packets_is_the_binomial_quantile() {
        for (count, max_late) in
            [(2, 1), (10, 1), (30, 2), (99, 4), (150, 5), (1_000, 18), (10_000, 124)]
        {
            assert_eq!(max_late_packets(count), max_late, "of {count}");
        }
        for count in [100_000, 1_000_000, 10_000_000] {
            let (n, z) = (count as f64, 2.326_f64);
            let normal = 0.01 * n + z * (n * 0.0099).sqrt() + (z * z - 1.0) / 6.0 * 0.98;
            assert!((max_late_packets(count) as f64 - normal).abs() <= 1.0, "of {count}");
        }
    }
}
