//! A bidirectional stream of messages: outgoing and incoming transfers and their acknowledgements.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use transport::{ReadStatus, Streams};

use super::super::parameters::MAX_UNANSWERED;
use super::super::reassembly::{BundleReassembly, ByteQuota, InOrderBuffer};
use crate::cla::messages::{
    Decoder, ExtensionError, Message, WireFormat, XferAck, XferSegment, encode, refusal, reject,
};
use crate::{DeliveryMode, RefusalReason, SessionEvent};

/// The maximum number of queued control bytes that the peer has not read.
const MAX_CONTROL_BYTES: usize = 1 << 20;

/// A transfer in transmission.
pub(super) struct OutgoingTransfer {
    /// The number of the node.
    pub id: u64,
    /// The number of the session.
    pub transfer: u64,
    pub parts: VecDeque<Bytes>,
    pub total: u64,
    /// The bytes in segments so far.
    pub segmented_bytes: u64,
    /// The segments so far.
    pub segments: u16,
    /// The maximum segment length.
    pub max_segment_bytes: u64,
}

/// A transfer that is at least partially sent, without a final acknowledgement.
struct UnackedTransfer {
    id: u64,
    transfer: u64,
    total: u64,
    acked: u64,
}

/// An incoming transfer without a sent response. Responses have the sequence of transfers (RFC 9174 section 5.2.4: the
/// refusal of a transfer acknowledges all before it).
struct PendingAck {
    /// The number of the received bundle. `None` needs no answer of the node.
    received: Option<u64>,
    ack: XferAck,
    response: Option<Message>,
}

/// The limits of the session for received transfers.
pub(super) struct ReceiveLimits {
    pub segment_mru: u64,
    pub transfer_mru: u64,
    /// No further transfer is accepted.
    pub is_ending: bool,
}

/// The side that opened a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Initiator {
    Local,
    Peer,
}

pub(super) struct TransferStream {
    format: WireFormat,
    pub stream_id: u64,
    pub decoder: Decoder,
    pub in_order: InOrderBuffer,
    /// The side that opened a stream for one bundle, which ends after it.
    pub dedicated_by: Option<Initiator>,
    finished: bool,
    /// The peer has finished its direction.
    pub peer_finished: bool,

    /// Queued complete messages.
    control: Vec<u8>,
    /// The rest of the current message.
    partial_message: VecDeque<Bytes>,
    /// The current message completes this transfer (number of the node).
    completes: Option<u64>,
    current: Option<OutgoingTransfer>,
    pub queue: VecDeque<OutgoingTransfer>,
    /// The stream has output, as of the last update.
    pub has_output: bool,
    unacked: VecDeque<UnackedTransfer>,

    /// The segment in reception, and whether it is accepted.
    incoming_segment: Option<(XferSegment, bool)>,
    /// The transfer in reception and its number.
    reassembly: Option<(u64, BundleReassembly)>,
    refused_transfer: Option<u64>,
    pending_acks: VecDeque<PendingAck>,
    /// Unparsed bytes while the stream is full, and the end of the stream after them.
    pub unparsed: BytesMut,
    pub unparsed_end: Option<ReadStatus>,
}

impl TransferStream {
    pub fn new(
        format: WireFormat,
        stream_id: u64,
        dedicated_by: Option<Initiator>,
    ) -> TransferStream {
        TransferStream {
            format,
            stream_id,
            decoder: Decoder::new(format),
            in_order: InOrderBuffer::default(),
            dedicated_by,
            finished: false,
            peer_finished: false,
            control: Vec::new(),
            partial_message: VecDeque::new(),
            completes: None,
            current: None,
            queue: VecDeque::new(),
            has_output: false,
            unacked: VecDeque::new(),
            incoming_segment: None,
            reassembly: None,
            refused_transfer: None,
            pending_acks: VecDeque::new(),
            unparsed: BytesMut::new(),
            unparsed_end: None,
        }
    }

    // Sending.

    pub fn queue_message(&mut self, message: &Message) {
        if self.finished {
            // This stream of one bundle is finished, so the message is dropped.
            return;
        }
        encode(self.format, message, &mut self.control);
    }

    /// Queues bytes before all messages.
    pub fn queue_raw(&mut self, bytes: &[u8]) {
        self.control.extend_from_slice(bytes);
    }

    /// Returns whether the peer fails to read its responses.
    pub fn exceeds_control_limit(&self) -> bool {
        self.control.len() > MAX_CONTROL_BYTES
    }

    /// Returns whether the limit of transfers that wait for the store is reached; flow control blocks the peer.
    pub fn is_full(&self) -> bool {
        self.pending_acks.len() >= MAX_UNANSWERED
    }

    pub fn has_data(&self) -> bool {
        !self.partial_message.is_empty() || !self.control.is_empty() || self.has_bundles()
    }

    pub fn has_bundles(&self) -> bool {
        self.current.is_some() || !self.queue.is_empty()
    }

    /// Returns whether any outgoing or incoming transfer is unanswered.
    pub fn is_busy(&self) -> bool {
        self.has_bundles()
            || !self.unacked.is_empty()
            || self.reassembly.is_some()
            || !self.pending_acks.is_empty()
    }

    /// Returns whether an outgoing transfer is unanswered.
    pub fn has_unacked_transfer(&self) -> bool {
        self.has_bundles() || !self.unacked.is_empty()
    }

    /// Builds the next segment of a transfer (section 5.2.2).
    fn build_segment(&mut self) -> bool {
        if self.current.is_none() {
            self.current = self.queue.pop_front();
            if let Some(OutgoingTransfer { id, transfer, total, .. }) = self.current {
                self.unacked.push_back(UnackedTransfer { id, transfer, total, acked: 0 });
            }
        }
        let Some(bundle) = &mut self.current else { return false };
        let bytes = bundle.max_segment_bytes.min(bundle.total - bundle.segmented_bytes);
        let segment = XferSegment {
            flags: if bundle.segmented_bytes == 0 { XferSegment::START } else { 0 }
                | if bundle.segmented_bytes + bytes == bundle.total { XferSegment::END } else { 0 },
            transfer: bundle.transfer,
            position: (bundle.segments, bundle.total.div_ceil(bundle.max_segment_bytes) as u16),
            bytes,
            total: Some(bundle.total),
            mode: DeliveryMode::Reliable,
            extension_error: None,
        };
        let mut head = Vec::new();
        encode(self.format, &Message::XferSegment(segment), &mut head);
        self.partial_message.push_back(head.into());
        let mut left = bytes as usize;
        while let Some(part) = bundle.parts.front_mut().filter(|_| left > 0) {
            let taken = part.split_to(left.min(part.len()));
            left -= taken.len();
            if part.is_empty() {
                bundle.parts.pop_front();
            }
            if !taken.is_empty() {
                self.partial_message.push_back(taken);
            }
        }
        bundle.segmented_bytes += bytes;
        bundle.segments += 1;
        if segment.is_end() {
            self.completes = Some(bundle.id);
            self.current = None;
        }
        true
    }

    /// Writes queued messages, and up to `budget` bytes of bundles. Returns the bytes that the transport accepted.
    pub fn write(
        &mut self,
        budget: Option<usize>,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) -> usize {
        let (mut left, mut written) = (budget.unwrap_or(usize::MAX), 0);
        loop {
            while let Some(part) = self.partial_message.front_mut() {
                let wanted = part.len().min(left);
                let taken = streams.write(self.stream_id, part.slice(..wanted));
                written += taken;
                left -= taken;
                let _ = part.split_to(taken);
                if part.is_empty() {
                    self.partial_message.pop_front();
                }
                if taken < wanted || left == 0 {
                    break;
                }
            }
            if !self.partial_message.is_empty() {
                return written;
            }
            if let Some(id) = self.completes.take() {
                out.push(SessionEvent::Transmitted(id));
            }
            if left == 0 {
                return written;
            }
            if !self.control.is_empty() {
                self.partial_message.push_back(std::mem::take(&mut self.control).into());
            } else if budget.is_none() || !self.build_segment() {
                return written;
            }
        }
    }

    /// Writes queued messages unless a segment precedes them, which waits for the window.
    pub fn flush(&mut self, streams: &mut dyn Streams, out: &mut Vec<SessionEvent>) -> usize {
        if self.partial_message.is_empty() && !self.control.is_empty() {
            return self.write(None, streams, out);
        }
        0
    }

    /// Finishes a stream of one bundle when its output is complete. Returns whether both directions are finished.
    pub fn finish_if_done(&mut self, streams: &mut dyn Streams) -> bool {
        let Some(initiator) = self.dedicated_by else { return false };
        let is_complete = match initiator {
            Initiator::Local => true,
            Initiator::Peer => {
                self.peer_finished && self.reassembly.is_none() && self.pending_acks.is_empty()
            }
        };
        if is_complete && !self.has_data() {
            self.finish(streams);
        }
        self.finished && self.peer_finished && !self.is_busy()
    }

    pub fn finish(&mut self, streams: &mut dyn Streams) {
        if !std::mem::replace(&mut self.finished, true) {
            streams.finish(self.stream_id);
        }
    }

    /// Cancels a bundle without a sent segment. Returns whether it was queued.
    pub fn cancel(&mut self, id: u64) -> bool {
        // Bundles of one batch of cancellations have the sequence of the queue.
        let index = self.queue.iter().position(|bundle| bundle.id == id);
        index.and_then(|index| self.queue.remove(index)).is_some()
    }

    /// Returns and removes the bundles without a sent segment.
    pub fn take_queue(&mut self) -> impl Iterator<Item = u64> {
        std::mem::take(&mut self.queue).into_iter().map(|bundle| bundle.id)
    }

    /// Returns the unanswered bundles of this side by the number of the node.
    pub fn unacked_ids(&self) -> impl Iterator<Item = u64> {
        self.unacked.iter().map(|one| one.id)
    }

    // Acknowledgements of sent transfers.

    /// Handles XFER_ACK. Returns whether it is valid.
    pub fn on_ack(&mut self, ack: XferAck, out: &mut Vec<SessionEvent>) -> bool {
        let Some(index) = self.unacked.iter().position(|one| one.transfer == ack.transfer) else {
            return false;
        };
        let one = &mut self.unacked[index];
        let whole = ack.bytes == one.total;
        if ack.bytes < one.acked || ack.bytes > one.total || (ack.is_end() && !whole) {
            return false;
        }
        one.acked = ack.bytes;
        // An empty last segment has the same length as the one before.
        if ack.is_end() {
            out.push(SessionEvent::Acknowledged { id: one.id, durable: true });
            self.unacked.remove(index);
        }
        true
    }

    /// Handles XFER_REFUSE. Returns whether it is valid.
    pub fn on_refuse(&mut self, reason: u8, transfer: u64, out: &mut Vec<SessionEvent>) -> bool {
        let Some(index) = self.unacked.iter().position(|one| one.transfer == transfer) else {
            return false;
        };
        let id = self.unacked[index].id;
        self.unacked.remove(index);
        // The current segment is completed (section 5.2.4), and no further one follows.
        if self.current.as_ref().is_some_and(|bundle| bundle.transfer == transfer) {
            self.current = None;
        }
        out.push(match refusal::from_code(reason) {
            // "The sender MAY consider the bundle as completely received."
            RefusalReason::Completed => SessionEvent::Acknowledged { id, durable: true },
            why => SessionEvent::Refused { id, reason: why },
        });
        true
    }

    // Receiving.

    fn refuse(&mut self, transfer: u64, reason: u8, quota: &mut ByteQuota) {
        if let Some((_, reassembly)) = self.reassembly.take() {
            reassembly.finish(quota);
        }
        self.refused_transfer = Some(transfer);
        let done = Some(Message::XferRefuse { reason, transfer });
        let ack = XferAck { flags: 0, transfer, segment_index: 0, bytes: 0 };
        self.pending_acks.push_back(PendingAck { received: None, ack, response: done });
        self.send_pending_acks();
    }

    /// Sends available responses in sequence.
    fn send_pending_acks(&mut self) {
        while let Some(pending) = self.pending_acks.front() {
            let Some(message) = pending.response.clone() else { return };
            self.pending_acks.pop_front();
            self.queue_message(&message);
        }
    }

    /// Handles the header of a segment.
    pub fn on_segment(
        &mut self,
        segment: XferSegment,
        limits: &ReceiveLimits,
        quota: &mut ByteQuota,
    ) {
        let transfer = segment.transfer;
        let mut taken = false;
        if segment.is_start() {
            if let Some((_, reassembly)) = self.reassembly.take() {
                // The peer aborted the previous transfer.
                reassembly.finish(quota);
            }
            let total = segment.total.unwrap_or(segment.bytes).max(segment.bytes);
            let reason = if limits.is_ending {
                Some(refusal::to_code(RefusalReason::Terminating))
            } else if segment.extension_error == Some(ExtensionError::UnknownCritical) {
                Some(refusal::EXTENSION)
            } else if segment.extension_error.is_some()
                || segment.mode != DeliveryMode::Reliable
                || segment.bytes > limits.segment_mru
                || total > limits.transfer_mru
            {
                Some(refusal::to_code(RefusalReason::NotAcceptable))
            } else {
                None
            };
            match reason {
                Some(reason) => self.refuse(transfer, reason, quota),
                None => {
                    self.reassembly = Some((transfer, BundleReassembly::new(segment.total)));
                    taken = true;
                }
            }
        } else {
            match &self.reassembly {
                Some((current, reassembly)) if *current == transfer => {
                    let max_bytes = reassembly.total().unwrap_or(limits.transfer_mru);
                    if segment.bytes > limits.segment_mru
                        || reassembly.len().saturating_add(segment.bytes) > max_bytes
                    {
                        self.refuse(
                            transfer,
                            refusal::to_code(RefusalReason::NotAcceptable),
                            quota,
                        );
                    } else {
                        taken = true;
                    }
                }
                // "Subsequent segments of the bundle SHALL also be refused" (section 5.2.4).
                _ if self.refused_transfer == Some(transfer) => {
                    self.refuse(transfer, refusal::to_code(RefusalReason::Unknown), quota);
                }
                _ => {
                    let kind = Message::XferSegment(segment).type_code(self.format);
                    self.queue_message(&Message::MsgReject { reason: reject::UNEXPECTED, kind });
                }
            }
        }
        self.incoming_segment = Some((segment, taken));
    }

    /// Handles segment data. A complete bundle gets the number `next`.
    pub fn on_data(
        &mut self,
        bytes: &[u8],
        is_last: bool,
        next: u64,
        quota: &mut ByteQuota,
    ) -> Option<SessionEvent> {
        let (segment, taken) = self.incoming_segment?;
        if is_last {
            self.incoming_segment = None;
        }
        if !taken {
            return None;
        }
        let Some((_, reassembly)) = &mut self.reassembly else { return None };
        if !reassembly.push(bytes, quota) {
            self.incoming_segment = (!is_last).then_some((segment, false));
            self.refuse(segment.transfer, refusal::to_code(RefusalReason::NoResources), quota);
            return None;
        }
        if !is_last {
            return None;
        }
        let ack = XferAck {
            flags: segment.flags,
            transfer: segment.transfer,
            segment_index: segment.position.0,
            bytes: reassembly.len(),
        };
        if !segment.is_end() {
            self.queue_message(&Message::XferAck(ack));
            return None;
        }
        // "The Total Length field SHALL be treated as authoritative" (section 5.2.5.1).
        if reassembly.total().is_some_and(|total| total != reassembly.len()) {
            self.refuse(segment.transfer, refusal::to_code(RefusalReason::NotAcceptable), quota);
            return None;
        }
        let (_, reassembly) = self.reassembly.take()?;
        let data = reassembly.finish(quota);
        self.pending_acks.push_back(PendingAck { received: Some(next), ack, response: None });
        Some(SessionEvent::Received { id: next, data, mode: DeliveryMode::Reliable })
    }

    /// Handles the answer of the node for a received bundle. `None` means that it is durable.
    pub fn resolve_received(&mut self, received: u64, refused: Option<RefusalReason>) {
        let Some(pending) = self.pending_acks.iter_mut().find(|one| one.received == Some(received))
        else {
            return;
        };
        pending.response = Some(match refused {
            None => Message::XferAck(pending.ack),
            Some(why) => Message::XferRefuse {
                reason: refusal::to_code(why),
                transfer: pending.ack.transfer,
            },
        });
        self.send_pending_acks();
    }

    /// Discards a partially received bundle.
    pub fn drop_reassembly(&mut self, quota: &mut ByteQuota) {
        if let Some((_, reassembly)) = self.reassembly.take() {
            reassembly.finish(quota);
        }
    }
}
