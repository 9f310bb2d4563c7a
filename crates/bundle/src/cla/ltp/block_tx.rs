//! A sent block (RFC 5326 section 8.1): its red part until reports claim all of it, its green part once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};

use super::sdnv;
use super::segment::{
    Checkpoint, DataSegment, DataSegmentType, LtpSegment, LtpSessionId, ReportSegment, SegmentBody,
    head_bytes, reason,
};
use super::spec::{BUNDLE_PROTOCOL, LtpSpec};

/// The space for the serial numbers of a checkpoint, of 21 bits each.
const SERIALS_BYTES: usize = 6;

/// A range of the block to send. The last segment of red data is a checkpoint.
#[derive(Debug)]
struct PendingRange {
    start: u64,
    end: u64,
    /// The last range of its round.
    is_last: bool,
    /// The serial number of the answered report; 0 for the first transmission.
    report: u64,
    cycle: u32,
}

/// A checkpoint without a report.
#[derive(Clone, Copy, Debug)]
struct OpenCheckpoint {
    start: u64,
    end: u64,
    report: u64,
    cycle: u32,
    /// The number of transmissions.
    transmissions: u32,
}

/// The effect of a report on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReportEffect {
    /// The report is a duplicate, or covers data that was not sent.
    NoEffect,
    /// Data is retransmitted, or other reports are pending.
    Incomplete,
    /// The red part is complete.
    Complete,
    /// The limit of retransmission cycles is exceeded.
    CycleLimit,
}

pub(super) struct SentBlock {
    /// The number of the bundle at the node.
    pub id: u64,
    session: LtpSessionId,
    is_red: bool,
    parts: Vec<Bytes>,
    /// The offsets of the chunks.
    starts: Vec<u64>,
    total: u64,
    /// The end of the sent data.
    sent_bytes: u64,
    /// The claimed ranges, end by start; neither overlapping nor adjacent.
    claimed: BTreeMap<u64, u64>,
    pending: VecDeque<PendingRange>,
    /// The checkpoints to retransmit.
    retransmit_queue: VecDeque<u64>,
    open_checkpoints: BTreeMap<u64, OpenCheckpoint>,
    next_serial: u64,
    seen_reports: BTreeSet<u64>,
    max_cycles: u32,
    max_pending: usize,
    /// The block is in the retransmission queue of the engine.
    pub is_queued: bool,
}

impl SentBlock {
    pub fn new(
        session: LtpSessionId,
        id: u64,
        parts: Vec<Bytes>,
        is_red: bool,
        first_serial: u64,
        spec: &LtpSpec,
    ) -> SentBlock {
        let mut total = 0;
        let starts = parts
            .iter()
            .map(|part| {
                let start = total;
                total += part.len() as u64;
                start
            })
            .collect();
        let whole = PendingRange { start: 0, end: total, is_last: true, report: 0, cycle: 0 };
        SentBlock {
            id,
            session,
            is_red,
            parts,
            starts,
            total,
            sent_bytes: 0,
            claimed: BTreeMap::new(),
            pending: VecDeque::from([whole]),
            retransmit_queue: VecDeque::new(),
            open_checkpoints: BTreeMap::new(),
            next_serial: first_serial,
            seen_reports: BTreeSet::new(),
            max_cycles: spec.max_retransmission_cycles,
            max_pending: 64 + 2 * total.div_ceil(u64::from(spec.segment_bytes).max(1)) as usize,
            is_queued: false,
        }
    }

    /// Returns whether all data was sent once.
    pub fn is_fully_sent(&self) -> bool {
        self.sent_bytes == self.total
    }

    pub fn is_red(&self) -> bool {
        self.is_red
    }

    pub fn has_data(&self) -> bool {
        !self.pending.is_empty() || !self.retransmit_queue.is_empty()
    }

    /// Returns the checkpoints without a report.
    pub fn open_checkpoints(&self) -> impl Iterator<Item = u64> {
        self.open_checkpoints.keys().copied()
    }

    fn slice(&self, start: u64, end: u64) -> Bytes {
        let first = self.starts.partition_point(|begin| *begin <= start).saturating_sub(1);
        let within = |index: usize| {
            let (part, begin) = (&self.parts[index], self.starts[index]);
            let to = (end - begin).min(part.len() as u64) as usize;
            part.slice((start.max(begin) - begin) as usize..to)
        };
        if self.starts.get(first + 1).is_none_or(|next| *next >= end) {
            return within(first);
        }
        let mut data = BytesMut::with_capacity((end - start) as usize);
        for index in (first..self.parts.len()).take_while(|index| self.starts[*index] < end) {
            data.extend_from_slice(&within(index));
        }
        data.freeze()
    }

    fn build_segment(&self, start: u64, end: u64, checkpoint: Option<Checkpoint>) -> LtpSegment {
        let segment_type = match (self.is_red, checkpoint, end == self.total) {
            (true, None, _) => DataSegmentType::Red,
            (true, Some(_), false) => DataSegmentType::Checkpoint,
            (true, Some(_), true) => DataSegmentType::EndOfBlock,
            (false, _, false) => DataSegmentType::Green,
            (false, _, true) => DataSegmentType::GreenEndOfBlock,
        };
        let data = self.slice(start, end);
        let body = DataSegment {
            segment_type,
            client_service: BUNDLE_PROTOCOL,
            offset: start,
            checkpoint,
            data,
        };
        LtpSegment { session: self.session, body: SegmentBody::Data(body) }
    }

    /// Returns the next segment of at most `max_bytes`, and its checkpoint serial number.
    pub fn next_segment(&mut self, max_bytes: usize) -> Option<(LtpSegment, Option<u64>)> {
        while let Some(serial) = self.retransmit_queue.pop_front() {
            let Some(one) = self.open_checkpoints.get_mut(&serial) else { continue };
            one.transmissions += 1;
            let (start, end, report) = (one.start, one.end, one.report);
            let checkpoint = Checkpoint { serial, report };
            return Some((self.build_segment(start, end, Some(checkpoint)), Some(serial)));
        }
        let part = self.pending.front()?;
        let checkpoint = Checkpoint { serial: self.next_serial, report: part.report };
        let head = head_bytes(self.session)
            + sdnv::length(BUNDLE_PROTOCOL)
            + sdnv::length(part.start)
            + sdnv::length(max_bytes as u64);
        // Any segment of red data may become a checkpoint in its retransmission.
        let serials_bytes = if self.is_red { SERIALS_BYTES } else { 0 };
        let plain_limit = max_bytes.saturating_sub(head + serials_bytes).max(1) as u64;
        let serials = sdnv::length(checkpoint.serial) + sdnv::length(checkpoint.report);
        let ends = self.is_red && part.is_last;
        let checkpoint_limit =
            max_bytes.saturating_sub(head + serials.max(serials_bytes)).max(1) as u64;
        let checkpoint_limit = if ends { checkpoint_limit } else { plain_limit };
        let left = part.end - part.start;
        let taken = if left <= plain_limit { left.min(checkpoint_limit) } else { plain_limit };
        let (start, end) = (part.start, part.start + taken);
        let (report, cycle, whole) = (part.report, part.cycle, taken == left);
        self.sent_bytes = self.sent_bytes.max(end);
        if let Some(part) = self.pending.front_mut().filter(|_| !whole) {
            part.start = end;
        } else {
            self.pending.pop_front();
        }
        if !(ends && whole) {
            return Some((self.build_segment(start, end, None), None));
        }
        let serial = self.next_serial;
        self.next_serial = serial.checked_add(1).unwrap_or(1);
        self.open_checkpoints
            .insert(serial, OpenCheckpoint { start, end, report, cycle, transmissions: 1 });
        Some((self.build_segment(start, end, Some(checkpoint)), Some(serial)))
    }

    /// Handles an expired checkpoint: retransmits it up to the limit (section 6.7).
    pub fn on_checkpoint_expired(
        &mut self,
        serial: u64,
        max_retransmissions: u32,
    ) -> Result<(), u8> {
        match self.open_checkpoints.get(&serial) {
            Some(one) if one.transmissions > max_retransmissions => Err(reason::RETRANSMISSIONS),
            Some(_) => {
                self.retransmit_queue.push_back(serial);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn add_claim(&mut self, start: u64, end: u64) {
        let (mut low, mut high) = (start, end);
        while let Some((&from, &to)) = self.claimed.range(..=high).next_back() {
            if to < low {
                break;
            }
            self.claimed.remove(&from);
            low = low.min(from);
            high = high.max(to);
        }
        self.claimed.insert(low, high);
    }

    /// Returns whether a report has a gap inside an earlier claim.
    fn retracts_claims(&self, report: &ReportSegment) -> bool {
        let mut claims = report.claims.iter();
        let mut claim = claims.next().copied();
        let before = self.claimed.range(..report.lower_bound).next_back();
        let within =
            before.into_iter().chain(self.claimed.range(report.lower_bound..report.upper_bound));
        for (from, to) in within {
            let (mut from, to) = ((*from).max(report.lower_bound), (*to).min(report.upper_bound));
            while from < to {
                match claim {
                    Some((_, end)) if end <= from => claim = claims.next().copied(),
                    Some((start, end)) if start <= from => from = end,
                    _ => return true,
                }
            }
        }
        false
    }

    /// Returns the unclaimed ranges.
    fn gaps(&self, (lower, upper): (u64, u64)) -> Vec<(u64, u64)> {
        let before = self.claimed.range(..=lower).next_back().map_or(0, |(_, end)| *end);
        let mut at = lower.max(before);
        let mut gaps = Vec::new();
        for (start, end) in self.claimed.range(at..upper.max(at)) {
            gaps.push((at, *start));
            at = *end;
        }
        gaps.push((at, upper));
        gaps.retain(|(start, end)| start < end);
        gaps
    }

    /// Handles a report (section 6.13). Returns its effect and the answered checkpoint.
    pub fn on_report(&mut self, report: &ReportSegment) -> (ReportEffect, Option<u64>) {
        // A report before the last checkpoint, or beyond the block, is invalid.
        let is_impossible = !self.is_fully_sent() || report.upper_bound > self.total;
        if is_impossible || !self.is_red || self.seen_reports.contains(&report.serial) {
            return (ReportEffect::NoEffect, None);
        }
        // A round can have several reports, so their number is bounded too.
        if self.seen_reports.len() as u64 >= u64::from(self.max_cycles) * 64 {
            return (ReportEffect::CycleLimit, None);
        }
        self.seen_reports.insert(report.serial);
        let checkpoint_state = self.open_checkpoints.remove(&report.checkpoint);
        let last = self.open_checkpoints.values().map(|one| one.cycle).max().unwrap_or(0);
        let cycle = checkpoint_state.map_or(last, |one| one.cycle) + 1;
        let checkpoint = checkpoint_state.map(|_| report.checkpoint);
        // A receiver that retracts a claim has lost the block, possibly all of it.
        let is_retracted = self.retracts_claims(report);
        if is_retracted {
            self.claimed.clear();
            self.pending.clear();
        }
        for (start, end) in &report.claims {
            self.add_claim(*start, *end);
        }
        if self.claimed.first_key_value() == Some((&0, &self.total)) {
            return (ReportEffect::Complete, checkpoint);
        }
        let scope =
            if is_retracted { (0, self.total) } else { (report.lower_bound, report.upper_bound) };
        let gaps = self.gaps(scope);
        // Losses are whole segments: more gaps are impossible.
        let too_many = self.pending.len() + gaps.len() > self.max_pending;
        if !gaps.is_empty() && (cycle > self.max_cycles || too_many) {
            return (ReportEffect::CycleLimit, checkpoint);
        }
        let count = gaps.len();
        let parts = gaps.into_iter().enumerate().map(|(index, (start, end))| PendingRange {
            start,
            end,
            is_last: index + 1 == count,
            report: report.serial,
            cycle,
        });
        self.pending.extend(parts);
        (ReportEffect::Incomplete, checkpoint)
    }
}
