//! Loss models, one file each.

mod bernoulli;
mod burst;
mod gilbert_elliott;
mod loss_process;
mod slots;
mod trace;

pub use bernoulli::BernoulliLossSpec;
pub use burst::BurstLossSpec;
pub use gilbert_elliott::GilbertElliottSpec;
pub use slots::ReconfigurationLossSpec;
pub use trace::TraceLossSpec;

pub(crate) use bernoulli::BernoulliLoss;
pub(crate) use loss_process::{LossFactory, LossProcess};

use units::kind;

kind! {
    /// A loss model.
    LossModel, "kind", LossFactory {
        Bernoulli(BernoulliLossSpec),
        GilbertElliott(GilbertElliottSpec),
        Burst(BurstLossSpec),
        Trace(TraceLossSpec),
        Reconfiguration(ReconfigurationLossSpec),
    }
}
