//! The real clock, in the units of the transports.

use nix::time::{ClockId, clock_gettime};
use units::Time;

/// Elapsed time of CLOCK_MONOTONIC since the start. Its readings differ from those of other programs on the machine by
/// an exactly known constant.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// CLOCK_MONOTONIC at the start, in ns.
    started_ns: u64,
}

impl Clock {
    /// Starts a clock at 0.
    pub fn start() -> Clock {
        Clock { started_ns: monotonic() }
    }

    /// Returns a clock that was 0 when CLOCK_MONOTONIC was `ns`. An `ns` in the future gives a clock at 0.
    pub fn with_zero_at(ns: u64) -> Clock {
        Clock { started_ns: ns.min(monotonic()) }
    }

    /// Returns the elapsed time.
    pub fn now(&self) -> Time {
        Time(monotonic() - self.started_ns)
    }

    /// Converts a time of this clock to CLOCK_MONOTONIC in ns, which other programs on the machine can compare.
    pub fn monotonic_ns(&self, at: Time) -> u64 {
        self.started_ns + at.0
    }
}

/// Reads CLOCK_MONOTONIC, in ns.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading between two readings of CLOCK_MONOTONIC lies between them, for every scheduling delay at the start.
    #[test]
    fn readings_follow_clock_monotonic() {
        for _ in 0..100_000 {
            let clock = Clock::start();
            let before = monotonic();
            let reading = clock.monotonic_ns(clock.now());
            assert!((before..=monotonic()).contains(&reading), "{reading} is not after {before}");
        }
    }
}
