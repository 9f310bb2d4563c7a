//! Bundles in QUIC datagrams (RFC 9221): a segment each, which may be lost.
//!
//! Unreliable: that is all. Notified: the receiver answers each segment by XFER_ACK, the last one that comes when the node
//! has stored the bundle; of a bundle that is not answered in full in time the sender's node hears that it is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use transport::Streams;
use units::{Span, Time};

use crate::layers::MOST_UNANSWERED;
use crate::layers::assembly::Room;
use crate::layers::messages::{Ack, Dialect, Message, Segment, decode, encode, refusal};
use crate::pieces::Pieces;
use crate::{Refusal, Said, Service, Transfer};

/// Head of a segment at the most: the first one has the length of its extensions too.
const HEAD: usize = 1 + 1 + 2 + 2 + 8 + 4 + 8 + 8 + 1;

/// What a segment that is kept takes besides its data, roughly.
const PLACE: u64 = 64;

/// What the transport's queue takes for a datagram besides its data, at the most.
const QUEUE_PLACE: usize = 64;

/// A bundle that leaves.
struct Leaving {
    transfer: Transfer,
    number: u64,
    total: u64,
    /// Data of a segment.
    bytes: usize,
    segments: u16,
    next: u16,
}

/// One of the notified service that has left, or leaves: no time runs out then.
struct Noticed {
    id: u64,
    segments: u16,
    answered: BTreeSet<u16>,
    until: Time,
}

/// One that arrives.
struct Arriving {
    segments: u16,
    total: u64,
    service: Service,
    parts: BTreeMap<u16, Bytes>,
    bytes: u64,
    kept: u64,
}

/// What comes of a datagram.
pub(super) enum Word {
    /// To be said to the peer.
    Answer(Message),
    /// A bundle is whole: its transfer.
    Whole(u64, Vec<Bytes>, Service),
}

pub(super) struct Datagrams {
    transfer_mru: u64,
    room: Room,
    notice: Span,
    waiting: VecDeque<Transfer>,
    leaving: Option<Leaving>,
    noticed: BTreeMap<u64, Noticed>,
    arriving: BTreeMap<u64, Arriving>,
    /// The answer that waits for the node's word, by the transfer, and by the session's number of a bundle.
    last: BTreeMap<u64, Option<Ack>>,
    owners: BTreeMap<u64, u64>,
}

impl Datagrams {
    pub fn new(transfer_mru: u64, room: Room, notice: Span) -> Datagrams {
        Datagrams {
            transfer_mru,
            room,
            notice,
            waiting: VecDeque::new(),
            leaving: None,
            noticed: BTreeMap::new(),
            arriving: BTreeMap::new(),
            last: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }

    pub fn give(&mut self, transfer: Transfer) {
        self.waiting.push_back(transfer);
    }

    pub fn cancel(&mut self, id: u64) -> bool {
        let place = self.waiting.iter().position(|transfer| transfer.id == id);
        place.and_then(|place| self.waiting.remove(place)).is_some()
    }

    pub fn refuse_waiting(&mut self, why: Refusal, said: &mut Vec<Said>) {
        said.extend(self.waiting.drain(..).map(|transfer| Said::Refused { id: transfer.id, why }));
    }

    pub fn has_data(&self) -> bool {
        self.leaving.is_some() || !self.waiting.is_empty()
    }

    /// Whether a bundle has no answer.
    pub fn gives(&self) -> bool {
        self.has_data() || !self.noticed.is_empty()
    }

    pub fn wake_at(&self) -> Time {
        self.noticed.values().map(|one| one.until).min().unwrap_or(Time::MAX)
    }

    /// Those whose time is over are lost.
    pub fn expire(&mut self, now: Time, said: &mut Vec<Said>) {
        self.noticed.retain(|_, one| {
            let lost = one.until <= now;
            if lost {
                said.push(Said::Refused { id: one.id, why: Refusal::Retransmit });
            }
            !lost
        });
    }

    /// Begins the next bundle, for a peer that takes datagrams and bundles so long.
    fn begin(
        &mut self,
        (datagram_mru, transfer_mru): (u64, u64),
        number: &mut dyn FnMut() -> u64,
        streams: &mut dyn Streams,
        said: &mut Vec<Said>,
    ) -> bool {
        while let Some(transfer) = self.waiting.pop_front() {
            let total = transfer.bytes();
            let own = streams.datagram_bytes().unwrap_or(0) as u64;
            let bytes = own.min(datagram_mru).saturating_sub(HEAD as u64);
            let segments = if bytes == 0 { 0 } else { total.div_ceil(bytes).max(1) };
            let why = match u16::try_from(segments) {
                Ok(0) => Refusal::NoService,
                Ok(segments) if total <= transfer_mru => {
                    let number = number();
                    let bytes = bytes as usize;
                    if transfer.service == Service::Notified {
                        let (id, until, answered) = (transfer.id, Time::MAX, BTreeSet::new());
                        self.noticed.insert(number, Noticed { id, segments, answered, until });
                    }
                    self.leaving =
                        Some(Leaving { transfer, number, total, bytes, segments, next: 0 });
                    return true;
                }
                _ => Refusal::TooLarge,
            };
            said.push(Said::Refused { id: transfer.id, why });
        }
        false
    }

    /// Gives the transport as many segments as its queue has room for.
    pub fn write(
        &mut self,
        now: Time,
        peer: (u64, u64),
        number: &mut dyn FnMut() -> u64,
        streams: &mut dyn Streams,
        said: &mut Vec<Said>,
    ) {
        let mut left = streams.appetite();
        while self.leaving.is_some() || self.begin(peer, number, streams, said) {
            let Some(bundle) = &mut self.leaving else { return };
            let whole = HEAD + bundle.bytes;
            if left == 0 || streams.datagram_room() < whole + QUEUE_PLACE {
                return;
            }
            let first = bundle.next == 0;
            let end = bundle.next + 1 == bundle.segments;
            let mut data = Vec::new();
            let mut wanted = bundle.bytes;
            let mut parts = Vec::new();
            while let Some(part) = bundle.transfer.data.first_mut().filter(|_| wanted > 0) {
                let taken = part.split_to(wanted.min(part.len()));
                wanted -= taken.len();
                if part.is_empty() {
                    bundle.transfer.data.remove(0);
                }
                parts.push(taken);
            }
            let segment = Segment {
                flags: if first { Segment::START } else { 0 } | if end { Segment::END } else { 0 },
                transfer: bundle.number,
                place: (bundle.next, bundle.segments),
                bytes: (bundle.bytes - wanted) as u64,
                total: Some(bundle.total),
                service: bundle.transfer.service,
                problem: None,
            };
            encode(Dialect::Quiccl, &Message::Segment(segment), &mut data);
            parts.iter().for_each(|part| data.extend_from_slice(part));
            left = left.saturating_sub(data.len());
            // One that the path has become too small for is lost like any other.
            let _ = streams.send_datagram(data.into());
            bundle.next += 1;
            if !end {
                continue;
            }
            let (id, service) = (bundle.transfer.id, bundle.transfer.service);
            said.push(Said::Sent(id));
            if service == Service::Unreliable {
                said.push(Said::Accepted { id, durable: false });
            } else if let Some(one) = self.noticed.get_mut(&bundle.number) {
                one.until = now + self.notice;
            }
            self.leaving = None;
        }
    }

    /// XFER_ACK and XFER_REFUSE of bundles in datagrams. Late ones say nothing any more.
    pub fn answered(&mut self, message: &Message, said: &mut Vec<Said>) {
        match message {
            Message::Ack(ack) => {
                let Some(one) = self.noticed.get_mut(&ack.transfer) else { return };
                if ack.place < one.segments {
                    one.answered.insert(ack.place);
                }
                if one.answered.len() == usize::from(one.segments) {
                    said.push(Said::Accepted { id: one.id, durable: true });
                    self.noticed.remove(&ack.transfer);
                }
            }
            Message::Refuse { reason, transfer } => {
                if let Some(one) = self.noticed.remove(transfer) {
                    said.push(Said::Refused { id: one.id, why: refusal::of(*reason) });
                }
            }
            _ => {}
        }
    }

    /// A datagram: one that is no segment, or contradicts those before, is passed over.
    pub fn receive(&mut self, data: &Bytes, ending: bool) -> Vec<Word> {
        let Ok(Some((Message::Segment(segment), head))) = decode(Dialect::Quiccl, data) else {
            return Vec::new();
        };
        let (place, segments) = segment.place;
        let total = segment.total.unwrap_or_default();
        let makes_sense = (data.len() - head) as u64 == segment.bytes
            && place < segments
            && segment.bytes <= total
            && segment.problem.is_none()
            && segment.service != Service::Reliable;
        if !makes_sense {
            return Vec::new();
        }
        let transfer = segment.transfer;
        let known = self.arriving.contains_key(&transfer);
        let too_large = total > self.transfer_mru;
        let full = self.owners.len() >= MOST_UNANSWERED;
        if !known && (ending || too_large || full) {
            let why = match (ending, too_large) {
                (true, _) => Refusal::Terminating,
                (false, true) => Refusal::TooLarge,
                (false, false) => Refusal::NoResources,
            };
            let message = Message::Refuse { reason: refusal::code(why), transfer };
            let notified = segment.service == Service::Notified && segment.starts();
            return if notified { vec![Word::Answer(message)] } else { Vec::new() };
        }
        let service = segment.service;
        let parts = BTreeMap::new();
        let one = self.arriving.entry(transfer).or_insert(Arriving {
            segments,
            total,
            service,
            parts,
            bytes: 0,
            kept: 0,
        });
        if (one.segments, one.total, one.service) != (segments, total, service)
            || one.parts.contains_key(&place)
            || one.bytes + segment.bytes > total
        {
            return Vec::new();
        }
        one.parts.insert(place, data.slice(head..));
        one.bytes += segment.bytes;
        one.kept += segment.bytes + PLACE;
        self.room.overdraw(segment.bytes + PLACE);
        let bytes = one.bytes;
        let ack = Ack { flags: segment.flags, transfer, place, bytes };
        let mut words = Vec::new();
        if one.parts.len() < usize::from(segments) {
            if service == Service::Notified {
                words.push(Word::Answer(Message::Ack(ack)));
            }
        } else if let Some(one) = self.arriving.remove(&transfer) {
            self.room.give(one.kept);
            if one.bytes == total {
                let (mut data, mut left) = (Pieces::default(), one.bytes);
                for part in one.parts.values() {
                    left -= part.len() as u64;
                    data.push(part, Some(left));
                }
                self.last.insert(transfer, (service == Service::Notified).then_some(ack));
                words.push(Word::Whole(transfer, data.into_parts(), service));
            }
        }
        // Of those that wait for what may never come, the oldest go.
        while self.room.is_overdrawn()
            && let Some((_, oldest)) = self.arriving.pop_first()
        {
            self.room.give(oldest.kept);
        }
        words
    }

    /// A bundle that has come has this number.
    pub fn wait_for(&mut self, received: u64, transfer: u64) {
        self.owners.insert(received, transfer);
    }

    pub fn owns(&self, received: u64) -> bool {
        self.owners.contains_key(&received)
    }

    /// The node's word; what is to be said to the peer.
    pub fn verdict(&mut self, received: u64, refused: Option<Refusal>) -> Option<Message> {
        let transfer = self.owners.remove(&received)?;
        let ack = self.last.remove(&transfer)??;
        Some(match refused {
            None => Message::Ack(ack),
            Some(why) => Message::Refuse { reason: refusal::code(why), transfer },
        })
    }
}
