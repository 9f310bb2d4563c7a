//! What becomes of the datagrams that come: how long they took, which are missing, how much the delay changes.
//!
//! Delays are kept as a histogram of whole milliseconds a window. Two more counts a bin tell of bursts of losses for any
//! play-out: a burst begins with a datagram that is lost or late after one that was in time, so for play-out after d the
//! bursts are the datagrams sooner than d that a slower one followed, less those sooner than d that were the slower ones.

use std::collections::{BTreeMap, VecDeque};

use units::{Span, Time};

use super::head::Head;
use super::window;

/// Width of a bin.
const BIN: Span = Span::from_millis(1);

/// A datagram that so many later ones have overtaken is lost.
const RING: usize = 1024;

/// Datagrams of one window that took as many whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// How many.
    pub packets: u64,
    /// Of these, how many were followed by one that took longer by a bin or more, or was lost.
    pub before_slower: u64,
    /// How many came after one that was quicker by a bin or more.
    pub after_quicker: u64,
}

/// What has come of the datagrams of one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowHeard {
    /// Datagrams that have come, each once.
    pub received: u64,
    /// Copies of those.
    pub duplicates: u64,
    /// Datagrams that a later one had overtaken.
    pub overtaken: u64,
    /// Delays added up, ns.
    pub delay_ns: u64,
    /// Least delay.
    pub least: Span,
    /// Largest delay.
    pub largest: Span,
    /// Interarrival jitter (RFC 3550 section 6.4.1) after the last datagram.
    pub jitter: Span,
    /// The same after each, added up, ns.
    pub jitter_ns: u64,
    /// By whole milliseconds of delay.
    pub bins: BTreeMap<u32, Bin>,
}

/// A datagram in the order of numbers: its window and bin; none: it has not come.
type Place = Option<(u32, u32)>;

/// One side's ear.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    windows: BTreeMap<u32, WindowHeard>,
    /// Number of the first in `ring`.
    base: u32,
    /// Those that may still be missing.
    ring: VecDeque<Place>,
    /// The one before them, once there is one.
    before: Option<Place>,
    /// Highest number that has come.
    latest: Option<u32>,
    /// Delay of the last that came, ns.
    last_delay: Option<u64>,
    /// Sixteen times the jitter, ns, as in RFC 3550 appendix A.8.
    jitter_16: u64,
}

impl Heard {
    /// A datagram with this head came at `now`; whether it is a new one.
    pub fn take(&mut self, now: Time, head: &Head) -> bool {
        let delay = now.since(head.due);
        let bin = u32::try_from(delay.nanos() / BIN.nanos()).unwrap_or(u32::MAX);
        let place = (window(head.due), bin);
        let entry = self.windows.entry(place.0).or_default();
        let known = head.number < self.base
            || self.ring.get((head.number - self.base) as usize).is_some_and(Option::is_some);
        if known {
            entry.duplicates += 1;
            return false;
        }
        entry.overtaken += u64::from(self.latest.is_some_and(|latest| latest > head.number));
        entry.least = if entry.received == 0 { delay } else { entry.least.min(delay) };
        entry.largest = entry.largest.max(delay);
        entry.received += 1;
        entry.delay_ns += delay.nanos();
        entry.bins.entry(place.1).or_default().packets += 1;
        if let Some(last) = self.last_delay.replace(delay.nanos()) {
            let change = last.abs_diff(delay.nanos());
            self.jitter_16 = self.jitter_16 + change - ((self.jitter_16 + 8) >> 4);
        }
        entry.jitter = Span(self.jitter_16 >> 4);
        entry.jitter_ns += self.jitter_16 >> 4;
        self.latest = self.latest.max(Some(head.number));
        self.enter(head.number, place);
        true
    }

    fn enter(&mut self, number: u32, place: (u32, u32)) {
        // However far ahead it is, no more than the ring is gone through.
        let ahead = u64::from(number - self.base);
        if ahead >= 2 * RING as u64 {
            while let Some(next) = self.ring.pop_front() {
                self.settle(next);
            }
            self.settle(None);
            self.base = number - RING as u32 + 1;
        }
        let index = (number - self.base) as usize;
        if index >= self.ring.len() {
            self.ring.resize(index + 1, None);
        }
        self.ring[index] = Some(place);
        while self.ring.len() > RING {
            let next = self.ring.pop_front().flatten();
            self.settle(next);
            self.base += 1;
        }
    }

    /// What became of the next datagram in the order of numbers is known.
    fn settle(&mut self, next: Place) {
        count_pair(&mut self.windows, self.before.flatten(), next);
        self.before = Some(next);
    }

    /// What has come, by window; what is missing before the latest is lost.
    pub fn windows(&self) -> BTreeMap<u32, WindowHeard> {
        let mut windows = self.windows.clone();
        let mut before = self.before.flatten();
        for next in &self.ring {
            count_pair(&mut windows, before, *next);
            before = *next;
        }
        windows
    }

    /// Highest number that has come.
    pub fn latest(&self) -> Option<u32> {
        self.latest
    }
}

fn count_pair(windows: &mut BTreeMap<u32, WindowHeard>, before: Place, next: Place) {
    let Some(before) = before else { return };
    if next.is_some_and(|next| next.1 <= before.1) {
        return;
    }
    let mut at = |place: (u32, u32), count: fn(&mut Bin) -> &mut u64| {
        let window = windows.get_mut(&place.0);
        if let Some(bin) = window.and_then(|window| window.bins.get_mut(&place.1)) {
            *count(bin) += 1;
        }
    };
    at(before, |bin| &mut bin.before_slower);
    if let Some(next) = next {
        at(next, |bin| &mut bin.after_quicker);
    }
}

#[cfg(test)]
mod tests {
    use units::RandomStream;

    use super::*;

    fn head(number: u32) -> Head {
        Head { number, due: Time(u64::from(number) * 20_000_000), first: false }
    }

    /// Delays by number; none: it is lost.
    fn heard(delays: &[Option<u64>]) -> Heard {
        let mut come: Vec<(Time, u32)> = (0u32..)
            .zip(delays)
            .filter_map(|(number, delay)| Some((head(number).due + Span((*delay)?), number)))
            .collect();
        come.sort();
        let mut heard = Heard::default();
        for (at, number) in come {
            assert!(heard.take(at, &head(number)));
        }
        heard
    }

    fn bursts(heard: &Heard, playout_ms: u32) -> u64 {
        let windows = heard.windows();
        let bins = windows.values().flat_map(|window| window.bins.range(..playout_ms));
        let (slower, quicker) = bins.fold((0, 0), |(slower, quicker), (_, bin)| {
            (slower + bin.before_slower, quicker + bin.after_quicker)
        });
        slower - quicker
    }

    #[test]
    fn bursts_of_any_playout_are_those_that_are_counted_one_by_one() {
        let mut random = RandomStream::named(5, "ear", "delays");
        for case in 0..40 {
            let loss = 0.02 * f64::from(case % 6);
            let delays: Vec<Option<u64>> = (0..3000)
                .map(|_| {
                    let delay = 30_000_000 + (random.exponential(15e6) as u64);
                    (!random.chance(loss)).then_some(delay)
                })
                .collect();
            let heard = heard(&delays);
            for playout in [31, 40, 60, 100, 1000] {
                // The first and the last that come bound what is known.
                let last = delays.iter().rposition(Option::is_some).unwrap();
                let good: Vec<bool> = delays[..=last]
                    .iter()
                    .map(|delay| delay.is_some_and(|delay| delay / 1_000_000 < playout))
                    .collect();
                let counted = good.windows(2).filter(|pair| pair[0] && !pair[1]).count() as u64;
                assert_eq!(bursts(&heard, playout as u32), counted, "case {case}, {playout} ms");
            }
            let received: u64 = heard.windows().values().map(|window| window.received).sum();
            assert_eq!(received, delays.iter().flatten().count() as u64);
        }
    }

    #[test]
    fn jitter_is_that_of_the_rfc() {
        // RFC 3550 appendix A.8 in floating point: J += (|D| - J) / 16.
        let mut random = RandomStream::named(6, "ear", "delays");
        let delays: Vec<u64> =
            (0..2000).map(|_| 50_000_000 + (random.uniform() * 19e6) as u64).collect();
        let (mut jitter, mut sum) = (0.0, 0.0);
        for pair in delays.windows(2) {
            jitter += (pair[0].abs_diff(pair[1]) as f64 - jitter) / 16.0;
            sum += jitter;
        }
        let heard = heard(&delays.iter().map(|delay| Some(*delay)).collect::<Vec<_>>());
        let windows = heard.windows();
        let last = windows.values().last().unwrap().jitter.nanos() as f64;
        assert!((last - jitter).abs() < 20.0, "{last} {jitter}");
        let total: u64 = windows.values().map(|window| window.jitter_ns).sum();
        assert!((total as f64 / sum - 1.0).abs() < 1e-5);
        assert_eq!(windows.len(), 4, "40 s are four windows");
    }

    #[test]
    fn copies_and_stragglers_are_told_apart() {
        let mut heard = Heard::default();
        let at = |ms: u64| Time(ms * 1_000_000);
        assert!(heard.take(at(30), &head(0)));
        assert!(heard.take(at(80), &head(2)));
        assert!(heard.take(at(81), &head(1)), "overtaken");
        assert!(!heard.take(at(90), &head(1)), "a copy");
        assert!(!heard.take(at(90), &head(0)), "a copy of one that is settled");
        let window = &heard.windows()[&0];
        let counts = (window.received, window.overtaken, window.duplicates);
        assert_eq!(counts, (3, 1, 2));
        assert_eq!((window.least, window.largest), (Span::from_millis(30), Span::from_millis(61)));
        assert_eq!(window.delay_ns, (30 + 40 + 61) * 1_000_000);
        // 30, 61, 40: one slower than the one before, one not.
        assert_eq!(window.bins[&30], Bin { packets: 1, before_slower: 1, after_quicker: 0 });
        assert_eq!(window.bins[&61], Bin { packets: 1, before_slower: 0, after_quicker: 1 });
        assert_eq!(window.bins[&40], Bin { packets: 1, before_slower: 0, after_quicker: 0 });
    }

    #[test]
    fn a_gap_longer_than_the_ring_is_one_burst() {
        for gap in [5u32, 1000, 1500, 5000, 3_000_000_000] {
            let mut heard = Heard::default();
            for number in 0..3 {
                let at = Time(u64::from(number) * 20_000_000 + 10_000_000);
                assert!(heard.take(at, &head(number)));
            }
            for number in gap..gap + 2000 {
                let head = Head { number, ..head(2) };
                assert!(heard.take(head.due + Span::from_millis(10), &head));
            }
            let found = heard.windows();
            assert_eq!(found[&0].received, 2003, "{gap}");
            assert_eq!(bursts(&heard, 100), 1, "{gap}");
            assert!(heard.ring.len() <= RING);
        }
    }
}
