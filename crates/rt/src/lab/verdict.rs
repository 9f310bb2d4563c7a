//! Whether the machine kept up with the path: if not, what a session measured is the machine's.

use emu::Lab;
use path::Histogram;
use units::Span;

use super::outcome::{Routes, Segment};

/// Lateness that no program behind a network notices: a tenth of the least round trip of any access here, and
/// what an idle machine stays well below.
pub const TOLERATED: Span = Span(1_000_000);

/// On a long path this share of the round-trip propagation is as little.
const SHARE: f64 = 0.01;

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
                let bound = bound.millis();
                reasons.push(format!("{place}: {what}; {bound:.1} ms are tolerated"));
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

/// What is wrong with the packets of one direction: more than 1 % of them, and more than one, were later than `bound`;
/// or all of them were on average. One packet alone is no share: of 30 it would be 3 %, so that a machine that is late
/// for one in 200 would spoil one direction in seven.
fn too_late(lateness: &Histogram, bound: Span) -> Option<String> {
    let late = lateness.count() - lateness.at_most(bound);
    let percentile = lateness.quantile(0.99)?;
    if late > 1 && percentile > bound {
        return Some(format!(
            "1 % of the packets left more than {:.1} ms late",
            percentile.millis()
        ));
    }
    let mean = lateness.mean().filter(|mean| *mean > bound)?;
    Some(format!("packets left {:.1} ms late on average", mean.millis()))
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
    fn more_than_one_in_a_hundred_are_late() {
        assert_eq!(wrong(990, &[20; 10]), None);
        let said = "1 % of the packets left more than 20.1 ms late".to_owned();
        assert_eq!(wrong(989, &[20; 11]), Some(said));
        assert_eq!(wrong(0, &[]), None);
    }

    #[test]
    fn one_packet_is_no_share_of_few() {
        assert_eq!(wrong(29, &[20]), None);
        assert!(wrong(28, &[2, 2]).is_some());
    }

    #[test]
    fn a_few_that_are_very_late_are_too_late_on_average() {
        let said = "packets left 1.4 ms late on average".to_owned();
        assert_eq!(wrong(29, &[40]), Some(said), "40 ms of 30");
        assert_eq!(wrong(9_999, &[9_000]), None);
        assert!(wrong(9_950, &[500; 50]).is_some(), "one in 200, by half a second");
    }
}
