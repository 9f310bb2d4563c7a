//! Schedulers that are implemented outside of this crate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Span, Time};

use crate::{ServiceOutcome, Transmission};

/// A scheduler that is implemented outside of this crate.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ExternalSchedulerSpec {
    /// Its name in the scenario.
    pub scheduler_name: String,
    /// Its options as JSON.
    pub options_json: String,
}

impl ExternalSchedulerSpec {
    /// The descriptor of the member. A scenario names the scheduler's class.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "",
        spec_kind: "external",
        aliases: &[],
        title: "A scheduler in Python",
        reference: "",
        options: &[],
        draws: true,
        live_name: "",
    };
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
    pub(super) fn new(transmission: &Transmission, outcome: ServiceOutcome) -> ExternalOutcome {
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
