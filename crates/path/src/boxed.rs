//! Boxed queues, services and channels are queues, services and channels: most links are put together at run time.

use units::{Packet, Span, Time};

use crate::{Change, Channel, Cx, Fate, Feedback, Job, News, Quality, Queue, Service, UserQueue};

impl<Q: Queue + ?Sized> Queue for Box<Q> {
    fn enqueue(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        (**self).enqueue(due, packet, cx);
    }
    fn dequeue(&mut self, now: Time, channel: &mut dyn Channel, cx: &mut Cx) -> Option<Packet> {
        (**self).dequeue(now, channel, cx)
    }
    fn ready_at(&self) -> Time {
        (**self).ready_at()
    }
    fn backlog(&self) -> (u64, u64) {
        (**self).backlog()
    }
    fn again(
        &mut self,
        now: Time,
        ready: &mut dyn Iterator<Item = &Job>,
        channel: &mut dyn Channel,
    ) -> Option<usize> {
        (**self).again(now, ready, channel)
    }
    fn served(&mut self, due: Time, job: &Job, air: Span, fate: Fate) {
        (**self).served(due, job, air, fate);
    }
    fn last_arrival(&self) -> Option<Time> {
        (**self).last_arrival()
    }
    fn user_queues(&self) -> Vec<UserQueue> {
        (**self).user_queues()
    }
    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        (**self).change(due, change, cx);
    }
}

impl<S: Service + ?Sized> Service for Box<S> {
    fn begin(&mut self, due: Time, job: &Job, channel: &mut dyn Channel) -> Time {
        (**self).begin(due, job, channel)
    }
    fn end(&mut self, due: Time, job: &Job, cx: &mut Cx) -> Fate {
        (**self).end(due, job, cx)
    }
    fn free_at(&self) -> Time {
        (**self).free_at()
    }
    fn bits(&self, job: &Job) -> u64 {
        (**self).bits(job)
    }
    fn feedback(&mut self, due: Time, feedback: &Feedback) -> Option<(u64, News)> {
        (**self).feedback(due, feedback)
    }
    fn change(&mut self, due: Time, change: &Change) {
        (**self).change(due, change);
    }
}

impl<C: Channel + ?Sized> Channel for Box<C> {
    fn at(&mut self, user: u32, at: Time) -> Quality {
        (**self).at(user, at)
    }
    fn rates(&mut self, at: Time, users: &[u32], rates: &mut [f64]) {
        (**self).rates(at, users, rates);
    }
}
