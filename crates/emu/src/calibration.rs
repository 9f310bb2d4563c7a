//! Measures the wake-up latency of a thread on this machine, and compensates for it.
//!
//! A sleeping thread runs some time after its packet or its timer: the processor leaves its idle state and the kernel
//! switches. A direction measures this latency before its start. It stamps arrivals earlier by the minimum of the
//! samples. It sleeps in two steps: a long one that ends early, and a short one. The short one ends nearly on time,
//! because the processor is no longer idle. No packet is sent before it is due.

use std::time::Duration;

use units::{Span, Time};

/// Maximum correction. A larger latency means a busy machine, and its lateness must stay visible.
const MAX_CORRECTION: Span = Span(200_000);

/// Longer waits are slept in two steps. This is the maximum sum of both corrections.
const TWO_STEP_THRESHOLD: Span = Span(2 * MAX_CORRECTION.0);

/// The measured wake-up latencies of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// The latency from a packet in the device to the waiting thread.
    pub arrival: Span,
    /// The excess of a sleep of milliseconds.
    pub long_sleep: Span,
    /// The minimum excess of a sleep of about 100 microseconds.
    pub short_sleep: Span,
}

impl Calibration {
    /// Computes the corrections. Arrivals and short sleeps use the minimum, so that no correction exceeds the real
    /// latency. Long sleeps use the 90th percentile, which only makes them end early. Without samples a correction is
    /// 0.
    pub fn from_samples(arrivals: &[Span], long: &[Span], short: &[Span]) -> Calibration {
        let minimum = |samples: &[Span]| samples.iter().copied().min().unwrap_or(Span::ZERO);
        let mut sorted = long.to_vec();
        sorted.sort_unstable();
        let nearly_max =
            sorted.len().checked_sub(1).map_or(Span::ZERO, |last| sorted[last * 9 / 10]);
        let bounded = |span: Span| span.min(MAX_CORRECTION);
        Calibration {
            arrival: bounded(minimum(arrivals)),
            long_sleep: bounded(nearly_max),
            short_sleep: bounded(minimum(short)),
        }
    }

    /// Returns the arrival time of a packet that a thread found at `now`, after a sleep since `asleep_since`.
    pub fn arrival_time(&self, asleep_since: Time, now: Time) -> Time {
        Time(now.0.saturating_sub(self.arrival.nanos())).max(asleep_since).min(now)
    }

    /// Returns the sleep at `now` for a packet due at `due`; a thread that wakes early sleeps again.
    /// `long_sleep_target` is the due time of the last long step. A short step ends early only after a long one, so
    /// that a dense stream of packets costs no extra wake-ups.
    pub fn sleep_duration(&self, now: Time, due: Time, long_sleep_target: &mut Time) -> Duration {
        let remaining = due.since(now).nanos();
        let (long, short) =
            (self.long_sleep.nanos() + self.short_sleep.nanos(), self.short_sleep.nanos());
        Duration::from_nanos(if remaining > TWO_STEP_THRESHOLD.nanos() {
            *long_sleep_target = due;
            remaining - long
        } else if *long_sleep_target == due && remaining > short {
            remaining - short
        } else {
            remaining
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(count: u64) -> Span {
        Span(count * 1_000)
    }

    /// The lateness of a sleep on the modelled machine, from observations of an idle one.
    fn machine(pause: Duration, round: u64) -> Duration {
        let spread = Duration::from_micros(round * 7 % 40);
        if pause > Duration::from_millis(1) {
            Duration::from_micros(50) + spread
        } else {
            Duration::from_micros(14) + spread / 10
        }
    }

    fn samples(pause: Duration) -> Vec<Span> {
        (0..16).map(|round| Span(machine(pause, round).as_nanos() as u64)).collect()
    }

    fn measured() -> Calibration {
        let (long, short) = (Duration::from_millis(5), Duration::from_micros(150));
        Calibration::from_samples(&[us(31), us(24), us(90)], &samples(long), &samples(short))
    }

    /// Sleeps until `due`. Returns the end of the last step and the number of steps.
    fn sleep(calibration: &Calibration, mut now: Time, due: Time, round: u64) -> (Time, u32) {
        let (mut steps, mut aimed) = (0, Time::MAX);
        while now < due {
            let pause = calibration.sleep_duration(now, due, &mut aimed);
            now = Time(now.0 + (pause + machine(pause, round)).as_nanos() as u64);
            steps += 1;
        }
        (now, steps)
    }

    #[test]
    fn sleeps_are_never_early_and_less_late() {
        let (mut plain, mut calibrated) = (0, 0);
        for round in 0..1_000 {
            for left in [3_u64, 12, 15, 100, 190, 210, 400, 401, 5_000, 375_000] {
                let due = Time(1_000_000_000 + left * 1_000);
                let late = |calibration: &Calibration| {
                    let (end, steps) = sleep(calibration, Time(1_000_000_000), due, round);
                    assert!(end >= due && steps <= 3, "{left} us: {steps} steps");
                    end.since(due)
                };
                let (before, after) = (late(&Calibration::default()), late(&measured()));
                assert!(after <= before, "{left} us: {after:?} instead of {before:?}");
                // A dense stream has no correction.
                assert!(left > 400 || after == before, "{left} us");
                if left > 1_000 {
                    plain += before.nanos();
                    calibrated += after.nanos();
                }
            }
        }
        // The corrections remove 14 of 16 microseconds of a short sleep and all of a long one.
        assert!(calibrated * 10 < plain, "{calibrated} of {plain}");
    }

    #[test]
    fn corrections_are_bounded() {
        let slow = [us(3_000), us(20_000)];
        let calibration = Calibration::from_samples(&slow, &slow, &slow);
        assert_eq!(
            (calibration.arrival, calibration.long_sleep, calibration.short_sleep),
            (MAX_CORRECTION, MAX_CORRECTION, MAX_CORRECTION)
        );
        assert_eq!(Calibration::from_samples(&[], &[], &[]), Calibration::default());
    }

    #[test]
    fn an_arrival_is_never_stamped_before_the_sleep() {
        let calibration = measured();
        assert_eq!(calibration.arrival, us(24));
        let now = Time(1_000_000);
        assert_eq!(calibration.arrival_time(Time(0), now), Time(976_000));
        assert_eq!(calibration.arrival_time(Time(990_000), now), Time(990_000));
        // A thread that did not sleep.
        assert_eq!(calibration.arrival_time(now, now), now);
        assert_eq!(calibration.arrival_time(Time(0), Time(5)), Time(0));
    }
}
