//! A received block (RFC 5326 section 8.2): its data, and the reports on its red part.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::sdnv;
use super::segment::{
    DataSegment, DataSegmentType, LtpSessionId, ReportSegment, head_bytes, reason,
};
use super::spec::{BUNDLE_PROTOCOL, LtpSpec};
use crate::cla::reassembly::copy_chunk;

/// The approximate memory overhead of a chunk.
const PIECE_OVERHEAD: u64 = 64;

/// The approximate memory overhead of a session, of a report and of a claim.
const SESSION_OVERHEAD: u64 = 1024;
const REPORT_OVERHEAD: u64 = 256;
const CLAIM_OVERHEAD: u64 = 16;

/// A report without an acknowledgement.
#[derive(Clone, Debug)]
pub(super) struct UnackedReport {
    pub report: ReportSegment,
    /// The report claims the complete red part.
    pub claims_all: bool,
    /// The number of transmissions.
    pub transmissions: u32,
}

#[derive(Debug)]
pub(super) struct ReceivedBlock {
    pieces: BTreeMap<u64, Bytes>,
    /// The received bytes of red and green data.
    red_bytes: u64,
    green_bytes: u64,
    red_end: Option<u64>,
    block_end: Option<u64>,
    /// The maximum end of red data and the minimum offset of green data so far.
    max_red_end: u64,
    min_green_offset: u64,
    /// The quota of the block, and the part of it for chunks.
    pub quota_bytes: u64,
    pieces_quota_bytes: u64,
    pub unacked_reports: BTreeMap<u64, UnackedReport>,
    /// The scopes of reports, for the checkpoints that respond to them.
    report_scopes: BTreeMap<u64, (u64, u64)>,
    /// The reports on each answered checkpoint.
    reports_by_checkpoint: BTreeMap<u64, Vec<u64>>,
    /// The last checkpoint with a report that waits for the store.
    deferred_checkpoint: Option<u64>,
    next_serial: u64,
    /// The number of the bundle in the session, once the node has it.
    pub delivered_id: Option<u64>,
    /// The node has stored the bundle.
    pub durable: bool,
}

/// The effect of a segment on a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SegmentEffect {
    /// Reports to send.
    Reports(Vec<u64>),
    /// Reports to send again.
    Duplicate(Vec<u64>),
    /// The session must be cancelled.
    Invalid(u8),
}

impl ReceivedBlock {
    pub fn new(first_serial: u64) -> ReceivedBlock {
        ReceivedBlock {
            pieces: BTreeMap::new(),
            red_bytes: 0,
            green_bytes: 0,
            red_end: None,
            block_end: None,
            max_red_end: 0,
            min_green_offset: u64::MAX,
            quota_bytes: SESSION_OVERHEAD,
            pieces_quota_bytes: 0,
            unacked_reports: BTreeMap::new(),
            report_scopes: BTreeMap::new(),
            reports_by_checkpoint: BTreeMap::new(),
            deferred_checkpoint: None,
            next_serial: first_serial,
            delivered_id: None,
            durable: false,
        }
    }

    /// Returns whether any red data has arrived.
    pub fn is_red(&self) -> bool {
        self.max_red_end > 0 || self.red_end.is_some()
    }

    fn is_red_complete(&self) -> bool {
        self.red_end == Some(self.red_bytes)
    }

    /// Returns whether the block is complete and not yet delivered to the node.
    pub fn is_complete(&self) -> bool {
        self.delivered_id.is_none()
            && self.block_end == Some(self.red_bytes + self.green_bytes)
            && (self.is_red_complete() || (self.red_end.is_none() && self.red_bytes == 0))
    }

    /// Reports wait for the store if the complete block is red.
    fn waits_for_store(&self) -> bool {
        self.is_red_complete() && self.block_end == self.red_end && !self.durable
    }

    /// Checks colour and length of a segment (sections 6.21 and 3.2.4).
    fn check_data(&self, data: &DataSegment, spec: &LtpSpec) -> Result<(), u8> {
        let end = data.end();
        if data.client_service != BUNDLE_PROTOCOL {
            return Err(reason::UNREACHABLE);
        }
        if end > spec.transfer_bytes {
            return Err(reason::CANCELLED);
        }
        let red = data.segment_type.is_red();
        if (red && end > self.min_green_offset) || (!red && data.offset < self.max_red_end) {
            return Err(reason::MISCOLOURED);
        }
        let red_end =
            matches!(data.segment_type, DataSegmentType::EndOfRed | DataSegmentType::EndOfBlock);
        let block_end = matches!(
            data.segment_type,
            DataSegmentType::EndOfBlock | DataSegmentType::GreenEndOfBlock
        );
        let is_inconsistent = self
            .block_end
            .is_some_and(|known| end > known || (block_end && end != known))
            || self.red_end.is_some_and(|known| {
                (red && end > known) || (red_end && end != known) || (!red && data.offset < known)
            })
            || (red_end && end < self.max_red_end)
            || (block_end
                && self
                    .pieces
                    .last_key_value()
                    .is_some_and(|(at, last)| *at + last.len() as u64 > end));
        if is_inconsistent { Err(reason::SYSTEM) } else { Ok(()) }
    }

    /// Inserts the new data of a segment.
    fn insert_data(&mut self, data: &DataSegment) {
        let (start, end) = (data.offset, data.end());
        let red = data.segment_type.is_red();
        if red {
            self.max_red_end = self.max_red_end.max(end);
        } else {
            self.min_green_offset = self.min_green_offset.min(start);
        }
        match data.segment_type {
            DataSegmentType::EndOfRed => self.red_end = Some(end),
            DataSegmentType::EndOfBlock => (self.red_end, self.block_end) = (Some(end), Some(end)),
            DataSegmentType::GreenEndOfBlock => self.block_end = Some(end),
            DataSegmentType::Red | DataSegmentType::Checkpoint | DataSegmentType::Green => {}
        }
        if self.delivered_id.is_some() {
            return;
        }
        let before = self.pieces.range(..=start).next_back();
        let mut at = before.map_or(start, |(from, piece)| start.max(*from + piece.len() as u64));
        while at < end {
            let next = self.pieces.range(at..end).next();
            let (until, beyond) =
                next.map_or((end, end), |(from, piece)| (*from, *from + piece.len() as u64));
            if at < until {
                let piece = copy_chunk(&data.data[(at - start) as usize..(until - start) as usize]);
                let bytes = piece.len() as u64;
                self.quota_bytes += bytes + PIECE_OVERHEAD;
                self.pieces_quota_bytes += bytes + PIECE_OVERHEAD;
                *(if red { &mut self.red_bytes } else { &mut self.green_bytes }) += bytes;
                self.pieces.insert(at, piece);
            }
            at = beyond;
        }
    }

    /// Handles a data segment.
    pub fn on_data(
        &mut self,
        session: LtpSessionId,
        data: &DataSegment,
        spec: &LtpSpec,
    ) -> SegmentEffect {
        if let Err(why) = self.check_data(data, spec) {
            return SegmentEffect::Invalid(why);
        }
        self.insert_data(data);
        let Some(checkpoint) = data.checkpoint else { return SegmentEffect::Reports(Vec::new()) };
        if let Some(before) = self.reports_by_checkpoint.get(&checkpoint.serial) {
            // A repeated checkpoint: the report may be lost (section 6.11).
            let lost = before.iter().filter(|serial| self.unacked_reports.contains_key(serial));
            return SegmentEffect::Duplicate(lost.copied().collect());
        }
        if self.waits_for_store() {
            self.deferred_checkpoint = Some(checkpoint.serial);
            return SegmentEffect::Reports(Vec::new());
        }
        let default_scope = (0, data.end());
        let scope = match self.report_scopes.get(&checkpoint.report) {
            Some(scope) => (scope.0, scope.1.max(default_scope.1)),
            None if checkpoint.report == 0 => default_scope,
            // The report precedes a restart of this node. Its claims are lost, and no report can retract them.
            None => return SegmentEffect::Invalid(reason::SYSTEM),
        };
        self.build_reports(session, checkpoint.serial, scope, spec)
    }

    /// Handles the confirmation of the store: builds the deferred reports.
    pub fn on_stored(&mut self, session: LtpSessionId, spec: &LtpSpec) -> SegmentEffect {
        self.durable = true;
        match self.deferred_checkpoint.take() {
            Some(checkpoint) => {
                self.build_reports(session, checkpoint, (0, self.red_end.unwrap_or(0)), spec)
            }
            None => SegmentEffect::Reports(Vec::new()),
        }
    }

    /// Returns the received ranges, with adjacent chunks merged.
    fn received_ranges(&self, scope: (u64, u64)) -> Vec<(u64, u64)> {
        if self.is_red_complete() {
            return vec![scope];
        }
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for (from, piece) in self.pieces.range(..scope.1) {
            let (from, to) = ((*from).max(scope.0), (*from + piece.len() as u64).min(scope.1));
            match spans.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ if from < to => spans.push((from, to)),
                _ => {}
            }
        }
        spans
    }

    /// Builds the reports on a checkpoint; the number of claims determines their number (section 6.11).
    fn build_reports(
        &mut self,
        session: LtpSessionId,
        checkpoint: u64,
        scope: (u64, u64),
        spec: &LtpSpec,
    ) -> SegmentEffect {
        let whole = self.is_red_complete();
        let scope = if whole { (0, self.red_bytes) } else { scope };
        if self.report_scopes.len() as u64 >= u64::from(spec.max_retransmission_cycles) * 64 {
            return SegmentEffect::Invalid(reason::CYCLES);
        }
        let max_bytes = usize::from(spec.segment_bytes);
        let longest = sdnv::length(u64::MAX);
        let mut reports = Vec::new();
        let mut claims = Vec::new();
        let mut lower = scope.0;
        let (mut bytes, empty) = (0, head_bytes(session) + 4 * longest + 3);
        for span in self.received_ranges(scope) {
            let one = sdnv::length(span.0 - lower) + sdnv::length(span.1 - span.0);
            if empty + bytes + one > max_bytes && !claims.is_empty() {
                let upper = claims.last().map_or(lower, |claim: &(u64, u64)| claim.1);
                reports.push((lower, upper, std::mem::take(&mut claims)));
                (lower, bytes) = (upper, 0);
            }
            bytes += one;
            claims.push(span);
        }
        reports.push((lower, scope.1, claims));
        let mut serials = Vec::new();
        for (lower, upper, claims) in reports {
            let serial = self.next_serial;
            self.next_serial = serial.checked_add(1).unwrap_or(1);
            self.report_scopes.insert(serial, (lower, upper));
            self.quota_bytes += REPORT_OVERHEAD + CLAIM_OVERHEAD * claims.len() as u64;
            let report = ReportSegment {
                serial,
                checkpoint,
                lower_bound: lower,
                upper_bound: upper,
                claims,
            };
            self.unacked_reports
                .insert(serial, UnackedReport { report, claims_all: whole, transmissions: 0 });
            serials.push(serial);
        }
        self.reports_by_checkpoint.insert(checkpoint, serials.clone());
        SegmentEffect::Reports(serials)
    }

    /// Returns the bundle and releases its chunks.
    pub fn take_bundle(&mut self, id: u64) -> Vec<Bytes> {
        self.delivered_id = Some(id);
        self.quota_bytes -= std::mem::take(&mut self.pieces_quota_bytes);
        std::mem::take(&mut self.pieces).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_with_an_end_overflow_cancels_the_session() {
        for offset in [u64::MAX - 1, u64::MAX] {
            let data = DataSegment {
                segment_type: DataSegmentType::Red,
                client_service: BUNDLE_PROTOCOL,
                offset,
                checkpoint: None,
                data: Bytes::from_static(b"abc"),
            };
            let mut block = ReceivedBlock::new(1);
            let session = LtpSessionId { originator: 2, number: 1 };
            let effect = block.on_data(session, &data, &LtpSpec::default());
            assert_eq!(effect, SegmentEffect::Invalid(reason::CANCELLED), "{offset}");
        }
    }
}
