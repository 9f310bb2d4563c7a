//! Conversion between [`Time`] and the `std::time::Instant` of a stack.

use std::time::{Duration, Instant};

use units::{Span, Time};

/// Maps run time to instants. The stack uses only differences of instants, so the base is arbitrary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    base: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "std has no other constructor of an Instant")]
    pub(super) fn new() -> Clock {
        Clock { base: Instant::now() }
    }

    pub(super) fn instant(&self, time: Time) -> Instant {
        self.base + Duration::from_nanos(time.nanos())
    }

    pub(super) fn time(&self, instant: Instant) -> Time {
        let nanos = instant.saturating_duration_since(self.base).as_nanos();
        Time(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

pub(super) fn span(duration: Duration) -> Span {
    Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
