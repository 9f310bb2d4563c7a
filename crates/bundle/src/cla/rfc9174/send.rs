//! Assigns bundles to streams, writes streams in round robin, and abandons streams.

use transport::Streams;
use units::Time;

use super::transfer_stream::{Initiator, OutgoingTransfer, TransferStream};
use super::{
    DATA_STREAMS, QUANTUM_BYTES, Rfc9174Session, SIGNAL_STREAM, SessionState, StreamMapping,
};
use crate::cla::messages::WireFormat;
use crate::{DeliveryMode, RefusalReason, SessionEvent};

impl Rfc9174Session {
    /// Assigns waiting bundles to available streams.
    pub(super) fn assign_streams(
        &mut self,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        if self.state != SessionState::Established || self.is_ending() {
            return;
        }
        let Some(peer) = &self.peer_init else { return };
        let (transfer_mru, segment_mru) = (peer.transfer_mru, peer.segment_mru);
        while let Some(next) = self.waiting.front() {
            let (id, total) = (next.id, next.bytes());
            let mut max_segment_bytes = self.config.segment_bytes.min(segment_mru);
            if self.config.format == WireFormat::Quiccl {
                // A segment number has 16 bits.
                max_segment_bytes = max_segment_bytes.max(total.div_ceil(u64::from(u16::MAX)));
            }
            let refusal = if total > transfer_mru || max_segment_bytes > segment_mru {
                Some(RefusalReason::TooLarge)
            } else if next.mode != DeliveryMode::Reliable {
                Some(RefusalReason::UnsupportedMode)
            } else {
                None
            };
            if let Some(reason) = refusal {
                self.waiting.pop_front();
                out.push(SessionEvent::Refused { id, reason });
                continue;
            }
            let (stream, dedicated_by) = match self.config.mapping {
                StreamMapping::Signal => (SIGNAL_STREAM, None),
                StreamMapping::One => (DATA_STREAMS[3], None),
                StreamMapping::Priorities => match next.priority {
                    0 => (DATA_STREAMS[2], None),
                    1 => (DATA_STREAMS[1], None),
                    _ => (DATA_STREAMS[0], None),
                },
                StreamMapping::Each => match streams.open() {
                    Some(stream) => (stream, Some(Initiator::Local)),
                    None => return,
                },
            };
            if dedicated_by.is_none() && !self.transfer_streams.contains(stream) {
                return;
            }
            let transfer = self.take_transfer_number();
            let Some(bundle) = self.waiting.pop_front() else { return };
            if dedicated_by.is_some() {
                streams.set_priority(stream, bundle.priority.into());
            }
            self.transfer_stream(stream, dedicated_by).queue.push_back(OutgoingTransfer {
                id,
                transfer,
                parts: bundle.data.into(),
                total,
                segmented_bytes: 0,
                segments: 0,
                max_segment_bytes,
            });
        }
    }

    pub(super) fn write(
        &mut self,
        now: Time,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        let mut left = streams.write_budget().max(1);
        let signal_has_data =
            self.transfer_streams.get(SIGNAL_STREAM).is_some_and(TransferStream::has_data);
        if signal_has_data && let Some(signal) = self.transfer_streams.get_mut(SIGNAL_STREAM) {
            let written = signal.write(Some(left), streams, out);
            left -= written;
            if written > 0 {
                self.last_sent_at = now;
            }
        }
        // Dedicated streams share the window in round robin; among the four shared streams the first has priority.
        let first =
            if self.config.mapping == StreamMapping::Each { self.last_served + 1 } else { 0 };
        self.write_order.clear();
        self.write_order.extend(self.transfer_streams.writable_from(first));
        let mut progress = true;
        while left > 0 && progress {
            progress = false;
            for id in &self.write_order {
                let Some(stream) =
                    self.transfer_streams.get_mut(*id).filter(|stream| stream.has_data())
                else {
                    continue;
                };
                if left == 0 {
                    return;
                }
                let budget = if self.config.mapping == StreamMapping::Each {
                    left.min(QUANTUM_BYTES)
                } else {
                    left
                };
                let written = stream.write(Some(budget), streams, out);
                if written > 0 {
                    (self.last_sent_at, self.last_served, progress) = (now, *id, true);
                    left -= written;
                }
            }
        }
    }

    pub(super) fn on_stream_stopped(
        &mut self,
        id: u64,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        let Some(stream) = self.transfer_streams.get(id) else { return };
        if stream.dedicated_by != Some(Initiator::Local) {
            return self.fail(Some("the peer has stopped a stream"));
        }
        streams.reset(id);
        self.abandon_stream(id, RefusalReason::Unknown, out);
    }

    /// Abandons a stream of one bundle without an answer.
    pub(super) fn abandon_stream(
        &mut self,
        id: u64,
        reason: RefusalReason,
        out: &mut Vec<SessionEvent>,
    ) {
        let Some(mut stream) = self.transfer_streams.remove(id) else { return };
        let queued: Vec<u64> = stream.take_queue().collect();
        for id in stream.unacked_ids().chain(queued) {
            out.push(SessionEvent::Refused { id, reason });
        }
        stream.drop_reassembly(&mut self.quota);
        self.stream_by_received.retain(|_, stream| *stream != id);
    }

    // Termination.
}
