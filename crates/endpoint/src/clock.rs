//! The real clock, in the units of the transports.

use nix::time::{ClockId, clock_gettime};
use units::Time;

/// Time since it was started, by CLOCK_MONOTONIC: one clock, so that what it shows and what other programs on the
/// machine read differ by a constant that is exactly known.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// CLOCK_MONOTONIC at the start, ns.
    began: u64,
}

impl Clock {
    /// A clock that shows 0 now.
    pub fn start() -> Clock {
        Clock { began: monotonic() }
    }

    /// A clock that showed 0 when CLOCK_MONOTONIC showed `ns`, which is past; one that shows 0 now if it is not.
    pub fn since(ns: u64) -> Clock {
        Clock { began: ns.min(monotonic()) }
    }

    /// The time.
    pub fn now(&self) -> Time {
        Time(monotonic() - self.began)
    }

    /// A time of this clock as CLOCK_MONOTONIC has it, ns: other programs on the machine can compare it.
    pub fn monotonic_ns(&self, at: Time) -> u64 {
        self.began + at.0
    }
}

/// CLOCK_MONOTONIC, ns.
fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instant between two readings is told as one between them, however the process was scheduled at the start.
    #[test]
    fn it_tells_the_time_of_the_machine() {
        for _ in 0..100_000 {
            let clock = Clock::start();
            let before = monotonic();
            let told = clock.monotonic_ns(clock.now());
            assert!((before..=monotonic()).contains(&told), "{told} is not after {before}");
        }
    }
}
