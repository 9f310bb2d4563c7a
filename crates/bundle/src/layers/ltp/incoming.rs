//! A block that comes (RFC 5326 section 8.2): its pieces, and the reports on its red part.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::segment::{Data, Mark, Report, SessionNumber, head_bytes, reason};
use super::{BUNDLE_PROTOCOL, LtpSpec, sdnv};
use crate::pieces::kept;

/// What a piece that is kept takes besides its data, roughly.
const PLACE: u64 = 64;

/// What a session takes besides its pieces, and a report besides its claims, roughly.
const SESSION: u64 = 1024;
const REPORT: u64 = 256;
const CLAIM: u64 = 16;

/// A report that has no acknowledgement.
#[derive(Clone, Debug)]
pub(super) struct Unanswered {
    pub report: Report,
    /// It claims all of the red part.
    pub whole: bool,
    /// How often it has left.
    pub times: u32,
}

#[derive(Debug)]
pub(super) struct Incoming {
    pieces: BTreeMap<u64, Bytes>,
    /// Bytes of red and of green data that are there.
    red: u64,
    green: u64,
    red_end: Option<u64>,
    end: Option<u64>,
    /// Where red data ends and green data begins, as far as they have come.
    reddest: u64,
    greenest: u64,
    /// Room that it takes, and of that what its pieces do.
    pub room: u64,
    pieces_room: u64,
    pub reports: BTreeMap<u64, Unanswered>,
    /// What reports spoke of, for the checkpoints that answer them.
    scopes: BTreeMap<u64, (u64, u64)>,
    /// Reports on each checkpoint that has had one.
    answers: BTreeMap<u64, Vec<u64>>,
    /// The last checkpoint whose report waits for the store.
    held: Option<u64>,
    next_serial: u64,
    /// The session's number of the bundle, once it was given to the node.
    pub given: Option<u64>,
    /// The node has it for good.
    pub durable: bool,
}

/// What a segment makes of a block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// These reports leave.
    Reports(Vec<u64>),
    /// So do these, which have left before.
    Again(Vec<u64>),
    /// The session is to be cancelled.
    Wrong(u8),
}

impl Incoming {
    pub fn new(first_serial: u64) -> Incoming {
        Incoming {
            pieces: BTreeMap::new(),
            red: 0,
            green: 0,
            red_end: None,
            end: None,
            reddest: 0,
            greenest: u64::MAX,
            room: SESSION,
            pieces_room: 0,
            reports: BTreeMap::new(),
            scopes: BTreeMap::new(),
            answers: BTreeMap::new(),
            held: None,
            next_serial: first_serial,
            given: None,
            durable: false,
        }
    }

    /// Whether any red data has come.
    pub fn is_red(&self) -> bool {
        self.reddest > 0 || self.red_end.is_some()
    }

    fn red_is_whole(&self) -> bool {
        self.red_end == Some(self.red)
    }

    /// Whether all of the block is there and was not given to the node.
    pub fn is_whole(&self) -> bool {
        self.given.is_none()
            && self.end == Some(self.red + self.green)
            && (self.red_is_whole() || (self.red_end.is_none() && self.red == 0))
    }

    /// Reports on the red part wait for the store where the block is a bundle of red data alone.
    fn waits_for_store(&self) -> bool {
        self.red_is_whole() && self.end == self.red_end && !self.durable
    }

    /// What is wrong with the colours and lengths of a segment (sections 6.21 and 3.2.4).
    fn judge(&self, data: &Data, spec: &LtpSpec) -> Result<(), u8> {
        let end = data.end();
        if data.service != BUNDLE_PROTOCOL {
            return Err(reason::UNREACHABLE);
        }
        if end > spec.transfer_bytes {
            return Err(reason::CANCELLED);
        }
        let red = data.mark.is_red();
        if (red && end > self.greenest) || (!red && data.offset < self.reddest) {
            return Err(reason::MISCOLOURED);
        }
        let red_end = matches!(data.mark, Mark::EndOfRed | Mark::EndOfBlock);
        let block_end = matches!(data.mark, Mark::EndOfBlock | Mark::GreenEnd);
        let wrong = self.end.is_some_and(|known| end > known || (block_end && end != known))
            || self.red_end.is_some_and(|known| {
                (red && end > known) || (red_end && end != known) || (!red && data.offset < known)
            })
            || (red_end && end < self.reddest)
            || (block_end
                && self
                    .pieces
                    .last_key_value()
                    .is_some_and(|(at, last)| *at + last.len() as u64 > end));
        if wrong { Err(reason::SYSTEM) } else { Ok(()) }
    }

    /// Keeps what is new of a segment.
    fn keep(&mut self, data: &Data) {
        let (start, end) = (data.offset, data.end());
        let red = data.mark.is_red();
        if red {
            self.reddest = self.reddest.max(end);
        } else {
            self.greenest = self.greenest.min(start);
        }
        match data.mark {
            Mark::EndOfRed => self.red_end = Some(end),
            Mark::EndOfBlock => (self.red_end, self.end) = (Some(end), Some(end)),
            Mark::GreenEnd => self.end = Some(end),
            Mark::Red | Mark::Checkpoint | Mark::Green => {}
        }
        if self.given.is_some() {
            return;
        }
        let before = self.pieces.range(..=start).next_back();
        let mut at = before.map_or(start, |(from, piece)| start.max(*from + piece.len() as u64));
        while at < end {
            let next = self.pieces.range(at..end).next();
            let (until, beyond) =
                next.map_or((end, end), |(from, piece)| (*from, *from + piece.len() as u64));
            if at < until {
                let piece = kept(&data.data[(at - start) as usize..(until - start) as usize]);
                let bytes = piece.len() as u64;
                self.room += bytes + PLACE;
                self.pieces_room += bytes + PLACE;
                *(if red { &mut self.red } else { &mut self.green }) += bytes;
                self.pieces.insert(at, piece);
            }
            at = beyond;
        }
    }

    /// A segment has come.
    pub fn take(&mut self, session: SessionNumber, data: &Data, spec: &LtpSpec) -> Came {
        if let Err(why) = self.judge(data, spec) {
            return Came::Wrong(why);
        }
        self.keep(data);
        let Some(checkpoint) = data.checkpoint else { return Came::Reports(Vec::new()) };
        if let Some(before) = self.answers.get(&checkpoint.serial) {
            // It was sent again: the report may be lost (section 6.11).
            let lost = before.iter().filter(|serial| self.reports.contains_key(serial));
            return Came::Again(lost.copied().collect());
        }
        if self.waits_for_store() {
            self.held = Some(checkpoint.serial);
            return Came::Reports(Vec::new());
        }
        let own = (0, data.end());
        let scope = match self.scopes.get(&checkpoint.report) {
            Some(scope) => (scope.0, scope.1.max(own.1)),
            None if checkpoint.report == 0 => own,
            // Of a node that this one was before it stopped: what that claimed is not here, and no report can say so.
            None => return Came::Wrong(reason::SYSTEM),
        };
        self.report(session, checkpoint.serial, scope, spec)
    }

    /// The node has the bundle for good: what reports have waited for it.
    pub fn stored(&mut self, session: SessionNumber, spec: &LtpSpec) -> Came {
        self.durable = true;
        match self.held.take() {
            Some(checkpoint) => {
                self.report(session, checkpoint, (0, self.red_end.unwrap_or(0)), spec)
            }
            None => Came::Reports(Vec::new()),
        }
    }

    /// Pieces that follow each other, as one.
    fn spans(&self, scope: (u64, u64)) -> Vec<(u64, u64)> {
        if self.red_is_whole() {
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

    /// Reports on a checkpoint, as many as its claims need (section 6.11).
    fn report(
        &mut self,
        session: SessionNumber,
        checkpoint: u64,
        scope: (u64, u64),
        spec: &LtpSpec,
    ) -> Came {
        let whole = self.red_is_whole();
        let scope = if whole { (0, self.red) } else { scope };
        if self.scopes.len() as u64 >= u64::from(spec.most_cycles) * 64 {
            return Came::Wrong(reason::CYCLES);
        }
        let most = usize::from(spec.segment_bytes);
        let longest = sdnv::length(u64::MAX);
        let mut reports = Vec::new();
        let mut claims = Vec::new();
        let mut lower = scope.0;
        let (mut bytes, empty) = (0, head_bytes(session) + 4 * longest + 3);
        for span in self.spans(scope) {
            let one = sdnv::length(span.0 - lower) + sdnv::length(span.1 - span.0);
            if empty + bytes + one > most && !claims.is_empty() {
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
            self.scopes.insert(serial, (lower, upper));
            self.room += REPORT + CLAIM * claims.len() as u64;
            let report = Report { serial, checkpoint, lower, upper, claims };
            self.reports.insert(serial, Unanswered { report, whole, times: 0 });
            serials.push(serial);
        }
        self.answers.insert(checkpoint, serials.clone());
        Came::Reports(serials)
    }

    /// The bundle, whose pieces are not kept any longer.
    pub fn give(&mut self, id: u64) -> Vec<Bytes> {
        self.given = Some(id);
        self.room -= std::mem::take(&mut self.pieces_room);
        std::mem::take(&mut self.pieces).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_whose_end_overflows_cancels_the_session() {
        for offset in [u64::MAX - 1, u64::MAX] {
            let data = Data {
                mark: Mark::Red,
                service: BUNDLE_PROTOCOL,
                offset,
                checkpoint: None,
                data: Bytes::from_static(b"abc"),
            };
            let mut block = Incoming::new(1);
            let session = SessionNumber { engine: 2, number: 1 };
            let effect = block.take(session, &data, &LtpSpec::default());
            assert_eq!(effect, Came::Wrong(reason::CANCELLED), "{offset}");
        }
    }
}
