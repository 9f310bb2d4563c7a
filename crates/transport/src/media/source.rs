//! The times at which a source sends datagrams.

use std::collections::{BTreeMap, VecDeque};

use units::{RandomStream, Span, Time};

use super::rtp_header::MediaHeader;
use super::{LOSS_TIMEOUT, SourceSpec, window_index};

/// Statistics of a source so far.
#[derive(Clone, Debug)]
pub struct SourceStats {
    /// The source.
    pub spec: SourceSpec,
    /// Datagrams by window.
    pub sent: BTreeMap<u32, u64>,
    /// Number and instant of the latest datagrams, which may still arrive.
    recent: VecDeque<(u32, Time)>,
}

impl SourceStats {
    fn record(&mut self, head: &MediaHeader) {
        *self.sent.entry(window_index(head.due)).or_default() += 1;
        while self.recent.front().is_some_and(|(_, due)| *due + LOSS_TIMEOUT < head.due) {
            self.recent.pop_front();
        }
        self.recent.push_back((head.number, head.due));
    }

    /// Returns the undecided datagrams per window at `now`, which may still arrive. They were full at most
    /// [`LOSS_TIMEOUT`] ago, and follow `latest`, the last one received.
    pub fn undecided(&self, now: Time, latest: Option<u32>) -> BTreeMap<u32, u64> {
        let mut found = BTreeMap::new();
        for (number, due) in &self.recent {
            if latest.is_none_or(|latest| *number > latest) && *due + LOSS_TIMEOUT >= now {
                *found.entry(window_index(*due)).or_default() += 1;
            }
        }
        found
    }
}

/// A source of datagrams. It sends one whenever it was on for an interval since the last. The rest of an on period
/// counts for the next one, so the mean rate is exact.
#[derive(Clone, Debug)]
pub struct MediaSource {
    stats: SourceStats,
    random: RandomStream,
    is_on: bool,
    /// End of the current period.
    period_end: Time,
    /// Time at which the next datagram is full; [`Time::MAX`] in an off period.
    next: Time,
    /// On time that is missing until then, in an off period.
    remaining: Span,
    /// No datagram is sent after this time.
    end: Time,
    number: u32,
    /// The next datagram is the first of an on period.
    starts_talkspurt: bool,
}

impl MediaSource {
    /// Creates a source that begins at `start` and ends `duration` later.
    pub fn new(
        spec: &SourceSpec,
        start: Time,
        duration: Span,
        random: RandomStream,
    ) -> MediaSource {
        let stats =
            SourceStats { spec: spec.clone(), sent: BTreeMap::new(), recent: VecDeque::new() };
        let mut source = MediaSource {
            stats,
            random,
            is_on: false,
            period_end: start,
            next: Time::MAX,
            remaining: Span(spec.interval_ns),
            end: start + duration,
            number: 0,
            starts_talkspurt: true,
        };
        source.toggle();
        source
    }

    fn toggle(&mut self) {
        let at = self.period_end;
        self.is_on = !self.is_on;
        if self.is_on {
            self.next = at + self.remaining;
            self.starts_talkspurt = true;
        } else {
            self.remaining = self.next.since(at);
            self.next = Time::MAX;
        }
        self.period_end = match self.stats.spec.periods {
            None => Time::MAX,
            Some(periods) => {
                let mean = if self.is_on { periods.on_ns } else { periods.off_ns };
                at + periods.distribution.length(Span(mean), &mut self.random)
            }
        };
    }

    /// Returns the next datagram that is full by `now`, if there is one.
    pub fn next_datagram(&mut self, now: Time) -> Option<MediaHeader> {
        loop {
            let at = self.poll_at();
            if at > now {
                return None;
            }
            if self.next > self.period_end {
                self.toggle();
                continue;
            }
            let head =
                MediaHeader { number: self.number, due: self.next, marker: self.starts_talkspurt };
            self.number += 1;
            self.starts_talkspurt = false;
            self.next += Span(self.stats.spec.interval_ns);
            self.stats.record(&head);
            return Some(head);
        }
    }

    /// Returns the time of the next call, or [`Time::MAX`] after the end.
    pub fn poll_at(&self) -> Time {
        let at = self.next.min(self.period_end);
        if at > self.end { Time::MAX } else { at }
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> &SourceStats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf_load::{PeriodDistribution, PeriodsSpec};

    fn source(periods: Option<PeriodsSpec>, seconds: u64) -> MediaSource {
        let spec = SourceSpec {
            name: "g711".to_owned(),
            rtp_type: 0,
            payload_bytes: 172,
            interval_ns: 20_000_000,
            periods,
        };
        let random = RandomStream::named(1, "call", "periods up");
        MediaSource::new(&spec, Time::ZERO + Span::from_secs(5), Span::from_secs(seconds), random)
    }

    fn all(mut source: MediaSource) -> Vec<MediaHeader> {
        std::iter::from_fn(|| source.next_datagram(Time(u64::MAX / 4))).collect()
    }

    #[test]
    fn a_datagram_is_sent_when_it_is_full() {
        let found = all(source(None, 60));
        assert_eq!(found.len(), 3000);
        for (number, head) in (0u32..).zip(&found) {
            let due = Time(5_000_000_000 + (u64::from(number) + 1) * 20_000_000);
            assert_eq!(*head, MediaHeader { number, due, marker: number == 0 });
        }
    }

    #[test]
    fn the_rest_of_a_period_counts_for_the_next() {
        // 50 ms on, 30 ms off: 2 datagrams, then half of one; 5 in every 160 ms.
        let periods = PeriodsSpec {
            on_ns: 50_000_000,
            off_ns: 30_000_000,
            distribution: PeriodDistribution::Fixed,
        };
        let found = all(source(Some(periods), 16));
        assert_eq!(found.len(), 500);
        let due: Vec<u64> = found[..6].iter().map(|head| head.due.0 / 1_000_000 - 5000).collect();
        assert_eq!(due, [20, 40, 90, 110, 130, 180]);
        let first: Vec<bool> = found[..6].iter().map(|head| head.marker).collect();
        assert_eq!(first, [true, false, true, false, false, true]);
    }

    #[test]
    fn a_late_clock_changes_no_datagram() {
        let periods = PeriodsSpec {
            on_ns: 1_004_000_000,
            off_ns: 1_587_000_000,
            distribution: PeriodDistribution::Exponential,
        };
        let punctual = all(source(Some(periods), 100));
        let mut late = source(Some(periods), 100);
        let mut found = Vec::new();
        for step in 0..40 {
            let now = Time(step * 7_000_000_000);
            found.extend(std::iter::from_fn(|| late.next_datagram(now)));
        }
        assert_eq!(found, punctual);
        // Mean share of on time over 100 s, within five standard errors for this low number of periods.
        let share = found.len() as f64 / 5000.0;
        assert!((share - 1.004 / 2.591).abs() < 0.35, "{share}");
    }

    #[test]
    fn datagrams_in_transit_are_undecided() {
        let mut source = source(None, 60);
        while source.next_datagram(Time(30_000_000_000)).is_some() {}
        let now = Time(30_000_000_000);
        let recent = |latest| source.stats().undecided(now, latest).values().sum::<u64>();
        // Datagrams from 26 s to 30 s, both included; number 1000 is full at 25.02 s.
        assert_eq!(recent(None), 201);
        assert_eq!(recent(Some(1000)), 201);
        // Number 1239 is full at 29.8 s.
        assert_eq!(recent(Some(1239)), 10);
        assert_eq!(source.stats().sent.values().sum::<u64>(), 1250);
    }
}
