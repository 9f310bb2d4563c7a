//! What a radio channel does to a signal, one file each.

mod fixed;
mod grid;
mod jakes;
mod loo;
mod normal;
mod quality;
mod shadow;
mod spec;
mod three_state;

use std::sync::Arc;

pub use fixed::FixedChannel;
pub use quality::Quality;
pub use spec::{ChannelSpec, LooSpec, Motion, Reference, ThreeStateSpec};

use units::{Random, Span, Time};

use crate::{Channel, SpecError};
use grid::{Fading, Grid};
use loo::{Common, Loo, Visits};
use shadow::Bridge;
use three_state::Chain;

/// The seed of what is known of a channel before it is used.
const DESIGN_SEED: u64 = 0;

impl ChannelSpec {
    /// The channel of the line `name` in run `seed`.
    pub fn build(&self, name: &str, seed: u64) -> Result<Box<dyn Channel>, SpecError> {
        self.check().map_err(|message| SpecError::new(format!("{name} channel"), message))?;
        Ok(build(self, name, seed))
    }

    /// The channel of a valid specification as one knows it who designs for it: what a user meets every `spacing`,
    /// without end. It is the same in every run, and about the Es/N0 that is taken for the true one
    /// ([`Reference::error_db`]).
    pub fn long_run(&self, spacing: Span) -> impl Iterator<Item = Quality> + use<> {
        let mut channel = build(&self.believed(), "design", DESIGN_SEED);
        let mut next = Time::ZERO;
        std::iter::repeat_with(move || {
            let quality = channel.at(0, next);
            next += spacing;
            quality
        })
    }

    /// With the Es/N0 that is taken for the true one.
    fn believed(&self) -> ChannelSpec {
        let mut spec = self.clone();
        match &mut spec {
            ChannelSpec::Fixed { .. } => {}
            ChannelSpec::ThreeState(spec) => spec.reference.believe(),
        }
        spec
    }
}

/// The channel of the line `name` in run `seed`, the key of its random streams; each user has streams of its own.
pub(crate) fn build(spec: &ChannelSpec, name: &str, seed: u64) -> Box<dyn Channel> {
    match spec {
        ChannelSpec::Fixed { snr_db } => Box::new(FixedChannel::new(*snr_db)),
        ChannelSpec::ThreeState(spec) => {
            let chain = Chain::new(spec);
            let visits = move |random: Random| Box::new(chain.clone().visits(random)) as Visits;
            Box::new(loo(spec.reference, spec.motion, spec.correlation_m, visits, name, seed))
        }
    }
}

/// A channel of Loo's fading on ways that `visits` makes from a stream.
fn loo(
    reference: Reference,
    motion: Motion,
    correlation_m: f64,
    visits: impl Fn(Random) -> Visits + Send + 'static,
    name: &str,
    seed: u64,
) -> Grid {
    let common = Common {
        step_m: motion.step_m(),
        step_wavelengths: motion.step_wavelengths(),
        closer_wavelengths: motion.closer_wavelengths(),
        bridge: Arc::new(Bridge::new(motion.step_m(), correlation_m)),
        kept: Grid::kept(motion.step_ns),
    };
    let (name, seed) = (name.to_owned(), motion.seed.unwrap_or(seed));
    Grid::new(motion.step_ns, reference.snr_db, move |user| -> Box<dyn Fading> {
        let stream =
            |purpose: &str| Random::named(seed, &name, &format!("channel.{user}.{purpose}"));
        Box::new(Loo::new(&common, visits(stream("states")), stream))
    })
}
