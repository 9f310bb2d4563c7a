//! The receiving half of a connection: reassembly, window, and times of acknowledgements.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use units::{Ecn, Span, Time};

use super::{DelayedAck, Flags, SackBlocks, Segment, TcpSpec, is_before};
use crate::TcpCounters;

/// Ranges remembered for the order of SACK blocks: those of one segment, and the same number that may have merged.
const RECENT_RANGES: usize = 8;

/// Maximum age of a segment relative to TS.Recent, in ticks (Linux's TCP_PAWS_WINDOW).
const PAWS_WINDOW: u32 = 1;

/// Time without an update after which TS.Recent is invalid: half a cycle of the clock is 24.8 days (RFC 7323 section
/// 5.5).
const TS_RECENT_MAX_AGE: Span = Span::from_secs(24 * 24 * 3600);

/// The receiving half. Sequence numbers as in [`Segment`].
#[derive(Debug)]
pub(super) struct Receiver {
    /// RCV.NXT.
    next: u64,
    /// Right edge of the advertised window.
    window_edge: u64,
    buffer_limit: u64,
    largest_window: u64,
    /// Received in order and not read yet.
    unread: VecDeque<Bytes>,
    unread_bytes: u64,
    /// Received out of order, by start; disjoint.
    out_of_order: BTreeMap<u64, Bytes>,
    out_of_order_bytes: u64,
    /// End by start of merged out-of-order ranges. FIN counts as one number, as in Linux: a sender must learn that its
    /// last segment has arrived.
    ranges: BTreeMap<u64, u64>,
    /// Starts of the latest out-of-order segments, the newest first.
    recent_starts: VecDeque<u64>,
    dsack_range: Option<(u64, u64)>,
    /// Sequence number of FIN.
    fin: Option<u64>,
    fin_taken: bool,
    delayed: Option<DelayedAck>,
    quick_acks: u32,
    /// Bytes received in order and not acknowledged.
    unacked_bytes: u64,
    /// Largest received segment, which counts as a full one.
    full_segment_bytes: u64,
    ack_now: bool,
    ack_at: Time,
    last_ack_sent: u64,
    /// TS.Recent (RFC 7323 section 4.3); 0 before the first.
    ts_recent: u32,
    ts_recent_at: Time,
    /// CE was received, and its echo was not answered yet (RFC 3168 section 6.1.3).
    pub(super) ecn_echo: bool,
    received: u64,
    /// Duplicates, and pairs of delayed ACKs.
    pub(super) counters: TcpCounters,
}

impl Receiver {
    pub(super) fn new(spec: &TcpSpec) -> Receiver {
        let largest_window = if spec.window_scaling { u64::MAX } else { 65_535 };
        let buffer_limit = spec.receive_buffer_bytes;
        Receiver {
            next: 1,
            window_edge: 1 + buffer_limit.min(largest_window),
            buffer_limit,
            largest_window,
            unread: VecDeque::new(),
            unread_bytes: 0,
            out_of_order: BTreeMap::new(),
            out_of_order_bytes: 0,
            ranges: BTreeMap::new(),
            recent_starts: VecDeque::with_capacity(RECENT_RANGES),
            dsack_range: None,
            fin: None,
            fin_taken: false,
            delayed: spec.delayed_ack,
            quick_acks: spec.delayed_ack.map_or(0, |delayed| delayed.quick_acks),
            unacked_bytes: 0,
            full_segment_bytes: 1,
            ack_now: false,
            ack_at: Time::MAX,
            last_ack_sent: 1,
            ts_recent: 0,
            ts_recent_at: Time::ZERO,
            ecn_echo: false,
            received: 0,
            counters: TcpCounters::default(),
        }
    }

    /// Disables window scaling. An offer without the option limits the windows of both directions.
    pub(super) fn disable_window_scaling(&mut self) {
        self.largest_window = 65_535;
        self.window_edge = self.window_edge.min(self.next + self.largest_window);
    }

    /// Returns the stream bytes received, each counted once.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the stream bytes received in order.
    pub(super) fn in_order(&self) -> u64 {
        self.received - self.out_of_order_bytes
    }

    /// Returns the bytes received in order and not read.
    pub(super) fn readable(&self) -> u64 {
        self.unread_bytes
    }

    /// Returns whether FIN and everything before it have arrived.
    pub(super) fn is_finished(&self) -> bool {
        self.fin_taken
    }

    /// Returns the next bytes of the stream. Reading opens the window.
    pub(super) fn read(&mut self) -> Option<Bytes> {
        let data = self.unread.pop_front()?;
        self.unread_bytes -= data.len() as u64;
        Some(data)
    }

    /// Makes an ACK due if the read has reopened a nearly closed window (as in Linux: when it has at least doubled).
    pub(super) fn after_read(&mut self) {
        let known = self.advertised();
        let window = self.window();
        if !self.fin_taken && window >= 2 * known.max(1) && known < self.buffer_limit / 2 {
            self.ack_now = true;
        }
    }

    fn window(&self) -> u64 {
        let free = self.buffer_limit.saturating_sub(self.unread_bytes);
        free.min(self.largest_window).max(self.advertised())
    }

    /// Returns the rest of the last advertised window: 0 after a FIN that filled it.
    fn advertised(&self) -> u64 {
        self.window_edge.saturating_sub(self.next)
    }

    /// Returns TS.Recent, which ACKs echo.
    pub(super) fn ts_recent(&self) -> u32 {
        self.ts_recent
    }

    /// Adopts the timestamp of the peer's SYN, if it has one.
    pub(super) fn init_timestamps(&mut self, now: Time, value: Option<u32>) {
        (self.ts_recent, self.ts_recent_at) = (value.unwrap_or(0), now);
    }

    /// Returns whether a timestamp is before TS.Recent by more than `tolerance`.
    fn is_before_ts_recent(&self, now: Time, value: u32, tolerance: u32) -> bool {
        self.ts_recent != 0
            && now.since(self.ts_recent_at) < TS_RECENT_MAX_AGE
            && is_before(value.wrapping_add(tolerance), self.ts_recent)
    }

    /// Returns whether a segment fails PAWS (RFC 7323 section 5.3): it is before TS.Recent by more than Linux's tick.
    pub(super) fn fails_paws(&self, now: Time, segment: &Segment) -> bool {
        segment
            .timestamps
            .is_some_and(|(value, _)| self.is_before_ts_recent(now, value, PAWS_WINDOW))
    }

    /// Rejects a segment that fails PAWS, new or not. An ACK is due at once.
    pub(super) fn reject_old(&mut self, segment: &Segment) {
        let (start, end) = (segment.sequence, segment.sequence + segment.data.len() as u64);
        if start < self.next && start < end {
            self.dsack_range = Some((start, end.min(self.next)));
            self.counters.duplicate_segments += u64::from(end <= self.next);
        }
        self.ack_now = true;
    }

    /// Takes a segment's data and FIN. Returns whether there is new data to read.
    pub(super) fn receive(&mut self, now: Time, segment: &Segment) -> bool {
        if let Some((value, _)) = segment.timestamps
            && segment.sequence <= self.last_ack_sent
            && !self.is_before_ts_recent(now, value, 0)
        {
            (self.ts_recent, self.ts_recent_at) = (value, now);
        }
        if segment.flags.has(Flags::CWR) {
            self.ecn_echo = false;
        }
        if segment.ecn == Ecn::Ce {
            self.ecn_echo = true;
        }
        let syn = u64::from(segment.flags.has(Flags::SYN));
        let (start, end) =
            (segment.sequence + syn, segment.sequence + syn + segment.data.len() as u64);
        let fin = segment.flags.has(Flags::FIN) && end <= self.window_edge;
        let whole = end + u64::from(fin);
        if fin {
            self.fin = Some(end);
            self.ack_now = true;
        }
        if segment.data.is_empty() && !segment.flags.has(Flags::FIN) {
            // A window probe or keep-alive below the received data.
            if segment.sequence + 1 == self.next.max(1)
                && syn == 0
                && !segment.flags.has(Flags::RST)
                && segment.sequence < self.last_ack_sent
            {
                self.ack_now = true;
            }
            return false;
        }
        self.full_segment_bytes = self.full_segment_bytes.max(segment.data.len() as u64);
        let before = self.next;
        if whole <= self.next || self.covers(start, whole) {
            if whole > start {
                self.dsack_range = Some((start, whole));
                self.counters.duplicate_segments += u64::from(!segment.data.is_empty());
            }
            self.ack_now = true;
        } else if start > self.next {
            self.ack_now = true;
            self.store_out_of_order(start, end, &segment.data);
            if fin {
                self.add_range(end, whole);
            }
        } else if end > self.window_edge && start >= self.window_edge {
            self.ack_now = true;
        } else {
            let skip = (self.next - start) as usize;
            let fits = (self.window_edge.max(self.next) - start).min(end - start) as usize;
            if skip > 0 {
                self.dsack_range = Some((start, self.next));
                self.ack_now = true;
            }
            if fits > skip {
                self.append(segment.data.slice(skip..fits));
            }
            if !self.ranges.is_empty() {
                // The data filled a gap, or a part of one (RFC 5681 section 4.2).
                self.ack_now = true;
                self.deliver_contiguous();
                if self.out_of_order.is_empty() {
                    self.quick_acks = self.delayed.map_or(0, |delayed| delayed.quick_acks);
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
            self.schedule_ack(now, self.next - before);
        }
        self.next > before
    }

    /// Returns whether all of `start..end` was received beyond a gap.
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

    /// Stores new out-of-order data within the window.
    fn store_out_of_order(&mut self, start: u64, end: u64, data: &Bytes) {
        let end = end.min(self.window_edge);
        // The usual case: the segment follows the last received one.
        if start < end
            && let Some(mut last) = self.ranges.last_entry()
            && *last.get() == start
        {
            *last.get_mut() = end;
            self.out_of_order_bytes += end - start;
            self.received += end - start;
            self.out_of_order.insert(start, data.slice(..(end - start) as usize));
            self.recent_starts.truncate(RECENT_RANGES - 1);
            self.recent_starts.push_front(start);
            return;
        }
        let mut from = start;
        while from < end {
            // Skips a stored piece that covers `from`, else stores data up to the next piece.
            if let Some((known, piece)) = self.out_of_order.range(..=from).next_back()
                && known + piece.len() as u64 > from
            {
                from = known + piece.len() as u64;
                continue;
            }
            let to = self.out_of_order.range(from..end).next().map_or(end, |(next, _)| *next);
            let piece = data.slice((from - start) as usize..(to - start) as usize);
            self.out_of_order_bytes += to - from;
            self.received += to - from;
            self.out_of_order.insert(from, piece);
            from = to;
        }
        if start < end {
            self.add_range(start, end);
        }
    }

    /// Records that `start..end` arrived out of order.
    fn add_range(&mut self, start: u64, end: u64) {
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
        self.recent_starts.truncate(RECENT_RANGES - 1);
        self.recent_starts.push_front(start);
    }

    /// Moves stored data that is now in order.
    fn deliver_contiguous(&mut self) {
        while let Some(entry) = self.out_of_order.first_entry() {
            let start = *entry.key();
            if start > self.next {
                break;
            }
            let piece = entry.remove();
            let length = piece.len() as u64;
            self.out_of_order_bytes -= length;
            let skip = self.next - start;
            if skip < length {
                self.received -= length - skip;
                self.append(piece.slice(skip as usize..));
            }
            // Overlapping bytes were already counted.
            self.received -= skip.min(length);
        }
        self.trim_ranges();
    }

    /// Removes ranges, and parts of them, that are now in order.
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
        self.recent_starts.retain(|start| *start >= next);
    }

    fn schedule_ack(&mut self, now: Time, bytes: u64) {
        self.unacked_bytes += bytes;
        let Some(delayed) = self.delayed else {
            self.ack_now = true;
            return;
        };
        if self.quick_acks > 0 {
            self.quick_acks -= 1;
            self.ack_now = true;
        } else if self.unacked_bytes
            >= u64::from(delayed.segments_per_ack) * self.full_segment_bytes
        {
            if self.ack_at != Time::MAX && !self.ack_now {
                let first = Time(self.ack_at.0 - delayed.timeout_ns);
                self.counters.on_ack_pair(now.since(first));
            }
            self.ack_now = true;
        } else if self.ack_at == Time::MAX {
            self.ack_at = now + Span(delayed.timeout_ns);
        }
    }

    /// Makes an acknowledgement due at once.
    pub(super) fn acknowledge_now(&mut self) {
        self.ack_now = true;
    }

    /// Returns whether an acknowledgement is due.
    pub(super) fn is_ack_due(&self, now: Time) -> bool {
        self.ack_now || self.ack_at <= now
    }

    /// Returns the time of the next acknowledgement.
    pub(super) fn poll_at(&self) -> Time {
        self.ack_at
    }

    /// Returns whether there are blocks to report.
    pub(super) fn has_sack_blocks(&self) -> bool {
        self.dsack_range.is_some() || !self.ranges.is_empty()
    }

    /// Records that an acknowledgement is sent. Returns its number and its window.
    pub(super) fn on_ack_sent(&mut self) -> (u64, u64) {
        let window = self.window();
        self.window_edge = self.next + window;
        self.unacked_bytes = 0;
        self.ack_now = false;
        self.ack_at = Time::MAX;
        self.last_ack_sent = self.next;
        (self.next, window)
    }

    /// Returns up to `max` blocks of the next acknowledgement (RFC 2018 section 4, RFC 2883 section 4).
    pub(super) fn sack_blocks(&mut self, max: usize, dsack: bool) -> Option<Box<SackBlocks>> {
        let mut blocks = SackBlocks::default();
        if let Some((start, end)) = self.dsack_range.take()
            && dsack
        {
            blocks.push(start, end);
        }
        let duplicates = blocks.as_slice().len();
        let last = self.ranges.last_key_value().map(|(&low, &high)| (low, high));
        for start in &self.recent_starts {
            if last.is_none() || blocks.as_slice().len() >= max {
                break;
            }
            let holds = |&(low, high): &(u64, u64)| low <= *start && *start < high;
            // Consecutive segments are in one range, mostly the last.
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
