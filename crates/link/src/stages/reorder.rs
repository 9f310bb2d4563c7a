//! Reordering: an additional delay for some packets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, RandomStream, Span, Time};

use crate::checks::{ValidationResult, probability};
use crate::delay_queue::FifoDelayQueue;
use crate::stage_factory::{BuildContext, StageFactory};
use crate::{InFlightPolicy, Stage, StageOutput, StageUpdate};

/// A fixed additional delay for some packets, so that later ones overtake them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ReorderSpec {
    /// Probability that a packet is delayed.
    pub probability: f64,
    /// The additional delay.
    pub delay_ns: u64,
}

/// Delays each packet with a probability, by a fixed time; the others pass at once and overtake it.
#[derive(Debug)]
pub struct Reorder {
    probability: f64,
    hold: Span,
    random: RandomStream,
    queue: FifoDelayQueue,
}

impl Reorder {
    /// Creates a stage that delays a packet with probability `probability` by `hold`.
    pub fn new(probability: f64, hold: Span, random: RandomStream) -> Reorder {
        Reorder { probability, hold, random, queue: FifoDelayQueue::default() }
    }
}

impl Stage for Reorder {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        if self.random.chance(self.probability) {
            self.queue.push(due, due + self.hold, packet, out);
        } else {
            out.emit(due, packet);
        }
    }

    fn poll(&mut self, now: Time, out: &mut StageOutput) {
        self.queue.release(now, out);
    }

    fn poll_at(&self) -> Time {
        self.queue.next_due()
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        if let StageUpdate::InFlight(policy) = update {
            self.queue.apply_policy(due, *policy, out);
        }
    }
}

impl StageFactory for ReorderSpec {
    fn kind(&self) -> &'static str {
        "reorder"
    }

    fn validate(&self) -> ValidationResult {
        probability("probability", self.probability)
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Stage> {
        Box::new(Reorder::new(self.probability, Span(self.delay_ns), context.random_stream()))
    }

    /// The order is not preserved anyway: only the policy to drop applies.
    fn supports(&self, update: &StageUpdate) -> bool {
        *update == StageUpdate::InFlight(InFlightPolicy::Drop)
    }

    fn max_delay_ns(&self) -> Option<u64> {
        None
    }
}
