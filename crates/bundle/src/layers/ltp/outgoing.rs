//! A block that this side sends (RFC 5326 section 8.1): its red part until reports claim all of it, its green part once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};

use super::segment::{
    Body, Checkpoint, Data, Mark, Report, Segment, SessionNumber, head_bytes, reason,
};
use super::{BUNDLE_PROTOCOL, LtpSpec, sdnv};

/// Room for a checkpoint's serial numbers, of 21 bits each.
const SERIALS: usize = 6;

/// A part of the block that is to be sent: in one go, the last segment of red data being a checkpoint.
#[derive(Debug)]
struct Part {
    start: u64,
    end: u64,
    /// The last of those that go together.
    last: bool,
    /// The report that it answers; 0: none.
    report: u64,
    cycle: u32,
}

/// A checkpoint without a report.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    start: u64,
    end: u64,
    report: u64,
    cycle: u32,
    /// How often it has left.
    times: u32,
}

/// What a report makes of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    /// It is known, or speaks of what was not sent: nothing.
    Nothing,
    /// Something of it goes again, or other reports are waited for.
    Open,
    /// All of the red part is there.
    Complete,
    /// It has been sent again in too many rounds.
    Cycles,
}

pub(super) struct Outgoing {
    /// The node's number of the bundle.
    pub id: u64,
    session: SessionNumber,
    red: bool,
    parts: Vec<Bytes>,
    /// Where each begins.
    starts: Vec<u64>,
    total: u64,
    /// Up to where it was sent.
    sent: u64,
    /// What reports claim, end by start; neither overlapping nor adjacent.
    claimed: BTreeMap<u64, u64>,
    pending: VecDeque<Part>,
    /// Checkpoints that leave again.
    again: VecDeque<u64>,
    waiting: BTreeMap<u64, Waiting>,
    next_serial: u64,
    reports: BTreeSet<u64>,
    most_cycles: u32,
    most_pending: usize,
    /// It is in the line of those that have something to send.
    pub lined_up: bool,
}

impl Outgoing {
    pub fn new(
        session: SessionNumber,
        id: u64,
        parts: Vec<Bytes>,
        red: bool,
        first_serial: u64,
        spec: &LtpSpec,
    ) -> Outgoing {
        let mut total = 0;
        let starts = parts
            .iter()
            .map(|part| {
                let start = total;
                total += part.len() as u64;
                start
            })
            .collect();
        let whole = Part { start: 0, end: total, last: true, report: 0, cycle: 0 };
        Outgoing {
            id,
            session,
            red,
            parts,
            starts,
            total,
            sent: 0,
            claimed: BTreeMap::new(),
            pending: VecDeque::from([whole]),
            again: VecDeque::new(),
            waiting: BTreeMap::new(),
            next_serial: first_serial,
            reports: BTreeSet::new(),
            most_cycles: spec.most_cycles,
            most_pending: 64 + 2 * total.div_ceil(u64::from(spec.segment_bytes).max(1)) as usize,
            lined_up: false,
        }
    }

    /// Whether all of it has been sent once.
    pub fn has_left(&self) -> bool {
        self.sent == self.total
    }

    pub fn is_red(&self) -> bool {
        self.red
    }

    pub fn has_data(&self) -> bool {
        !self.pending.is_empty() || !self.again.is_empty()
    }

    /// Its checkpoints that wait for a report.
    pub fn checkpoints(&self) -> impl Iterator<Item = u64> {
        self.waiting.keys().copied()
    }

    fn slice(&self, start: u64, end: u64) -> Bytes {
        let first = self.starts.partition_point(|begin| *begin <= start).saturating_sub(1);
        let within = |place: usize| {
            let (part, begin) = (&self.parts[place], self.starts[place]);
            let to = (end - begin).min(part.len() as u64) as usize;
            part.slice((start.max(begin) - begin) as usize..to)
        };
        if self.starts.get(first + 1).is_none_or(|next| *next >= end) {
            return within(first);
        }
        let mut data = BytesMut::with_capacity((end - start) as usize);
        for place in (first..self.parts.len()).take_while(|place| self.starts[*place] < end) {
            data.extend_from_slice(&within(place));
        }
        data.freeze()
    }

    fn segment(&self, start: u64, end: u64, checkpoint: Option<Checkpoint>) -> Segment {
        let mark = match (self.red, checkpoint, end == self.total) {
            (true, None, _) => Mark::Red,
            (true, Some(_), false) => Mark::Checkpoint,
            (true, Some(_), true) => Mark::EndOfBlock,
            (false, _, false) => Mark::Green,
            (false, _, true) => Mark::GreenEnd,
        };
        let data = self.slice(start, end);
        let body = Data { mark, service: BUNDLE_PROTOCOL, offset: start, checkpoint, data };
        Segment { session: self.session, body: Body::Data(body) }
    }

    /// The next segment, of at most `most` bytes, and the checkpoint that it is.
    pub fn next(&mut self, most: usize) -> Option<(Segment, Option<u64>)> {
        while let Some(serial) = self.again.pop_front() {
            let Some(one) = self.waiting.get_mut(&serial) else { continue };
            one.times += 1;
            let (start, end, report) = (one.start, one.end, one.report);
            let checkpoint = Checkpoint { serial, report };
            return Some((self.segment(start, end, Some(checkpoint)), Some(serial)));
        }
        let part = self.pending.front()?;
        let checkpoint = Checkpoint { serial: self.next_serial, report: part.report };
        let head = head_bytes(self.session)
            + sdnv::length(BUNDLE_PROTOCOL)
            + sdnv::length(part.start)
            + sdnv::length(most as u64);
        // Any segment of red data may have to be a checkpoint as it is sent again.
        let room = if self.red { SERIALS } else { 0 };
        let plain = most.saturating_sub(head + room).max(1) as u64;
        let serials = sdnv::length(checkpoint.serial) + sdnv::length(checkpoint.report);
        let ends = self.red && part.last;
        let with = most.saturating_sub(head + serials.max(room)).max(1) as u64;
        let with = if ends { with } else { plain };
        let left = part.end - part.start;
        let taken = if left <= plain { left.min(with) } else { plain };
        let (start, end) = (part.start, part.start + taken);
        let (report, cycle, whole) = (part.report, part.cycle, taken == left);
        self.sent = self.sent.max(end);
        if let Some(part) = self.pending.front_mut().filter(|_| !whole) {
            part.start = end;
        } else {
            self.pending.pop_front();
        }
        if !(ends && whole) {
            return Some((self.segment(start, end, None), None));
        }
        let serial = self.next_serial;
        self.next_serial = serial.checked_add(1).unwrap_or(1);
        self.waiting.insert(serial, Waiting { start, end, report, cycle, times: 1 });
        Some((self.segment(start, end, Some(checkpoint)), Some(serial)))
    }

    /// A checkpoint has had no report in time: it leaves again, unless it has too often (section 6.7).
    pub fn expired(&mut self, serial: u64, most_times: u32) -> Result<(), u8> {
        match self.waiting.get(&serial) {
            Some(one) if one.times > most_times => Err(reason::RETRANSMISSIONS),
            Some(_) => {
                self.again.push_back(serial);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn claim(&mut self, start: u64, end: u64) {
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

    /// Whether a report has a gap where another one had none.
    fn takes_back(&self, report: &Report) -> bool {
        let mut claims = report.claims.iter();
        let mut claim = claims.next().copied();
        let before = self.claimed.range(..report.lower).next_back();
        let within = before.into_iter().chain(self.claimed.range(report.lower..report.upper));
        for (from, to) in within {
            let (mut from, to) = ((*from).max(report.lower), (*to).min(report.upper));
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

    /// What no report claims.
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

    /// A report has come (section 6.13): what it means, and the checkpoint that it answers.
    pub fn report(&mut self, report: &Report) -> (Reported, Option<u64>) {
        // Nobody can report on what was not sent, checkpoint and all.
        let lies = !self.has_left() || report.upper > self.total;
        if lies || !self.red || self.reports.contains(&report.serial) {
            return (Reported::Nothing, None);
        }
        // Reports of one round may be several, so that their number is bounded too.
        if self.reports.len() as u64 >= u64::from(self.most_cycles) * 64 {
            return (Reported::Cycles, None);
        }
        self.reports.insert(report.serial);
        let answered = self.waiting.remove(&report.checkpoint);
        let last = self.waiting.values().map(|one| one.cycle).max().unwrap_or(0);
        let cycle = answered.map_or(last, |one| one.cycle) + 1;
        let checkpoint = answered.map(|_| report.checkpoint);
        // Whoever takes back what it has claimed has forgotten it, and more perhaps.
        let forgotten = self.takes_back(report);
        if forgotten {
            self.claimed.clear();
            self.pending.clear();
        }
        for (start, end) in &report.claims {
            self.claim(*start, *end);
        }
        if self.claimed.first_key_value() == Some((&0, &self.total)) {
            return (Reported::Complete, checkpoint);
        }
        let scope = if forgotten { (0, self.total) } else { (report.lower, report.upper) };
        let gaps = self.gaps(scope);
        // What is lost is segments: more gaps are a lie.
        let too_many = self.pending.len() + gaps.len() > self.most_pending;
        if !gaps.is_empty() && (cycle > self.most_cycles || too_many) {
            return (Reported::Cycles, checkpoint);
        }
        let count = gaps.len();
        let parts = gaps.into_iter().enumerate().map(|(place, (start, end))| Part {
            start,
            end,
            last: place + 1 == count,
            report: report.serial,
            cycle,
        });
        self.pending.extend(parts);
        (Reported::Open, checkpoint)
    }
}
