//! The boundary of a queue.

use units::{Packet, Span, Time};

use crate::{Channel, ServiceOutcome, StageOutput, StageUpdate, Transmission, UserQueueStats};

/// The queue of a transmitter. Active queue management drops in `enqueue` or in `dequeue` (CoDel, RFC 8289). A queue
/// has no timer: it brings periodic state up to date when it is called. A scheduler selects a packet when the link
/// becomes free.
pub trait Queue: Send {
    /// Accepts a packet that arrives at `due`.
    fn enqueue(&mut self, due: Time, packet: Packet, out: &mut StageOutput);

    /// Removes and returns the next packet, if one is ready.
    fn dequeue(
        &mut self,
        now: Time,
        channel: &mut dyn Channel,
        out: &mut StageOutput,
    ) -> Option<Packet>;

    /// Returns the time from which [`Queue::dequeue`] returns a packet: `Time::ZERO` if one is ready now, [`Time::MAX`]
    /// if only an arrival can make one ready.
    fn ready_at(&self) -> Time;

    /// Returns the number of queued packets and bytes.
    fn backlog(&self) -> (u64, u64);

    /// Selects the retransmission that precedes new packets, as an index into `ready`. `ready` is not empty and is in
    /// order of the earliest start. `None` prefers a new packet. The default selects the first.
    fn select_retransmission(
        &mut self,
        now: Time,
        ready: &mut dyn Iterator<Item = &Transmission>,
        channel: &mut dyn Channel,
    ) -> Option<usize> {
        let _ = (now, ready, channel);
        Some(0)
    }

    /// Handles the end of a service at `due`, after `airtime` on the link. A scheduler learns the result of its
    /// selection here.
    fn on_service_end(
        &mut self,
        due: Time,
        transmission: &Transmission,
        airtime: Span,
        outcome: ServiceOutcome,
    ) {
        let _ = (due, transmission, airtime, outcome);
    }

    /// Returns the arrival time of the packet that [`Queue::dequeue`] returned last. The transmitter derives the
    /// waiting time from it. `None`: the queue does not store arrival times.
    fn last_dequeued_arrival(&self) -> Option<Time> {
        None
    }

    /// Returns the statistics of the queues per user, in order of user numbers, if each user has a queue.
    fn user_queues(&self) -> Vec<UserQueueStats> {
        Vec::new()
    }

    /// Applies an update.
    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        let _ = (due, update, out);
    }
}

impl<Q: Queue + ?Sized> Queue for Box<Q> {
    fn enqueue(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        (**self).enqueue(due, packet, out);
    }
    fn dequeue(
        &mut self,
        now: Time,
        channel: &mut dyn Channel,
        out: &mut StageOutput,
    ) -> Option<Packet> {
        (**self).dequeue(now, channel, out)
    }
    fn ready_at(&self) -> Time {
        (**self).ready_at()
    }
    fn backlog(&self) -> (u64, u64) {
        (**self).backlog()
    }
    fn select_retransmission(
        &mut self,
        now: Time,
        ready: &mut dyn Iterator<Item = &Transmission>,
        channel: &mut dyn Channel,
    ) -> Option<usize> {
        (**self).select_retransmission(now, ready, channel)
    }
    fn on_service_end(
        &mut self,
        due: Time,
        transmission: &Transmission,
        airtime: Span,
        outcome: ServiceOutcome,
    ) {
        (**self).on_service_end(due, transmission, airtime, outcome);
    }
    fn last_dequeued_arrival(&self) -> Option<Time> {
        (**self).last_dequeued_arrival()
    }
    fn user_queues(&self) -> Vec<UserQueueStats> {
        (**self).user_queues()
    }
    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        (**self).apply_update(due, update, out);
    }
}
