//! A queue before a transmitter.

use std::collections::VecDeque;

use units::{Packet, Span, Time};

use crate::reordering::ReorderingBuffer;
use crate::user_stats::UserStatsTable;
use crate::{
    Channel, DropReason, Feedback, FeedbackAction, FixedChannel, Histogram, InFlightPolicy, Queue,
    QueueGauge, ReorderingSpec, ServiceOutcome, ServiceProcess, Stage, StageOutput, StageUpdate,
    Transmission, TransmissionAttempt, UserLinkStats, UserQueueStats,
};

/// Serves the packets of a queue one at a time. It dequeues only when the link becomes free. The decision of the queue
/// (a drop, a mark, the selected user) therefore uses the latest state. Due retransmissions
/// ([`ServiceOutcome::Retransmit`]) precede new packets, unless the queue prefers a new one
/// ([`Queue::select_retransmission`]). Before they are due, new packets use the link. A packet is delivered once, for
/// any number of services. If it is delivered without an acknowledgement, a duplicate waits
/// ([`ServiceOutcome::Unconfirmed`]). User statistics ([`Transmitter::with_user_stats`]) and reordering
/// ([`Transmitter::with_reordering`]) are optional.
#[derive(Debug)]
pub struct Transmitter<Q, S, C = FixedChannel> {
    queue: Q,
    service: S,
    channel: C,
    /// The packet in service; its service ends at the next deadline.
    serving: Option<Transmission>,
    /// Packets that wait for a retransmission, in order of the earliest start.
    retransmissions: VecDeque<(Time, Transmission)>,
    /// The subset that was not delivered yet.
    retransmission_packets: u64,
    retransmission_bytes: u64,
    /// Set by [`StageUpdate::Enabled`]; no service starts meanwhile.
    is_disabled: bool,
    /// Number of packets that entered service.
    next_id: u64,
    service_deadline: Time,
    /// The begin of the current service.
    service_began_at: Time,
    user_stats: Option<UserStatsTable>,
    reordering: Option<ReorderingBuffer>,
    /// The deadline of the reordering buffer.
    reordering_deadline: Time,
    sent_bytes: u64,
    sojourn: Histogram,
}

impl<Q: Queue, S: ServiceProcess> Transmitter<Q, S> {
    /// Returns a transmitter over a perfect channel.
    pub fn new(queue: Q, service: S) -> Transmitter<Q, S> {
        Transmitter::with_channel(queue, service, FixedChannel::PERFECT)
    }
}

impl<Q: Queue, S: ServiceProcess, C: Channel> Transmitter<Q, S, C> {
    /// Returns a transmitter over `channel`.
    pub fn with_channel(queue: Q, service: S, channel: C) -> Transmitter<Q, S, C> {
        Transmitter {
            queue,
            service,
            channel,
            serving: None,
            retransmissions: VecDeque::new(),
            retransmission_packets: 0,
            retransmission_bytes: 0,
            is_disabled: false,
            next_id: 0,
            service_deadline: Time::MAX,
            service_began_at: Time::ZERO,
            user_stats: None,
            reordering: None,
            reordering_deadline: Time::MAX,
            sent_bytes: 0,
            sojourn: Histogram::default(),
        }
    }

    /// Enables the statistics per user.
    pub fn with_user_stats(mut self) -> Self {
        self.user_stats = Some(UserStatsTable::default());
        self
    }

    /// Restores the order of the packets of each flow.
    pub fn with_reordering(mut self, spec: ReorderingSpec) -> Self {
        self.reordering = Some(ReorderingBuffer::new(spec));
        self
    }

    /// Starts the service of the next packet, if there is one, at `due`, and sets the deadline.
    fn start_next(&mut self, due: Time, out: &mut StageOutput) {
        if self.is_disabled {
            self.service_deadline = Time::MAX;
            return;
        }
        let transmission = match self.retransmissions.front() {
            Some((at, _)) if *at <= due => self.next_retransmission(due, out),
            _ => self.next_new_packet(due, out),
        };
        let Some(transmission) = transmission else {
            let retry_at = self.retransmissions.front().map_or(Time::MAX, |(at, _)| *at);
            let ready = self.queue.ready_at().max(self.service.available_at());
            debug_assert!(ready > due, "a queue that is ready gives a packet");
            self.service_deadline = if ready > due { retry_at.min(ready) } else { retry_at };
            return;
        };
        self.service_deadline = self.service.begin(due, &transmission, &mut self.channel).max(due);
        self.service_began_at = due;
        self.serving = Some(transmission);
        if self.user_stats.is_some()
            && let Some(attempts) = &mut out.attempts
        {
            let Transmission { packet, id: number, attempt, is_duplicate: copy, .. } = transmission;
            let (handle, user) = (packet.handle, packet.user);
            let end = self.service_deadline;
            attempts.push(TransmissionAttempt {
                begin: due,
                end,
                handle,
                user,
                transmission_id: number,
                attempt_number: attempt,
                is_duplicate: copy,
            });
        }
    }

    /// Returns the retransmission that the queue selects at `due`, or a new packet if the queue prefers it and has one.
    fn next_retransmission(&mut self, due: Time, out: &mut StageOutput) -> Option<Transmission> {
        let mut ready = self
            .retransmissions
            .iter()
            .take_while(|(at, _)| *at <= due)
            .map(|(_, transmission)| transmission);
        let chosen = self.queue.select_retransmission(due, &mut ready, &mut self.channel);
        if chosen.is_none()
            && let Some(transmission) = self.next_new_packet(due, out)
        {
            return Some(transmission);
        }
        let transmission = self.remove_retransmission(chosen.unwrap_or(0))?;
        Some(Transmission { attempt: transmission.attempt + 1, ..transmission })
    }

    /// Returns a packet that was not served before.
    fn next_new_packet(&mut self, due: Time, out: &mut StageOutput) -> Option<Transmission> {
        if self.service.available_at() > due {
            return None;
        }
        let packet = self.queue.dequeue(due, &mut self.channel, out)?;
        if let Some(arrival) = self.queue.last_dequeued_arrival() {
            self.sojourn.record(due.since(arrival));
        }
        let id = self.next_id;
        self.next_id += 1;
        let sequence = self.reordering.as_mut().map_or(0, |buffer| buffer.assign_number(&packet));
        Some(Transmission { packet, id, attempt: 1, is_duplicate: false, sequence })
    }

    /// Ends the current service at `due`.
    fn end_service(&mut self, due: Time, out: &mut StageOutput) {
        let Some(transmission) = self.serving.take() else { return };
        let outcome = self.service.end(due, &transmission, out);
        let airtime = due.since(self.service_began_at);
        self.queue.on_service_end(due, &transmission, airtime, outcome);
        if let Some(tallies) = &mut self.user_stats {
            let bits = self.service.coded_bits(&transmission);
            count_service(tallies, &transmission, airtime, bits, outcome);
        }
        if let ServiceOutcome::Deliver | ServiceOutcome::Unconfirmed { .. } = outcome
            && !transmission.is_duplicate
        {
            self.sent_bytes += u64::from(transmission.packet.bytes);
            match &mut self.reordering {
                None => out.emit(due, transmission.packet),
                Some(buffer) => {
                    buffer.on_decoded(due, &transmission, out);
                    self.reordering_deadline = buffer.poll_at();
                }
            }
        }
        match outcome {
            ServiceOutcome::Deliver => {}
            ServiceOutcome::Unconfirmed { at } => self
                .schedule_retransmission(at, Transmission { is_duplicate: true, ..transmission }),
            ServiceOutcome::Retransmit { at } => self.schedule_retransmission(at, transmission),
            ServiceOutcome::Drop(_) if transmission.is_duplicate => {}
            ServiceOutcome::Drop(reason) => self.abandon(due, &transmission, reason, out),
        }
    }

    /// Drops `transmission`, which was not delivered.
    fn abandon(
        &mut self,
        due: Time,
        transmission: &Transmission,
        reason: DropReason,
        out: &mut StageOutput,
    ) {
        out.drop(due, transmission.packet, reason);
        if let Some(buffer) = &mut self.reordering {
            buffer.on_abandoned(due, transmission, out);
            self.reordering_deadline = buffer.poll_at();
        }
    }

    /// Stores `transmission` until `at` or until feedback arrives.
    fn schedule_retransmission(&mut self, at: Time, transmission: Transmission) {
        self.insert_retransmission(at, transmission);
        if !transmission.is_duplicate {
            self.retransmission_packets += 1;
            self.retransmission_bytes += u64::from(transmission.packet.bytes);
        }
    }

    fn insert_retransmission(&mut self, at: Time, transmission: Transmission) {
        // The feedback delay is mostly constant, so the position is mostly the last.
        let later = self.retransmissions.iter().rev().take_while(|(other, _)| *other > at).count();
        self.retransmissions.insert(self.retransmissions.len() - later, (at, transmission));
    }

    /// Reschedules all waiting packets from `id` upwards for `at`, in order of ids.
    fn go_back_n(&mut self, id: u64, at: Time) {
        let mut moved = Vec::new();
        self.retransmissions.retain(|(_, transmission)| {
            let stays = transmission.id < id;
            if !stays {
                moved.push(*transmission);
            }
            stays
        });
        moved.sort_by_key(|transmission| transmission.id);
        for transmission in moved {
            self.insert_retransmission(at, transmission);
        }
    }

    fn position(&self, id: u64) -> Option<usize> {
        self.retransmissions.iter().position(|(_, transmission)| transmission.id == id)
    }

    /// Removes the waiting packet at `position`.
    fn remove_retransmission(&mut self, position: usize) -> Option<Transmission> {
        let (_, transmission) = self.retransmissions.remove(position)?;
        if !transmission.is_duplicate {
            self.retransmission_packets -= 1;
            self.retransmission_bytes -= u64::from(transmission.packet.bytes);
        }
        Some(transmission)
    }
}

impl<Q: Queue, S: ServiceProcess, C: Channel> Stage for Transmitter<Q, S, C> {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        self.queue.enqueue(due, packet, out);
        if self.serving.is_none() {
            self.start_next(due, out);
        }
    }

    fn poll(&mut self, now: Time, out: &mut StageOutput) {
        while self.service_deadline.min(self.reordering_deadline) <= now {
            let due = self.service_deadline.min(self.reordering_deadline);
            if let Some(buffer) = &mut self.reordering
                && self.reordering_deadline <= due
            {
                buffer.on_timeout(due, out);
                self.reordering_deadline = buffer.poll_at();
            }
            if self.service_deadline <= due {
                self.end_service(due, out);
                self.start_next(due, out);
            }
        }
    }

    fn poll_at(&self) -> Time {
        self.service_deadline.min(self.reordering_deadline)
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        self.queue.apply_update(due, update, out);
        self.service.apply_update(due, update);
        if let StageUpdate::Enabled(is_enabled) = update {
            self.is_disabled = !is_enabled;
            if self.serving.is_none() {
                self.start_next(due, out);
            }
        }
        if *update == StageUpdate::InFlight(InFlightPolicy::Drop) {
            for (_, transmission) in std::mem::take(&mut self.retransmissions) {
                if !transmission.is_duplicate {
                    self.abandon(due, &transmission, DropReason::Outage, out);
                }
            }
            (self.retransmission_packets, self.retransmission_bytes) = (0, 0);
            if let Some(buffer) = &mut self.reordering {
                buffer.flush(due, out);
                self.reordering_deadline = buffer.poll_at();
            }
            // The current service continues to its end.
            if self.serving.is_none() {
                self.start_next(due, out);
            }
        }
    }

    fn on_feedback(&mut self, due: Time, feedback: &Feedback, out: &mut StageOutput) {
        match self.service.on_feedback(due, feedback) {
            None => {}
            Some((id, FeedbackAction::Retransmit { at })) => {
                if let Some((_, transmission)) =
                    self.position(id).and_then(|position| self.retransmissions.remove(position))
                {
                    self.insert_retransmission(at, transmission);
                }
            }
            Some((id, FeedbackAction::GoBackN { at })) => self.go_back_n(id, at),
            Some((id, FeedbackAction::Complete)) => {
                if let Some(transmission) =
                    self.position(id).and_then(|position| self.remove_retransmission(position))
                    && !transmission.is_duplicate
                {
                    if let Some(tallies) = &mut self.user_stats {
                        tallies.count_drop(transmission.packet.user);
                    }
                    self.abandon(due, &transmission, DropReason::LinkLayer, out);
                }
            }
        }
        if self.serving.is_none() {
            self.start_next(due, out);
        }
    }

    fn gauge(&self) -> QueueGauge {
        let (packets, bytes) = self.queue.backlog();
        QueueGauge {
            queued_packets: packets + self.retransmission_packets,
            queued_bytes: bytes + self.retransmission_bytes,
            sent_bytes: self.sent_bytes,
        }
    }

    fn user_stats(&self) -> &[UserLinkStats] {
        self.user_stats.as_ref().map_or(&[], UserStatsTable::as_slice)
    }

    fn user_queues(&self) -> Vec<UserQueueStats> {
        self.queue.user_queues()
    }

    fn sojourn(&self) -> Option<&Histogram> {
        Some(&self.sojourn)
    }
}

/// Counts a service that ended after `airtime` with `bits` coded bits.
fn count_service(
    stats: &mut UserStatsTable,
    transmission: &Transmission,
    airtime: Span,
    bits: u64,
    outcome: ServiceOutcome,
) {
    stats.count_attempt(transmission.packet.user, transmission.is_duplicate, airtime, bits);
    match outcome {
        ServiceOutcome::Deliver | ServiceOutcome::Unconfirmed { .. }
            if !transmission.is_duplicate =>
        {
            stats.count_decoded(&transmission.packet, transmission.attempt - 1);
        }
        ServiceOutcome::Drop(_) if !transmission.is_duplicate => {
            stats.count_drop(transmission.packet.user);
        }
        _ => {}
    }
}
