//! A random additional delay per packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, RandomStream, Span, Time};

use crate::delay_queue::DelayQueue;
use crate::stage_factory::{BuildContext, StageFactory};
use crate::{InFlightPolicy, Stage, StageOutput, StageUpdate};

/// A random additional delay per packet.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct JitterSpec {
    /// Distribution of the additional delay.
    pub model: JitterModel,
    /// Whether packets can overtake each other; otherwise each departs no earlier than the one in front.
    pub reorder: bool,
}

/// Distribution of a random additional delay.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum JitterModel {
    /// Uniform between 0 and `max_ns`.
    Uniform {
        /// Maximum.
        max_ns: u64,
    },
    /// Normal, truncated below 0.
    Normal {
        /// Mean.
        mean_ns: u64,
        /// Standard deviation.
        deviation_ns: u64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean_ns: u64,
    },
}

/// Delays each packet by an independent random time.
#[derive(Debug)]
pub struct Jitter {
    model: JitterModel,
    random: RandomStream,
    queue: DelayQueue,
}

impl Jitter {
    /// Creates additional delays with the distribution `model`. With `reorder`, packets can overtake each other,
    /// otherwise each departs no earlier than the one in front.
    pub fn new(model: JitterModel, reorder: bool, random: RandomStream) -> Jitter {
        Jitter { model, random, queue: DelayQueue::new(reorder) }
    }

    fn draw(&mut self) -> Span {
        match self.model {
            // `max_ns` is inclusive.
            JitterModel::Uniform { max_ns } => {
                self.random.span_below(Span(max_ns.saturating_add(1)))
            }
            JitterModel::Normal { mean_ns, deviation_ns } => {
                // The conversion of a negative number gives 0, the truncation.
                Span((mean_ns as f64 + deviation_ns as f64 * self.random.normal()).round() as u64)
            }
            JitterModel::Exponential { mean_ns } => {
                Span(self.random.exponential(mean_ns as f64).round() as u64)
            }
        }
    }
}

impl Stage for Jitter {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        let leaves = due + self.draw();
        self.queue.push(due, leaves, packet, out);
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

impl StageFactory for JitterSpec {
    fn kind(&self) -> &'static str {
        "jitter"
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Stage> {
        Box::new(Jitter::new(self.model.clone(), self.reorder, context.random_stream()))
    }

    /// With reordering, only the policy to drop applies.
    fn supports(&self, update: &StageUpdate) -> bool {
        matches!(update, StageUpdate::InFlight(policy) if !self.reorder || *policy == InFlightPolicy::Drop)
    }

    fn max_delay_ns(&self) -> Option<u64> {
        None
    }
}
