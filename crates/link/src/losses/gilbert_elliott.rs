//! The Gilbert-Elliott model: losses in a chain of two states (Gilbert 1960, Elliott 1963).

use crate::checks::{ValidationResult, probability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, RandomStream, Time};

use super::{LossFactory, LossProcess};

/// Two states with one possible transition per packet (Gilbert 1960, Elliott 1963).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GilbertElliottSpec {
    /// Probability of good to bad, per packet.
    pub good_to_bad: f64,
    /// Probability of bad to good, per packet.
    pub bad_to_good: f64,
    /// Loss probability in the good state.
    pub loss_good: f64,
    /// Loss probability in the bad state.
    pub loss_bad: f64,
}

impl GilbertElliottSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "gilbert_elliott",
        spec_kind: "gilbert_elliott",
        aliases: &[],
        title: "Two states with one possible transition per packet",
        reference: "Gilbert 1960, Elliott 1963",
        options: &[
            Opt::probability("good_to_bad", "transition from good to bad, per packet").required(),
            Opt::probability("bad_to_good", "transition from bad to good, per packet").required(),
            Opt::probability("loss_good", "loss in the good state").default_number(0.0),
            Opt::probability("loss_bad", "loss in the bad state").default_number(1.0),
        ],
        draws: true,
        live_name: "gilbert_elliott",
    };
}

impl LossFactory for GilbertElliottSpec {
    fn validate(&self) -> ValidationResult {
        probability("good_to_bad", self.good_to_bad)?;
        probability("bad_to_good", self.bad_to_good)?;
        probability("loss_good", self.loss_good)?;
        probability("loss_bad", self.loss_bad)
    }

    /// Builds a chain in its stationary distribution, so that short runs are unbiased.
    fn build(&self, _: &str, _: u64, random: &mut RandomStream) -> Box<dyn LossProcess> {
        let total = self.good_to_bad + self.bad_to_good;
        Box::new(GilbertElliott {
            spec: self.clone(),
            is_bad: random.uniform() * total < self.good_to_bad,
        })
    }
}

#[derive(Debug)]
struct GilbertElliott {
    spec: GilbertElliottSpec,
    is_bad: bool,
}

impl LossProcess for GilbertElliott {
    fn is_lost(&mut self, _at: Time, random: &mut RandomStream) -> bool {
        let GilbertElliottSpec { good_to_bad, bad_to_good, loss_good, loss_bad } = self.spec;
        let is_lost = random.chance(if self.is_bad { loss_bad } else { loss_good });
        self.is_bad ^= random.chance(if self.is_bad { bad_to_good } else { good_to_bad });
        is_lost
    }
}
