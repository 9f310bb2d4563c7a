//! The adapter of schedulers that are implemented outside of this crate.

use units::{Span, Time};

use super::round_robin::RoundRobin;
use super::{
    BackloggedUser, ExternalDecision, ExternalOutcome, ExternalScheduler, ExternalSchedulerSpec,
    HeadOfLine, Scheduler, SchedulerFactory, Selection,
};
use crate::{Channel, ServiceOutcome, Transmission};

impl SchedulerFactory for ExternalSchedulerSpec {
    /// Builds the adapter. Every built simplex link has the external scheduler; the fallback is round robin.
    fn build(
        &self,
        channel_delay: Span,
        external: Option<Box<dyn ExternalScheduler>>,
    ) -> Box<dyn Scheduler> {
        match external {
            Some(scheduler) => Box::new(ExternalAdapter::new(scheduler, channel_delay)),
            None => Box::new(RoundRobin::default()),
        }
    }

    fn external(&self) -> Option<&ExternalSchedulerSpec> {
        Some(self)
    }
}

/// Adapts an [`ExternalScheduler`] and checks its decisions against the backlogged users.
pub(super) struct ExternalAdapter {
    scheduler: Box<dyn ExternalScheduler>,
    channel_delay: Span,
    users: Vec<u32>,
    rates: Vec<f64>,
    backlogged: Vec<BackloggedUser>,
}

impl ExternalAdapter {
    pub fn new(scheduler: Box<dyn ExternalScheduler>, channel_delay: Span) -> ExternalAdapter {
        ExternalAdapter {
            scheduler,
            channel_delay,
            users: Vec::new(),
            rates: Vec::new(),
            backlogged: Vec::new(),
        }
    }

    /// Reports an invalid decision, which ends the run. Until then, it serves the first backlogged user.
    fn reject(&mut self, heads: &[HeadOfLine], reason: String) -> Selection {
        self.scheduler.on_invalid_decision(reason);
        Selection::Serve(heads.iter().position(|head| head.is_some()).unwrap_or(0))
    }
}

impl std::fmt::Debug for ExternalAdapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalAdapter").field("users", &self.users).finish_non_exhaustive()
    }
}

impl Scheduler for ExternalAdapter {
    fn add_user(&mut self, _user_index: usize, user: u32) {
        self.users.push(user);
        self.rates.push(0.0);
    }

    fn on_enqueue(&mut self, due: Time, user_index: usize, bytes: u32) {
        self.scheduler.on_enqueue(due, self.users[user_index], bytes);
    }

    fn select(&mut self, now: Time, heads: &[HeadOfLine], channel: &mut dyn Channel) -> Selection {
        let at = Time(now.nanos().saturating_sub(self.channel_delay.nanos()));
        channel.rates(at, &self.users, &mut self.rates);
        self.backlogged.clear();
        for (user_index, head) in heads.iter().enumerate().filter(|(_, head)| head.is_some()) {
            let (user, rate) = (self.users[user_index], self.rates[user_index]);
            let waited = now.since(head.arrived);
            self.backlogged.push(BackloggedUser { user, rate, wait: waited, bytes: head.bytes });
        }
        match self.scheduler.decide(now, &self.backlogged) {
            ExternalDecision::Serve(user) => {
                let user_index = self.users.iter().position(|other| *other == user);
                match user_index {
                    Some(user_index) if heads[user_index].is_some() => Selection::Serve(user_index),
                    Some(_) => self.reject(heads, format!("user {user} has no waiting packet")),
                    None => self.reject(heads, format!("unknown user {user}")),
                }
            }
            ExternalDecision::Pause(until) if until > now => Selection::Pause(until),
            ExternalDecision::Pause(until) => {
                let (now, until) = (now.nanos(), until.nanos());
                self.reject(
                    heads,
                    format!("it pauses at {now} ns until {until} ns, which has passed"),
                )
            }
        }
    }

    fn on_service_end(
        &mut self,
        due: Time,
        user_index: usize,
        transmission: &Transmission,
        airtime: Span,
        outcome: ServiceOutcome,
    ) {
        let user = self.users[user_index];
        self.scheduler.on_service_end(
            due,
            user,
            transmission.packet.bytes,
            airtime,
            ExternalOutcome::new(transmission, outcome),
        );
    }
}
