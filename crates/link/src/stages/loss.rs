//! Packet loss by one of the models in `losses`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, RandomStream, Time};

use crate::checks::{ValidationResult, in_order, probability};
use crate::losses::{BernoulliLoss, LossProcess};
use crate::stage_factory::{BuildContext, StageFactory};
use crate::{DropReason, LossModel, Stage, StageOutput, StageUpdate};

/// Packet loss.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LossSpec {
    /// The model.
    pub model: LossModel,
    /// Scheduled changes: from each instant, Bernoulli loss with this probability.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<LossChange>,
}

/// A change of the loss probability at `at_ns`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LossChange {
    /// Time of the change.
    pub at_ns: u64,
    /// New loss probability.
    pub probability: f64,
}

/// Drops packets by a loss model; the others pass at once.
#[derive(Debug)]
pub struct Loss {
    process: Box<dyn LossProcess>,
    random: RandomStream,
}

impl Loss {
    /// Creates the loss stage of simplex link `name` of run `seed`; `random` is the stream per packet.
    pub(crate) fn new(model: &LossModel, name: &str, seed: u64, mut random: RandomStream) -> Loss {
        Loss { process: model.factory().build(name, seed, &mut random), random }
    }
}

impl Stage for Loss {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        if self.process.is_lost(due, &mut self.random) {
            out.drop(due, packet, DropReason::Loss);
        } else {
            out.emit(due, packet);
        }
    }

    fn poll(&mut self, _now: Time, _out: &mut StageOutput) {}

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn apply_update(&mut self, _due: Time, update: &StageUpdate, _out: &mut StageOutput) {
        if let StageUpdate::Loss(probability) = update {
            self.process = Box::new(BernoulliLoss(*probability));
        }
    }
}

impl StageFactory for LossSpec {
    fn kind(&self) -> &'static str {
        "loss"
    }

    fn validate(&self) -> ValidationResult {
        self.model.factory().validate()?;
        in_order("changes", self.changes.iter().map(|c| c.at_ns))?;
        self.changes.iter().try_for_each(|c| probability("changes: probability", c.probability))
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Stage> {
        Box::new(Loss::new(&self.model, context.link_name, context.seed, context.random_stream()))
    }

    fn supports(&self, update: &StageUpdate) -> bool {
        matches!(update, StageUpdate::Loss(_))
    }

    fn scheduled_updates(&self) -> Vec<(Time, StageUpdate)> {
        self.changes.iter().map(|c| (Time(c.at_ns), StageUpdate::Loss(c.probability))).collect()
    }
}
