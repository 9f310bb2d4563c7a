//! When which datagram leaves.

use std::collections::{BTreeMap, VecDeque};

use units::{RandomStream, Span, Time};

use super::head::Head;
use super::{PATIENCE, SourceSpec, window};

/// What a source has said so far.
#[derive(Clone, Debug)]
pub struct Said {
    /// The source.
    pub spec: SourceSpec,
    /// Datagrams by window.
    pub sent: BTreeMap<u32, u64>,
    /// The latest, which may still come: number and instant.
    recent: VecDeque<(u32, Time)>,
}

impl Said {
    fn enter(&mut self, head: &Head) {
        *self.sent.entry(window(head.due)).or_default() += 1;
        while self.recent.front().is_some_and(|(_, due)| *due + PATIENCE < head.due) {
            self.recent.pop_front();
        }
        self.recent.push_back((head.number, head.due));
    }

    /// Of each window, the datagrams of which nobody knows at `now` whether they will come: full not longer than
    /// [`PATIENCE`] ago, and after `latest`, the last one that has come.
    pub fn undecided(&self, now: Time, latest: Option<u32>) -> BTreeMap<u32, u64> {
        let mut found = BTreeMap::new();
        for (number, due) in &self.recent {
            if latest.is_none_or(|latest| *number > latest) && *due + PATIENCE >= now {
                *found.entry(window(*due)).or_default() += 1;
            }
        }
        found
    }
}

/// A source of datagrams. One leaves whenever the source has been on for an interval since the last: what is left of
/// an on period counts for the next, so that the mean rate is exact.
#[derive(Clone, Debug)]
pub struct Source {
    said: Said,
    random: RandomStream,
    is_on: bool,
    /// End of the current period.
    period_end: Time,
    /// When the next datagram is full; [`Time::MAX`] while it is off.
    next: Time,
    /// How long it must still be on until then, while it is off.
    left: Span,
    /// None leaves after it.
    end: Time,
    number: u32,
    /// The next is the first of an on period.
    first: bool,
}

impl Source {
    /// A source that begins at `start` and ends `duration` later.
    pub fn new(spec: &SourceSpec, start: Time, duration: Span, random: RandomStream) -> Source {
        let said = Said { spec: spec.clone(), sent: BTreeMap::new(), recent: VecDeque::new() };
        let mut source = Source {
            said,
            random,
            is_on: false,
            period_end: start,
            next: Time::MAX,
            left: Span(spec.interval_ns),
            end: start + duration,
            number: 0,
            first: true,
        };
        source.toggle();
        source
    }

    fn toggle(&mut self) {
        let at = self.period_end;
        self.is_on = !self.is_on;
        if self.is_on {
            self.next = at + self.left;
            self.first = true;
        } else {
            self.left = self.next.since(at);
            self.next = Time::MAX;
        }
        self.period_end = match self.said.spec.periods {
            None => Time::MAX,
            Some(periods) => {
                let mean = if self.is_on { periods.on_ns } else { periods.off_ns };
                at + periods.draw.length(Span(mean), &mut self.random)
            }
        };
    }

    /// The next datagram that is full by `now`, if there is one.
    pub fn take(&mut self, now: Time) -> Option<Head> {
        loop {
            let at = self.wake_at();
            if at > now {
                return None;
            }
            if self.next > self.period_end {
                self.toggle();
                continue;
            }
            let head = Head { number: self.number, due: self.next, first: self.first };
            self.number += 1;
            self.first = false;
            self.next += Span(self.said.spec.interval_ns);
            self.said.enter(&head);
            return Some(head);
        }
    }

    /// When it is to be asked again; [`Time::MAX`]: it has ended.
    pub fn wake_at(&self) -> Time {
        let at = self.next.min(self.period_end);
        if at > self.end { Time::MAX } else { at }
    }

    /// What it has said so far.
    pub fn said(&self) -> &Said {
        &self.said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{DrawSpec, PeriodsSpec};

    fn source(periods: Option<PeriodsSpec>, seconds: u64) -> Source {
        let spec = SourceSpec {
            name: "g711".to_owned(),
            rtp_type: 0,
            payload_bytes: 172,
            interval_ns: 20_000_000,
            periods,
        };
        let random = RandomStream::named(1, "call", "periods up");
        Source::new(&spec, Time::ZERO + Span::from_secs(5), Span::from_secs(seconds), random)
    }

    fn all(mut source: Source) -> Vec<Head> {
        std::iter::from_fn(|| source.take(Time(u64::MAX / 4))).collect()
    }

    #[test]
    fn a_datagram_leaves_when_it_is_full() {
        let found = all(source(None, 60));
        assert_eq!(found.len(), 3000);
        for (number, head) in (0u32..).zip(&found) {
            let due = Time(5_000_000_000 + (u64::from(number) + 1) * 20_000_000);
            assert_eq!(*head, Head { number, due, first: number == 0 });
        }
    }

    #[test]
    fn what_is_left_of_a_period_counts_for_the_next() {
        // 50 ms on, 30 ms off: 2 datagrams, then half a one: 5 in every 160 ms.
        let periods = PeriodsSpec { on_ns: 50_000_000, off_ns: 30_000_000, draw: DrawSpec::Fixed };
        let found = all(source(Some(periods), 16));
        assert_eq!(found.len(), 500);
        let due: Vec<u64> = found[..6].iter().map(|head| head.due.0 / 1_000_000 - 5000).collect();
        assert_eq!(due, [20, 40, 90, 110, 130, 180]);
        let first: Vec<bool> = found[..6].iter().map(|head| head.first).collect();
        assert_eq!(first, [true, false, true, false, false, true]);
    }

    #[test]
    fn a_late_clock_changes_no_datagram() {
        let periods = PeriodsSpec {
            on_ns: 1_004_000_000,
            off_ns: 1_587_000_000,
            draw: DrawSpec::Exponential,
        };
        let punctual = all(source(Some(periods), 100));
        let mut late = source(Some(periods), 100);
        let mut found = Vec::new();
        for step in 0..40 {
            let now = Time(step * 7_000_000_000);
            found.extend(std::iter::from_fn(|| late.take(now)));
        }
        assert_eq!(found, punctual);
        // Mean of the on share over 100 s, within five standard errors of so few periods.
        let share = found.len() as f64 / 5000.0;
        assert!((share - 1.004 / 2.591).abs() < 0.35, "{share}");
    }

    #[test]
    fn who_may_still_come_is_undecided() {
        let mut source = source(None, 60);
        while source.take(Time(30_000_000_000)).is_some() {}
        let now = Time(30_000_000_000);
        let recent = |latest| source.said().undecided(now, latest).values().sum::<u64>();
        // Full from 26 s to 30 s, both included; number 1000 is of 25.02 s.
        assert_eq!(recent(None), 201);
        assert_eq!(recent(Some(1000)), 201);
        // Number 1239 is of 29.8 s.
        assert_eq!(recent(Some(1239)), 10);
        assert_eq!(source.said().sent.values().sum::<u64>(), 1250);
    }
}
