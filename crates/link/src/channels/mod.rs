//! Radio channel models, one file each.

mod attenuation;
mod fading_grid;
mod fixed;
mod gaussian;
mod loo;
mod range_loss;
mod rayleigh;
mod semi_markov;
mod shadowing;
mod state;
mod three_state;

pub use fixed::FixedChannel;
pub use state::ChannelState;

use units::{RandomStream, Span, Time};

use crate::{Channel, ChannelSpec, ReferenceSnr, SpecError, TerminalMotion};
use attenuation::{AttenuationSeries, MeasuredAttenuation};
use fading_grid::FadingGrid;
use loo::{FadingContext, LooFading, StateIntervals};
use range_loss::RangeLoss;
use rayleigh::Rayleigh;
use three_state::StateChain;

/// The seed of the channel samples for the design of codes.
const DESIGN_SEED: u64 = 0;

impl ChannelSpec {
    /// Builds the channel of simplex link `name` in run `seed`.
    pub fn build(&self, name: &str, seed: u64) -> Result<Box<dyn Channel>, SpecError> {
        self.validate().map_err(|message| SpecError::new(format!("{name} channel"), message))?;
        Ok(build(self, name, seed))
    }

    /// Returns an infinite sample of the channel every `spacing`, as known at design time. It is the same in every run.
    /// The specification must be valid. The mean Es/N0 is the estimate ([`ReferenceSnr::error_db`]).
    pub fn design_samples(&self, spacing: Span) -> impl Iterator<Item = ChannelState> + use<> {
        let mut channel = build(&self.with_estimated_reference(), "design", DESIGN_SEED);
        let mut next = Time::ZERO;
        std::iter::repeat_with(move || {
            let state = channel.at(0, next);
            next += spacing;
            state
        })
    }

    /// Returns the step of the time grid; `None` for channels without motion.
    pub(crate) fn time_step(&self) -> Option<Span> {
        let motion = match self {
            ChannelSpec::Fixed { .. } | ChannelSpec::Measured { .. } => return None,
            ChannelSpec::ThreeState(spec) => &spec.motion,
            ChannelSpec::SemiMarkov(spec) => &spec.motion,
            ChannelSpec::Rayleigh { motion, .. } => motion,
            ChannelSpec::RangeLoss { channel, .. } => return channel.time_step(),
        };
        Some(Span(motion.step_ns))
    }

    /// Returns the estimation error of Es/N0 in dB.
    pub(crate) fn estimate_error_db(&self) -> f64 {
        match self {
            ChannelSpec::Fixed { .. } => 0.0,
            ChannelSpec::ThreeState(spec) => spec.reference.error_db,
            ChannelSpec::SemiMarkov(spec) => spec.reference.error_db,
            ChannelSpec::Rayleigh { reference, .. } | ChannelSpec::Measured { reference, .. } => {
                reference.error_db
            }
            ChannelSpec::RangeLoss { channel, .. } => channel.estimate_error_db(),
        }
    }

    /// Returns the specification with the estimated Es/N0, at the reference distance.
    fn with_estimated_reference(&self) -> ChannelSpec {
        let mut spec = self.clone();
        match &mut spec {
            ChannelSpec::Fixed { .. } => {}
            ChannelSpec::ThreeState(spec) => spec.reference.use_estimate(),
            ChannelSpec::SemiMarkov(spec) => spec.reference.use_estimate(),
            ChannelSpec::Rayleigh { reference, .. } | ChannelSpec::Measured { reference, .. } => {
                reference.use_estimate();
            }
            ChannelSpec::RangeLoss { channel, .. } => return channel.with_estimated_reference(),
        }
        spec
    }
}

/// Builds the channel of simplex link `name` in run `seed`, the key of its random streams, separate per user.
pub(crate) fn build(spec: &ChannelSpec, name: &str, seed: u64) -> Box<dyn Channel> {
    match spec {
        ChannelSpec::Fixed { snr_db } => Box::new(FixedChannel::new(*snr_db)),
        ChannelSpec::ThreeState(spec) => {
            let chain = StateChain::new(spec);
            let intervals = move |random: RandomStream| {
                Box::new(chain.clone().intervals(random)) as StateIntervals
            };
            let common =
                FadingContext::new(&spec.motion, &spec.look_angle, &[(0, spec.correlation_m)]);
            Box::new(build_loo(spec.reference, &spec.motion, common, intervals, name, seed))
        }
        ChannelSpec::SemiMarkov(spec) => {
            let lengths: Vec<_> =
                spec.cells.iter().map(|cell| (cell.at_ns, cell.correlation_m)).collect();
            let common = FadingContext::new(&spec.motion, &spec.look_angle, &lengths);
            let (reference, motion) = (spec.reference, spec.motion);
            let spec = (**spec).clone();
            let intervals = move |random: RandomStream| {
                Box::new(semi_markov::state_intervals(spec.clone(), random)) as StateIntervals
            };
            Box::new(build_loo(reference, &motion, common, intervals, name, seed))
        }
        ChannelSpec::Rayleigh { reference, motion } => {
            let wavelengths = motion.step_wavelengths();
            let stream = user_streams(motion, name, seed);
            Box::new(FadingGrid::new(motion.step_ns, reference.snr_db, move |user| {
                Box::new(Rayleigh::new(wavelengths, &mut stream(user, "multipath")))
            }))
        }
        ChannelSpec::Measured { reference, points, interpolation, repeat_ns } => {
            let attenuation = AttenuationSeries::new(points, *interpolation, *repeat_ns);
            Box::new(MeasuredAttenuation::new(reference.snr_db, attenuation))
        }
        ChannelSpec::RangeLoss { loss, channel } => {
            Box::new(RangeLoss::new(loss, build(channel, name, seed)))
        }
    }
}

/// Builds a channel with Loo fading; `intervals` creates the state intervals of a user from a stream.
fn build_loo(
    reference: ReferenceSnr,
    motion: &TerminalMotion,
    common: FadingContext,
    intervals: impl Fn(RandomStream) -> StateIntervals + Send + 'static,
    name: &str,
    seed: u64,
) -> FadingGrid {
    let stream = user_streams(motion, name, seed);
    FadingGrid::new(motion.step_ns, reference.snr_db, move |user| {
        let stream = |purpose: &str| stream(user, purpose);
        Box::new(LooFading::new(&common, intervals(stream("states")), stream))
    })
}

/// Returns the streams of each user of simplex link `name` in run `seed`, by purpose.
fn user_streams(
    motion: &TerminalMotion,
    name: &str,
    seed: u64,
) -> impl Fn(u32, &str) -> RandomStream + use<> {
    let (name, seed) = (name.to_owned(), motion.seed.unwrap_or(seed));
    move |user, purpose| RandomStream::named(seed, &name, &format!("channel.{user}.{purpose}"))
}
