//! What waking a thread costs on this machine, and how a direction works around it.
//!
//! A sleeping thread runs some time after the packet or the instant that wakes it: the processor has to
//! leave its idle state and the kernel to switch. A direction measures this of itself before it carries
//! anything, stamps arrivals earlier by the least that it saw, and sleeps in two steps: a long one that
//! ends early and a short one, which wakes nearly on time because the processor is no longer idle. Nothing
//! leaves before it is due.

use std::time::Duration;

use units::{Span, Time};

/// Most that is ever taken off: beyond this a machine is busy, and its lateness has to show.
const BOUND: Span = Span(200_000);

/// Waits beyond this are slept in two steps: as long as both parts can be at most.
const SPARSE: Span = Span(2 * BOUND.0);

/// What a direction has measured of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// From a packet in the device to the thread that waited for it.
    pub arrival: Span,
    /// How much too long a sleep of milliseconds takes.
    pub long: Span,
    /// How much too long a sleep of some 100 microseconds takes, at least.
    pub short: Span,
}

impl Calibration {
    /// From the samples of each: the least of arrivals and of short sleeps, so that the machine is
    /// never credited with more than it always needs; nearly the most (the 90th percentile) of long
    /// sleeps, which only end early. None of a kind counts as nothing.
    pub fn from_samples(arrivals: &[Span], long: &[Span], short: &[Span]) -> Calibration {
        let least = |samples: &[Span]| samples.iter().copied().min().unwrap_or(Span::ZERO);
        let mut sorted = long.to_vec();
        sorted.sort_unstable();
        let most = sorted.len().checked_sub(1).map_or(Span::ZERO, |last| sorted[last * 9 / 10]);
        let bounded = |span: Span| span.min(BOUND);
        Calibration {
            arrival: bounded(least(arrivals)),
            long: bounded(most),
            short: bounded(least(short)),
        }
    }

    /// When a packet came that a thread found at `now`, which slept since `asleep`.
    pub fn arrived(&self, asleep: Time, now: Time) -> Time {
        Time(now.0.saturating_sub(self.arrival.nanos())).max(asleep).min(now)
    }

    /// How long to sleep at `now` for something due at `due`; a thread that wakes before it sleeps again.
    /// `aimed` is what the long step before was for: only then a short one ends early, so that a dense
    /// stream of packets costs no more wake-ups than without.
    pub fn pause(&self, now: Time, due: Time, aimed: &mut Time) -> Duration {
        let left = due.since(now).nanos();
        let (long, short) = (self.long.nanos() + self.short.nanos(), self.short.nanos());
        Duration::from_nanos(if left > SPARSE.nanos() {
            *aimed = due;
            left - long
        } else if *aimed == due && left > short {
            left - short
        } else {
            left
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(count: u64) -> Span {
        Span(count * 1_000)
    }

    /// How late a sleep is on a machine of the test: what an idle one was seen to do.
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

    /// Sleeps until `due` is there; when that was, and in how many steps.
    fn sleep(calibration: &Calibration, mut now: Time, due: Time, round: u64) -> (Time, u32) {
        let (mut steps, mut aimed) = (0, Time::MAX);
        while now < due {
            let pause = calibration.pause(now, due, &mut aimed);
            now = Time(now.0 + (pause + machine(pause, round)).as_nanos() as u64);
            steps += 1;
        }
        (now, steps)
    }

    #[test]
    fn nothing_is_early_and_lateness_falls() {
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
                // A dense stream is as without.
                assert!(left > 400 || after == before, "{left} us");
                if left > 1_000 {
                    plain += before.nanos();
                    calibrated += after.nanos();
                }
            }
        }
        // 14 of 16 microseconds of a short sleep and all of a long one are gone.
        assert!(calibrated * 10 < plain, "{calibrated} of {plain}");
    }

    #[test]
    fn a_busy_machine_is_not_excused() {
        let slow = [us(3_000), us(20_000)];
        let calibration = Calibration::from_samples(&slow, &slow, &slow);
        assert_eq!(
            (calibration.arrival, calibration.long, calibration.short),
            (BOUND, BOUND, BOUND)
        );
        assert_eq!(Calibration::from_samples(&[], &[], &[]), Calibration::default());
    }

    #[test]
    fn a_packet_came_after_the_thread_slept() {
        let calibration = measured();
        assert_eq!(calibration.arrival, us(24));
        let now = Time(1_000_000);
        assert_eq!(calibration.arrived(Time(0), now), Time(976_000));
        assert_eq!(calibration.arrived(Time(990_000), now), Time(990_000));
        // One that did not sleep.
        assert_eq!(calibration.arrived(now, now), now);
        assert_eq!(calibration.arrived(Time(0), Time(5)), Time(0));
    }
}
