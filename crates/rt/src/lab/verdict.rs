//! Whether the machine kept up with the path: if not, what a session measured is the machine's.

use emu::Lab;
use libm::{exp, log};
use path::Histogram;
use units::Span;

use super::outcome::{Routes, Segment};

/// Lateness that no program behind a network notices: a tenth of the least round trip of any access here, and
/// what an idle machine stays well below.
pub const TOLERATED: Span = Span(1_000_000);

/// On a long path this share of the round-trip propagation is as little.
const SHARE: f64 = 0.01;

/// This share of the packets may be later than that.
const SHARE_LATE: f64 = 0.01;

/// How often a direction passes on a machine that is late for just that share.
const CERTAINTY: f64 = 0.99;

/// A change of routes is a word to another process: what that takes a machine that is not too busy.
const ROUTES_LATE_MS: f64 = 10.0;

/// Why a session does not count: its packets were late; some were lost between a device and the emulator; routes
/// changed late. Of several ways between hosts the shortest says what is late.
pub fn reasons(lab: &Lab, segments: &[Segment], routes: Option<&Routes>) -> Vec<String> {
    let shortest = lab.promises.iter().map(|way| way.propagation).min().unwrap_or_default();
    let bound = TOLERATED.max(Span((shortest.nanos() as f64 * SHARE) as u64));
    let mut reasons = Vec::new();
    for segment in segments {
        for (direction, way) in [("up", &segment.up), ("down", &segment.down)] {
            let place = format!("{}.{direction}", segment.name);
            if let Some(what) = too_late(&way.lateness, bound) {
                reasons.push(format!("{place}: {what}"));
            }
            for (count, what) in [(way.refused, "were refused"), (way.overrun, "overran")] {
                if count > 0 {
                    reasons.push(format!("{place}: {count} packets {what}"));
                }
            }
        }
    }
    if let Some(routes) = routes.filter(|one| one.late_max_ms > ROUTES_LATE_MS) {
        let late = routes.late_max_ms;
        reasons
            .push(format!("routes changed {late:.1} ms late; {ROUTES_LATE_MS} ms are tolerated"));
    }
    reasons
}

/// What is wrong with the packets of one direction: more of them are later than `bound` than chance allows a machine
/// that is late for [`SHARE_LATE`], or all of them are on average.
fn too_late(lateness: &Histogram, bound: Span) -> Option<String> {
    let (count, late) = (lateness.count(), lateness.count() - lateness.at_most(bound));
    let (most, mean) = (most_late(count), lateness.mean()?);
    let bound_ms = bound.millis();
    if late > most {
        return Some(format!(
            "{late} of {count} packets left more than {bound_ms:.1} ms late; {most} are tolerated"
        ));
    }
    (mean > bound).then(|| {
        format!(
            "packets left {:.1} ms late on average; {bound_ms:.1} ms are tolerated",
            mean.millis()
        )
    })
}

/// How many of `count` packets are late at the most, so often as [`CERTAINTY`] says, where each is with [`SHARE_LATE`]:
/// the quantile of the binomial law.
fn most_late(count: u64) -> u64 {
    let n = count as f64;
    let odds = log(SHARE_LATE / (1.0 - SHARE_LATE));
    let mut term = n * log(1.0 - SHARE_LATE);
    let mut sum = exp(term);
    let mut late = 0;
    while sum < CERTAINTY && late < count {
        term += log((n - late as f64) / (late as f64 + 1.0)) + odds;
        sum += exp(term);
        late += 1;
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets in time, and some that were late by so many milliseconds, behind a bound of 1 ms.
    fn wrong(in_time: u64, late: &[u64]) -> Option<String> {
        let mut lateness = Histogram::default();
        (0..in_time).for_each(|_| lateness.record(Span(50_000)));
        late.iter().for_each(|ms| lateness.record(Span(ms * 1_000_000)));
        too_late(&lateness, TOLERATED)
    }

    #[test]
    fn more_are_late_than_one_in_a_hundred_allows() {
        assert_eq!(wrong(982, &[20; 18]), None);
        let said = "19 of 1000 packets left more than 1.0 ms late; 18 are tolerated";
        assert_eq!(wrong(981, &[20; 19]), Some(said.to_owned()));
        assert_eq!(wrong(28, &[5; 2]), None);
        assert!(wrong(27, &[5; 3]).is_some());
        assert_eq!(wrong(0, &[]), None);
    }

    #[test]
    fn a_few_that_are_very_late_are_too_late_on_average() {
        let said = "packets left 1.4 ms late on average; 1.0 ms are tolerated".to_owned();
        assert_eq!(wrong(29, &[40]), Some(said), "40 ms of 30");
        assert_eq!(wrong(9_999, &[9_000]), None);
        assert!(wrong(9_950, &[500; 50]).is_some(), "one in 200, by half a second");
    }

    /// The binomial law's quantiles, of its sums in whole numbers (Python's); beyond, by the normal law with the
    /// Cornish-Fisher term of its skewness, within one.
    #[test]
    fn most_late_is_the_binomial_laws_quantile() {
        for (count, most) in
            [(2, 1), (10, 1), (30, 2), (99, 4), (150, 5), (1_000, 18), (10_000, 124)]
        {
            assert_eq!(most_late(count), most, "of {count}");
        }
        for count in [100_000, 1_000_000, 10_000_000] {
            let (n, z) = (count as f64, 2.326_f64);
            let normal = 0.01 * n + z * (n * 0.0099).sqrt() + (z * z - 1.0) / 6.0 * 0.98;
            assert!((most_late(count) as f64 - normal).abs() <= 1.0, "of {count}");
        }
    }
}
