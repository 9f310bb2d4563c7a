//! One stream of messages, both ways: bundles that leave and arrive, and their answers.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use transport::{ReadEnd, Streams};

use super::super::MOST_UNANSWERED;
use super::super::assembly::{Assembly, Room};
use super::super::inflow::Inflow;
use crate::layers::messages::{
    Ack, Decoder, Dialect, Message, Problem, Segment, encode, refusal, reject,
};
use crate::{Refusal, Said, Service};

/// Answers that a peer leaves unread, at the most.
const MOST_CONTROL_BYTES: usize = 1 << 20;

/// A bundle that leaves.
pub(super) struct Outgoing {
    /// The node's number of it.
    pub id: u64,
    /// The session's.
    pub transfer: u64,
    pub parts: VecDeque<Bytes>,
    pub total: u64,
    /// Bytes in segments so far.
    pub cut: u64,
    /// Segments so far.
    pub segments: u16,
    /// Longest segment.
    pub most: u64,
}

/// One that has left, at least in part, and has no last answer.
struct Unanswered {
    id: u64,
    transfer: u64,
    total: u64,
    acked: u64,
}

/// One that has come and has no answer yet, or whose answer waits for others (RFC 9174 section 5.2.4: whoever refuses a transfer
/// has answered those before).
struct Answer {
    /// The session's number of it; none: it needs no word of the node.
    received: Option<u64>,
    ack: Ack,
    done: Option<Message>,
}

/// What receiving needs of the session.
pub(super) struct Limits {
    pub segment_mru: u64,
    pub transfer_mru: u64,
    /// No transfer begins any more.
    pub ending: bool,
}

/// Who opened a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opener {
    Here,
    There,
}

pub(super) struct Lane {
    dialect: Dialect,
    pub stream: u64,
    pub decoder: Decoder,
    pub inflow: Inflow,
    /// Who opened it, where it carries one bundle and ends after it.
    pub single: Option<Opener>,
    finished: bool,
    /// The peer's end has come.
    pub peer_finished: bool,

    /// Whole messages that wait.
    control: Vec<u8>,
    /// What is left of the message that is being written.
    rest: VecDeque<Bytes>,
    /// It is the last of this transfer (the node's number).
    ends: Option<u64>,
    current: Option<Outgoing>,
    pub queue: VecDeque<Outgoing>,
    /// It is known to have something to write.
    pub is_loaded: bool,
    unanswered: VecDeque<Unanswered>,

    /// The segment whose data is coming, and whether it is taken.
    segment: Option<(Segment, bool)>,
    /// The transfer that is coming in, and its number.
    assembly: Option<(u64, Assembly)>,
    refused: Option<u64>,
    answers: VecDeque<Answer>,
    /// Bytes in order that wait until fewer transfers do, and how the stream ends behind them.
    pub unparsed: BytesMut,
    pub unparsed_end: Option<ReadEnd>,
}

impl Lane {
    pub fn new(dialect: Dialect, stream: u64, single: Option<Opener>) -> Lane {
        Lane {
            dialect,
            stream,
            decoder: Decoder::new(dialect),
            inflow: Inflow::default(),
            single,
            finished: false,
            peer_finished: false,
            control: Vec::new(),
            rest: VecDeque::new(),
            ends: None,
            current: None,
            queue: VecDeque::new(),
            is_loaded: false,
            unanswered: VecDeque::new(),
            segment: None,
            assembly: None,
            refused: None,
            answers: VecDeque::new(),
            unparsed: BytesMut::new(),
            unparsed_end: None,
        }
    }

    // What leaves.

    pub fn say(&mut self, message: &Message) {
        if self.finished {
            // A stream of one bundle, which has left: who says more there gets no answer.
            return;
        }
        encode(self.dialect, message, &mut self.control);
    }

    /// Bytes that stand before all messages.
    pub fn say_raw(&mut self, bytes: &[u8]) {
        self.control.extend_from_slice(bytes);
    }

    /// The peer does not read what it is answered.
    pub fn is_clogged(&self) -> bool {
        self.control.len() > MOST_CONTROL_BYTES
    }

    /// As many transfers wait for the store as may: flow control holds the peer back until one of them has its answer.
    pub fn is_full(&self) -> bool {
        self.answers.len() >= MOST_UNANSWERED
    }

    pub fn has_data(&self) -> bool {
        !self.rest.is_empty() || !self.control.is_empty() || self.has_bundles()
    }

    pub fn has_bundles(&self) -> bool {
        self.current.is_some() || !self.queue.is_empty()
    }

    /// Whether transfers are under way: given and not answered, or coming in and not answered.
    pub fn is_busy(&self) -> bool {
        self.has_bundles()
            || !self.unanswered.is_empty()
            || self.assembly.is_some()
            || !self.answers.is_empty()
    }

    /// Whether a bundle is under way from here.
    pub fn gives(&self) -> bool {
        self.has_bundles() || !self.unanswered.is_empty()
    }

    /// Cuts the next segment of a bundle (section 5.2.2).
    fn cut(&mut self) -> bool {
        if self.current.is_none() {
            self.current = self.queue.pop_front();
            if let Some(Outgoing { id, transfer, total, .. }) = self.current {
                self.unanswered.push_back(Unanswered { id, transfer, total, acked: 0 });
            }
        }
        let Some(bundle) = &mut self.current else { return false };
        let bytes = bundle.most.min(bundle.total - bundle.cut);
        let segment = Segment {
            flags: if bundle.cut == 0 { Segment::START } else { 0 }
                | if bundle.cut + bytes == bundle.total { Segment::END } else { 0 },
            transfer: bundle.transfer,
            place: (bundle.segments, bundle.total.div_ceil(bundle.most) as u16),
            bytes,
            total: Some(bundle.total),
            service: Service::Reliable,
            problem: None,
        };
        let mut head = Vec::new();
        encode(self.dialect, &Message::Segment(segment), &mut head);
        self.rest.push_back(head.into());
        let mut left = bytes as usize;
        while let Some(part) = bundle.parts.front_mut().filter(|_| left > 0) {
            let taken = part.split_to(left.min(part.len()));
            left -= taken.len();
            if part.is_empty() {
                bundle.parts.pop_front();
            }
            if !taken.is_empty() {
                self.rest.push_back(taken);
            }
        }
        bundle.cut += bytes;
        bundle.segments += 1;
        if segment.ends() {
            self.ends = Some(bundle.id);
            self.current = None;
        }
        true
    }

    /// Writes messages that wait, and of bundles as much as `budget`, if any; how many bytes the transport has taken.
    pub fn write(
        &mut self,
        budget: Option<usize>,
        streams: &mut dyn Streams,
        said: &mut Vec<Said>,
    ) -> usize {
        let (mut left, mut written) = (budget.unwrap_or(usize::MAX), 0);
        loop {
            while let Some(part) = self.rest.front_mut() {
                let wanted = part.len().min(left);
                let taken = streams.write(self.stream, part.slice(..wanted));
                written += taken;
                left -= taken;
                let _ = part.split_to(taken);
                if part.is_empty() {
                    self.rest.pop_front();
                }
                if taken < wanted || left == 0 {
                    break;
                }
            }
            if !self.rest.is_empty() {
                return written;
            }
            if let Some(id) = self.ends.take() {
                said.push(Said::Sent(id));
            }
            if left == 0 {
                return written;
            }
            if !self.control.is_empty() {
                self.rest.push_back(std::mem::take(&mut self.control).into());
            } else if budget.is_none() || !self.cut() {
                return written;
            }
        }
    }

    /// Writes messages that wait, if no segment stands before them: that one waits for the window.
    pub fn flush(&mut self, streams: &mut dyn Streams, said: &mut Vec<Said>) -> usize {
        if self.rest.is_empty() && !self.control.is_empty() {
            return self.write(None, streams, said);
        }
        0
    }

    /// Ends the stream of one bundle when all is said on it; whether it is over on both sides.
    pub fn end_if_done(&mut self, streams: &mut dyn Streams) -> bool {
        let Some(who) = self.single else { return false };
        let said = match who {
            Opener::Here => true,
            Opener::There => {
                self.peer_finished && self.assembly.is_none() && self.answers.is_empty()
            }
        };
        if said && !self.has_data() {
            self.finish(streams);
        }
        self.finished && self.peer_finished && !self.is_busy()
    }

    pub fn finish(&mut self, streams: &mut dyn Streams) {
        if !std::mem::replace(&mut self.finished, true) {
            streams.finish(self.stream);
        }
    }

    /// Takes back a bundle of which nothing has left; whether there was one.
    pub fn cancel(&mut self, id: u64) -> bool {
        // Those that are cancelled together stand in this order.
        let place = self.queue.iter().position(|bundle| bundle.id == id);
        place.and_then(|place| self.queue.remove(place)).is_some()
    }

    /// What has not begun to leave.
    pub fn take_queue(&mut self) -> impl Iterator<Item = u64> {
        std::mem::take(&mut self.queue).into_iter().map(|bundle| bundle.id)
    }

    /// Bundles of this side, by the node's number, that have no answer.
    pub fn given(&self) -> impl Iterator<Item = u64> {
        self.unanswered.iter().map(|one| one.id)
    }

    // Answers to what has left.

    /// XFER_ACK; whether it makes sense.
    pub fn on_ack(&mut self, ack: Ack, said: &mut Vec<Said>) -> bool {
        let Some(place) = self.unanswered.iter().position(|one| one.transfer == ack.transfer)
        else {
            return false;
        };
        let one = &mut self.unanswered[place];
        let whole = ack.bytes == one.total;
        if ack.bytes < one.acked || ack.bytes > one.total || (ack.ends() && !whole) {
            return false;
        }
        one.acked = ack.bytes;
        // Of an empty last segment the one before says the same length.
        if ack.ends() {
            said.push(Said::Accepted { id: one.id, durable: true });
            self.unanswered.remove(place);
        }
        true
    }

    /// XFER_REFUSE; whether it makes sense.
    pub fn on_refuse(&mut self, reason: u8, transfer: u64, said: &mut Vec<Said>) -> bool {
        let Some(place) = self.unanswered.iter().position(|one| one.transfer == transfer) else {
            return false;
        };
        let id = self.unanswered[place].id;
        self.unanswered.remove(place);
        // The segment that is being written is written to its end (section 5.2.4), no other.
        if self.current.as_ref().is_some_and(|bundle| bundle.transfer == transfer) {
            self.current = None;
        }
        said.push(match refusal::of(reason) {
            // "The sender MAY consider the bundle as completely received."
            Refusal::Completed => Said::Accepted { id, durable: true },
            why => Said::Refused { id, why },
        });
        true
    }

    // What comes.

    fn refuse(&mut self, transfer: u64, reason: u8, room: &mut Room) {
        if let Some((_, assembly)) = self.assembly.take() {
            assembly.leave(room);
        }
        self.refused = Some(transfer);
        let done = Some(Message::Refuse { reason, transfer });
        let ack = Ack { flags: 0, transfer, place: 0, bytes: 0 };
        self.answers.push_back(Answer { received: None, ack, done });
        self.answer();
    }

    /// Says answers that are there, in order.
    fn answer(&mut self) {
        while let Some(answer) = self.answers.front() {
            let Some(message) = answer.done.clone() else { return };
            self.answers.pop_front();
            self.say(&message);
        }
    }

    /// The head of a segment.
    pub fn on_segment(&mut self, segment: Segment, limits: &Limits, room: &mut Room) {
        let transfer = segment.transfer;
        let mut taken = false;
        if segment.starts() {
            if let Some((_, assembly)) = self.assembly.take() {
                // Broken off by the peer.
                assembly.leave(room);
            }
            let total = segment.total.unwrap_or(segment.bytes).max(segment.bytes);
            let reason = if limits.ending {
                Some(refusal::code(Refusal::Terminating))
            } else if segment.problem == Some(Problem::Critical) {
                Some(refusal::EXTENSION)
            } else if segment.problem.is_some()
                || segment.service != Service::Reliable
                || segment.bytes > limits.segment_mru
                || total > limits.transfer_mru
            {
                Some(refusal::code(Refusal::NotAcceptable))
            } else {
                None
            };
            match reason {
                Some(reason) => self.refuse(transfer, reason, room),
                None => {
                    self.assembly = Some((transfer, Assembly::new(segment.total)));
                    taken = true;
                }
            }
        } else {
            match &self.assembly {
                Some((current, assembly)) if *current == transfer => {
                    let most = assembly.total().unwrap_or(limits.transfer_mru);
                    if segment.bytes > limits.segment_mru
                        || assembly.len().saturating_add(segment.bytes) > most
                    {
                        self.refuse(transfer, refusal::code(Refusal::NotAcceptable), room);
                    } else {
                        taken = true;
                    }
                }
                // "Subsequent segments of the bundle SHALL also be refused" (section 5.2.4).
                _ if self.refused == Some(transfer) => {
                    self.refuse(transfer, refusal::code(Refusal::Unknown), room);
                }
                _ => {
                    let kind = Message::Segment(segment).kind(self.dialect);
                    self.say(&Message::Reject { reason: reject::UNEXPECTED, kind });
                }
            }
        }
        self.segment = Some((segment, taken));
    }

    /// Data of the segment. A bundle that is whole gets the number `next`.
    pub fn on_data(
        &mut self,
        bytes: &[u8],
        last: bool,
        next: u64,
        room: &mut Room,
    ) -> Option<Said> {
        let (segment, taken) = self.segment?;
        if last {
            self.segment = None;
        }
        if !taken {
            return None;
        }
        let Some((_, assembly)) = &mut self.assembly else { return None };
        if !assembly.push(bytes, room) {
            self.segment = (!last).then_some((segment, false));
            self.refuse(segment.transfer, refusal::code(Refusal::NoResources), room);
            return None;
        }
        if !last {
            return None;
        }
        let ack = Ack {
            flags: segment.flags,
            transfer: segment.transfer,
            place: segment.place.0,
            bytes: assembly.len(),
        };
        if !segment.ends() {
            self.say(&Message::Ack(ack));
            return None;
        }
        // "The Total Length field SHALL be treated as authoritative" (section 5.2.5.1).
        if assembly.total().is_some_and(|total| total != assembly.len()) {
            self.refuse(segment.transfer, refusal::code(Refusal::NotAcceptable), room);
            return None;
        }
        let (_, assembly) = self.assembly.take()?;
        let data = assembly.leave(room);
        self.answers.push_back(Answer { received: Some(next), ack, done: None });
        Some(Said::Received { id: next, data, service: Service::Reliable })
    }

    /// The node's word on a bundle that has come; none: it is durable.
    pub fn on_verdict(&mut self, received: u64, refused: Option<Refusal>) {
        let Some(answer) = self.answers.iter_mut().find(|one| one.received == Some(received))
        else {
            return;
        };
        answer.done = Some(match refused {
            None => Message::Ack(answer.ack),
            Some(why) => {
                Message::Refuse { reason: refusal::code(why), transfer: answer.ack.transfer }
            }
        });
        self.answer();
    }

    /// What has come in part is given up.
    pub fn drop_assembly(&mut self, room: &mut Room) {
        if let Some((_, assembly)) = self.assembly.take() {
            assembly.leave(room);
        }
    }
}
