//! The transmitting RLC entity (TS 38.322): segments packets into transport blocks, polls, and retransmits.

use std::collections::BTreeSet;

use units::{Packet, Span, Time};

use super::bearer::{Bearer, SduState};
use crate::{RlcAcknowledgedSpec, RlcSpec};

/// A MAC subheader with a length of 16 bits (TS 38.321 section 6.1.2).
const MAC_HEADER: u32 = 3;
/// Minimum space in a block for another packet: the headers and one byte of payload.
const MIN_SEGMENT_BYTES: u32 = MAC_HEADER + 5 + 1;
/// `AM_Window_Size` of sequence numbers with 18 bits (TS 38.322 section 7.2).
const AM_WINDOW_SIZE: u64 = 131_072;

/// A segment of a packet in a transport block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SduSegment {
    /// The packet, by its sequence number.
    pub sdu_number: u64,
    pub from: u32,
    pub to: u32,
    /// Whether the segment polls for a status report.
    pub has_poll: bool,
}

/// A status report: the state of the receiver up to `ack_sn`.
#[derive(Debug)]
pub(super) struct StatusPdu {
    /// The number of the report.
    pub report_number: u64,
    /// `ACK_SN`.
    pub ack_sn: u64,
    /// Missing packets before that number, with their byte ranges.
    pub missing: Vec<(u64, u32, u32)>,
}

/// The source of new packets.
pub(super) trait SduSource {
    fn next_packet(&mut self) -> Option<Packet>;
    fn is_empty(&self) -> bool;
}

#[derive(Debug)]
pub(super) struct RlcTransmitter {
    spec: Option<RlcAcknowledgedSpec>,
    /// `TX_Next_Ack`: the lowest unacknowledged number.
    next_ack: u64,
    /// Packets with bytes to retransmit.
    retransmissions: BTreeSet<u64>,
    /// `POLL_SN`, and the expiry of `t-PollRetransmit`.
    poll_sn: u64,
    pub poll_deadline: Time,
    /// `PDU_WITHOUT_POLL`, `BYTE_WITHOUT_POLL`.
    pdus_without_poll: u32,
    bytes_without_poll: u64,
    /// Whether the next PDU has a poll independent of the counters.
    is_poll_forced: bool,
    /// Whether PDUs were sent since the last poll.
    has_unpolled_pdus: bool,
}

impl RlcTransmitter {
    pub fn new(rlc: RlcSpec) -> RlcTransmitter {
        let spec = match rlc {
            RlcSpec::Acknowledged(spec) => Some(spec),
            RlcSpec::Unacknowledged => None,
        };
        RlcTransmitter {
            spec,
            next_ack: 0,
            retransmissions: BTreeSet::new(),
            poll_sn: 0,
            poll_deadline: Time::MAX,
            pdus_without_poll: 0,
            bytes_without_poll: 0,
            is_poll_forced: false,
            has_unpolled_pdus: false,
        }
    }

    /// Re-establishes the entity with first number `number`.
    pub fn reset(&mut self, number: u64) {
        let spec = self.spec.map_or(RlcSpec::Unacknowledged, RlcSpec::Acknowledged);
        *self = RlcTransmitter { next_ack: number, ..RlcTransmitter::new(spec) };
    }

    /// Returns whether the window permits a new packet.
    fn is_window_open(&self, bearer: &Bearer) -> bool {
        self.spec.is_none() || bearer.next_number() < self.next_ack + AM_WINDOW_SIZE
    }

    /// Returns whether there are bytes to send; `more` indicates new packets.
    pub fn has_data(&self, bearer: &Bearer, more: bool) -> bool {
        !self.retransmissions.is_empty()
            || bearer.partial_sdu().is_some()
            || (more && self.is_window_open(bearer))
    }

    /// Fills a block of `space` bytes at `now`: first retransmissions, then new data.
    pub fn fill_block(
        &mut self,
        now: Time,
        mut space: u32,
        bearer: &mut Bearer,
        source: &mut impl SduSource,
    ) -> Vec<SduSegment> {
        let mut segments = Vec::new();
        while space >= MIN_SEGMENT_BYTES {
            let again = self.retransmissions.first().copied();
            let number_in_progress = again.or(bearer.partial_sdu());
            let Some(number) = number_in_progress.or_else(|| self.start_sdu(bearer, source)) else {
                break;
            };
            let Some(sdu) = bearer.get_mut(number) else { break };
            let (from, end) = match again {
                Some(_) => sdu.retransmit.first_range().unwrap_or_default(),
                None => (sdu.sent_bytes, sdu.bytes),
            };
            let whole = from == 0 && end == sdu.bytes;
            let header =
                MAC_HEADER + self.header_bytes(from, whole && space >= MAC_HEADER + 1 + end);
            let Some(length) = space.checked_sub(header).map(|left| left.min(end - from)) else {
                break;
            };
            if length == 0 {
                break;
            }
            space -= header + length;
            let to = from + length;
            if again.is_some() {
                sdu.retransmit.consume(length);
                if sdu.retransmit.is_empty() {
                    self.retransmissions.remove(&number);
                }
            } else {
                sdu.sent_bytes = to;
                self.bytes_without_poll += u64::from(length);
            }
            let has_poll = self.decide_poll(now, again.is_none(), bearer, source);
            segments.push(SduSegment { sdu_number: number, from, to, has_poll });
        }
        segments
    }

    /// Returns a new packet if there is one and the window permits it.
    fn start_sdu(&self, bearer: &mut Bearer, source: &mut impl SduSource) -> Option<u64> {
        if self.is_window_open(bearer) {
            source.next_packet().map(|packet| bearer.push(packet))
        } else {
            None
        }
    }

    /// Returns the size of an RLC header, of a complete packet (`whole`) or of a segment from `from`. Numbers have 12
    /// bits (TS 38.322 section 6.2.2.3) or 18 bits (section 6.2.2.4).
    fn header_bytes(&self, from: u32, whole: bool) -> u32 {
        let offset = if from > 0 { 2 } else { 0 };
        match self.spec {
            Some(_) => 3 + offset,
            None if whole => 1,
            None => 2 + offset,
        }
    }

    /// Returns whether the PDU created at `now` polls (TS 38.322 section 5.3.3.2, which counts only PDUs with `new`
    /// bytes).
    fn decide_poll(
        &mut self,
        now: Time,
        new: bool,
        bearer: &Bearer,
        source: &impl SduSource,
    ) -> bool {
        let Some(spec) = self.spec else { return false };
        self.pdus_without_poll += u32::from(new);
        let full = spec.poll_pdus.is_some_and(|max| self.pdus_without_poll >= max)
            || spec.poll_bytes.is_some_and(|max| self.bytes_without_poll >= max);
        let poll = full || self.is_poll_forced || !self.has_data(bearer, !source.is_empty());
        self.has_unpolled_pdus = !poll;
        if poll {
            (self.pdus_without_poll, self.bytes_without_poll, self.is_poll_forced) = (0, 0, false);
            self.poll_sn = bearer.highest_sent().unwrap_or_default();
            self.poll_deadline = now + Span(spec.poll_retransmit_ns);
        }
        poll
    }

    /// Handles a status report (sections 5.3.2 and 5.3.3.3). Returns the packets abandoned after too many
    /// retransmissions.
    pub fn on_status(&mut self, status: &StatusPdu, bearer: &mut Bearer) -> Vec<u64> {
        if self.poll_sn < status.ack_sn {
            self.poll_deadline = Time::MAX;
        }
        let mut missing = status.missing.iter().copied().peekable();
        let mut given_up = Vec::new();
        for number in self.next_ack..status.ack_sn {
            let mut considered = false;
            while let Some((other, from, to)) = missing.next_if(|(other, _, _)| *other <= number) {
                if other < number || bearer.get(number).is_none_or(|sdu| sdu.is_acknowledged) {
                    continue;
                }
                if !considered && self.consider_retransmission(number, bearer) {
                    given_up.push(number);
                }
                considered = true;
                self.mark_retransmission(number, from, to, bearer);
            }
            if !considered && let Some(sdu) = bearer.get_mut(number) {
                // The missing bytes have arrived meanwhile.
                sdu.is_acknowledged = true;
                sdu.retransmit.clear();
                self.retransmissions.remove(&number);
            }
        }
        for number in &given_up {
            self.abandon(*number, bearer);
        }
        self.advance_window(bearer);
        given_up
    }

    /// Handles `t-PollRetransmit` expiry (section 5.3.3.4): retransmits a packet, returns those abandoned first.
    pub fn on_timeout(&mut self, bearer: &mut Bearer, more: bool) -> Vec<u64> {
        self.poll_deadline = Time::MAX;
        self.is_poll_forced = true;
        let mut given_up = Vec::new();
        if self.has_data(bearer, more) {
            return given_up;
        }
        for number in (self.next_ack..bearer.next_number()).rev() {
            if bearer.get(number).is_none_or(|sdu| sdu.is_acknowledged) {
                continue;
            }
            if !self.consider_retransmission(number, bearer) {
                self.mark_retransmission(number, 0, u32::MAX, bearer);
                break;
            }
            self.abandon(number, bearer);
            given_up.push(number);
        }
        self.advance_window(bearer);
        given_up
    }

    /// Starts the poll timer if the data that would have followed the last PDUs was dropped or acknowledged. Those PDUs
    /// have no poll.
    pub fn restart_poll_timer(&mut self, now: Time, bearer: &Bearer, more: bool) {
        if let Some(spec) = self.spec
            && self.has_unpolled_pdus
            && self.poll_deadline == Time::MAX
            && self.next_ack < bearer.next_number()
            && !self.has_data(bearer, more)
        {
            self.poll_deadline = now + Span(spec.poll_retransmit_ns);
        }
    }

    /// Considers a packet for retransmission (section 5.3.2) and returns whether the limit is reached.
    fn consider_retransmission(&mut self, number: u64, bearer: &mut Bearer) -> bool {
        let (Some(spec), Some(sdu)) = (self.spec, bearer.get_mut(number)) else { return false };
        match &mut sdu.retransmissions {
            None => sdu.retransmissions = Some(0),
            Some(count) if sdu.retransmit.is_empty() => *count += 1,
            Some(_) => {}
        }
        sdu.retransmissions.is_some_and(|count| count >= spec.max_retransmissions)
    }

    /// Marks bytes of a packet for retransmission, as far as they were sent.
    fn mark_retransmission(&mut self, number: u64, from: u32, to: u32, bearer: &mut Bearer) {
        let Some(sdu) = bearer.get_mut(number) else { return };
        sdu.retransmit.add(from, to.min(sdu.sent_bytes));
        if !sdu.retransmit.is_empty() {
            self.retransmissions.insert(number);
        }
    }

    fn abandon(&mut self, number: u64, bearer: &mut Bearer) {
        self.retransmissions.remove(&number);
        if let Some(sdu) = bearer.get_mut(number) {
            sdu.is_acknowledged = true;
            sdu.sent_bytes = sdu.bytes;
            sdu.retransmit.clear();
            if sdu.state == SduState::Pending {
                sdu.state = SduState::Lost { is_known: true };
            }
        }
    }

    fn advance_window(&mut self, bearer: &Bearer) {
        while bearer.get(self.next_ack).is_some_and(|sdu| sdu.is_acknowledged) {
            self.next_ack += 1;
        }
    }

    /// Returns the packets with bytes to send and their sizes, except those that the receiver has.
    pub fn backlog(&self, bearer: &Bearer) -> (u64, u64) {
        let partial = bearer.partial_sdu().filter(|number| !self.retransmissions.contains(number));
        let waiting = self.retransmissions.iter().copied().chain(partial);
        let open = waiting.filter_map(|number| bearer.get(number));
        open.filter(|sdu| sdu.state == SduState::Pending).fold((0, 0), |(packets, bytes), sdu| {
            (packets + 1, bytes + u64::from(sdu.packet.bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Packets(u32);

    impl SduSource for Packets {
        fn next_packet(&mut self) -> Option<Packet> {
            self.0 = self.0.checked_sub(1)?;
            Some(Packet::of_bytes(100))
        }

        fn is_empty(&self) -> bool {
            self.0 == 0
        }
    }

    /// TS 38.322 section 5.3.3.2: of six PDUs with new packets, the third and the sixth poll. The retransmissions
    /// between them do not count.
    #[test]
    fn retransmissions_do_not_count_towards_a_poll() {
        let mut sender = RlcTransmitter::new(RlcSpec::Acknowledged(RlcAcknowledgedSpec {
            poll_pdus: Some(3),
            poll_bytes: None,
            poll_retransmit_ns: 1_000,
            reassembly_ns: 0,
            status_prohibit_ns: 0,
            max_retransmissions: 8,
        }));
        let (mut bearer, mut upper) = (Bearer::default(), Packets(100));
        let mut one = |sender: &mut RlcTransmitter, bearer: &mut Bearer| {
            let pieces = sender.fill_block(Time::ZERO, MAC_HEADER + 3 + 103, bearer, &mut upper);
            let [piece] = pieces[..] else { panic!("{pieces:?}") };
            (piece.sdu_number, piece.has_poll)
        };
        for expected in [(0, false), (1, false), (2, true), (3, false)] {
            assert_eq!(one(&mut sender, &mut bearer), expected);
        }
        let status = StatusPdu {
            report_number: 1,
            ack_sn: 3,
            missing: vec![(0, 0, u32::MAX), (1, 0, u32::MAX)],
        };
        assert!(sender.on_status(&status, &mut bearer).is_empty());
        for expected in [(0, false), (1, false), (4, false), (5, true)] {
            assert_eq!(one(&mut sender, &mut bearer), expected);
        }
    }
}
