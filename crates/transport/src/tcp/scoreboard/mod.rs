//! Sent and unacknowledged data, segment by segment (RFC 6675's scoreboard). Every operation costs at most the
//! logarithm of the window, for any losses. Records are in sequence order and are found by number. Selective
//! acknowledgements are stored as ranges, so that repeated blocks cost no work. Cursors replace scans.
//!
//! This file has transmission and acknowledgement; `losses` declares segments lost.

mod losses;
mod sent_segment;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use units::Time;

use sent_segment::{FIN, LOST, SACKED};

pub(super) use losses::LossRule;
pub(super) use sent_segment::SentSegment;

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
    /// retransmitted.
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

    /// Returns the bytes declared lost and not retransmitted.
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
}
