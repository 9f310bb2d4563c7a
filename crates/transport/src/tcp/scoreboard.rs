//! What has been sent and not acknowledged, segment by segment (RFC 6675's scoreboard). Every
//! operation costs the logarithm of the window at most, whatever is lost: records lie in sequence
//! order and are found by their number, selective acknowledgements are kept as ranges so that a
//! block that is repeated costs nothing, and cursors replace scans.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use units::{Time, prefetch};

const SACKED: u8 = 1;
const LOST: u8 = 2;
const RESENT: u8 = 4;
const FIN: u8 = 8;
/// It was declared lost, and may have been sent again since.
const MISSED: u8 = 16;

/// One segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// First sequence number.
    pub start: u64,
    /// Sequence numbers: data bytes, and 1 for FIN.
    pub length: u32,
    flags: u8,
    /// When it was last sent.
    pub sent: Time,
}

impl Record {
    /// Sequence number after it.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// It was sent more than once.
    pub fn is_resent(&self) -> bool {
        self.has(RESENT)
    }

    /// It carries FIN.
    pub fn is_fin(&self) -> bool {
        self.has(FIN)
    }

    /// It is selectively acknowledged.
    pub fn is_sacked(&self) -> bool {
        self.has(SACKED)
    }

    /// It is declared lost and not sent again.
    pub fn is_lost(&self) -> bool {
        self.has(LOST)
    }
}

/// What is counted above a segment until it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    /// What has arrived (RFC 6675).
    Arrived,
    /// What was sent up to the highest that has arrived (FACK).
    Distance,
}

/// The scoreboard. Records are named by their number from the start of the connection.
#[derive(Debug)]
pub(super) struct Scoreboard {
    records: VecDeque<Record>,
    /// Number of the first record.
    base: u64,
    una: u64,
    next: u64,
    /// Ranges selectively acknowledged, in order and apart.
    ranges: VecDeque<(u64, u64)>,
    sacked_records: u64,
    sacked_bytes: u64,
    lost_bytes: u64,
    /// Highest sequence number acknowledged in any way (RACK.fack).
    highest: u64,
    /// Records before this number are lost by count, unless they have arrived.
    cursor: u64,
    /// Records from the cursor on that have been selectively acknowledged.
    above: u64,
    /// Where the search for what a duplicate ACK stands for begins (without SACK).
    virtual_from: u64,
    /// Numbers of lost records; some have arrived since.
    to_resend: BinaryHeap<Reverse<u64>>,
    /// Transmissions in the order of time; kept for RACK only. Entries whose record has arrived, is
    /// lost or was sent again are void.
    transmissions: Option<VecDeque<(Time, u64)>>,
    /// What was sent again, in order: the next sequence number at that time, and the record's number.
    /// Kept for [`Count::Distance`] only.
    repairs: Option<VecDeque<(u64, u64)>>,
    /// Usual length of a record.
    segment: u64,
}

impl Scoreboard {
    /// An empty scoreboard whose next sequence number is `next`.
    pub fn new(next: u64, segment: u64, in_order_of_time: bool) -> Scoreboard {
        Scoreboard {
            records: VecDeque::with_capacity(64),
            base: 0,
            una: next,
            next,
            ranges: VecDeque::new(),
            sacked_records: 0,
            sacked_bytes: 0,
            lost_bytes: 0,
            highest: next,
            cursor: 0,
            above: 0,
            virtual_from: 0,
            to_resend: BinaryHeap::new(),
            transmissions: in_order_of_time.then(VecDeque::new),
            repairs: None,
            segment: segment.max(1),
        }
    }

    /// What the handshake has agreed on: the usual length, and whether RACK needs the order of time.
    pub fn agree(&mut self, segment: u64, in_order_of_time: bool) {
        self.segment = segment.max(1);
        if in_order_of_time && self.transmissions.is_none() {
            let first = self.base;
            let sent = self.records.iter().enumerate();
            self.transmissions =
                Some(sent.map(|(index, record)| (record.sent, first + index as u64)).collect());
        } else if !in_order_of_time {
            self.transmissions = None;
        }
    }

    /// Has the memory of the oldest records brought.
    pub fn expect(&self) {
        if let Some(first) = self.records.front() {
            prefetch(first);
        }
        if let Some(first) = self.transmissions.as_ref().and_then(VecDeque::front) {
            prefetch(first);
        }
    }

    /// SND.UNA.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// SND.NXT.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Records outstanding.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes selectively acknowledged.
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// Records selectively acknowledged.
    pub fn sacked_records(&self) -> u64 {
        self.sacked_records
    }

    /// Bytes declared lost and not sent again.
    #[cfg(test)]
    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Highest sequence number acknowledged, cumulatively or selectively.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Record number `id`, if it is outstanding.
    pub fn get(&self, id: u64) -> Option<&Record> {
        self.records.get(usize::try_from(id.checked_sub(self.base)?).ok()?)
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut Record> {
        self.records.get_mut(usize::try_from(id.checked_sub(self.base)?).ok()?)
    }

    /// Number of the first record; it exists unless the board is empty.
    pub fn first(&self) -> u64 {
        self.base
    }

    /// Number of the last record, or the one before the first.
    pub fn last(&self) -> u64 {
        (self.base + self.records.len() as u64).wrapping_sub(1)
    }

    /// Enters a segment of `length` sequence numbers that was sent for the first time.
    pub fn push(&mut self, now: Time, length: u32, fin: bool) {
        let flags = if fin { FIN } else { 0 };
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.push_back((now, self.base + self.records.len() as u64));
        }
        self.records.push_back(Record { start: self.next, length, flags, sent: now });
        self.next += u64::from(length);
    }

    /// Index of the first record that ends after `sequence`.
    fn index_of(&self, sequence: u64) -> usize {
        let Some(front) = self.records.front() else { return 0 };
        let guess = (sequence.saturating_sub(front.start) / self.segment) as usize;
        for index in guess..guess + 2 {
            if let Some(record) = self.records.get(index)
                && record.start <= sequence
                && sequence < record.end()
            {
                return index;
            }
        }
        self.records.partition_point(|record| record.end() <= sequence)
    }

    /// Everything before `ack` has arrived. `arrived` is told of each record that was not known to
    /// have arrived, with the bytes that are new (a record may be acknowledged in part).
    pub fn acknowledge(&mut self, ack: u64, mut arrived: impl FnMut(&Record, u64)) {
        while let Some(front) = self.records.front_mut() {
            if front.start >= ack {
                break;
            }
            let whole = front.end() <= ack;
            let bytes = front.end().min(ack) - front.start;
            if front.has(SACKED) {
                self.sacked_bytes -= bytes;
                if whole {
                    self.sacked_records -= 1;
                    if self.base >= self.cursor {
                        self.above -= 1;
                    }
                }
            } else {
                if front.has(LOST) {
                    self.lost_bytes -= bytes;
                }
                arrived(front, bytes);
            }
            if !whole {
                front.start += bytes;
                front.length -= bytes as u32;
                break;
            }
            self.records.pop_front();
            self.base += 1;
        }
        self.cursor = self.cursor.max(self.base);
        self.una = self.una.max(ack);
        self.highest = self.highest.max(ack);
        while let Some(range) = self.ranges.front_mut() {
            if range.1 > ack {
                range.0 = range.0.max(ack);
                break;
            }
            self.ranges.pop_front();
        }
        if self.records.is_empty() {
            self.to_resend.clear();
            if let Some(transmissions) = &mut self.transmissions {
                transmissions.clear();
            }
        }
    }

    /// A SACK block arrived. `arrived` is told of each record that is new.
    pub fn sack(&mut self, start: u64, end: u64, mut arrived: impl FnMut(&Record)) {
        let (mut low, mut high) = (start.max(self.una), end.min(self.next));
        if low >= high {
            return;
        }
        // The known ranges that touch the block become one with it; what lies between is new.
        let from = self.ranges.partition_point(|range| range.1 < low);
        let to = from + self.ranges.range(from..).take_while(|range| range.0 <= high).count();
        let mut gap = low;
        if from < to {
            low = low.min(self.ranges[from].0);
            high = high.max(self.ranges[to - 1].1);
        }
        for index in from..to {
            let (known_start, known_end) = self.ranges[index];
            self.sack_gap((gap, known_start), (low, high), &mut arrived);
            gap = gap.max(known_end);
        }
        self.sack_gap((gap, high), (low, high), &mut arrived);
        self.highest = self.highest.max(high);
        if from < to {
            self.ranges[from] = (low, high);
            self.ranges.drain(from + 1..to);
        } else {
            self.ranges.insert(from, (low, high));
        }
    }

    /// The bytes in `gap` are new; with those known before, `whole` has arrived.
    fn sack_gap(&mut self, gap: (u64, u64), whole: (u64, u64), arrived: &mut impl FnMut(&Record)) {
        if gap.0 >= gap.1 {
            return;
        }
        let mut index = self.index_of(gap.0);
        while let Some(record) = self.records.get_mut(index)
            && record.start < gap.1
        {
            // A record of which only a part has arrived waits for the rest.
            if record.start >= whole.0 && record.end() <= whole.1 && !record.has(SACKED) {
                arrived(record);
                self.set_sacked(index);
            }
            index += 1;
        }
    }

    fn set_sacked(&mut self, index: usize) {
        let record = &mut self.records[index];
        if record.has(LOST) {
            record.flags &= !LOST;
            self.lost_bytes -= u64::from(record.length);
        }
        record.flags |= SACKED;
        self.sacked_bytes += u64::from(record.length);
        self.sacked_records += 1;
        if self.base + index as u64 >= self.cursor {
            self.above += 1;
        }
    }

    /// Without SACK a duplicate ACK says that some segment after the first has arrived: the lowest
    /// that is not yet counted as arrived (RFC 5681 section 3.2's inflation, as a flight that
    /// shrinks).
    pub fn sack_one(&mut self, mut arrived: impl FnMut(&Record)) {
        self.virtual_from = self.virtual_from.max(self.base + 1);
        while let Some(record) = self.get(self.virtual_from).copied() {
            self.virtual_from += 1;
            if !record.has(SACKED) && !record.has(LOST) {
                arrived(&record);
                let index = (self.virtual_from - 1 - self.base) as usize;
                self.set_sacked(index);
                return;
            }
        }
    }

    /// Without SACK: the first segment is missing after all, so that what was counted for it is
    /// counted for a later one.
    pub fn unsack_first(&mut self) {
        let Some(record) = self.records.front_mut() else { return };
        if !record.has(SACKED) {
            return;
        }
        record.flags &= !SACKED;
        let length = u64::from(record.length);
        self.sacked_bytes -= length;
        self.sacked_records -= 1;
        if self.base >= self.cursor {
            self.above -= 1;
        }
        self.sack_one(|_| ());
    }

    /// Without SACK: nothing is known to have arrived (a timeout).
    pub fn forget_sacked(&mut self, mut again: impl FnMut(&Record)) {
        for record in &mut self.records {
            if record.has(SACKED) {
                record.flags &= !SACKED;
                again(record);
            }
        }
        (self.sacked_bytes, self.sacked_records, self.above) = (0, 0, 0);
        self.virtual_from = self.base + 1;
    }

    /// Declares record `id` lost unless it has arrived or is lost already; `lost` is told of it.
    pub fn mark_lost(&mut self, id: u64, lost: impl FnOnce(&Record)) {
        let Some(record) = self.get_mut(id) else { return };
        if record.flags & (SACKED | LOST) != 0 {
            return;
        }
        lost(record);
        record.flags |= LOST | MISSED;
        let length = u64::from(record.length);
        self.lost_bytes += length;
        self.to_resend.push(Reverse(id));
    }

    /// A segment is lost when `threshold` segments above it have arrived (RFC 6675's IsLost), or by
    /// [`Count::Distance`] when one so far above it has. A segment is judged once: what was sent again
    /// waits for the timer, or by distance until something that was sent after it has arrived.
    pub fn mark_by_count(&mut self, threshold: u64, count: Count, mut lost: impl FnMut(&Record)) {
        let top = match count {
            Count::Distance if self.sacked_records > 0 => {
                self.base + self.index_of(self.highest - 1) as u64
            }
            _ => self.base,
        };
        while let Some(record) = self.get(self.cursor).copied() {
            let sacked = record.has(SACKED);
            let above = self.above - u64::from(sacked);
            let counted = match count {
                Count::Arrived => above,
                Count::Distance => top.saturating_sub(self.cursor),
            };
            if counted < threshold {
                break;
            }
            self.above = above;
            if !sacked && !record.has(RESENT) {
                self.mark_lost(self.cursor, &mut lost);
            }
            self.cursor += 1;
        }
        if count == Count::Distance {
            self.mark_repairs(lost);
        }
    }

    fn mark_repairs(&mut self, mut lost: impl FnMut(&Record)) {
        let mut repairs = self.repairs.take().unwrap_or_default();
        while let Some(&(next, id)) = repairs.front()
            && (id < self.base || next < self.highest)
        {
            self.mark_lost(id, &mut lost);
            repairs.pop_front();
        }
        self.repairs = Some(repairs);
    }

    /// RACK's step 5 (RFC 8985 section 6.2): in the order of their sending, asks of every segment in
    /// flight whether it is `overdue`, until one is not, which is returned.
    pub fn mark_by_time(
        &mut self,
        mut overdue: impl FnMut(&Record) -> bool,
        mut lost: impl FnMut(&Record),
    ) -> Option<Record> {
        loop {
            let (sent, id) = *self.transmissions.as_ref()?.front()?;
            if let Some(record) = self.get(id)
                && record.sent == sent
                && record.flags & (SACKED | LOST) == 0
            {
                if !overdue(record) {
                    return Some(*record);
                }
                self.mark_lost(id, &mut lost);
            }
            self.transmissions.as_mut()?.pop_front();
        }
    }

    /// A timeout: what has not arrived and is `overdue` is lost, the first segment in any case.
    pub fn mark_overdue(
        &mut self,
        overdue: impl Fn(&Record) -> bool,
        mut lost: impl FnMut(&Record),
    ) {
        for id in self.base..self.base + self.records.len() as u64 {
            if id == self.base || self.get(id).is_some_and(&overdue) {
                self.mark_lost(id, &mut lost);
            }
        }
    }

    /// Retransmissions that may still be on their way: how many, and when the first of them left.
    pub fn resent(&self) -> (u32, Time) {
        let mut resent = (0, Time::MAX);
        for record in &self.records {
            if record.has(RESENT) && record.flags & (SACKED | LOST) == 0 {
                resent = (resent.0 + 1, resent.1.min(record.sent));
            }
        }
        resent
    }

    /// Whether something was declared lost and is not known to have arrived, be it sent again or not.
    pub fn misses(&self) -> bool {
        self.records.iter().any(|record| record.has(MISSED) && !record.has(SACKED))
    }

    /// Lost records that were not sent again are in flight, and may be lost by count once more.
    pub fn unmark_all(&mut self, mut found: impl FnMut(&Record)) {
        for record in &mut self.records {
            record.flags &= !MISSED;
        }
        let first = self.next_to_resend().unwrap_or(self.cursor);
        while self.cursor > first {
            self.cursor -= 1;
            self.above += u64::from(self.get(self.cursor).is_some_and(Record::is_sacked));
        }
        while let Some(id) = self.next_to_resend() {
            self.to_resend.pop();
            let Some(record) = self.get_mut(id) else { continue };
            record.flags &= !LOST;
            let (sent, length, resent) =
                (record.sent, u64::from(record.length), record.has(RESENT));
            found(record);
            self.lost_bytes -= length;
            if let Some(repairs) = self.repairs.as_mut().filter(|_| resent) {
                // Data sent after it has arrived already.
                repairs.push_front((0, id));
            }
            if let Some(transmissions) = &mut self.transmissions {
                let place = transmissions.partition_point(|entry| entry.0 <= sent);
                transmissions.insert(place, (sent, id));
            }
        }
    }

    /// Number of the first lost segment that waits to be sent again.
    pub fn next_to_resend(&mut self) -> Option<u64> {
        while let Some(&Reverse(id)) = self.to_resend.peek() {
            if self.get(id).is_some_and(|record| record.has(LOST)) {
                return Some(id);
            }
            self.to_resend.pop();
        }
        None
    }

    /// First record from `from` on that is in flight, was sent once and lies below what has arrived
    /// (RFC 6675 section 4, NextSeg rule 3).
    pub fn in_flight_below_highest(&self, from: u64) -> Option<u64> {
        let mut id = from.max(self.cursor);
        loop {
            let record = self.get(id)?;
            if record.start >= self.highest {
                return None;
            }
            if record.flags & (SACKED | LOST | RESENT) == 0 {
                return Some(id);
            }
            id += 1;
        }
    }

    /// Record `id` was sent again at `now`.
    pub fn resend(&mut self, id: u64, now: Time) {
        let Some(record) = self.get_mut(id) else { return };
        let was_lost = record.has(LOST);
        record.flags = record.flags & !LOST | RESENT;
        record.sent = now;
        let length = u64::from(record.length);
        if was_lost {
            self.lost_bytes -= length;
        }
        let next = self.next;
        if let Some(repairs) = &mut self.repairs {
            repairs.push_back((next, id));
        }
        if let Some(transmissions) = &mut self.transmissions {
            transmissions.push_back((now, id));
        }
    }
}

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
