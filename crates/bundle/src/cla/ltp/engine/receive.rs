//! Received segments, and the responses of the node to received bundles.

use units::Time;

use super::super::block_rx::{ReceivedBlock, SegmentEffect};
use super::super::block_tx::ReportEffect;
use super::super::segment::{
    Canceller, DataSegment, LtpSegment, LtpSessionId, SegmentBody, reason,
};
use super::super::timers::TimerKey;
use super::{ControlSegment, LtpEngine, MAX_QUEUED_CONTROL, initial_serial};
use crate::{DeliveryMode, RefusalReason, SessionEvent};

/// Returns the refusal reason for a cancellation by the peer.
fn refusal_reason(why: u8) -> RefusalReason {
    match why {
        reason::CANCELLED | reason::UNREACHABLE => RefusalReason::NotAcceptable,
        reason::SYSTEM => RefusalReason::NoResources,
        _ => RefusalReason::Retransmit,
    }
}

impl LtpEngine {
    /// Handles a received segment.
    pub fn on_segment(&mut self, now: Time, segment: &LtpSegment, out: &mut Vec<SessionEvent>) {
        let session = segment.session;
        let is_local = session.originator == self.engine_id;
        let is_peers = !is_local && self.peer_engine.is_none_or(|peer| peer == session.originator);
        match &segment.body {
            SegmentBody::Data(data) if is_peers => self.on_data(now, session, data, out),
            SegmentBody::Report(report) if is_local => {
                self.queue_control(session, SegmentBody::ReportAck(report.serial));
                let Some(one) = self.outgoing.get_mut(&session.number) else { return };
                let (effect, checkpoint) = one.on_report(report);
                if let Some(serial) = checkpoint {
                    self.timers.stop(TimerKey::Checkpoint(session.number, serial));
                }
                match effect {
                    ReportEffect::NoEffect => {}
                    ReportEffect::Incomplete => self.queue_retransmission(session.number),
                    ReportEffect::Complete => {
                        if let Some(one) = self.close_outgoing(session.number) {
                            out.push(SessionEvent::Acknowledged { id: one.id, durable: true });
                        }
                    }
                    ReportEffect::CycleLimit => {
                        self.cancel_outgoing(now, session.number, reason::CYCLES, out)
                    }
                }
            }
            SegmentBody::ReportAck(serial) if is_peers => {
                let Some(one) = self.incoming.get_mut(&session) else { return };
                let Some(report) = one.unacked_reports.remove(serial) else { return };
                self.timers.stop(TimerKey::Report(session, *serial));
                // A green part can follow.
                if report.claims_all && one.delivered_id.is_some() {
                    self.close_incoming(session);
                }
            }
            SegmentBody::Cancel(Canceller::Sender, _) if is_peers => {
                self.queue_control(session, SegmentBody::CancelAck(Canceller::Sender));
                self.close_incoming(session);
            }
            SegmentBody::Cancel(Canceller::Receiver, why) if is_local => {
                self.queue_control(session, SegmentBody::CancelAck(Canceller::Receiver));
                if let Some(one) = self.close_outgoing(session.number) {
                    out.push(SessionEvent::Refused { id: one.id, reason: refusal_reason(*why) });
                }
            }
            SegmentBody::CancelAck(Canceller::Sender) if is_local => {
                self.cancelled_outgoing.remove(&session.number);
                self.timers.stop(TimerKey::CancelOutgoing(session.number));
            }
            SegmentBody::CancelAck(Canceller::Receiver) if is_peers => {
                self.cancelled_incoming.remove(&session);
                self.timers.stop(TimerKey::CancelIncoming(session));
            }
            // The sender of the segment has the wrong role in this session.
            _ => {}
        }
    }

    fn on_data(
        &mut self,
        now: Time,
        session: LtpSessionId,
        data: &DataSegment,
        out: &mut Vec<SessionEvent>,
    ) {
        if self.closed.contains(&session) || self.cancelled_incoming.contains_key(&session) {
            return;
        }
        if !self.incoming.contains_key(&session) {
            if self.rejects_new_sessions
                || self.incoming.len() >= self.spec.max_incoming_sessions as usize
            {
                // Without a record each segment of the session gets this response.
                return self.queue_control(
                    session,
                    SegmentBody::Cancel(Canceller::Receiver, reason::SYSTEM),
                );
            }
            let one = ReceivedBlock::new(initial_serial(
                session,
                now,
                self.initial_numbers.serial_secret,
            ));
            self.quota.force_reserve(one.quota_bytes);
            self.incoming.insert(session, one);
            self.timers.start(
                TimerKey::Silence(session),
                now,
                self.silence_timeout(),
                &self.link_state,
            );
        }
        let Some(one) = self.incoming.get_mut(&session) else { return };
        self.last_received_at.insert(session, now);
        let before = one.quota_bytes;
        let effect = one.on_data(session, data, &self.spec);
        self.quota.force_reserve(one.quota_bytes - before);
        if self.quota.is_exceeded() {
            return self.cancel_incoming(session, reason::SYSTEM);
        }
        if one.is_complete() {
            let id = self.next_received;
            self.next_received += 1;
            self.received.insert(id, session);
            let mode = if one.is_red() { DeliveryMode::Reliable } else { DeliveryMode::Unreliable };
            let before = one.quota_bytes;
            let data = one.take_bundle(id);
            self.quota.release(before - one.quota_bytes);
            out.push(SessionEvent::Received { id, data, mode });
        }
        self.apply_effect(session, effect);
    }

    fn apply_effect(&mut self, session: LtpSessionId, effect: SegmentEffect) {
        match effect {
            SegmentEffect::Invalid(why) => self.cancel_incoming(session, why),
            SegmentEffect::Reports(serials) => {
                self.control_queue
                    .extend(serials.into_iter().map(|one| ControlSegment::Report(session, one)));
            }
            SegmentEffect::Duplicate(serials) => {
                let free = MAX_QUEUED_CONTROL.saturating_sub(self.control_queue.len());
                let reports = serials.into_iter().map(|one| ControlSegment::Report(session, one));
                self.control_queue.extend(reports.take(free));
            }
        }
    }

    /// Handles the confirmation that a bundle is stored, or a duplicate.
    pub fn on_stored(&mut self, id: u64) {
        let Some(session) = self.received.remove(&id) else { return };
        let Some(one) = self.incoming.get_mut(&session) else { return };
        if !one.is_red() {
            return self.close_incoming(session);
        }
        let before = one.quota_bytes;
        let effect = one.on_stored(session, &self.spec);
        self.quota.force_reserve(one.quota_bytes - before);
        self.apply_effect(session, effect);
    }

    /// Handles the refusal of a bundle by the node.
    pub fn on_refused(&mut self, id: u64, why: RefusalReason) {
        let Some(session) = self.received.get(&id).copied() else { return };
        let is_red = self.incoming.get(&session).is_some_and(ReceivedBlock::is_red);
        if why == RefusalReason::Completed || !is_red {
            return self.on_stored(id);
        }
        self.received.remove(&id);
        let code = match why {
            RefusalReason::TooLarge | RefusalReason::NotAcceptable => reason::CANCELLED,
            RefusalReason::UnsupportedMode => reason::UNREACHABLE,
            RefusalReason::Retransmit | RefusalReason::Unknown => reason::RETRANSMISSIONS,
            _ => reason::SYSTEM,
        };
        self.cancel_incoming(session, code);
    }
}
