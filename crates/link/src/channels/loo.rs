//! Loo fading (IEEE Trans. Veh. Tech. 34(3), 1985) with parameters that vary along the terminal's path: a shadowed
//! direct path, log-normal, and multipath from all directions.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::RandomStream;

use super::channel_factory::user_streams;
use super::fading_grid::{BLOCK, BlockSteps, Fading, FadingGrid};
use super::rayleigh::{Jakes, LineOfSight};
use super::shadowing::{BridgeSchedule, GaussMarkovBridge, Shadowing};
use super::{LookAngle, ReferenceSnr, TerminalMotion};
use crate::checks::{ValidationResult, in_range};

/// Nepers (of amplitude) per dB.
const NEPER: f64 = std::f64::consts::LN_10 / 20.0;

/// Exponentials computed together.
const EXPS_PER_PASS: usize = 8;

/// Loo's distribution, in dB relative to the line of sight.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LooSpec {
    /// Mean of the direct path's level, which is normal in dB.
    pub mean_db: f64,
    /// The standard deviation of the level.
    pub deviation_db: f64,
    /// Mean power of the multipath.
    pub multipath_db: f64,
}

impl LooSpec {
    /// Validates the specification.
    pub(super) fn validate(&self) -> ValidationResult {
        in_range("mean_db", self.mean_db, -200.0, 20.0)?;
        in_range("deviation_db", self.deviation_db, 0.0, 50.0)?;
        in_range("multipath_db", self.multipath_db, -200.0, 20.0)
    }
}

/// A section of the terminal's path in one state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StateInterval {
    /// The length of the section.
    pub length_m: f64,
    /// The distance from its start over which the parameters change to its values. It can exceed the length.
    pub transition_m: f64,
    /// The fading parameters.
    pub loo: LooSpec,
}

/// The sections of a user's path, an infinite sequence; the transition of the first has no effect.
pub(super) type StateIntervals = Box<dyn Iterator<Item = StateInterval> + Send>;

/// The parameters common to all users.
#[derive(Clone, Debug)]
pub(super) struct FadingContext {
    /// Distance per step, in metres and in wavelengths.
    step_m: f64,
    step_wavelengths: f64,
    /// Reduction of the direct path's length per step, in wavelengths.
    approach_wavelengths: f64,
    bridges: BridgeSchedule,
    /// Number of blocks of history.
    history_blocks: u64,
}

impl FadingContext {
    /// Creates the context; `correlations_m` lists times in ns, in order, and shadowing correlation lengths.
    pub fn new(
        motion: &TerminalMotion,
        sight: &LookAngle,
        correlations_m: &[(u64, f64)],
    ) -> FadingContext {
        let block_ns = motion.step_ns * BLOCK as u64;
        let bridges = correlations_m.iter().map(|&(at_ns, correlation_m)| {
            (at_ns.div_ceil(block_ns), GaussMarkovBridge::new(motion.step_m(), correlation_m))
        });
        FadingContext {
            step_m: motion.step_m(),
            step_wavelengths: motion.step_wavelengths(),
            approach_wavelengths: motion.step_wavelengths() * sight.along_motion(),
            bridges: bridges.collect(),
            history_blocks: FadingGrid::history_blocks(motion.step_ns),
        }
    }
}

/// Builds a channel with Loo fading; `intervals` creates the state intervals of a user from a stream.
pub(super) fn build_loo(
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

/// The fading of one user.
pub(super) struct LooFading {
    profile: Profile,
    shadowing: Shadowing,
    line_of_sight: LineOfSight,
    multipath: Jakes,
}

impl LooFading {
    /// Creates the fading of one user; `random` returns the stream of a purpose.
    pub fn new(
        common: &FadingContext,
        intervals: StateIntervals,
        random: impl Fn(&str) -> RandomStream,
    ) -> LooFading {
        LooFading {
            profile: Profile::new(common, intervals),
            shadowing: Shadowing::new(
                common.bridges.clone(),
                common.history_blocks,
                random("shadow"),
            ),
            line_of_sight: LineOfSight::new(common.approach_wavelengths),
            multipath: Jakes::new(common.step_wavelengths, &mut random("multipath")),
        }
    }
}

impl Fading for LooFading {
    fn fill(&mut self, block: u64, gains: &mut BlockSteps) {
        let levels = self.profile.block(block);
        let shadow = self.shadowing.block(block);
        let (direct_re, direct_im) = self.line_of_sight.block(block);
        let (echo_re, echo_im) = self.multipath.block(block);
        let mut direct: BlockSteps =
            std::array::from_fn(|step| levels.mean[step] + levels.deviation[step] * shadow[step]);
        // Several at once, because they are independent.
        for some in direct.as_chunks_mut::<EXPS_PER_PASS>().0 {
            *some = some.map(libm::exp);
        }
        for (step, gain) in gains.iter_mut().enumerate() {
            let re = direct[step] * direct_re[step] + levels.multipath[step] * echo_re[step];
            let im = direct[step] * direct_im[step] + levels.multipath[step] * echo_im[step];
            *gain = re * re + im * im;
        }
    }
}

/// The parameters along the terminal's path.
struct Profile {
    intervals: StateIntervals,
    step_m: f64,
    history_blocks: u64,
    /// The ramps within the history, in order of position.
    ramps: VecDeque<Ramp>,
    /// The end of the last section.
    end_m: f64,
}

/// Parameters that change linearly in dB and then remain constant.
struct Ramp {
    start_m: f64,
    length_m: f64,
    from: Levels,
    to: Levels,
    /// The multipath amplitude at the end.
    multipath: f64,
}

/// Loo's parameters in nepers.
#[derive(Clone, Copy, PartialEq)]
struct Levels {
    mean: f64,
    deviation: f64,
    multipath: f64,
}

/// The parameters at the steps of a block; for the multipath, the amplitude.
struct LevelSteps {
    mean: BlockSteps,
    deviation: BlockSteps,
    multipath: BlockSteps,
}

impl Levels {
    fn from_spec(loo: &LooSpec) -> Levels {
        Levels {
            mean: loo.mean_db * NEPER,
            deviation: loo.deviation_db * NEPER,
            multipath: loo.multipath_db * NEPER,
        }
    }
}

impl Ramp {
    fn new(start_m: f64, length_m: f64, from: Levels, to: Levels) -> Ramp {
        Ramp { start_m, length_m, from, to, multipath: libm::exp(to.multipath) }
    }

    /// Returns the parameters at a position on the ramp.
    fn at(&self, position_m: f64) -> Levels {
        if position_m >= self.start_m + self.length_m {
            return self.to;
        }
        let part = (position_m - self.start_m) / self.length_m;
        let between = |from: f64, to: f64| from + (to - from) * part;
        Levels {
            mean: between(self.from.mean, self.to.mean),
            deviation: between(self.from.deviation, self.to.deviation),
            multipath: between(self.from.multipath, self.to.multipath),
        }
    }
}

impl Profile {
    fn new(common: &FadingContext, intervals: StateIntervals) -> Profile {
        let (step_m, history_blocks) = (common.step_m, common.history_blocks);
        Profile { intervals, step_m, history_blocks, ramps: VecDeque::new(), end_m: 0.0 }
    }

    /// Extends the profile beyond `position_m`. Positions before `past_m` are not requested again.
    fn extend_to(&mut self, position_m: f64, past_m: f64) {
        while self.end_m <= position_m {
            let Some(interval) = self.intervals.next() else { return };
            let to = Levels::from_spec(&interval.loo);
            match self.ramps.back() {
                None => self.ramps.push_back(Ramp::new(0.0, 0.0, to, to)),
                Some(last) if last.to == to => {}
                Some(last) => {
                    let from = last.at(self.end_m);
                    self.ramps.push_back(Ramp::new(self.end_m, interval.transition_m, from, to));
                }
            }
            self.end_m += interval.length_m;
            while self.ramps.get(1).is_some_and(|next| next.start_m <= past_m) {
                self.ramps.pop_front();
            }
        }
    }

    fn block(&mut self, block: u64) -> LevelSteps {
        let step_m = self.step_m;
        let position = |step: u64| step as f64 * step_m;
        let first = block * BLOCK as u64;
        let past = position(block.saturating_sub(self.history_blocks) * BLOCK as u64);
        self.extend_to(position(first + BLOCK as u64), past);
        let mut steps =
            LevelSteps { mean: [0.0; BLOCK], deviation: [0.0; BLOCK], multipath: [0.0; BLOCK] };
        let start = position(first);
        let mut index = self.ramps.iter().rposition(|ramp| ramp.start_m <= start).unwrap_or(0);
        for step in 0..BLOCK {
            let at = position(first + step as u64);
            while self.ramps.get(index + 1).is_some_and(|next| next.start_m <= at) {
                index += 1;
            }
            let ramp = &self.ramps[index];
            let levels = ramp.at(at);
            let moves = levels.multipath != ramp.to.multipath;
            let echoes = if moves { libm::exp(levels.multipath) } else { ramp.multipath };
            (steps.mean[step], steps.deviation[step]) = (levels.mean, levels.deviation);
            steps.multipath[step] = echoes;
        }
        steps
    }
}
