//! Losses on the scoreboard: by count, by time and by timeout, their retransmission and their withdrawal.

use std::cmp::Reverse;

use units::Time;

use super::Scoreboard;
use super::sent_segment::{EVER_LOST, LOST, RETRANSMITTED, SACKED, SentSegment};

/// Segments that count above a segment for its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tcp) enum LossRule {
    /// Received segments (RFC 6675).
    SackCount,
    /// Segments sent up to the highest received one (FACK).
    Fack,
}

impl Scoreboard {
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

    /// Returns whether a record was declared lost and has not arrived, retransmitted or not.
    pub fn has_unrepaired_loss(&self) -> bool {
        self.records.iter().any(|record| record.has(EVER_LOST) && !record.has(SACKED))
    }

    /// Puts lost records that were not retransmitted back into the flight. They may be lost by count again.
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

    /// Marks record `id` as retransmitted at `now`.
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
