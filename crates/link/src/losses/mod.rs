//! Loss models, one file each.

mod bernoulli;
mod burst;
mod gilbert_elliott;
mod slots;
mod trace;

pub use bernoulli::BernoulliLossSpec;
pub use burst::BurstLossSpec;
pub use gilbert_elliott::GilbertElliottSpec;
pub use slots::SlotLossSpec;
pub use trace::TraceLossSpec;

pub(crate) use bernoulli::BernoulliLoss;

use units::{RandomStream, Time};

use crate::kind::kind;
use crate::stage_factory::ValidationResult;

kind! {
    /// A loss model.
    LossModel, "kind", LossFactory {
        Bernoulli(BernoulliLossSpec),
        GilbertElliott(GilbertElliottSpec),
        Burst(BurstLossSpec),
        Trace(TraceLossSpec),
        Slots(SlotLossSpec),
    }
}

/// The specification of a loss model.
pub(crate) trait LossFactory {
    /// Validates the specification.
    fn validate(&self) -> ValidationResult;

    /// Builds the loss process of simplex link `name` in run `seed`; `random` is the stream of the packets' draws.
    fn build(&self, name: &str, seed: u64, random: &mut RandomStream) -> Box<dyn LossProcess>;
}

/// A loss model with its state.
pub(crate) trait LossProcess: Send + std::fmt::Debug {
    /// Returns whether the packet that arrives at `at` is lost. A model draws equally often for every packet, so that
    /// runs with different probabilities use the same random numbers.
    fn is_lost(&mut self, at: Time, random: &mut RandomStream) -> bool;
}
