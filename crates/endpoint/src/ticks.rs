//! How late a process wakes: every tick counts that has passed, also those that it slept through.

use units::{Span, Time};

/// Instants at which a process is to be up.
pub(crate) struct Ticks {
    next: Time,
    every: Span,
}

impl Ticks {
    /// One each `every`, from `now` on, which is none itself.
    pub fn new(now: Time, every: Span) -> Ticks {
        Ticks { next: now + every, every }
    }

    /// When the next one is due.
    pub fn next(&self) -> Time {
        self.next
    }

    /// How late `now` is for each of those that are due by then and not after `end`, and have not been taken yet.
    pub fn take(&mut self, now: Time, end: Time) -> impl Iterator<Item = Span> {
        std::iter::from_fn(move || {
            let due = self.next;
            (due <= now.min(end)).then(|| {
                self.next = due + self.every;
                now.since(due)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who wakes 105 ms late at ticks of 50 ms was late for three (docs/manual/agree.md).
    #[test]
    fn ticks_that_were_slept_through_are_late() {
        let ms = |milliseconds: u64| Span(milliseconds * 1_000_000);
        let at = |milliseconds| Time::ZERO + ms(milliseconds);
        let mut ticks = Ticks::new(Time::ZERO, ms(50));
        let mut late = |now, end| ticks.take(at(now), at(end)).collect::<Vec<_>>();
        assert_eq!(late(49, 1000), [Span(0); 0]);
        assert_eq!(late(155, 1000), [ms(105), ms(55), ms(5)]);
        assert_eq!(late(155, 1000), [Span(0); 0]);
        assert_eq!(late(200, 1000), [Span(0)]);
        assert_eq!(late(400, 260), [ms(150)], "after the end there is nothing to be late for");
        assert_eq!(ticks.next(), at(300));
    }
}
