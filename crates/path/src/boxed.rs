//! Implements the traits for boxed queues, service processes and channels. Most links are assembled at run time.

use units::{Packet, Span, Time};

use crate::{
    Channel, ChannelState, Feedback, FeedbackAction, Queue, ServiceOutcome, ServiceProcess,
    StageOutput, StageUpdate, Transmission, UserQueueStats,
};

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

impl<S: ServiceProcess + ?Sized> ServiceProcess for Box<S> {
    fn begin(&mut self, due: Time, transmission: &Transmission, channel: &mut dyn Channel) -> Time {
        (**self).begin(due, transmission, channel)
    }
    fn end(
        &mut self,
        due: Time,
        transmission: &Transmission,
        out: &mut StageOutput,
    ) -> ServiceOutcome {
        (**self).end(due, transmission, out)
    }
    fn available_at(&self) -> Time {
        (**self).available_at()
    }
    fn coded_bits(&self, transmission: &Transmission) -> u64 {
        (**self).coded_bits(transmission)
    }
    fn on_feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, FeedbackAction)> {
        (**self).on_feedback(due, feedback)
    }
    fn apply_update(&mut self, due: Time, update: &StageUpdate) {
        (**self).apply_update(due, update);
    }
}

impl<C: Channel + ?Sized> Channel for Box<C> {
    fn at(&mut self, user: u32, at: Time) -> ChannelState {
        (**self).at(user, at)
    }
    fn rates(&mut self, at: Time, users: &[u32], rates: &mut [f64]) {
        (**self).rates(at, users, rates);
    }
}
