//! Radio channel models, one file each. The signal-to-noise ratio is Es/N0 per coded symbol.

mod attenuation;
mod channel_factory;
mod fading_grid;
mod fixed;
mod gaussian;
mod loo;
mod range_loss;
mod rayleigh;
mod semi_markov;
mod shadowing;
mod state;
mod terminal;
mod three_state;

pub use attenuation::MeasuredAttenuationSpec;
pub use fixed::{FixedChannel, FixedChannelSpec};
pub use loo::LooSpec;
pub use range_loss::RangeLossSpec;
pub use rayleigh::RayleighSpec;
pub use semi_markov::{SemiMarkovCellSpec, SemiMarkovSpec, SemiMarkovStateSpec};
pub use state::ChannelState;
pub use terminal::{LookAngle, ReferenceSnr, TerminalMotion};
pub use three_state::ThreeStateSpec;

pub(crate) use channel_factory::ChannelFactory;

use crate::{Channel, SpecError};
use units::{Span, Time, kind};

kind! {
    /// A radio channel. Its signal-to-noise ratio is Es/N0 per coded symbol.
    ChannelSpec, "kind", ChannelFactory {
        Fixed(FixedChannelSpec),
        ThreeState(ThreeStateSpec),
        SemiMarkov(SemiMarkovSpec),
        Rayleigh(RayleighSpec),
        Measured(MeasuredAttenuationSpec),
        RangeLoss(RangeLossSpec),
    }
}

/// The seed of the channel samples for the design of codes.
const DESIGN_SEED: u64 = 0;

impl ChannelSpec {
    /// Builds the channel of simplex link `name` in run `seed`.
    pub fn build(&self, name: &str, seed: u64) -> Result<Box<dyn Channel>, SpecError> {
        let checked = self.factory().validate();
        checked.map_err(|message| SpecError::new(format!("{name} channel"), message))?;
        Ok(self.factory().build(name, seed))
    }

    /// Returns an infinite sample of the channel every `spacing`, as known at design time. It is the same in every run.
    /// The specification must be valid. The mean Es/N0 is the estimate ([`ReferenceSnr::error_db`]).
    pub fn design_samples(&self, spacing: Span) -> impl Iterator<Item = ChannelState> + use<> {
        let mut channel = self.factory().with_estimate().factory().build("design", DESIGN_SEED);
        let mut next = Time::ZERO;
        std::iter::repeat_with(move || {
            let state = channel.at(0, next);
            next += spacing;
            state
        })
    }
}
