//! The real clock, in the units of the transports.

use std::time::Instant;

use nix::time::{ClockId, clock_gettime};
use units::Time;

/// Time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    /// CLOCK_MONOTONIC at the start, ns.
    began: u64,
}

impl Clock {
    /// A clock that shows 0 now.
    #[expect(clippy::disallowed_methods, reason = "sockets are where the real clock comes in")]
    pub fn start() -> Clock {
        let began = clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64);
        Clock { start: Instant::now(), began }
    }

    /// The time.
    pub fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }

    /// A time of this clock as CLOCK_MONOTONIC has it, ns: other programs on the machine can compare it.
    pub fn monotonic_ns(&self, at: Time) -> u64 {
        self.began + at.0
    }
}
