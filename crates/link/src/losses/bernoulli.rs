//! Independent losses.

use crate::checks::{ValidationResult, probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, RandomStream, Time};

use super::{LossFactory, LossProcess};

/// Each packet is lost independently.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct BernoulliLossSpec {
    /// Loss probability.
    pub probability: f64,
}

impl BernoulliLossSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "probability",
        spec_kind: "bernoulli",
        aliases: &[],
        title: "Independent losses",
        reference: "",
        options: &[Opt::probability("probability", "loss probability of each packet").required()],
        draws: true,
        live_name: "",
    };
}

impl LossFactory for BernoulliLossSpec {
    fn validate(&self) -> ValidationResult {
        probability("probability", self.probability)
    }

    fn build(&self, _: &str, _: u64, _: &mut RandomStream) -> Box<dyn LossProcess> {
        Box::new(BernoulliLoss(self.probability))
    }
}

/// Loses each packet with this probability.
#[derive(Debug)]
pub(crate) struct BernoulliLoss(pub f64);

impl LossProcess for BernoulliLoss {
    fn is_lost(&mut self, _at: Time, random: &mut RandomStream) -> bool {
        random.chance(self.0)
    }
}
