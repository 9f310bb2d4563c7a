//! A constant delay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, Span, Time};

use crate::checks::{ValidationResult, in_order};
use crate::delay_queue::FifoDelayQueue;
use crate::stage_factory::{BuildContext, StageFactory};
use crate::{Stage, StageOutput, StageUpdate};

/// A constant delay.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DelaySpec {
    /// One-way delay.
    pub delay_ns: u64,
    /// Scheduled changes of the delay; departures stay in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<DelayChange>,
}

/// A change of the delay at `at_ns`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct DelayChange {
    /// Time of the change.
    pub at_ns: u64,
    /// New one-way delay.
    pub delay_ns: u64,
}

/// Delays every packet by the same time and preserves the order. When the delay decreases ([`StageUpdate::Delay`]), a
/// packet that would overtake departs together with the packet in front, unless the policy permits overtaking
/// ([`StageUpdate::InFlight`]).
#[derive(Debug)]
pub struct Delay {
    delay: Span,
    queue: FifoDelayQueue,
}

impl Delay {
    /// Creates a stage with this one-way delay.
    pub fn new(delay: Span) -> Delay {
        Delay { delay, queue: FifoDelayQueue::default() }
    }
}

impl Stage for Delay {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        self.queue.push(due, due + self.delay, packet, out);
    }

    fn poll(&mut self, now: Time, out: &mut StageOutput) {
        self.queue.release(now, out);
    }

    fn poll_at(&self) -> Time {
        self.queue.next_due()
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        match update {
            StageUpdate::Delay(delay) => self.delay = *delay,
            StageUpdate::InFlight(policy) => self.queue.apply_policy(due, *policy, out),
            _ => {}
        }
    }
}

impl StageFactory for DelaySpec {
    fn kind(&self) -> &'static str {
        "delay"
    }

    fn validate(&self) -> ValidationResult {
        in_order("changes", self.changes.iter().map(|c| c.at_ns))
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Stage> {
        Box::new(Delay::new(Span(self.delay_ns)))
    }

    fn supports(&self, update: &StageUpdate) -> bool {
        matches!(update, StageUpdate::Delay(_) | StageUpdate::InFlight(_))
    }

    fn scheduled_updates(&self) -> Vec<(Time, StageUpdate)> {
        self.changes.iter().map(|c| (Time(c.at_ns), StageUpdate::Delay(Span(c.delay_ns)))).collect()
    }

    fn min_delay_ns(&self) -> Option<u64> {
        Some(self.delay_ns)
    }
}
