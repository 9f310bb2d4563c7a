//! Fading by Loo's distribution (IEEE Trans. Veh. Tech. 34(3), 1985) whose parameters change along the way: a shadowed
//! direct path, log-normal, and echoes of all around.

use std::collections::VecDeque;

use units::RandomStream;

use super::grid::{BLOCK, Fading, Grid, Steps};
use super::jakes::{Direct, Jakes};
use super::shadow::{Bridge, Bridges, Shadow};
use super::{LooSpec, Motion, Sight};

/// Nepers (of amplitude) in a dB.
const NEPER: f64 = std::f64::consts::LN_10 / 20.0;

/// Exponentials that are worked out side by side.
const TOGETHER: usize = 8;

/// A stretch of the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Visit {
    /// How long it is.
    pub length_m: f64,
    /// Over how much of its start the parameters move to this stretch's. It may be longer than the stretch.
    pub transition_m: f64,
    /// What fading is like on it.
    pub loo: LooSpec,
}

/// The stretches of a user's way, endless; the transition of the first does not matter.
pub(super) type Visits = Box<dyn Iterator<Item = Visit> + Send>;

/// What all users have in common.
#[derive(Clone, Debug)]
pub(super) struct Common {
    /// The way of a step, in metres and in wavelengths.
    step_m: f64,
    step_wavelengths: f64,
    /// By how much the direct path becomes shorter in a step, in wavelengths.
    closer_wavelengths: f64,
    bridges: Bridges,
    /// How many blocks before the latest one can be asked for.
    kept: u64,
}

impl Common {
    /// `correlations_m` are instants in ns, in order, from which on the shadowing has a correlation length.
    pub fn new(motion: &Motion, sight: &Sight, correlations_m: &[(u64, f64)]) -> Common {
        let block_ns = motion.step_ns * BLOCK as u64;
        let bridges = correlations_m.iter().map(|&(at_ns, correlation_m)| {
            (at_ns.div_ceil(block_ns), Bridge::new(motion.step_m(), correlation_m))
        });
        Common {
            step_m: motion.step_m(),
            step_wavelengths: motion.step_wavelengths(),
            closer_wavelengths: motion.step_wavelengths() * sight.ahead(),
            bridges: bridges.collect(),
            kept: Grid::kept(motion.step_ns),
        }
    }
}

/// The fading of one user.
pub(super) struct Loo {
    profile: Profile,
    shadow: Shadow,
    direct: Direct,
    echoes: Jakes,
}

impl Loo {
    /// `random` gives the stream of a purpose.
    pub fn new(common: &Common, visits: Visits, random: impl Fn(&str) -> RandomStream) -> Loo {
        Loo {
            profile: Profile::new(common, visits),
            shadow: Shadow::new(common.bridges.clone(), common.kept, random("shadow")),
            direct: Direct::new(common.closer_wavelengths),
            echoes: Jakes::new(common.step_wavelengths, &mut random("multipath")),
        }
    }
}

impl Fading for Loo {
    fn fill(&mut self, block: u64, gains: &mut Steps) {
        let levels = self.profile.block(block);
        let shadow = self.shadow.block(block);
        let (direct_re, direct_im) = self.direct.block(block);
        let (echo_re, echo_im) = self.echoes.block(block);
        let mut direct: Steps =
            std::array::from_fn(|step| levels.mean[step] + levels.deviation[step] * shadow[step]);
        // Several at once: one's end does not wait for another's.
        for some in direct.as_chunks_mut::<TOGETHER>().0 {
            *some = some.map(libm::exp);
        }
        for (step, gain) in gains.iter_mut().enumerate() {
            let re = direct[step] * direct_re[step] + levels.echoes[step] * echo_re[step];
            let im = direct[step] * direct_im[step] + levels.echoes[step] * echo_im[step];
            *gain = re * re + im * im;
        }
    }
}

/// The parameters along the way.
struct Profile {
    visits: Visits,
    step_m: f64,
    kept: u64,
    /// The changes that may still be asked for, in order of their places.
    ramps: VecDeque<Ramp>,
    /// Where the last stretch ends.
    end_m: f64,
}

/// Parameters that move, linearly in dB, and then stay.
struct Ramp {
    start_m: f64,
    length_m: f64,
    from: Levels,
    to: Levels,
    /// The amplitude of the echoes at the end.
    echoes: f64,
}

/// Loo's parameters in nepers.
#[derive(Clone, Copy, PartialEq)]
struct Levels {
    mean: f64,
    deviation: f64,
    echoes: f64,
}

/// The parameters at the steps of a block; of the echoes the amplitude.
struct LevelSteps {
    mean: Steps,
    deviation: Steps,
    echoes: Steps,
}

impl Levels {
    fn of(loo: &LooSpec) -> Levels {
        Levels {
            mean: loo.mean_db * NEPER,
            deviation: loo.deviation_db * NEPER,
            echoes: loo.multipath_db * NEPER,
        }
    }
}

impl Ramp {
    fn new(start_m: f64, length_m: f64, from: Levels, to: Levels) -> Ramp {
        Ramp { start_m, length_m, from, to, echoes: libm::exp(to.echoes) }
    }

    /// The parameters at a place on the ramp.
    fn at(&self, place_m: f64) -> Levels {
        if place_m >= self.start_m + self.length_m {
            return self.to;
        }
        let part = (place_m - self.start_m) / self.length_m;
        let between = |from: f64, to: f64| from + (to - from) * part;
        Levels {
            mean: between(self.from.mean, self.to.mean),
            deviation: between(self.from.deviation, self.to.deviation),
            echoes: between(self.from.echoes, self.to.echoes),
        }
    }
}

impl Profile {
    fn new(common: &Common, visits: Visits) -> Profile {
        let (step_m, kept) = (common.step_m, common.kept);
        Profile { visits, step_m, kept, ramps: VecDeque::new(), end_m: 0.0 }
    }

    /// Takes stretches until `place_m` lies before their end. What lies before `past_m` is not asked for again.
    fn reach(&mut self, place_m: f64, past_m: f64) {
        while self.end_m <= place_m {
            let Some(visit) = self.visits.next() else { return };
            let to = Levels::of(&visit.loo);
            match self.ramps.back() {
                None => self.ramps.push_back(Ramp::new(0.0, 0.0, to, to)),
                Some(last) if last.to == to => {}
                Some(last) => {
                    let from = last.at(self.end_m);
                    self.ramps.push_back(Ramp::new(self.end_m, visit.transition_m, from, to));
                }
            }
            self.end_m += visit.length_m;
            while self.ramps.get(1).is_some_and(|next| next.start_m <= past_m) {
                self.ramps.pop_front();
            }
        }
    }

    fn block(&mut self, block: u64) -> LevelSteps {
        let step_m = self.step_m;
        let place = |step: u64| step as f64 * step_m;
        let first = block * BLOCK as u64;
        let past = place(block.saturating_sub(self.kept) * BLOCK as u64);
        self.reach(place(first + BLOCK as u64), past);
        let mut steps =
            LevelSteps { mean: [0.0; BLOCK], deviation: [0.0; BLOCK], echoes: [0.0; BLOCK] };
        let start = place(first);
        let mut index = self.ramps.iter().rposition(|ramp| ramp.start_m <= start).unwrap_or(0);
        for step in 0..BLOCK {
            let at = place(first + step as u64);
            while self.ramps.get(index + 1).is_some_and(|next| next.start_m <= at) {
                index += 1;
            }
            let ramp = &self.ramps[index];
            let levels = ramp.at(at);
            let moves = levels.echoes != ramp.to.echoes;
            let echoes = if moves { libm::exp(levels.echoes) } else { ramp.echoes };
            (steps.mean[step], steps.deviation[step]) = (levels.mean, levels.deviation);
            steps.echoes[step] = echoes;
        }
        steps
    }
}
