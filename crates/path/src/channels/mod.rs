//! What a radio channel does to a signal, one file each.

mod fixed;
mod grid;
mod jakes;
mod loo;
mod measured;
mod normal;
mod quality;
mod ranged;
mod rayleigh;
mod semi_markov;
mod shadow;
mod spec;
mod three_state;

pub use fixed::FixedChannel;
pub use quality::Quality;
pub use spec::{
    CellSpec, ChannelSpec, LooSpec, Motion, Reference, SemiMarkovSpec, Sight, StateSpec,
    ThreeStateSpec,
};

use units::{RandomStream, Span, Time};

use crate::{Channel, SpecError};
use grid::Grid;
use loo::{Common, Loo, Visits};
use measured::{Curve, Measured};
use ranged::Ranged;
use rayleigh::Rayleigh;
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

    /// Its grid; none: it stands still.
    pub(crate) fn step(&self) -> Option<Span> {
        let motion = match self {
            ChannelSpec::Fixed { .. } | ChannelSpec::Measured { .. } => return None,
            ChannelSpec::ThreeState(spec) => &spec.motion,
            ChannelSpec::SemiMarkov(spec) => &spec.motion,
            ChannelSpec::Rayleigh { motion, .. } => motion,
            ChannelSpec::Ranged { channel, .. } => return channel.step(),
        };
        Some(Span(motion.step_ns))
    }

    /// By how much Es/N0 is taken for better than it is.
    pub(crate) fn estimate_error_db(&self) -> f64 {
        match self {
            ChannelSpec::Fixed { .. } => 0.0,
            ChannelSpec::ThreeState(spec) => spec.reference.error_db,
            ChannelSpec::SemiMarkov(spec) => spec.reference.error_db,
            ChannelSpec::Rayleigh { reference, .. } | ChannelSpec::Measured { reference, .. } => {
                reference.error_db
            }
            ChannelSpec::Ranged { channel, .. } => channel.estimate_error_db(),
        }
    }

    /// With the Es/N0 that is taken for the true one, at the distance at which it is given.
    fn believed(&self) -> ChannelSpec {
        let mut spec = self.clone();
        match &mut spec {
            ChannelSpec::Fixed { .. } => {}
            ChannelSpec::ThreeState(spec) => spec.reference.believe(),
            ChannelSpec::SemiMarkov(spec) => spec.reference.believe(),
            ChannelSpec::Rayleigh { reference, .. } | ChannelSpec::Measured { reference, .. } => {
                reference.believe();
            }
            ChannelSpec::Ranged { channel, .. } => return channel.believed(),
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
            let visits =
                move |random: RandomStream| Box::new(chain.clone().visits(random)) as Visits;
            let common = Common::new(&spec.motion, &spec.sight, &[(0, spec.correlation_m)]);
            Box::new(loo(spec.reference, &spec.motion, common, visits, name, seed))
        }
        ChannelSpec::SemiMarkov(spec) => {
            let lengths: Vec<_> =
                spec.cells.iter().map(|cell| (cell.at_ns, cell.correlation_m)).collect();
            let common = Common::new(&spec.motion, &spec.sight, &lengths);
            let (reference, motion) = (spec.reference, spec.motion);
            let spec = (**spec).clone();
            let visits = move |random: RandomStream| {
                Box::new(semi_markov::visits(spec.clone(), random)) as Visits
            };
            Box::new(loo(reference, &motion, common, visits, name, seed))
        }
        ChannelSpec::Rayleigh { reference, motion } => {
            let wavelengths = motion.step_wavelengths();
            let stream = streams(motion, name, seed);
            Box::new(Grid::new(motion.step_ns, reference.snr_db, move |user| {
                Box::new(Rayleigh::new(wavelengths, &mut stream(user, "multipath")))
            }))
        }
        ChannelSpec::Measured { reference, points, interpolation, repeat_ns } => {
            let attenuation = Curve::new(points, *interpolation, *repeat_ns);
            Box::new(Measured::new(reference.snr_db, attenuation))
        }
        ChannelSpec::Ranged { loss, channel } => {
            Box::new(Ranged::new(loss, build(channel, name, seed)))
        }
    }
}

/// A channel of Loo's fading on ways that `visits` makes from a stream.
fn loo(
    reference: Reference,
    motion: &Motion,
    common: Common,
    visits: impl Fn(RandomStream) -> Visits + Send + 'static,
    name: &str,
    seed: u64,
) -> Grid {
    let stream = streams(motion, name, seed);
    Grid::new(motion.step_ns, reference.snr_db, move |user| {
        let stream = |purpose: &str| stream(user, purpose);
        Box::new(Loo::new(&common, visits(stream("states")), stream))
    })
}

/// The streams of each user of the line `name` in run `seed`, by their purpose.
fn streams(motion: &Motion, name: &str, seed: u64) -> impl Fn(u32, &str) -> RandomStream + use<> {
    let (name, seed) = (name.to_owned(), motion.seed.unwrap_or(seed));
    move |user, purpose| RandomStream::named(seed, &name, &format!("channel.{user}.{purpose}"))
}
