//! The real clock, in the units of the stages.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use units::{Span, Time};

/// Time since the emulator began.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// What the machine's monotonic clock showed then, ns: the same in every namespace.
    pub monotonic_ns: u64,
}

impl Clock {
    /// A clock that shows 0 now.
    #[expect(clippy::disallowed_methods, reason = "the emulator is where the real clock comes in")]
    pub fn start() -> Clock {
        Clock { start: Instant::now(), monotonic_ns: read(ClockId::CLOCK_MONOTONIC) }
    }

    /// The time.
    pub fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }
}

/// How long to wait from `now` until `at`; none for [`Time::MAX`].
pub fn wait(now: Time, at: Time) -> Option<Duration> {
    (at != Time::MAX).then(|| Duration::from_nanos(at.since(now).max(Span::ZERO).nanos()))
}

/// What a clock of the kernel shows, ns; 0 if it does not have it.
pub fn read(clock: ClockId) -> u64 {
    clock_gettime(clock)
        .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}
