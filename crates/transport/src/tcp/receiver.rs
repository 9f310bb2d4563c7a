//! The receiving half of a connection: reassembly, the window, and when to acknowledge.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use units::{Ecn, Span, Time};

use super::{DelayedAck, Flags, SackBlocks, Segment, TcpSpec, is_before};
use crate::TcpCounters;

/// Places remembered for the order of SACK blocks: those of one segment, and as many again that
/// may have grown together.
const RECENT: usize = 8;

/// How much older than TS.Recent a segment may be, in ticks (Linux's TCP_PAWS_WINDOW).
const PAWS_WINDOW: u32 = 1;

/// After this long without an update TS.Recent says nothing any more: half a turn of the clock is 24.8 days (RFC 7323
/// section 5.5).
const TS_RECENT_LASTS: Span = Span::from_secs(24 * 24 * 3600);

/// The receiving half. Sequence numbers as in [`Segment`].
#[derive(Debug)]
pub(super) struct Receiver {
    /// RCV.NXT.
    next: u64,
    /// Right edge of the window advertised.
    edge: u64,
    limit: u64,
    largest_window: u64,
    /// In order and not read yet.
    unread: VecDeque<Bytes>,
    unread_bytes: u64,
    /// Out of order, by start; disjoint.
    beyond: BTreeMap<u64, Bytes>,
    beyond_bytes: u64,
    /// End by start of what came out of order, grown together. FIN counts as one number, as in Linux: a sender must
    /// learn that its last segment has arrived.
    ranges: BTreeMap<u64, u64>,
    /// Starts of the segments that came out of order last, the newest first.
    recent: VecDeque<u64>,
    duplicate: Option<(u64, u64)>,
    /// Sequence number of FIN.
    fin: Option<u64>,
    fin_taken: bool,
    delayed: Option<DelayedAck>,
    quick: u32,
    /// Bytes in order that were not acknowledged.
    owed: u64,
    /// Largest segment seen: what counts as a full one.
    full: u64,
    ack_now: bool,
    ack_at: Time,
    last_ack_sent: u64,
    /// TS.Recent (RFC 7323 section 4.3); 0: none yet.
    ts_recent: u32,
    ts_recent_at: Time,
    /// Congestion was experienced and its echo not answered yet (RFC 3168 section 6.1.3).
    pub(super) echo: bool,
    received: u64,
    /// Duplicates, and pairs of delayed ACKs.
    pub(super) counted: TcpCounters,
}

impl Receiver {
    pub(super) fn new(spec: &TcpSpec) -> Receiver {
        let largest_window = if spec.window_scaling { u64::MAX } else { 65_535 };
        let limit = spec.receive_buffer_bytes;
        Receiver {
            next: 1,
            edge: 1 + limit.min(largest_window),
            limit,
            largest_window,
            unread: VecDeque::new(),
            unread_bytes: 0,
            beyond: BTreeMap::new(),
            beyond_bytes: 0,
            ranges: BTreeMap::new(),
            recent: VecDeque::with_capacity(RECENT),
            duplicate: None,
            fin: None,
            fin_taken: false,
            delayed: spec.delayed_ack,
            quick: spec.delayed_ack.map_or(0, |delayed| delayed.quick),
            owed: 0,
            full: 1,
            ack_now: false,
            ack_at: Time::MAX,
            last_ack_sent: 1,
            ts_recent: 0,
            ts_recent_at: Time::ZERO,
            echo: false,
            received: 0,
            counted: TcpCounters::default(),
        }
    }

    /// What the peer offered without the option bounds the window both ways.
    pub(super) fn without_scaling(&mut self) {
        self.largest_window = 65_535;
        self.edge = self.edge.min(self.next + self.largest_window);
    }

    /// Stream bytes received, each once.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Stream bytes received in order.
    pub(super) fn in_order(&self) -> u64 {
        self.received - self.beyond_bytes
    }

    /// Bytes in order and not read.
    pub(super) fn readable(&self) -> u64 {
        self.unread_bytes
    }

    /// FIN has come and everything before it.
    pub(super) fn is_finished(&self) -> bool {
        self.fin_taken
    }

    /// The next bytes in order. Reading opens the window.
    pub(super) fn read(&mut self) -> Option<Bytes> {
        let data = self.unread.pop_front()?;
        self.unread_bytes -= data.len() as u64;
        Some(data)
    }

    /// After reading: a window that was nearly closed is open again, and the peer must know (as
    /// Linux: when it has at least doubled).
    pub(super) fn after_read(&mut self) {
        let known = self.advertised();
        let window = self.window();
        if !self.fin_taken && window >= 2 * known.max(1) && known < self.limit / 2 {
            self.ack_now = true;
        }
    }

    fn window(&self) -> u64 {
        let free = self.limit.saturating_sub(self.unread_bytes);
        free.min(self.largest_window).max(self.advertised())
    }

    /// The rest of the window advertised last: none after a FIN that filled it.
    fn advertised(&self) -> u64 {
        self.edge.saturating_sub(self.next)
    }

    /// TS.Recent, which ACKs echo.
    pub(super) fn ts_recent(&self) -> u32 {
        self.ts_recent
    }

    /// Takes over the timestamp of the peer's SYN; none: of none yet.
    pub(super) fn begin_timestamps(&mut self, now: Time, value: Option<u32>) {
        (self.ts_recent, self.ts_recent_at) = (value.unwrap_or(0), now);
    }

    /// Whether a timestamp is before TS.Recent by more than `tolerance`.
    fn is_past(&self, now: Time, value: u32, tolerance: u32) -> bool {
        self.ts_recent != 0
            && now.since(self.ts_recent_at) < TS_RECENT_LASTS
            && is_before(value.wrapping_add(tolerance), self.ts_recent)
    }

    /// PAWS (RFC 7323 section 5.3): its timestamp is before TS.Recent, by more than the tick that Linux allows.
    pub(super) fn is_old(&self, now: Time, segment: &Segment) -> bool {
        segment.timestamps.is_some_and(|(value, _)| self.is_past(now, value, PAWS_WINDOW))
    }

    /// A segment that is thrown away for it, new or not: what is known is acknowledged at once.
    pub(super) fn refuse(&mut self, segment: &Segment) {
        let (start, end) = (segment.sequence, segment.sequence + segment.data.len() as u64);
        if start < self.next && start < end {
            self.duplicate = Some((start, end.min(self.next)));
            self.counted.duplicate_segments += u64::from(end <= self.next);
        }
        self.ack_now = true;
    }

    /// Takes a segment's data and FIN; whether there is something new to read.
    pub(super) fn take(&mut self, now: Time, segment: &Segment) -> bool {
        if let Some((value, _)) = segment.timestamps
            && segment.sequence <= self.last_ack_sent
            && !self.is_past(now, value, 0)
        {
            (self.ts_recent, self.ts_recent_at) = (value, now);
        }
        if segment.flags.has(Flags::CWR) {
            self.echo = false;
        }
        if segment.ecn == Ecn::Ce {
            self.echo = true;
        }
        let syn = u64::from(segment.flags.has(Flags::SYN));
        let (start, end) =
            (segment.sequence + syn, segment.sequence + syn + segment.data.len() as u64);
        let fin = segment.flags.has(Flags::FIN) && end <= self.edge;
        let whole = end + u64::from(fin);
        if fin {
            self.fin = Some(end);
            self.ack_now = true;
        }
        if segment.data.is_empty() && !segment.flags.has(Flags::FIN) {
            // A probe of the window, or a keep-alive, below what has arrived.
            if segment.sequence + 1 == self.next.max(1)
                && syn == 0
                && !segment.flags.has(Flags::RST)
                && segment.sequence < self.last_ack_sent
            {
                self.ack_now = true;
            }
            return false;
        }
        self.full = self.full.max(segment.data.len() as u64);
        let before = self.next;
        if whole <= self.next || self.covers(start, whole) {
            if whole > start {
                self.duplicate = Some((start, whole));
                self.counted.duplicate_segments += u64::from(!segment.data.is_empty());
            }
            self.ack_now = true;
        } else if start > self.next {
            self.ack_now = true;
            self.keep(start, end, &segment.data);
            if fin {
                self.keep_range(end, whole);
            }
        } else if end > self.edge && start >= self.edge {
            self.ack_now = true;
        } else {
            let skip = (self.next - start) as usize;
            let fits = (self.edge.max(self.next) - start).min(end - start) as usize;
            if skip > 0 {
                self.duplicate = Some((start, self.next));
                self.ack_now = true;
            }
            if fits > skip {
                self.append(segment.data.slice(skip..fits));
            }
            if !self.ranges.is_empty() {
                // It filled a gap, or a part of one (RFC 5681 section 4.2).
                self.ack_now = true;
                self.join();
                if self.beyond.is_empty() {
                    self.quick = self.delayed.map_or(0, |delayed| delayed.quick);
                }
            }
        }
        if self.fin == Some(self.next) && !self.fin_taken {
            self.fin_taken = true;
            self.next += 1;
            self.ack_now = true;
            self.trim_ranges();
        }
        if self.next > before {
            self.owe(now, self.next - before);
        }
        self.next > before
    }

    /// Everything of `start..end` lies beyond a gap already.
    fn covers(&self, start: u64, end: u64) -> bool {
        !self.ranges.is_empty()
            && self
                .ranges
                .range(..=start)
                .next_back()
                .is_some_and(|(_, range_end)| *range_end >= end)
    }

    fn append(&mut self, data: Bytes) {
        let length = data.len() as u64;
        self.next += length;
        self.received += length;
        self.unread_bytes += length;
        self.unread.push_back(data);
    }

    /// Keeps data that came out of order, as far as it lies in the window and is new.
    fn keep(&mut self, start: u64, end: u64, data: &Bytes) {
        let end = end.min(self.edge);
        // The usual case: the next one after the last that came.
        if start < end
            && let Some(mut last) = self.ranges.last_entry()
            && *last.get() == start
        {
            *last.get_mut() = end;
            self.beyond_bytes += end - start;
            self.received += end - start;
            self.beyond.insert(start, data.slice(..(end - start) as usize));
            self.recent.truncate(RECENT - 1);
            self.recent.push_front(start);
            return;
        }
        let mut from = start;
        while from < end {
            // What covers `from`, else what comes next.
            if let Some((known, piece)) = self.beyond.range(..=from).next_back()
                && known + piece.len() as u64 > from
            {
                from = known + piece.len() as u64;
                continue;
            }
            let to = self.beyond.range(from..end).next().map_or(end, |(next, _)| *next);
            let piece = data.slice((from - start) as usize..(to - start) as usize);
            self.beyond_bytes += to - from;
            self.received += to - from;
            self.beyond.insert(from, piece);
            from = to;
        }
        if start < end {
            self.keep_range(start, end);
        }
    }

    /// Remembers that `start..end` came out of order.
    fn keep_range(&mut self, start: u64, end: u64) {
        let (mut low, mut high) = (start, end);
        while let Some((&known, &known_end)) = self.ranges.range(..=high).next_back() {
            if known_end < low {
                break;
            }
            self.ranges.remove(&known);
            low = low.min(known);
            high = high.max(known_end);
        }
        self.ranges.insert(low, high);
        self.recent.truncate(RECENT - 1);
        self.recent.push_front(start);
    }

    /// Moves what has come in order by now.
    fn join(&mut self) {
        while let Some(entry) = self.beyond.first_entry() {
            let start = *entry.key();
            if start > self.next {
                break;
            }
            let piece = entry.remove();
            let length = piece.len() as u64;
            self.beyond_bytes -= length;
            let skip = self.next - start;
            if skip < length {
                self.received -= length - skip;
                self.append(piece.slice(skip as usize..));
            }
            // What overlapped is counted once already.
            self.received -= skip.min(length);
        }
        self.trim_ranges();
    }

    /// Forgets ranges, and parts of them, that have come in order by now.
    fn trim_ranges(&mut self) {
        while let Some((&start, &end)) = self.ranges.first_key_value() {
            if start > self.next {
                break;
            }
            self.ranges.remove(&start);
            if end > self.next {
                self.ranges.insert(self.next, end);
                break;
            }
        }
        let next = self.next;
        self.recent.retain(|start| *start >= next);
    }

    fn owe(&mut self, now: Time, bytes: u64) {
        self.owed += bytes;
        let Some(delayed) = self.delayed else {
            self.ack_now = true;
            return;
        };
        if self.quick > 0 {
            self.quick -= 1;
            self.ack_now = true;
        } else if self.owed >= u64::from(delayed.every) * self.full {
            if self.ack_at != Time::MAX && !self.ack_now {
                let first = Time(self.ack_at.0 - delayed.timeout_ns);
                self.counted.on_pair(now.since(first));
            }
            self.ack_now = true;
        } else if self.ack_at == Time::MAX {
            self.ack_at = now + Span(delayed.timeout_ns);
        }
    }

    /// An acknowledgement is due at once, whatever came.
    pub(super) fn acknowledge_now(&mut self) {
        self.ack_now = true;
    }

    /// Whether an acknowledgement is due.
    pub(super) fn is_ack_due(&self, now: Time) -> bool {
        self.ack_now || self.ack_at <= now
    }

    /// When an acknowledgement is due.
    pub(super) fn wake_at(&self) -> Time {
        self.ack_at
    }

    /// There are blocks to report.
    pub(super) fn has_blocks(&self) -> bool {
        self.duplicate.is_some() || !self.ranges.is_empty()
    }

    /// An acknowledgement leaves: its number and its window.
    pub(super) fn acknowledged(&mut self) -> (u64, u64) {
        let window = self.window();
        self.edge = self.next + window;
        self.owed = 0;
        self.ack_now = false;
        self.ack_at = Time::MAX;
        self.last_ack_sent = self.next;
        (self.next, window)
    }

    /// The blocks of the next acknowledgement (RFC 2018 section 4, RFC 2883 section 4), `most` of them.
    pub(super) fn blocks(&mut self, most: usize, dsack: bool) -> Option<Box<SackBlocks>> {
        let mut blocks = SackBlocks::default();
        if let Some((start, end)) = self.duplicate.take()
            && dsack
        {
            blocks.push(start, end);
        }
        let duplicates = blocks.as_slice().len();
        let last = self.ranges.last_key_value().map(|(&low, &high)| (low, high));
        for start in &self.recent {
            if last.is_none() || blocks.as_slice().len() >= most {
                break;
            }
            let holds = |&(low, high): &(u64, u64)| low <= *start && *start < high;
            // What comes in a row lies in one range, mostly the last.
            if blocks.as_slice()[duplicates..].iter().any(holds) {
                continue;
            }
            let before =
                || self.ranges.range(..=*start).next_back().map(|(&low, &high)| (low, high));
            if let Some((low, high)) = last.filter(holds).or_else(before)
                && high > *start
                && !blocks.as_slice().contains(&(low, high))
            {
                blocks.push(low, high);
            }
        }
        (!blocks.is_empty()).then(|| Box::new(blocks))
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
