//! Statistics of received datagrams: delay, loss and jitter.
//!
//! Each window has a histogram of delays in bins of 1 ms. Two more counts per bin give the loss bursts of any play-out.
//! A burst begins with a datagram that is lost or late after one in time. For play-out after d, count the datagrams
//! sooner than d with a slower successor. Subtract those sooner than d with a quicker predecessor.

use std::collections::{BTreeMap, VecDeque};

use units::{Span, Time};

use super::rtp_header::MediaHeader;
use super::window_index;

/// Width of a bin.
const BIN_WIDTH: Span = Span::from_millis(1);

/// Number of later datagrams after which a missing one counts as lost.
const REORDER_WINDOW: usize = 1024;

/// Datagrams of one window with the same whole milliseconds of delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayBin {
    /// Number of datagrams.
    pub packets: u64,
    /// Those followed by one with a delay longer by a bin or more, or by a lost one.
    pub before_slower: u64,
    /// Those that follow one with a delay shorter by a bin or more.
    pub after_quicker: u64,
}

/// Statistics of the datagrams of one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverWindow {
    /// Datagrams received, each counted once.
    pub received: u64,
    /// Duplicates of those.
    pub duplicates: u64,
    /// Datagrams that a later one overtook.
    pub overtaken: u64,
    /// Sum of the delays, ns.
    pub delay_ns: u64,
    /// Minimum delay.
    pub min_delay: Span,
    /// Maximum delay.
    pub max_delay: Span,
    /// Interarrival jitter (RFC 3550 section 6.4.1) after the last datagram.
    pub jitter: Span,
    /// Sum of the jitter after each datagram, ns.
    pub jitter_ns: u64,
    /// Datagrams by whole milliseconds of delay.
    pub bins: BTreeMap<u32, DelayBin>,
}

/// Window and bin of a datagram, in the order of numbers; `None` if it has not arrived.
type BinIndex = Option<(u32, u32)>;

/// Receiver statistics of one side.
#[derive(Clone, Debug, Default)]
pub struct ReceiverStats {
    windows: BTreeMap<u32, ReceiverWindow>,
    /// Number of the first entry in `reorder_window`.
    base: u32,
    /// Datagrams from `base` on; some may still be missing.
    reorder_window: VecDeque<BinIndex>,
    /// The datagram before `base`, once there is one.
    previous: Option<BinIndex>,
    /// Highest number received.
    latest: Option<u32>,
    /// Delay of the last datagram received, ns.
    last_delay: Option<u64>,
    /// Sixteen times the jitter, ns, as in RFC 3550 appendix A.8.
    scaled_jitter: u64,
}

impl ReceiverStats {
    /// Records a datagram with this header that arrived at `now`. Returns whether it is new.
    pub fn on_datagram(&mut self, now: Time, head: &MediaHeader) -> bool {
        let delay = now.since(head.due);
        let bin = u32::try_from(delay.nanos() / BIN_WIDTH.nanos()).unwrap_or(u32::MAX);
        let bin_index = (window_index(head.due), bin);
        let entry = self.windows.entry(bin_index.0).or_default();
        let known = head.number < self.base
            || self
                .reorder_window
                .get((head.number - self.base) as usize)
                .is_some_and(Option::is_some);
        if known {
            entry.duplicates += 1;
            return false;
        }
        entry.overtaken += u64::from(self.latest.is_some_and(|latest| latest > head.number));
        entry.min_delay = if entry.received == 0 { delay } else { entry.min_delay.min(delay) };
        entry.max_delay = entry.max_delay.max(delay);
        entry.received += 1;
        entry.delay_ns += delay.nanos();
        entry.bins.entry(bin_index.1).or_default().packets += 1;
        if let Some(last) = self.last_delay.replace(delay.nanos()) {
            let change = last.abs_diff(delay.nanos());
            self.scaled_jitter = self.scaled_jitter + change - ((self.scaled_jitter + 8) >> 4);
        }
        entry.jitter = Span(self.scaled_jitter >> 4);
        entry.jitter_ns += self.scaled_jitter >> 4;
        self.latest = self.latest.max(Some(head.number));
        self.insert(head.number, bin_index);
        true
    }

    fn insert(&mut self, number: u32, bin_index: (u32, u32)) {
        // The work is limited by the ring, even if the number is far ahead.
        let ahead = u64::from(number - self.base);
        if ahead >= 2 * REORDER_WINDOW as u64 {
            while let Some(next) = self.reorder_window.pop_front() {
                self.finalize_next(next);
            }
            self.finalize_next(None);
            self.base = number - REORDER_WINDOW as u32 + 1;
        }
        let index = (number - self.base) as usize;
        if index >= self.reorder_window.len() {
            self.reorder_window.resize(index + 1, None);
        }
        self.reorder_window[index] = Some(bin_index);
        while self.reorder_window.len() > REORDER_WINDOW {
            let next = self.reorder_window.pop_front().flatten();
            self.finalize_next(next);
            self.base += 1;
        }
    }

    /// Finalises the next datagram in the order of numbers.
    fn finalize_next(&mut self, next: BinIndex) {
        count_pair(&mut self.windows, self.previous.flatten(), next);
        self.previous = Some(next);
    }

    /// Returns the statistics by window. Missing datagrams before the latest count as lost.
    pub fn windows(&self) -> BTreeMap<u32, ReceiverWindow> {
        let mut windows = self.windows.clone();
        let mut before = self.previous.flatten();
        for next in &self.reorder_window {
            count_pair(&mut windows, before, *next);
            before = *next;
        }
        windows
    }

    /// Returns the highest number received.
    pub fn latest(&self) -> Option<u32> {
        self.latest
    }
}

fn count_pair(windows: &mut BTreeMap<u32, ReceiverWindow>, before: BinIndex, next: BinIndex) {
    let Some(before) = before else { return };
    if next.is_some_and(|next| next.1 <= before.1) {
        return;
    }
    let mut at = |bin_index: (u32, u32), count: fn(&mut DelayBin) -> &mut u64| {
        let window = windows.get_mut(&bin_index.0);
        if let Some(bin) = window.and_then(|window| window.bins.get_mut(&bin_index.1)) {
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

    fn head(number: u32) -> MediaHeader {
        MediaHeader { number, due: Time(u64::from(number) * 20_000_000), marker: false }
    }

    /// Records delays by number; `None`: lost.
    fn record(delays: &[Option<u64>]) -> ReceiverStats {
        let mut arrivals: Vec<(Time, u32)> = (0u32..)
            .zip(delays)
            .filter_map(|(number, delay)| Some((head(number).due + Span((*delay)?), number)))
            .collect();
        arrivals.sort();
        let mut stats = ReceiverStats::default();
        for (at, number) in arrivals {
            assert!(stats.on_datagram(at, &head(number)));
        }
        stats
    }

    fn bursts(stats: &ReceiverStats, playout_ms: u32) -> u64 {
        let windows = stats.windows();
        let bins = windows.values().flat_map(|window| window.bins.range(..playout_ms));
        let (slower, quicker) = bins.fold((0, 0), |(slower, quicker), (_, bin)| {
            (slower + bin.before_slower, quicker + bin.after_quicker)
        });
        slower - quicker
    }

    #[test]
    fn bursts_equal_a_direct_count_for_any_playout() {
        let mut random = RandomStream::named(5, "ear", "delays");
        for case in 0..40 {
            let loss = 0.02 * f64::from(case % 6);
            let delays: Vec<Option<u64>> = (0..3000)
                .map(|_| {
                    let delay = 30_000_000 + (random.exponential(15e6) as u64);
                    (!random.chance(loss)).then_some(delay)
                })
                .collect();
            let stats = record(&delays);
            for playout in [31, 40, 60, 100, 1000] {
                // Only datagrams between the first and the last received one are counted.
                let last = delays.iter().rposition(Option::is_some).unwrap();
                let good: Vec<bool> = delays[..=last]
                    .iter()
                    .map(|delay| delay.is_some_and(|delay| delay / 1_000_000 < playout))
                    .collect();
                let counted = good.windows(2).filter(|pair| pair[0] && !pair[1]).count() as u64;
                assert_eq!(bursts(&stats, playout as u32), counted, "case {case}, {playout} ms");
            }
            let received: u64 = stats.windows().values().map(|window| window.received).sum();
            assert_eq!(received, delays.iter().flatten().count() as u64);
        }
    }

    #[test]
    fn jitter_matches_rfc_3550() {
        // RFC 3550 appendix A.8 in floating point: J += (|D| - J) / 16.
        let mut random = RandomStream::named(6, "ear", "delays");
        let delays: Vec<u64> =
            (0..2000).map(|_| 50_000_000 + (random.uniform() * 19e6) as u64).collect();
        let (mut jitter, mut sum) = (0.0, 0.0);
        for pair in delays.windows(2) {
            jitter += (pair[0].abs_diff(pair[1]) as f64 - jitter) / 16.0;
            sum += jitter;
        }
        let stats = record(&delays.iter().map(|delay| Some(*delay)).collect::<Vec<_>>());
        let windows = stats.windows();
        let last = windows.values().last().unwrap().jitter.nanos() as f64;
        assert!((last - jitter).abs() < 20.0, "{last} {jitter}");
        let total: u64 = windows.values().map(|window| window.jitter_ns).sum();
        assert!((total as f64 / sum - 1.0).abs() < 1e-5);
        assert_eq!(windows.len(), 4, "40 s are four windows");
    }

    #[test]
    fn duplicates_and_overtaken_datagrams_are_distinguished() {
        let mut stats = ReceiverStats::default();
        let at = |ms: u64| Time(ms * 1_000_000);
        assert!(stats.on_datagram(at(30), &head(0)));
        assert!(stats.on_datagram(at(80), &head(2)));
        assert!(stats.on_datagram(at(81), &head(1)), "overtaken");
        assert!(!stats.on_datagram(at(90), &head(1)), "a copy");
        assert!(!stats.on_datagram(at(90), &head(0)), "a copy of one that is settled");
        let window = &stats.windows()[&0];
        let counts = (window.received, window.overtaken, window.duplicates);
        assert_eq!(counts, (3, 1, 2));
        assert_eq!(
            (window.min_delay, window.max_delay),
            (Span::from_millis(30), Span::from_millis(61))
        );
        assert_eq!(window.delay_ns, (30 + 40 + 61) * 1_000_000);
        // Delays 30, 61, 40: the second is slower than its predecessor, the third is not.
        assert_eq!(window.bins[&30], DelayBin { packets: 1, before_slower: 1, after_quicker: 0 });
        assert_eq!(window.bins[&61], DelayBin { packets: 1, before_slower: 0, after_quicker: 1 });
        assert_eq!(window.bins[&40], DelayBin { packets: 1, before_slower: 0, after_quicker: 0 });
    }

    #[test]
    fn a_gap_longer_than_the_ring_is_one_burst() {
        for gap in [5u32, 1000, 1500, 5000, 3_000_000_000] {
            let mut stats = ReceiverStats::default();
            for number in 0..3 {
                let at = Time(u64::from(number) * 20_000_000 + 10_000_000);
                assert!(stats.on_datagram(at, &head(number)));
            }
            for number in gap..gap + 2000 {
                let head = MediaHeader { number, ..head(2) };
                assert!(stats.on_datagram(head.due + Span::from_millis(10), &head));
            }
            let found = stats.windows();
            assert_eq!(found[&0].received, 2003, "{gap}");
            assert_eq!(bursts(&stats, 100), 1, "{gap}");
            assert!(stats.reorder_window.len() <= REORDER_WINDOW);
        }
    }
}
