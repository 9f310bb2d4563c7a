//! Schedulers that are implemented outside of this crate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Span, Time};

use super::round_robin::RoundRobin;
use super::{HeadOfLine, Scheduler, SchedulerFactory, Selection};
use crate::{Channel, ServiceOutcome, Transmission};

/// A scheduler that is implemented outside of this crate.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ExternalSchedulerSpec {
    /// Its name in the scenario.
    #[serde(rename = "called")]
    pub scheduler_name: String,
    /// Its options as JSON.
    pub options_json: String,
}

impl ExternalSchedulerSpec {
    /// The descriptor of the member. A scenario names the scheduler's class.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "",
        spec_kind: "own",
        aliases: &[],
        title: "A scheduler in Python",
        reference: "",
        options: &[],
        draws: true,
        live_name: "",
    };
}

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

/// An external scheduler. It identifies users by number, not by index, and sees only backlogged users.
pub trait ExternalScheduler: Send {
    /// Signals that a packet of `user` was enqueued.
    fn on_enqueue(&mut self, now: Time, user: u32, bytes: u32) {
        let _ = (now, user, bytes);
    }

    /// Selects a user at `now`. `waiting` contains the backlogged users, at least one, in order of their first arrival.
    fn decide(&mut self, now: Time, waiting: &[BackloggedUser]) -> ExternalDecision;

    /// Signals the end of a service with its outcome and its airtime.
    fn on_service_end(
        &mut self,
        now: Time,
        user: u32,
        bytes: u32,
        airtime: Span,
        outcome: ExternalOutcome,
    ) {
        let _ = (now, user, bytes, airtime, outcome);
    }

    /// Signals an invalid decision and the reason.
    fn on_invalid_decision(&mut self, reason: String);
}

/// A backlogged user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackloggedUser {
    /// The user number.
    pub user: u32,
    /// The mutual information per coded bit of the user's channel; 1 without a channel.
    pub rate: f64,
    /// The waiting time of the head-of-line packet.
    pub wait: Span,
    /// The size of that packet.
    pub bytes: u32,
}

/// A decision of an [`ExternalScheduler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalDecision {
    /// Serves the head-of-line packet of this user.
    Serve(u32),
    /// Serves no user until this instant or until a packet arrives.
    Pause(Time),
}

/// The outcome of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalOutcome {
    /// The packet was delivered.
    Delivered,
    /// The packet was delivered without an acknowledgement; a retransmission is possible.
    Unconfirmed,
    /// The packet needs a retransmission.
    Retransmit,
    /// The packet is lost.
    Lost,
    /// The packet had been delivered before.
    Duplicate,
}

impl ExternalOutcome {
    fn new(transmission: &Transmission, outcome: ServiceOutcome) -> ExternalOutcome {
        match outcome {
            _ if transmission.is_duplicate => ExternalOutcome::Duplicate,
            ServiceOutcome::Deliver => ExternalOutcome::Delivered,
            ServiceOutcome::Unconfirmed { .. } => ExternalOutcome::Unconfirmed,
            ServiceOutcome::Retransmit { .. } => ExternalOutcome::Retransmit,
            ServiceOutcome::Drop(_) => ExternalOutcome::Lost,
        }
    }

    /// Returns the name of the outcome.
    pub fn name(self) -> &'static str {
        match self {
            ExternalOutcome::Delivered => "delivered",
            ExternalOutcome::Unconfirmed => "unconfirmed",
            ExternalOutcome::Retransmit => "again",
            ExternalOutcome::Lost => "lost",
            ExternalOutcome::Duplicate => "copy",
        }
    }
}

/// Creates the external scheduler of a simplex link for a seed; returns `None` for an unknown scheduler.
pub type ExternalSchedulers<'a> =
    dyn Fn(&ExternalSchedulerSpec, &str, u64) -> Option<Box<dyn ExternalScheduler>> + 'a;

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
                    Some(_) => self.reject(heads, format!("user {user} has no packet that waits")),
                    None => self.reject(heads, format!("there is no user {user}")),
                }
            }
            ExternalDecision::Pause(until) if until > now => Selection::Pause(until),
            ExternalDecision::Pause(until) => {
                let (now, until) = (now.nanos(), until.nanos());
                self.reject(
                    heads,
                    format!("at {now} ns it pauses until {until} ns, which has passed"),
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
