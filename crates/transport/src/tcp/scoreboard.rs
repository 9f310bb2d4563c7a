//! Sent and unacknowledged data, segment by segment (RFC 6675's scoreboard). Every operation costs at most the
//! logarithm of the window, for any losses. Records are in sequence order and are found by number. Selective
//! acknowledgements are stored as ranges, so that repeated blocks cost no work. Cursors replace scans.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use units::Time;

const SACKED: u8 = 1;
const LOST: u8 = 2;
const RETRANSMITTED: u8 = 4;
const FIN: u8 = 8;
/// The segment was declared lost, and may have been sent again since.
const EVER_LOST: u8 = 16;

/// One segment that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentSegment {
    /// First sequence number.
    pub start: u64,
    /// Sequence numbers: data bytes, and 1 for FIN.
    pub length: u32,
    flags: u8,
    /// Time of the last transmission.
    pub sent: Time,
}

impl SentSegment {
    /// Returns the sequence number after the segment.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether it was sent more than once.
    pub fn is_retransmitted(&self) -> bool {
        self.has(RETRANSMITTED)
    }

    /// Returns whether it carries FIN.
    pub fn is_fin(&self) -> bool {
        self.has(FIN)
    }

    /// Returns whether it is selectively acknowledged.
    pub fn is_sacked(&self) -> bool {
        self.has(SACKED)
    }

    /// Returns whether it is declared lost and was not sent again.
    pub fn is_lost(&self) -> bool {
        self.has(LOST)
    }
}

/// Segments that count above a segment for its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LossRule {
    /// Received segments (RFC 6675).
    SackCount,
    /// Segments sent up to the highest received one (FACK).
    Fack,
}

/// The scoreboard. Records have numbers from the start of the connection.
#[derive(Debug)]
pub(super) struct Scoreboard {
    records: VecDeque<SentSegment>,
    /// Number of the first record.
    first_id: u64,
    una: u64,
    next: u64,
    /// Selectively acknowledged ranges, ascending and disjoint.
    sacked_ranges: VecDeque<(u64, u64)>,
    sacked_records: u64,
    sacked_bytes: u64,
    lost_bytes: u64,
    /// Highest sequence number acknowledged, cumulatively or selectively (RACK.fack).
    highest: u64,
    /// Records before this number are lost by count, unless they have arrived.
    cursor: u64,
    /// Records from the cursor on that have been selectively acknowledged.
    sacked_above: u64,
    /// Start of the search for the segment that a duplicate ACK represents (without SACK).
    virtual_from: u64,
    /// Numbers of lost records; some may have arrived since.
    lost_queue: BinaryHeap<Reverse<u64>>,
    /// Transmissions in the order of time; for RACK only. Entries are void if their record has arrived, is lost or was
    /// sent again.
    send_order: Option<VecDeque<(Time, u64)>>,
    /// Retransmissions in sequence: the next sequence number at that time, and the record's number. For
    /// [`LossRule::Fack`] only.
    retransmissions: Option<VecDeque<(u64, u64)>>,
    /// Usual length of a record.
    usual_length: u64,
}

impl Scoreboard {
    /// Creates an empty scoreboard with the next sequence number `next`.
    pub fn new(next: u64, segment: u64, in_order_of_time: bool) -> Scoreboard {
        Scoreboard {
            records: VecDeque::with_capacity(64),
            first_id: 0,
            una: next,
            next,
            sacked_ranges: VecDeque::new(),
            sacked_records: 0,
            sacked_bytes: 0,
            lost_bytes: 0,
            highest: next,
            cursor: 0,
            sacked_above: 0,
            virtual_from: 0,
            lost_queue: BinaryHeap::new(),
            send_order: in_order_of_time.then(VecDeque::new),
            retransmissions: None,
            usual_length: segment.max(1),
        }
    }

    /// Sets the results of the handshake: the usual length, and whether RACK needs the order of time.
    pub fn configure(&mut self, segment: u64, in_order_of_time: bool) {
        self.usual_length = segment.max(1);
        if in_order_of_time && self.send_order.is_none() {
            let first = self.first_id;
            let sent = self.records.iter().enumerate();
            self.send_order =
                Some(sent.map(|(index, record)| (record.sent, first + index as u64)).collect());
        } else if !in_order_of_time {
            self.send_order = None;
        }
    }

    /// Returns SND.UNA.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// Returns SND.NXT.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether no data is outstanding.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the number of outstanding records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the bytes selectively acknowledged.
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    /// Returns the number of records selectively acknowledged.
    pub fn sacked_records(&self) -> u64 {
        self.sacked_records
    }

    /// Returns the bytes declared lost and not sent again.
    #[cfg(test)]
    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Returns the highest sequence number acknowledged, cumulatively or selectively.
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Returns record number `id`, if it is outstanding.
    pub fn get(&self, id: u64) -> Option<&SentSegment> {
        self.records.get(usize::try_from(id.checked_sub(self.first_id)?).ok()?)
    }

    fn get_mut(&mut self, id: u64) -> Option<&mut SentSegment> {
        self.records.get_mut(usize::try_from(id.checked_sub(self.first_id)?).ok()?)
    }

    /// Returns the number of the first record, which exists unless the board is empty.
    pub fn first_id(&self) -> u64 {
        self.first_id
    }

    /// Returns the number of the last record, or the one before the first.
    pub fn last_id(&self) -> u64 {
        (self.first_id + self.records.len() as u64).wrapping_sub(1)
    }

    /// Adds a segment of `length` sequence numbers that was sent for the first time.
    pub fn push(&mut self, now: Time, length: u32, fin: bool) {
        let flags = if fin { FIN } else { 0 };
        if let Some(transmissions) = &mut self.send_order {
            transmissions.push_back((now, self.first_id + self.records.len() as u64));
        }
        self.records.push_back(SentSegment { start: self.next, length, flags, sent: now });
        self.next += u64::from(length);
    }

    /// Returns the index of the first record that ends after `sequence`.
    fn index_of(&self, sequence: u64) -> usize {
        let Some(front) = self.records.front() else { return 0 };
        let guess = (sequence.saturating_sub(front.start) / self.usual_length) as usize;
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

    /// Acknowledges everything before `ack`. `arrived` gets each newly received record with its new bytes (a record may
    /// be acknowledged in part).
    pub fn acknowledge(&mut self, ack: u64, mut arrived: impl FnMut(&SentSegment, u64)) {
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
                    if self.first_id >= self.cursor {
                        self.sacked_above -= 1;
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
            self.first_id += 1;
        }
        self.cursor = self.cursor.max(self.first_id);
        self.una = self.una.max(ack);
        self.highest = self.highest.max(ack);
        while let Some(range) = self.sacked_ranges.front_mut() {
            if range.1 > ack {
                range.0 = range.0.max(ack);
                break;
            }
            self.sacked_ranges.pop_front();
        }
        if self.records.is_empty() {
            self.lost_queue.clear();
            if let Some(transmissions) = &mut self.send_order {
                transmissions.clear();
            }
        }
    }

    /// Handles a SACK block. `arrived` gets each new record.
    pub fn sack(&mut self, start: u64, end: u64, mut arrived: impl FnMut(&SentSegment)) {
        let (mut low, mut high) = (start.max(self.una), end.min(self.next));
        if low >= high {
            return;
        }
        // The block merges with the known ranges that it touches; the gaps between them are new.
        let from = self.sacked_ranges.partition_point(|range| range.1 < low);
        let to =
            from + self.sacked_ranges.range(from..).take_while(|range| range.0 <= high).count();
        let mut gap = low;
        if from < to {
            low = low.min(self.sacked_ranges[from].0);
            high = high.max(self.sacked_ranges[to - 1].1);
        }
        for index in from..to {
            let (known_start, known_end) = self.sacked_ranges[index];
            self.sack_gap((gap, known_start), (low, high), &mut arrived);
            gap = gap.max(known_end);
        }
        self.sack_gap((gap, high), (low, high), &mut arrived);
        self.highest = self.highest.max(high);
        if from < to {
            self.sacked_ranges[from] = (low, high);
            self.sacked_ranges.drain(from + 1..to);
        } else {
            self.sacked_ranges.insert(from, (low, high));
        }
    }

    /// Marks the records in the new `gap`; with known data, `whole` has arrived.
    fn sack_gap(
        &mut self,
        gap: (u64, u64),
        whole: (u64, u64),
        arrived: &mut impl FnMut(&SentSegment),
    ) {
        if gap.0 >= gap.1 {
            return;
        }
        let mut index = self.index_of(gap.0);
        while let Some(record) = self.records.get_mut(index)
            && record.start < gap.1
        {
            // A partly received record waits for the rest.
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
        if self.first_id + index as u64 >= self.cursor {
            self.sacked_above += 1;
        }
    }

    /// Handles a duplicate ACK without SACK: a segment after the first has arrived. It marks the lowest segment that
    /// does not count as arrived (RFC 5681 section 3.2's inflation, as a shrinking flight).
    pub fn sack_virtual(&mut self, mut arrived: impl FnMut(&SentSegment)) {
        self.virtual_from = self.virtual_from.max(self.first_id + 1);
        while let Some(record) = self.get(self.virtual_from).copied() {
            self.virtual_from += 1;
            if !record.has(SACKED) && !record.has(LOST) {
                arrived(&record);
                let index = (self.virtual_from - 1 - self.first_id) as usize;
                self.set_sacked(index);
                return;
            }
        }
    }

    /// Without SACK: the first segment is missing after all, so its mark moves to a later one.
    pub fn unsack_first(&mut self) {
        let Some(record) = self.records.front_mut() else { return };
        if !record.has(SACKED) {
            return;
        }
        record.flags &= !SACKED;
        let length = u64::from(record.length);
        self.sacked_bytes -= length;
        self.sacked_records -= 1;
        if self.first_id >= self.cursor {
            self.sacked_above -= 1;
        }
        self.sack_virtual(|_| ());
    }

    /// Without SACK: clears all marks of arrival (a timeout).
    pub fn clear_sacked(&mut self, mut on_cleared: impl FnMut(&SentSegment)) {
        for record in &mut self.records {
            if record.has(SACKED) {
                record.flags &= !SACKED;
                on_cleared(record);
            }
        }
        (self.sacked_bytes, self.sacked_records, self.sacked_above) = (0, 0, 0);
        self.virtual_from = self.first_id + 1;
    }

    /// Declares record `id` lost, unless it has arrived or is already lost. `lost` gets the record.
    pub fn mark_lost(&mut self, id: u64, lost: impl FnOnce(&SentSegment)) {
        let Some(record) = self.get_mut(id) else { return };
        if record.flags & (SACKED | LOST) != 0 {
            return;
        }
        lost(record);
        record.flags |= LOST | EVER_LOST;
        let length = u64::from(record.length);
        self.lost_bytes += length;
        self.lost_queue.push(Reverse(id));
    }

    /// Declares a segment lost when `threshold` segments above it have arrived (RFC 6675's IsLost). With
    /// [`LossRule::Fack`] one received segment at that distance is enough. Each segment is checked once. A
    /// retransmission waits for the timer, or with FACK for the arrival of data sent after it.
    pub fn mark_by_count(
        &mut self,
        threshold: u64,
        count: LossRule,
        mut lost: impl FnMut(&SentSegment),
    ) {
        let top = match count {
            LossRule::Fack if self.sacked_records > 0 => {
                self.first_id + self.index_of(self.highest - 1) as u64
            }
            _ => self.first_id,
        };
        while let Some(record) = self.get(self.cursor).copied() {
            let sacked = record.has(SACKED);
            let above = self.sacked_above - u64::from(sacked);
            let counted = match count {
                LossRule::SackCount => above,
                LossRule::Fack => top.saturating_sub(self.cursor),
            };
            if counted < threshold {
                break;
            }
            self.sacked_above = above;
            if !sacked && !record.has(RETRANSMITTED) {
                self.mark_lost(self.cursor, &mut lost);
            }
            self.cursor += 1;
        }
        if count == LossRule::Fack {
            self.mark_lost_retransmissions(lost);
        }
    }

    fn mark_lost_retransmissions(&mut self, mut lost: impl FnMut(&SentSegment)) {
        let mut retransmissions = self.retransmissions.take().unwrap_or_default();
        while let Some(&(next, id)) = retransmissions.front()
            && (id < self.first_id || next < self.highest)
        {
            self.mark_lost(id, &mut lost);
            retransmissions.pop_front();
        }
        self.retransmissions = Some(retransmissions);
    }

    /// Performs RACK's step 5 (RFC 8985 section 6.2): checks segments in flight with `overdue`, in the order of
    /// sending. Returns the first one that is not overdue.
    pub fn mark_by_time(
        &mut self,
        mut overdue: impl FnMut(&SentSegment) -> bool,
        mut lost: impl FnMut(&SentSegment),
    ) -> Option<SentSegment> {
        loop {
            let (sent, id) = *self.send_order.as_ref()?.front()?;
            if let Some(record) = self.get(id)
                && record.sent == sent
                && record.flags & (SACKED | LOST) == 0
            {
                if !overdue(record) {
                    return Some(*record);
                }
                self.mark_lost(id, &mut lost);
            }
            self.send_order.as_mut()?.pop_front();
        }
    }

    /// Handles a timeout: missing segments that are `overdue` are lost, and the first one always.
    pub fn mark_overdue(
        &mut self,
        overdue: impl Fn(&SentSegment) -> bool,
        mut lost: impl FnMut(&SentSegment),
    ) {
        for id in self.first_id..self.first_id + self.records.len() as u64 {
            if id == self.first_id || self.get(id).is_some_and(&overdue) {
                self.mark_lost(id, &mut lost);
            }
        }
    }

    /// Returns the number of retransmissions that may be in transit, and the send time of the first.
    pub fn outstanding_retransmissions(&self) -> (u32, Time) {
        let mut resent = (0, Time::MAX);
        for record in &self.records {
            if record.has(RETRANSMITTED) && record.flags & (SACKED | LOST) == 0 {
                resent = (resent.0 + 1, resent.1.min(record.sent));
            }
        }
        resent
    }

    /// Returns whether a record was declared lost and has not arrived, sent again or not.
    pub fn has_unrepaired_loss(&self) -> bool {
        self.records.iter().any(|record| record.has(EVER_LOST) && !record.has(SACKED))
    }

    /// Puts lost records that were not sent again back into the flight. They may be lost by count again.
    pub fn unmark_all(&mut self, mut found: impl FnMut(&SentSegment)) {
        for record in &mut self.records {
            record.flags &= !EVER_LOST;
        }
        let first = self.next_lost().unwrap_or(self.cursor);
        while self.cursor > first {
            self.cursor -= 1;
            self.sacked_above +=
                u64::from(self.get(self.cursor).is_some_and(SentSegment::is_sacked));
        }
        while let Some(id) = self.next_lost() {
            self.lost_queue.pop();
            let Some(record) = self.get_mut(id) else { continue };
            record.flags &= !LOST;
            let (sent, length, resent) =
                (record.sent, u64::from(record.length), record.has(RETRANSMITTED));
            found(record);
            self.lost_bytes -= length;
            if let Some(retransmissions) = self.retransmissions.as_mut().filter(|_| resent) {
                // Data sent after it has already arrived.
                retransmissions.push_front((0, id));
            }
            if let Some(transmissions) = &mut self.send_order {
                let position = transmissions.partition_point(|entry| entry.0 <= sent);
                transmissions.insert(position, (sent, id));
            }
        }
    }

    /// Returns the number of the first lost segment to send again.
    pub fn next_lost(&mut self) -> Option<u64> {
        while let Some(&Reverse(id)) = self.lost_queue.peek() {
            if self.get(id).is_some_and(|record| record.has(LOST)) {
                return Some(id);
            }
            self.lost_queue.pop();
        }
        None
    }

    /// Returns the first record from `from` on that is in flight, was sent once and is below received data. This is
    /// NextSeg rule 3 of RFC 6675 section 4.
    pub fn in_flight_below_highest(&self, from: u64) -> Option<u64> {
        let mut id = from.max(self.cursor);
        loop {
            let record = self.get(id)?;
            if record.start >= self.highest {
                return None;
            }
            if record.flags & (SACKED | LOST | RETRANSMITTED) == 0 {
                return Some(id);
            }
            id += 1;
        }
    }

    /// Marks record `id` as sent again at `now`.
    pub fn mark_retransmitted(&mut self, id: u64, now: Time) {
        let Some(record) = self.get_mut(id) else { return };
        let was_lost = record.has(LOST);
        record.flags = record.flags & !LOST | RETRANSMITTED;
        record.sent = now;
        let length = u64::from(record.length);
        if was_lost {
            self.lost_bytes -= length;
        }
        let next = self.next;
        if let Some(retransmissions) = &mut self.retransmissions {
            retransmissions.push_back((next, id));
        }
        if let Some(transmissions) = &mut self.send_order {
            transmissions.push_back((now, id));
        }
    }
}

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
