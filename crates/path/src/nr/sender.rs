//! The transmitting side of RLC (TS 38.322): segments packets into transport blocks, polls, and sends again.

use std::collections::BTreeSet;

use units::{Packet, Span, Time};

use super::bearer::{Bearer, Fate};
use crate::{AcknowledgedSpec, RlcSpec};

/// A subheader of MAC with a length of 16 bits (TS 38.321 section 6.1.2).
const MAC_HEADER: u32 = 3;
/// What a block has room for at least when another packet is begun: the headers, and a byte of it.
const LEAST_ROOM: u32 = MAC_HEADER + 5 + 1;
/// `AM_Window_Size` of sequence numbers with 18 bits (TS 38.322 section 7.2).
const WINDOW: u64 = 131_072;

/// Part of a packet in a transport block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The packet, by its sequence number.
    pub number: u64,
    pub from: u32,
    pub to: u32,
    /// Whether it asks for a status report.
    pub poll: bool,
}

/// A status report: what the receiver has, up to `next`.
#[derive(Debug)]
pub(super) struct Status {
    /// Which report it is.
    pub number: u64,
    /// `ACK_SN`.
    pub next: u64,
    /// What is missing before that: packets, and bytes of them.
    pub missing: Vec<(u64, u32, u32)>,
}

/// Where new packets come from.
pub(super) trait Upper {
    fn take(&mut self) -> Option<Packet>;
    fn is_empty(&self) -> bool;
}

#[derive(Debug)]
pub(super) struct Sender {
    spec: Option<AcknowledgedSpec>,
    /// `TX_Next_Ack`: the lowest number that is not acknowledged.
    next_ack: u64,
    /// Packets of which something is to be sent again.
    again: BTreeSet<u64>,
    /// `POLL_SN`, and when `t-PollRetransmit` expires.
    polled: u64,
    pub timer: Time,
    /// `PDU_WITHOUT_POLL`, `BYTE_WITHOUT_POLL`.
    pdus: u32,
    bytes: u64,
    /// The next PDU has a poll whatever is counted.
    forced: bool,
    /// PDUs have left since the last poll.
    unasked: bool,
}

impl Sender {
    pub fn new(rlc: RlcSpec) -> Sender {
        let spec = match rlc {
            RlcSpec::Acknowledged(spec) => Some(spec),
            RlcSpec::Unacknowledged => None,
        };
        Sender {
            spec,
            next_ack: 0,
            again: BTreeSet::new(),
            polled: 0,
            timer: Time::MAX,
            pdus: 0,
            bytes: 0,
            forced: false,
            unasked: false,
        }
    }

    /// The bearer begins anew with `number`.
    pub fn reset(&mut self, number: u64) {
        let spec = self.spec.map_or(RlcSpec::Unacknowledged, RlcSpec::Acknowledged);
        *self = Sender { next_ack: number, ..Sender::new(spec) };
    }

    /// Whether a new packet may be begun.
    fn is_open(&self, bearer: &Bearer) -> bool {
        self.spec.is_none() || bearer.next() < self.next_ack + WINDOW
    }

    /// Whether there is something to send, where new packets are there if `more`.
    pub fn has_work(&self, bearer: &Bearer, more: bool) -> bool {
        !self.again.is_empty() || bearer.partial().is_some() || (more && self.is_open(bearer))
    }

    /// Fills a block of `room` bytes at `now`: what is to be sent again, then what is new.
    pub fn fill(
        &mut self,
        now: Time,
        mut room: u32,
        bearer: &mut Bearer,
        upper: &mut impl Upper,
    ) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while room >= LEAST_ROOM {
            let again = self.again.first().copied();
            let begun = again.or(bearer.partial());
            let Some(number) = begun.or_else(|| self.begin(bearer, upper)) else { break };
            let Some(sdu) = bearer.get_mut(number) else { break };
            let (from, end) = match again {
                Some(_) => sdu.again.first().unwrap_or_default(),
                None => (sdu.sent, sdu.bytes),
            };
            let whole = from == 0 && end == sdu.bytes;
            let header = MAC_HEADER + self.header(from, whole && room >= MAC_HEADER + 1 + end);
            let Some(length) = room.checked_sub(header).map(|left| left.min(end - from)) else {
                break;
            };
            if length == 0 {
                break;
            }
            room -= header + length;
            let to = from + length;
            if again.is_some() {
                sdu.again.take(length);
                if sdu.again.is_empty() {
                    self.again.remove(&number);
                }
            } else {
                sdu.sent = to;
                self.bytes += u64::from(length);
            }
            let poll = self.polls(now, again.is_none(), bearer, upper);
            pieces.push(Piece { number, from, to, poll });
        }
        pieces
    }

    /// A new packet, if there is one and it may be sent.
    fn begin(&self, bearer: &mut Bearer, upper: &mut impl Upper) -> Option<u64> {
        if self.is_open(bearer) { upper.take().map(|packet| bearer.push(packet)) } else { None }
    }

    /// Bytes of an RLC header (TS 38.322 sections 6.2.2.3 with 12 bits of number, 6.2.2.4 with 18): of a packet that is
    /// `whole`, or of a segment from `from` on.
    fn header(&self, from: u32, whole: bool) -> u32 {
        let offset = if from > 0 { 2 } else { 0 };
        match self.spec {
            Some(_) => 3 + offset,
            None if whole => 1,
            None => 2 + offset,
        }
    }

    /// Whether the PDU that has just been made at `now` polls (TS 38.322 section 5.3.3.2, which counts those with `new`
    /// bytes alone).
    fn polls(&mut self, now: Time, new: bool, bearer: &Bearer, upper: &impl Upper) -> bool {
        let Some(spec) = self.spec else { return false };
        self.pdus += u32::from(new);
        let full = spec.poll_pdus.is_some_and(|most| self.pdus >= most)
            || spec.poll_bytes.is_some_and(|most| self.bytes >= most);
        let poll = full || self.forced || !self.has_work(bearer, !upper.is_empty());
        self.unasked = !poll;
        if poll {
            (self.pdus, self.bytes, self.forced) = (0, 0, false);
            self.polled = bearer.highest_sent().unwrap_or_default();
            self.timer = now + Span(spec.poll_retransmit_ns);
        }
        poll
    }

    /// A status report is heard (sections 5.3.2 and 5.3.3.3). The packets that are given up, having been sent again too
    /// often.
    pub fn hear(&mut self, status: &Status, bearer: &mut Bearer) -> Vec<u64> {
        if self.polled < status.next {
            self.timer = Time::MAX;
        }
        let mut missing = status.missing.iter().copied().peekable();
        let mut given_up = Vec::new();
        for number in self.next_ack..status.next {
            let mut considered = false;
            while let Some((other, from, to)) = missing.next_if(|(other, _, _)| *other <= number) {
                if other < number || bearer.get(number).is_none_or(|sdu| sdu.acknowledged) {
                    continue;
                }
                if !considered && self.consider(number, bearer) {
                    given_up.push(number);
                }
                considered = true;
                self.send_again(number, from, to, bearer);
            }
            if !considered && let Some(sdu) = bearer.get_mut(number) {
                // What was to be sent again has come meanwhile.
                sdu.acknowledged = true;
                sdu.again.clear();
                self.again.remove(&number);
            }
        }
        for number in &given_up {
            self.give_up(*number, bearer);
        }
        self.advance(bearer);
        given_up
    }

    /// `t-PollRetransmit` expires (section 5.3.3.4). The packets that are given up: the next one has its turn then.
    pub fn time_out(&mut self, bearer: &mut Bearer, more: bool) -> Vec<u64> {
        self.timer = Time::MAX;
        self.forced = true;
        let mut given_up = Vec::new();
        if self.has_work(bearer, more) {
            return given_up;
        }
        for number in (self.next_ack..bearer.next()).rev() {
            if bearer.get(number).is_none_or(|sdu| sdu.acknowledged) {
                continue;
            }
            if !self.consider(number, bearer) {
                self.send_again(number, 0, u32::MAX, bearer);
                break;
            }
            self.give_up(number, bearer);
            given_up.push(number);
        }
        self.advance(bearer);
        given_up
    }

    /// What was to follow the last PDUs, which have no poll, is gone (dropped by its queue, acknowledged meanwhile): the timer
    /// brings one.
    pub fn keep_asking(&mut self, now: Time, bearer: &Bearer, more: bool) {
        if let Some(spec) = self.spec
            && self.unasked
            && self.timer == Time::MAX
            && self.next_ack < bearer.next()
            && !self.has_work(bearer, more)
        {
            self.timer = now + Span(spec.poll_retransmit_ns);
        }
    }

    /// A packet is considered for retransmission (section 5.3.2). Whether that is once too often.
    fn consider(&mut self, number: u64, bearer: &mut Bearer) -> bool {
        let (Some(spec), Some(sdu)) = (self.spec, bearer.get_mut(number)) else { return false };
        match &mut sdu.retransmissions {
            None => sdu.retransmissions = Some(0),
            Some(count) if sdu.again.is_empty() => *count += 1,
            Some(_) => {}
        }
        sdu.retransmissions.is_some_and(|count| count >= spec.most_retransmissions)
    }

    /// Bytes of a packet, as far as they were sent, are to be sent again.
    fn send_again(&mut self, number: u64, from: u32, to: u32, bearer: &mut Bearer) {
        let Some(sdu) = bearer.get_mut(number) else { return };
        sdu.again.add(from, to.min(sdu.sent));
        if !sdu.again.is_empty() {
            self.again.insert(number);
        }
    }

    fn give_up(&mut self, number: u64, bearer: &mut Bearer) {
        self.again.remove(&number);
        if let Some(sdu) = bearer.get_mut(number) {
            sdu.acknowledged = true;
            sdu.sent = sdu.bytes;
            sdu.again.clear();
            if sdu.fate == Fate::Open {
                sdu.fate = Fate::Lost { known: true };
            }
        }
    }

    fn advance(&mut self, bearer: &Bearer) {
        while bearer.get(self.next_ack).is_some_and(|sdu| sdu.acknowledged) {
            self.next_ack += 1;
        }
    }

    /// Packets of which something waits to be sent, with their bytes, unless the receiver has them.
    pub fn backlog(&self, bearer: &Bearer) -> (u64, u64) {
        let partial = bearer.partial().filter(|number| !self.again.contains(number));
        let waiting = self.again.iter().copied().chain(partial);
        let open = waiting.filter_map(|number| bearer.get(number));
        open.filter(|sdu| sdu.fate == Fate::Open).fold((0, 0), |(packets, bytes), sdu| {
            (packets + 1, bytes + u64::from(sdu.packet.bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Packets(u32);

    impl Upper for Packets {
        fn take(&mut self) -> Option<Packet> {
            self.0 = self.0.checked_sub(1)?;
            Some(Packet::of_bytes(100))
        }

        fn is_empty(&self) -> bool {
            self.0 == 0
        }
    }

    /// TS 38.322 section 5.3.3.2: of six PDUs with new packets the third and the sixth poll, and what goes again between
    /// them counts for nothing.
    #[test]
    fn what_is_sent_again_is_not_counted_for_a_poll() {
        let mut sender = Sender::new(RlcSpec::Acknowledged(AcknowledgedSpec {
            poll_pdus: Some(3),
            poll_bytes: None,
            poll_retransmit_ns: 1_000,
            reassembly_ns: 0,
            status_prohibit_ns: 0,
            most_retransmissions: 8,
        }));
        let (mut bearer, mut upper) = (Bearer::default(), Packets(100));
        let mut one = |sender: &mut Sender, bearer: &mut Bearer| {
            let pieces = sender.fill(Time::ZERO, MAC_HEADER + 3 + 103, bearer, &mut upper);
            let [piece] = pieces[..] else { panic!("{pieces:?}") };
            (piece.number, piece.poll)
        };
        for expected in [(0, false), (1, false), (2, true), (3, false)] {
            assert_eq!(one(&mut sender, &mut bearer), expected);
        }
        let status =
            Status { number: 1, next: 3, missing: vec![(0, 0, u32::MAX), (1, 0, u32::MAX)] };
        assert!(sender.hear(&status, &mut bearer).is_empty());
        for expected in [(0, false), (1, false), (4, false), (5, true)] {
            assert_eq!(one(&mut sender, &mut bearer), expected);
        }
    }
}
