//! The land-mobile-satellite channel of ITU-R P.681 (section "Time series synthesis of fading complex envelope"). Good
//! and bad states alternate with log-normal durations. Each state interval draws its parameters of Loo fading.

use std::f64::consts::SQRT_2;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, RandomStream, Span};

use super::gaussian;
use super::loo::{FadingContext, StateInterval, StateIntervals, build_loo};
use super::terminal::{
    AZIMUTH, ELEVATION, ENVIRONMENT, FREQUENCY, SEED, SNR, SNR_ERROR, SNR_RANGE, SPEED, STEP,
    in_metres,
};
use super::{ChannelFactory, ChannelSpec, LooSpec, LookAngle, ReferenceSnr, TerminalMotion};
use crate::Channel;
use crate::checks::{ValidationResult, in_range};

/// Alternating good and bad states (ITU-R P.681) with Loo fading. Each state interval draws its parameters.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SemiMarkovSpec {
    /// Line-of-sight Es/N0.
    pub reference: ReferenceSnr,
    /// The terminal and its time grid.
    pub motion: TerminalMotion,
    /// The direction to the satellite.
    pub look_angle: LookAngle,
    /// Parameters with the time from which they apply, the first from the start: they follow the satellite.
    pub cells: Vec<SemiMarkovCellSpec>,
}

/// The parameters of ITU-R P.681 at an elevation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SemiMarkovCellSpec {
    /// The time from which they apply to new state intervals.
    pub at_ns: u64,
    /// The good state.
    pub good: SemiMarkovStateSpec,
    /// The bad state.
    pub bad: SemiMarkovStateSpec,
    /// The correlation length of the shadowing.
    pub correlation_m: f64,
    /// Transition length per dB of difference between the means of two state intervals (f1).
    pub transition_m_per_db: f64,
    /// Transition length at zero difference (f2).
    pub transition_offset_m: f64,
}

/// One of the two states of ITU-R P.681.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SemiMarkovStateSpec {
    /// Mean of the natural logarithm of the state length in metres.
    pub ln_mean: f64,
    /// The standard deviation of the logarithm.
    pub ln_deviation: f64,
    /// Minimum state length.
    pub min_length_m: f64,
    /// Mean, over state intervals, of the direct path's mean level.
    pub mean_db: f64,
    /// The standard deviation of the direct path's mean level.
    pub mean_deviation_db: f64,
    /// The quantiles between which the mean level is drawn.
    pub quantiles: (f64, f64),
    /// Standard deviation of the direct path per dB of its mean (g1).
    pub deviation_per_db: f64,
    /// Standard deviation at a mean of 0 dB (g2).
    pub deviation_db: f64,
    /// Multipath power per dB of the direct path's mean (h1).
    pub multipath_per_db: f64,
    /// Multipath power at a mean of 0 dB (h2).
    pub multipath_db: f64,
}

impl SemiMarkovSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "p681",
        spec_kind: "semi_markov",
        aliases: &[],
        title: "Alternating good and bad states with Loo fading",
        reference: "ITU-R P.681",
        options: &[
            SNR,
            SNR_ERROR,
            ENVIRONMENT,
            ELEVATION,
            AZIMUTH,
            SNR_RANGE,
            SPEED,
            FREQUENCY,
            STEP,
            SEED,
            Opt::hook("", "cells", "cells", "the published parameters"),
        ],
        draws: true,
        live_name: "",
    };
}

impl ChannelFactory for SemiMarkovSpec {
    fn validate(&self) -> ValidationResult {
        self.reference.validate()?;
        self.motion.validate()?;
        self.look_angle.validate()?;
        if self.cells.first().is_none_or(|cell| cell.at_ns != 0) {
            return Err("cells: the first must hold from the start".into());
        }
        if self.cells.windows(2).any(|pair| pair[0].at_ns >= pair[1].at_ns) {
            return Err("cells are not in order of time".into());
        }
        self.cells.iter().try_for_each(SemiMarkovCellSpec::validate)
    }

    fn build(&self, name: &str, seed: u64) -> Box<dyn Channel> {
        let lengths: Vec<_> =
            self.cells.iter().map(|cell| (cell.at_ns, cell.correlation_m)).collect();
        let common = FadingContext::new(&self.motion, &self.look_angle, &lengths);
        let spec = self.clone();
        let intervals = move |random: RandomStream| {
            Box::new(state_intervals(spec.clone(), random)) as StateIntervals
        };
        Box::new(build_loo(self.reference, &self.motion, common, intervals, name, seed))
    }

    fn with_estimate(&self) -> ChannelSpec {
        Self { reference: self.reference.estimate(), ..self.clone() }.into()
    }

    fn estimate_error_db(&self) -> f64 {
        self.reference.error_db
    }

    fn time_step(&self) -> Option<Span> {
        Some(Span(self.motion.step_ns))
    }
}

impl SemiMarkovCellSpec {
    fn validate(&self) -> ValidationResult {
        for state in [&self.good, &self.bad] {
            in_range("ln_mean", state.ln_mean, -20.0, 20.0)?;
            in_range("ln_deviation", state.ln_deviation, 1e-3, 10.0)?;
            in_metres("min_length_m", state.min_length_m)?;
            in_range("mean_db", state.mean_db, -200.0, 20.0)?;
            in_range("mean_deviation_db", state.mean_deviation_db, 0.0, 50.0)?;
            in_range("quantiles", state.quantiles.0, 0.0, state.quantiles.1)?;
            in_range("quantiles", state.quantiles.1, state.quantiles.0, 1.0)?;
            in_range("deviation_per_db", state.deviation_per_db, -100.0, 100.0)?;
            in_range("deviation_db", state.deviation_db, -100.0, 100.0)?;
            in_range("multipath_per_db", state.multipath_per_db, -100.0, 100.0)?;
            in_range("multipath_db", state.multipath_db, -200.0, 100.0)?;
        }
        in_metres("correlation_m", self.correlation_m)?;
        in_range("transition_m_per_db", self.transition_m_per_db, -1e3, 1e3)?;
        in_range("transition_offset_m", self.transition_offset_m, -1e6, 1e6)
    }
}

/// Returns the state intervals of one user, in the stationary distribution from the start.
fn state_intervals(
    spec: SemiMarkovSpec,
    mut random: RandomStream,
) -> impl Iterator<Item = StateInterval> + Send {
    let first = &spec.cells[0];
    let (good, bad) =
        (StateLength::from_spec(&first.good).mean(), StateLength::from_spec(&first.bad).mean());
    let mut is_good = random.chance(good / (good + bad));
    let mut is_first = true;
    let mut before: Option<f64> = None;
    let mut distance_m = 0.0;
    std::iter::from_fn(move || {
        let now_ns = distance_m / spec.motion.speed_m_s * 1e9;
        let later = spec.cells.partition_point(|cell| cell.at_ns as f64 <= now_ns);
        let cell = &spec.cells[later.max(1) - 1];
        let state = if is_good { &cell.good } else { &cell.bad };
        let length = StateLength::from_spec(state);
        let length_m = if is_first {
            // An arbitrary instant lies in a long interval more likely than in a short one, at a uniform position.
            length.length_biased().draw(&mut random) * (1.0 - random.uniform())
        } else {
            length.draw(&mut random)
        };
        let loo = draw_loo(state, &mut random);
        let moves = before.map_or(0.0, |before| (loo.mean_db - before).abs());
        let transition_m = (cell.transition_m_per_db * moves + cell.transition_offset_m).max(0.0);
        distance_m += length_m;
        (is_good, is_first, before) = (!is_good, false, Some(loo.mean_db));
        Some(StateInterval { length_m, transition_m, loo })
    })
}

/// Draws the parameters of a state interval. Negative standard deviations of the regression become 0.
fn draw_loo(state: &SemiMarkovStateSpec, random: &mut RandomStream) -> LooSpec {
    let (lower, upper) = state.quantiles;
    // One draw for any bounds.
    let chance = lower + (upper - lower) * random.uniform();
    let mean_db = state.mean_db
        + state.mean_deviation_db * gaussian::quantile(chance.clamp(1e-16, 1.0 - 1e-16));
    LooSpec {
        mean_db,
        deviation_db: (state.deviation_per_db * mean_db + state.deviation_db).max(0.0),
        multipath_db: state.multipath_per_db * mean_db + state.multipath_db,
    }
}

/// A log-normal length, truncated below.
#[derive(Clone, Copy, Debug)]
struct StateLength {
    ln_mean: f64,
    ln_deviation: f64,
    min_m: f64,
}

impl StateLength {
    fn from_spec(state: &SemiMarkovStateSpec) -> StateLength {
        let SemiMarkovStateSpec { ln_mean, ln_deviation, min_length_m: min_m, .. } = *state;
        StateLength { ln_mean, ln_deviation, min_m }
    }

    /// Returns the probability to exceed the minimum if the mean of the logarithm were larger by `shift`.
    fn exceedance(&self, shift: f64) -> f64 {
        let z = (libm::log(self.min_m) - self.ln_mean - shift) / self.ln_deviation;
        0.5 * libm::erfc(z / SQRT_2)
    }

    fn mean(&self) -> f64 {
        let square = self.ln_deviation * self.ln_deviation;
        libm::exp(self.ln_mean + square / 2.0) * self.exceedance(square) / self.exceedance(0.0)
    }

    /// Returns the length-biased distribution at an arbitrary instant, which is log-normal again.
    fn length_biased(&self) -> StateLength {
        StateLength { ln_mean: self.ln_mean + self.ln_deviation * self.ln_deviation, ..*self }
    }

    fn draw(&self, random: &mut RandomStream) -> f64 {
        // The tail probability is used directly, to preserve its precision.
        let tail = self.exceedance(0.0) * (1.0 - random.uniform());
        let z = -gaussian::quantile(tail.clamp(1e-300, 1.0 - 1e-16));
        libm::exp(self.ln_mean + self.ln_deviation * z).max(self.min_m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LookAngle, ReferenceSnr, SemiMarkovCellSpec, TerminalMotion};

    /// Suburban at 45 degrees, good: nearly two thirds of the untruncated lengths are too short.
    const LONG: StateLength =
        StateLength { ln_mean: 4.5857, ln_deviation: 1.3918, min_m: 126.8375 };

    /// The distribution of lengths against the truncated log-normal distribution, with binomial errors.
    #[test]
    fn lengths_are_log_normal_above_the_minimum() {
        let urban = StateLength { ln_mean: 2.0042, ln_deviation: 1.2049, min_m: 3.9889 };
        for length in [LONG, urban] {
            let mut random = RandomStream::named(1, "test", "lengths");
            let n = 100_000;
            let lengths: Vec<f64> = (0..n).map(|_| length.draw(&mut random)).collect();
            assert!(lengths.iter().all(|drawn| *drawn >= length.min_m));
            for factor in [1.1, 1.5, 2.0, 4.0, 10.0, 40.0] {
                let level = factor * length.min_m;
                let below = |z: f64| 0.5 * libm::erfc(-z / SQRT_2);
                let z = |m: f64| (libm::log(m) - length.ln_mean) / length.ln_deviation;
                let cut = below(z(length.min_m));
                let expected = (below(z(level)) - cut) / (1.0 - cut);
                let n = f64::from(n);
                let share = lengths.iter().filter(|drawn| **drawn < level).count() as f64 / n;
                let error = (expected * (1.0 - expected) / n).sqrt();
                assert!((share - expected).abs() < 4.0 * error, "{level} m: {share}, {expected}");
            }
        }
    }

    /// The mean, and the length-biased mean: the mean square over the mean.
    #[test]
    fn means_match_the_samples() {
        // A lighter tail than that of LONG, for which no sample approaches the mean square.
        let length = StateLength { ln_mean: 2.0, ln_deviation: 0.6, min_m: 5.0 };
        let (mut first, mut second) =
            (RandomStream::named(1, "t", "a"), RandomStream::named(1, "t", "b"));
        let n = 200_000;
        let drawn: Vec<f64> = (0..n).map(|_| length.draw(&mut first)).collect();
        let met: Vec<f64> = (0..n).map(|_| length.length_biased().draw(&mut second)).collect();
        let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
        let square = drawn.iter().map(|x| x * x).sum::<f64>() / drawn.len() as f64;
        let deviation = (square - mean(&drawn) * mean(&drawn)).sqrt();
        let error = deviation / f64::from(n).sqrt();
        assert!((mean(&drawn) - length.mean()).abs() < 4.0 * error);
        assert!((mean(&met) - square / mean(&drawn)).abs() < 12.0 * error);
    }

    fn urban() -> SemiMarkovSpec {
        let state = |ln_mean, mean_db, quantiles| SemiMarkovStateSpec {
            ln_mean,
            ln_deviation: 1.2,
            min_length_m: 8.0,
            mean_db,
            mean_deviation_db: 3.0,
            quantiles,
            deviation_per_db: -0.08,
            deviation_db: 0.1,
            multipath_per_db: 0.9,
            multipath_db: -2.0,
        };
        SemiMarkovSpec {
            reference: ReferenceSnr { snr_db: 0.0, error_db: 0.0 },
            motion: TerminalMotion { seed: None, step_ns: 1, carrier_hz: 1, speed_m_s: 1.0 },
            look_angle: LookAngle { elevation_deg: 45.0, azimuth_deg: 0.0 },
            cells: vec![SemiMarkovCellSpec {
                at_ns: 0,
                good: state(3.0, -1.0, (0.0, 1.0)),
                bad: state(2.5, -15.0, (0.1, 0.9)),
                correlation_m: 1.8,
                transition_m_per_db: 0.1,
                transition_offset_m: 2.0,
            }],
        }
    }

    /// The share of users in the good state at the start and after 100 m equals its time share, with binomial errors.
    #[test]
    fn the_states_are_stationary_from_the_start() {
        let mut spec = urban();
        let cell = &mut spec.cells[0];
        cell.good.quantiles = (0.5, 0.5);
        let (good, bad) =
            (StateLength::from_spec(&cell.good).mean(), StateLength::from_spec(&cell.bad).mean());
        let (expected, n) = (good / (good + bad), 20_000);
        for position_m in [0.0, 10.0, 100.0] {
            let in_good = (0..n)
                .filter(|user| {
                    let mut end = 0.0;
                    let mut visits =
                        state_intervals(spec.clone(), RandomStream::named(*user, "test", "way"));
                    let there = visits.find(|visit| {
                        end += visit.length_m;
                        end > position_m
                    });
                    there.is_some_and(|visit| visit.loo.mean_db == -1.0)
                })
                .count();
            let share = in_good as f64 / n as f64;
            let error = (expected * (1.0 - expected) / n as f64).sqrt();
            assert!((share - expected).abs() < 4.0 * error, "{position_m} m: {share}, {expected}");
        }
    }

    /// The regressions, the bad state's quantiles, and the transition lengths, which follow the step of the means.
    #[test]
    fn each_state_interval_draws_its_parameters() {
        let spec = urban();
        let visits: Vec<StateInterval> =
            state_intervals(spec.clone(), RandomStream::named(1, "test", "visits"))
                .take(10_000)
                .collect();
        for pair in visits.windows(2) {
            let (before, loo) = (pair[0].loo, pair[1].loo);
            let moves = (loo.mean_db - before.mean_db).abs();
            assert_eq!(pair[1].transition_m, 0.1 * moves + 2.0);
            assert_eq!(loo.deviation_db, (-0.08 * loo.mean_db + 0.1).max(0.0));
            assert_eq!(loo.multipath_db, 0.9 * loo.mean_db - 2.0);
        }
        let bad = |visit: &&StateInterval| (visit.loo.mean_db + 15.0).abs() <= 3.0 * 1.281_551_6;
        let is_bad = bad(&&visits[0]);
        let (even, odd): (Vec<_>, Vec<_>) =
            (visits.iter().step_by(2).collect(), visits.iter().skip(1).step_by(2).collect());
        let (bads, goods) = if is_bad { (even, odd) } else { (odd, even) };
        assert!(bads.iter().all(bad));
        // The mean of all, which have a deviation of 3 dB.
        let mean = goods.iter().map(|visit| visit.loo.mean_db).sum::<f64>() / 5_000.0;
        assert!((mean + 1.0).abs() < 4.0 * 3.0 / 5_000f64.sqrt(), "{mean}");
    }

    /// Intervals that begin after 100 s, which is 100 m here, belong to another elevation.
    #[test]
    fn cells_apply_from_their_start_time() {
        let mut spec = urban();
        let mut second = SemiMarkovCellSpec { at_ns: 100_000_000_000, ..spec.cells[0] };
        (second.good.multipath_db, second.bad.multipath_db) = (-50.0, -50.0);
        spec.cells.push(second);
        let mut distance_m = 0.0;
        for visit in state_intervals(spec, RandomStream::named(1, "test", "cells")).take(100) {
            let expected = if distance_m < 100.0 { -2.0 } else { -50.0 };
            let found = visit.loo.multipath_db - 0.9 * visit.loo.mean_db;
            assert!((found - expected).abs() < 1e-9, "{distance_m} m: {found}");
            distance_m += visit.length_m;
        }
        assert!(distance_m > 500.0);
    }
}
