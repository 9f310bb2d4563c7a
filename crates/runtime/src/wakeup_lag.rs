//! Wake-up lag of a process. Every passed tick counts, including ticks during one sleep.

use units::{Span, Time};

/// Instants at which a process has to wake.
pub struct WakeupLag {
    next_at: Time,
    interval: Span,
}

impl WakeupLag {
    /// Creates ticks with the interval `every`. The first tick is one interval after `now`.
    pub fn new(now: Time, every: Span) -> WakeupLag {
        WakeupLag { next_at: now + every, interval: every }
    }

    /// Returns the time of the next tick.
    pub fn next_at(&self) -> Time {
        self.next_at
    }

    /// Returns the lag of `now` behind each tick that is due, not after `end`, and not yet taken.
    pub fn take_lags(&mut self, now: Time, end: Time) -> impl Iterator<Item = Span> {
        std::iter::from_fn(move || {
            let due = self.next_at;
            (due <= now.min(end)).then(|| {
                self.next_at = due + self.interval;
                now.since(due)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wake-up 105 ms late counts three late ticks at an interval of 50 ms (docs/how-to/compare-engines.md).
    #[test]
    fn missed_ticks_count_as_late() {
        let ms = |milliseconds: u64| Span(milliseconds * 1_000_000);
        let at = |milliseconds| Time::ZERO + ms(milliseconds);
        let mut ticks = WakeupLag::new(Time::ZERO, ms(50));
        let mut late = |now, end| ticks.take_lags(at(now), at(end)).collect::<Vec<_>>();
        assert_eq!(late(49, 1000), [Span(0); 0]);
        assert_eq!(late(155, 1000), [ms(105), ms(55), ms(5)]);
        assert_eq!(late(155, 1000), [Span(0); 0]);
        assert_eq!(late(200, 1000), [Span(0)]);
        assert_eq!(late(400, 260), [ms(150)], "after the end there is nothing to be late for");
        assert_eq!(ticks.next_at(), at(300));
    }
}
