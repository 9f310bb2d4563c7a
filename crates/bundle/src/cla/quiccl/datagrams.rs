//! Bundles in QUIC datagrams (RFC 9221): one segment per datagram, without retransmission.
//!
//! Notified mode: the receiver acknowledges each segment by XFER_ACK, the last one after the bundle is stored. Without
//! all acknowledgements before the timeout the bundle is reported as lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use transport::Streams;
use units::{Span, Time};

use crate::cla::messages::{Message, WireFormat, XferAck, XferSegment, decode, encode, refusal};
use crate::cla::parameters::MAX_UNANSWERED;
use crate::cla::reassembly::{ByteChunks, ByteQuota};
use crate::{DeliveryMode, RefusalReason, SessionEvent, Transfer};

/// The maximum header of a segment: that of the first one, with the length of its extensions.
const MAX_HEAD_BYTES: usize = 1 + 1 + 2 + 2 + 8 + 4 + 8 + 8 + 1;

/// The approximate memory overhead of a buffered segment.
const SEGMENT_OVERHEAD: u64 = 64;

/// The maximum memory overhead of a datagram in the queue of the transport.
const QUEUE_OVERHEAD: usize = 64;

/// A bundle in transmission.
struct OutgoingBundle {
    transfer: Transfer,
    transfer_id: u64,
    total: u64,
    /// The payload of a segment.
    segment_bytes: usize,
    segments: u16,
    next_segment: u16,
}

/// A bundle of the notified mode without all acknowledgements. The deadline starts after its last segment.
struct UnackedBundle {
    id: u64,
    segments: u16,
    acked: BTreeSet<u16>,
    deadline: Time,
}

/// A bundle in reception.
struct IncomingBundle {
    segments: u16,
    total: u64,
    mode: DeliveryMode,
    parts: BTreeMap<u16, Bytes>,
    bytes: u64,
    quota_bytes: u64,
}

/// The result of a datagram.
pub(super) enum DatagramEvent {
    /// A message to the peer.
    Reply(Message),
    /// A complete bundle with its transfer number.
    Received(u64, Vec<Bytes>, DeliveryMode),
}

pub(super) struct DatagramTransfers {
    transfer_mru: u64,
    quota: ByteQuota,
    ack_timeout: Span,
    waiting: VecDeque<Transfer>,
    outgoing: Option<OutgoingBundle>,
    unacked: BTreeMap<u64, UnackedBundle>,
    incoming: BTreeMap<u64, IncomingBundle>,
    /// The acknowledgements that wait for the node, by transfer; and transfers by the number of the received bundle.
    pending_acks: BTreeMap<u64, Option<XferAck>>,
    transfer_by_received: BTreeMap<u64, u64>,
}

impl DatagramTransfers {
    pub fn new(transfer_mru: u64, quota: ByteQuota, ack_timeout: Span) -> DatagramTransfers {
        DatagramTransfers {
            transfer_mru,
            quota,
            ack_timeout,
            waiting: VecDeque::new(),
            outgoing: None,
            unacked: BTreeMap::new(),
            incoming: BTreeMap::new(),
            pending_acks: BTreeMap::new(),
            transfer_by_received: BTreeMap::new(),
        }
    }

    pub fn enqueue(&mut self, transfer: Transfer) {
        self.waiting.push_back(transfer);
    }

    pub fn cancel(&mut self, id: u64) -> bool {
        let index = self.waiting.iter().position(|transfer| transfer.id == id);
        index.and_then(|index| self.waiting.remove(index)).is_some()
    }

    pub fn refuse_waiting(&mut self, reason: RefusalReason, out: &mut Vec<SessionEvent>) {
        out.extend(
            self.waiting
                .drain(..)
                .map(|transfer| SessionEvent::Refused { id: transfer.id, reason }),
        );
    }

    pub fn has_data(&self) -> bool {
        self.outgoing.is_some() || !self.waiting.is_empty()
    }

    /// Returns whether a bundle is unacknowledged.
    pub fn has_unacked_transfer(&self) -> bool {
        self.has_data() || !self.unacked.is_empty()
    }

    pub fn poll_at(&self) -> Time {
        self.unacked.values().map(|one| one.deadline).min().unwrap_or(Time::MAX)
    }

    /// Reports bundles with an expired deadline as lost.
    pub fn expire(&mut self, now: Time, out: &mut Vec<SessionEvent>) {
        self.unacked.retain(|_, one| {
            let lost = one.deadline <= now;
            if lost {
                out.push(SessionEvent::Refused { id: one.id, reason: RefusalReason::Retransmit });
            }
            !lost
        });
    }

    /// Starts the next bundle, within the datagram and bundle limits of the peer.
    fn start_bundle(
        &mut self,
        (datagram_mru, transfer_mru): (u64, u64),
        number: &mut dyn FnMut() -> u64,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) -> bool {
        while let Some(transfer) = self.waiting.pop_front() {
            let total = transfer.bytes();
            let max_datagram = streams.max_datagram_bytes().unwrap_or(0) as u64;
            let bytes = max_datagram.min(datagram_mru).saturating_sub(MAX_HEAD_BYTES as u64);
            let segments = if bytes == 0 { 0 } else { total.div_ceil(bytes).max(1) };
            let reason = match u16::try_from(segments) {
                Ok(0) => RefusalReason::UnsupportedMode,
                Ok(segments) if total <= transfer_mru => {
                    let number = number();
                    let bytes = bytes as usize;
                    if transfer.mode == DeliveryMode::Notified {
                        let (id, deadline, acked) = (transfer.id, Time::MAX, BTreeSet::new());
                        self.unacked
                            .insert(number, UnackedBundle { id, segments, acked, deadline });
                    }
                    self.outgoing = Some(OutgoingBundle {
                        transfer,
                        transfer_id: number,
                        total,
                        segment_bytes: bytes,
                        segments,
                        next_segment: 0,
                    });
                    return true;
                }
                _ => RefusalReason::TooLarge,
            };
            out.push(SessionEvent::Refused { id: transfer.id, reason });
        }
        false
    }

    /// Sends segments while the queue of the transport has space.
    pub fn write(
        &mut self,
        now: Time,
        peer: (u64, u64),
        number: &mut dyn FnMut() -> u64,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        let mut left = streams.write_budget();
        while self.outgoing.is_some() || self.start_bundle(peer, number, streams, out) {
            let Some(bundle) = &mut self.outgoing else { return };
            let whole = MAX_HEAD_BYTES + bundle.segment_bytes;
            if left == 0 || streams.datagram_budget() < whole + QUEUE_OVERHEAD {
                return;
            }
            let first = bundle.next_segment == 0;
            let end = bundle.next_segment + 1 == bundle.segments;
            let mut data = Vec::new();
            let mut wanted = bundle.segment_bytes;
            let mut parts = Vec::new();
            while let Some(part) = bundle.transfer.data.first_mut().filter(|_| wanted > 0) {
                let taken = part.split_to(wanted.min(part.len()));
                wanted -= taken.len();
                if part.is_empty() {
                    bundle.transfer.data.remove(0);
                }
                parts.push(taken);
            }
            let segment = XferSegment {
                flags: if first { XferSegment::START } else { 0 }
                    | if end { XferSegment::END } else { 0 },
                transfer: bundle.transfer_id,
                position: (bundle.next_segment, bundle.segments),
                bytes: (bundle.segment_bytes - wanted) as u64,
                total: Some(bundle.total),
                mode: bundle.transfer.mode,
                extension_error: None,
            };
            encode(WireFormat::Quiccl, &Message::XferSegment(segment), &mut data);
            parts.iter().for_each(|part| data.extend_from_slice(part));
            left = left.saturating_sub(data.len());
            // A datagram above a reduced path MTU is lost like any other.
            let _ = streams.send_datagram(data.into());
            bundle.next_segment += 1;
            if !end {
                continue;
            }
            let (id, mode) = (bundle.transfer.id, bundle.transfer.mode);
            out.push(SessionEvent::Transmitted(id));
            if mode == DeliveryMode::Unreliable {
                out.push(SessionEvent::Acknowledged { id, durable: false });
            } else if let Some(one) = self.unacked.get_mut(&bundle.transfer_id) {
                one.deadline = now + self.ack_timeout;
            }
            self.outgoing = None;
        }
    }

    /// Handles XFER_ACK and XFER_REFUSE of bundles in datagrams. Late ones have no effect.
    pub fn on_ack(&mut self, message: &Message, out: &mut Vec<SessionEvent>) {
        match message {
            Message::XferAck(ack) => {
                let Some(one) = self.unacked.get_mut(&ack.transfer) else { return };
                if ack.segment_index < one.segments {
                    one.acked.insert(ack.segment_index);
                }
                if one.acked.len() == usize::from(one.segments) {
                    out.push(SessionEvent::Acknowledged { id: one.id, durable: true });
                    self.unacked.remove(&ack.transfer);
                }
            }
            Message::XferRefuse { reason, transfer } => {
                if let Some(one) = self.unacked.remove(transfer) {
                    out.push(SessionEvent::Refused {
                        id: one.id,
                        reason: refusal::from_code(*reason),
                    });
                }
            }
            _ => {}
        }
    }

    /// Handles a datagram. An invalid or inconsistent segment is ignored.
    pub fn receive(&mut self, data: &Bytes, is_ending: bool) -> Vec<DatagramEvent> {
        let Ok(Some((Message::XferSegment(segment), head))) = decode(WireFormat::Quiccl, data)
        else {
            return Vec::new();
        };
        let (index, segments) = segment.position;
        let total = segment.total.unwrap_or_default();
        let is_valid = (data.len() - head) as u64 == segment.bytes
            && index < segments
            && segment.bytes <= total
            && segment.extension_error.is_none()
            && segment.mode != DeliveryMode::Reliable;
        if !is_valid {
            return Vec::new();
        }
        let transfer = segment.transfer;
        let known = self.incoming.contains_key(&transfer);
        let too_large = total > self.transfer_mru;
        let is_full = self.transfer_by_received.len() >= MAX_UNANSWERED;
        if !known && (is_ending || too_large || is_full) {
            let why = match (is_ending, too_large) {
                (true, _) => RefusalReason::Terminating,
                (false, true) => RefusalReason::TooLarge,
                (false, false) => RefusalReason::NoResources,
            };
            let message = Message::XferRefuse { reason: refusal::to_code(why), transfer };
            let notified = segment.mode == DeliveryMode::Notified && segment.is_start();
            return if notified { vec![DatagramEvent::Reply(message)] } else { Vec::new() };
        }
        let mode = segment.mode;
        let parts = BTreeMap::new();
        let one = self.incoming.entry(transfer).or_insert(IncomingBundle {
            segments,
            total,
            mode,
            parts,
            bytes: 0,
            quota_bytes: 0,
        });
        if (one.segments, one.total, one.mode) != (segments, total, mode)
            || one.parts.contains_key(&index)
            || one.bytes + segment.bytes > total
        {
            return Vec::new();
        }
        one.parts.insert(index, data.slice(head..));
        one.bytes += segment.bytes;
        one.quota_bytes += segment.bytes + SEGMENT_OVERHEAD;
        self.quota.force_reserve(segment.bytes + SEGMENT_OVERHEAD);
        let bytes = one.bytes;
        let ack = XferAck { flags: segment.flags, transfer, segment_index: index, bytes };
        let mut events = Vec::new();
        if one.parts.len() < usize::from(segments) {
            if mode == DeliveryMode::Notified {
                events.push(DatagramEvent::Reply(Message::XferAck(ack)));
            }
        } else if let Some(one) = self.incoming.remove(&transfer) {
            self.quota.release(one.quota_bytes);
            if one.bytes == total {
                let (mut data, mut left) = (ByteChunks::default(), one.bytes);
                for part in one.parts.values() {
                    left -= part.len() as u64;
                    data.push(part, Some(left));
                }
                self.pending_acks.insert(transfer, (mode == DeliveryMode::Notified).then_some(ack));
                events.push(DatagramEvent::Received(transfer, data.into_chunks(), mode));
            }
        }
        // Drops the oldest incomplete bundles, which may never be completed.
        while self.quota.is_exceeded()
            && let Some((_, oldest)) = self.incoming.pop_first()
        {
            self.quota.release(oldest.quota_bytes);
        }
        events
    }

    /// Registers the number of a received bundle.
    pub fn register_received(&mut self, received: u64, transfer: u64) {
        self.transfer_by_received.insert(received, transfer);
    }

    pub fn has_received(&self, received: u64) -> bool {
        self.transfer_by_received.contains_key(&received)
    }

    /// Handles the answer of the node. Returns the message to the peer.
    pub fn resolve_received(
        &mut self,
        received: u64,
        refused: Option<RefusalReason>,
    ) -> Option<Message> {
        let transfer = self.transfer_by_received.remove(&received)?;
        let ack = self.pending_acks.remove(&transfer)??;
        Some(match refused {
            None => Message::XferAck(ack),
            Some(why) => Message::XferRefuse { reason: refusal::to_code(why), transfer },
        })
    }
}
