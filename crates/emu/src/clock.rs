//! The real clock, in the units of the stages.

use std::time::{Duration, Instant};

use units::{Span, Time};

/// Time since the emulator began.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that shows 0 now.
    #[expect(clippy::disallowed_methods, reason = "the emulator is where the real clock comes in")]
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
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
