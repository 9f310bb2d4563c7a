//! A 5G link of one bearer: a queue, RLC and PDCP of both ends, and HARQ in slots.

mod bearer;
mod byte_ranges;
mod harq;
mod pdcp_reordering;
mod rlc_rx;
mod rlc_tx;

use std::collections::VecDeque;

use units::{Packet, RandomStream, Span, Time};

use crate::user_stats::UserStatsTable;
use crate::{
    Channel, DropReason, Feedback, Histogram, InFlightPolicy, NrSpec, Queue, QueueGauge, RlcSpec,
    Stage, StageOutput, StageUpdate, UserLinkStats,
};
use bearer::{Bearer, RlcSdu, SduState};
use harq::{Harq, HarqTransmission};
use pdcp_reordering::PdcpReordering;
use rlc_rx::RlcReceiver;
use rlc_tx::{RlcTransmitter, SduSource, StatusPdu};

/// A queue before a link that carries one transport block per slot.
///
/// The contents of a slot are decided at its begin (or `offset_slots` before). A pending HARQ retransmission has
/// priority. Otherwise, a free HARQ process carries a new block: RLC retransmissions, then new packets, in segments. A
/// packet that arrives during a slot is sent in the next one at the earliest. Both ends use the time of the sender: the
/// propagation delay is part of a later stage and, as round trip, of the feedback.
#[derive(Debug)]
pub struct NrLink<Q, C> {
    spec: NrSpec,
    queue: Q,
    channel: C,
    harq: Harq,
    bearer: Bearer,
    rlc_tx: RlcTransmitter,
    /// `None`: unacknowledged mode.
    rlc_rx: Option<RlcReceiver>,
    pdcp: PdcpReordering,
    /// Status reports in flight or lost.
    status_reports: VecDeque<StatusPdu>,
    /// The first undecided slot, and the next slot with data.
    next_slot: Time,
    next_active_slot: Time,
    user_stats: UserStatsTable,
    sent_bytes: u64,
    sojourn: Histogram,
}

/// The queue as an SDU source of RLC.
struct RlcQueueView<'a, Q, C> {
    now: Time,
    queue: &'a mut Q,
    channel: &'a mut C,
    out: &'a mut StageOutput,
    sojourn: &'a mut Histogram,
}

impl<Q: Queue, C: Channel> SduSource for RlcQueueView<'_, Q, C> {
    fn next_packet(&mut self) -> Option<Packet> {
        let packet = self.queue.dequeue(self.now, self.channel, self.out)?;
        if let Some(arrival) = self.queue.last_dequeued_arrival() {
            self.sojourn.record(self.now.since(arrival));
        }
        Some(packet)
    }

    fn is_empty(&self) -> bool {
        self.queue.ready_at() > self.now
    }
}

impl<Q: Queue, C: Channel> NrLink<Q, C> {
    /// Creates the link over `channel`. `random` draws block errors.
    pub fn new(spec: &NrSpec, queue: Q, channel: C, random: RandomStream) -> NrLink<Q, C> {
        NrLink {
            harq: Harq::new(spec, random),
            bearer: Bearer::default(),
            rlc_tx: RlcTransmitter::new(spec.rlc),
            rlc_rx: match spec.rlc {
                RlcSpec::Acknowledged(spec) => Some(RlcReceiver::new(spec)),
                RlcSpec::Unacknowledged => None,
            },
            pdcp: PdcpReordering::new(spec.reordering),
            spec: spec.clone(),
            queue,
            channel,
            status_reports: VecDeque::new(),
            next_slot: Time::ZERO,
            next_active_slot: Time::MAX,
            user_stats: UserStatsTable::default(),
            sent_bytes: 0,
            sojourn: Histogram::default(),
        }
    }

    /// Returns the time of the next event other than a slot.
    fn next_event(&self) -> Time {
        let receiver = self.rlc_rx.as_ref().map_or(Time::MAX, RlcReceiver::poll_at);
        self.harq
            .poll_at()
            .min(self.rlc_tx.poll_deadline)
            .min(self.pdcp.reordering_deadline)
            .min(receiver)
    }

    /// Finds the next slot with data that begins at `from` or later.
    fn schedule_slot(&mut self, from: Time) {
        let ready = self.queue.ready_at();
        let waits =
            self.harq.has_free_process() && self.rlc_tx.has_data(&self.bearer, ready <= from);
        self.next_active_slot = if self.harq.has_retransmission() || waits {
            self.slot_from(from)
        } else if self.harq.has_free_process()
            && self.rlc_tx.has_data(&self.bearer, ready != Time::MAX)
        {
            self.slot_from(from.max(ready))
        } else {
            Time::MAX
        };
    }

    /// Returns the first undecided slot that begins at `from` or later.
    fn slot_from(&self, from: Time) -> Time {
        let slot = Time(from.nanos().div_ceil(self.spec.slot_ns) * self.spec.slot_ns);
        slot.max(self.next_slot)
    }

    /// Does the work due at `due` except the slot: ends of transmissions, feedback, timers, reports.
    fn process_due(&mut self, due: Time, out: &mut StageOutput) {
        while let Some(transmission) = self.harq.end_transmission(due, &mut self.channel) {
            self.on_transmission_end(&transmission, out);
        }
        while self.harq.finish_feedback(due) {}
        if self.rlc_tx.poll_deadline <= due {
            let more = self.queue.ready_at() <= due;
            let given_up = self.rlc_tx.on_timeout(&mut self.bearer, more);
            self.abandon(due, given_up, out);
        }
        if self.pdcp.reordering_deadline <= due {
            self.pdcp.on_timeout(due, &mut self.bearer, out);
        }
        self.send_status(due, out);
    }

    /// Handles the end of a transmission.
    fn on_transmission_end(&mut self, transmission: &HarqTransmission, out: &mut StageOutput) {
        let HarqTransmission { end: due, block_number: number, user, is_decoded: decoded, .. } =
            *transmission;
        let repetitions = u64::from(self.spec.repetitions);
        let airtime = Span(self.spec.slot_ns) * repetitions;
        let bits = u64::from(self.spec.coded_bits) * repetitions;
        self.user_stats.count_attempt(user, transmission.is_duplicate, airtime, bits);
        if transmission.expects_feedback {
            out.send_feedback(due, Feedback::AckNack { user, id: number, is_decoded: decoded });
        }
        for segment in &transmission.segments {
            let Some(sdu) = self.bearer.get_mut(segment.sdu_number) else { continue };
            if !decoded {
                if self.rlc_rx.is_none() && sdu.state == SduState::Pending {
                    sdu.state = SduState::Lost { is_known: false };
                    out.drop(due, sdu.packet, DropReason::LinkLayer);
                    self.user_stats.count_drop(sdu.packet.user);
                    self.pdcp.on_sdu_lost(due, &mut self.bearer, out);
                }
                continue;
            }
            let whole_before = sdu.is_resolved();
            if sdu.state == SduState::Pending {
                sdu.received.add(segment.from, segment.to);
                if sdu.received.covers(sdu.bytes) {
                    let earlier_retransmissions = sdu.retransmissions.map_or(0, |count| count + 1);
                    let (packet, retransmissions) =
                        (sdu.packet, earlier_retransmissions + transmission.attempts - 1);
                    if self.pdcp.on_sdu_received(due, segment.sdu_number, &mut self.bearer, out) {
                        self.user_stats.count_decoded(&packet, retransmissions);
                        self.sent_bytes += u64::from(packet.bytes);
                    } else {
                        self.user_stats.count_drop(packet.user);
                    }
                }
            }
            if let Some(receiver) = &mut self.rlc_rx {
                receiver.on_segment(due, segment.sdu_number, &self.bearer);
                if segment.has_poll {
                    receiver.on_poll(segment.sdu_number, whole_before);
                }
            }
        }
    }

    /// Drops packets that RLC abandoned at `due`.
    fn abandon(
        &mut self,
        due: Time,
        numbers: impl IntoIterator<Item = u64>,
        out: &mut StageOutput,
    ) {
        for number in numbers {
            let Some(sdu) = self.bearer.get(number) else { continue };
            if sdu.state == (SduState::Lost { is_known: true }) && !sdu.received.covers(sdu.bytes) {
                out.drop(due, sdu.packet, DropReason::LinkLayer);
                self.user_stats.count_drop(sdu.packet.user);
            }
            if let Some(receiver) = &mut self.rlc_rx {
                receiver.on_segment(due, number, &self.bearer);
            }
            self.pdcp.on_sdu_lost(due, &mut self.bearer, out);
        }
    }

    /// Sends a status report if it is triggered and permitted, and removes the packets resolved at both ends.
    fn send_status(&mut self, due: Time, out: &mut StageOutput) {
        if let Some(status) = self.rlc_rx.as_mut().and_then(|one| one.poll(due, &self.bearer)) {
            out.send_feedback(due, Feedback::Status { report_number: status.report_number });
            self.status_reports.push_back(status);
        }
        self.rlc_tx.restart_poll_timer(due, &self.bearer, self.queue.ready_at() != Time::MAX);
        let acknowledged = self.rlc_rx.is_some();
        self.bearer.discard_before(self.pdcp.deliver, |sdu| {
            let settled = matches!(sdu.state, SduState::Delivered | SduState::Lost { .. });
            settled && if acknowledged { sdu.is_acknowledged } else { sdu.sent_bytes == sdu.bytes }
        });
    }

    /// Decides the contents of the slot that begins at `slot`.
    fn decide_slot(&mut self, slot: Time, out: &mut StageOutput) {
        let length = Span(self.spec.slot_ns);
        if self.harq.has_retransmission() {
            self.harq.start_retransmission(slot);
            self.next_slot = slot + length * u64::from(self.spec.repetitions);
            return;
        }
        let (queue, channel) = (&mut self.queue, &mut self.channel);
        let mut source =
            RlcQueueView { now: slot, queue, channel, out, sojourn: &mut self.sojourn };
        let segments =
            self.rlc_tx.fill_block(slot, self.spec.block_bytes, &mut self.bearer, &mut source);
        let first = segments.first().and_then(|segment| self.bearer.get(segment.sdu_number));
        if let Some(user) = first.map(|sdu| sdu.packet.user) {
            self.harq.send_new(slot, user, segments);
            self.next_slot = slot + length * u64::from(self.spec.repetitions);
        } else {
            self.next_slot = slot + length;
            self.rlc_tx.restart_poll_timer(slot, &self.bearer, self.queue.ready_at() != Time::MAX);
        }
    }

    /// Drops all packets in flight at `due` and re-establishes the bearer.
    fn drop_all(&mut self, due: Time, out: &mut StageOutput) {
        for RlcSdu { packet, state, .. } in self.bearer.drain() {
            match state {
                SduState::Received => out.emit(due, packet),
                SduState::Pending => out.drop(due, packet, DropReason::Outage),
                SduState::Delivered | SduState::Lost { .. } => {}
            }
        }
        let next = self.bearer.next_number();
        self.harq.reset();
        self.rlc_tx.reset(next);
        self.pdcp.reset(next);
        self.status_reports.clear();
        if let Some(receiver) = &mut self.rlc_rx {
            receiver.reset(next);
        }
    }
}

impl<Q: Queue, C: Channel> Stage for NrLink<Q, C> {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        self.queue.enqueue(due, packet, out);
        // The slot that begins now is already decided.
        self.schedule_slot(due + Span(1));
    }

    fn poll(&mut self, now: Time, out: &mut StageOutput) {
        loop {
            let due = self.poll_at();
            if due > now || due == Time::MAX {
                return;
            }
            self.process_due(due, out);
            self.schedule_slot(due);
            if self.next_active_slot <= due {
                self.decide_slot(due, out);
                self.schedule_slot(due + Span(1));
            }
        }
    }

    fn poll_at(&self) -> Time {
        self.next_event().min(self.next_active_slot)
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        self.queue.apply_update(due, update, out);
        if *update == StageUpdate::InFlight(InFlightPolicy::Drop) {
            self.drop_all(due, out);
        }
        self.schedule_slot(due);
    }

    fn on_feedback(&mut self, due: Time, feedback: &Feedback, out: &mut StageOutput) {
        match *feedback {
            Feedback::AckNack { id: number, is_decoded: decoded, .. } => {
                self.harq.on_ack_nack(number, decoded)
            }
            Feedback::Status { report_number: number } => {
                // Earlier reports are lost.
                while self.status_reports.front().is_some_and(|one| one.report_number <= number) {
                    if let Some(status) = self.status_reports.pop_front()
                        && status.report_number == number
                    {
                        let given_up = self.rlc_tx.on_status(&status, &mut self.bearer);
                        self.abandon(due, given_up, out);
                        self.send_status(due, out);
                    }
                }
            }
        }
        self.schedule_slot(due);
    }

    fn gauge(&self) -> QueueGauge {
        let ((packets, bytes), rlc_backlog) =
            (self.queue.backlog(), self.rlc_tx.backlog(&self.bearer));
        QueueGauge {
            queued_packets: packets + rlc_backlog.0,
            queued_bytes: bytes + rlc_backlog.1,
            sent_bytes: self.sent_bytes,
        }
    }

    fn user_stats(&self) -> &[UserLinkStats] {
        self.user_stats.as_slice()
    }

    fn sojourn(&self) -> Option<&Histogram> {
        Some(&self.sojourn)
    }
}
