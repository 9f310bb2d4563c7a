//! The real clock, in the units of the transports.

use std::time::Instant;

use units::Time;

/// Time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that shows 0 now.
    #[expect(clippy::disallowed_methods, reason = "sockets are where the real clock comes in")]
    pub fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// The time.
    pub fn now(&self) -> Time {
        Time(self.start.elapsed().as_nanos() as u64)
    }
}
