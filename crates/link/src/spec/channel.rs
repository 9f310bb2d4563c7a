//! The serialisable specification of a channel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The interpolation between the points of a trace.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The value of the last point.
    Step,
    /// Linear between points.
    Linear,
}

/// A radio channel. Its signal-to-noise ratio is Es/N0 per coded symbol.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ChannelSpec {
    /// Additive white Gaussian noise only.
    Fixed {
        /// Es/N0 in dB.
        snr_db: f64,
    },
    /// Shadowing states that form a Markov chain, with Loo fading in each (Perez-Fontan).
    ThreeState(Box<ThreeStateSpec>),
    /// Alternating good and bad states (ITU-R P.681).
    SemiMarkov(Box<SemiMarkovSpec>),
    /// Multipath without a direct path.
    Rayleigh {
        /// Mean Es/N0.
        reference: ReferenceSnr,
        /// The terminal and its time grid.
        motion: TerminalMotion,
    },
    /// Attenuation over time, equal for all users.
    Measured {
        /// Es/N0 without attenuation.
        reference: ReferenceSnr,
        /// Times in ns and attenuation in dB, in order.
        points: Vec<(u64, f64)>,
        /// The interpolation between two points.
        interpolation: Interpolation,
        /// Period after which the series repeats; without it, the last point continues to apply.
        repeat_ns: Option<u64>,
    },
    /// A channel to a satellite at varying distance.
    RangeLoss {
        /// Times in ns and excess path loss over the reference distance of Es/N0 in dB, in order; linear in between.
        loss: Vec<(u64, f64)>,
        /// The channel at the reference distance.
        channel: Box<ChannelSpec>,
    },
}

/// Shadowing states that form a Markov chain, with Loo fading in each (Perez-Fontan).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ThreeStateSpec {
    /// Line-of-sight Es/N0.
    pub reference: ReferenceSnr,
    /// The terminal and its time grid.
    pub motion: TerminalMotion,
    /// The direction to the satellite.
    pub look_angle: LookAngle,
    /// Transition probabilities after one frame, from each state (row) to each state (column).
    pub transitions: Vec<Vec<f64>>,
    /// The fading parameters of each state.
    pub states: Vec<LooSpec>,
    /// The frame length of each state: the distance after which the state is drawn again.
    pub frames_m: Vec<f64>,
    /// The distance over which the parameters change to those of a new state.
    pub transition_m: f64,
    /// The correlation length of the shadowing.
    pub correlation_m: f64,
}

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

/// The reference signal-to-noise ratio of a channel.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ReferenceSnr {
    /// Es/N0 without attenuation, in dB.
    pub snr_db: f64,
    /// Error of the estimate: the estimated minus the true reference, used in the design of codes.
    #[serde(default)]
    pub error_db: f64,
}

/// A terminal that moves at constant speed, sampled on a time grid.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TerminalMotion {
    /// The seed of its states and of its fading; without it, the seed of the run.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The step of the grid: at most 1 ms, and at most the time in which the terminal moves 1/16 wavelength.
    pub step_ns: u64,
    /// Carrier frequency.
    pub carrier_hz: u64,
    /// Speed in metres per second.
    pub speed_m_s: f64,
}

/// The direction to the satellite, seen from the terminal.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LookAngle {
    /// Elevation above the horizon.
    pub elevation_deg: f64,
    /// Azimuth from the direction of motion: 0 is straight ahead.
    pub azimuth_deg: f64,
}

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

const SPEED_OF_LIGHT_M_S: f64 = 299_792_458.0;
/// One second of history is stored.
const MIN_STEP_NS: u64 = 1_000;
const MAX_STEP_NS: u64 = 1_000_000;
/// In wavelengths.
const MAX_STEP_WAVELENGTHS: f64 = 1.0 / 16.0;

impl TerminalMotion {
    /// Returns the distance per step in metres.
    pub(crate) fn step_m(&self) -> f64 {
        self.speed_m_s * self.step_ns as f64 * 1e-9
    }

    /// Returns the distance per step in wavelengths.
    pub(crate) fn step_wavelengths(&self) -> f64 {
        self.step_m() * self.carrier_hz as f64 / SPEED_OF_LIGHT_M_S
    }
}

impl LookAngle {
    /// Returns the component of the terminal's motion towards the satellite.
    pub(crate) fn along_motion(&self) -> f64 {
        let cos = |degrees: f64| libm::cos(degrees.to_radians());
        cos(self.elevation_deg) * cos(self.azimuth_deg)
    }

    fn validate(&self) -> Result<(), String> {
        validate_range("elevation_deg", self.elevation_deg, 0.0, 90.0)?;
        validate_range("azimuth_deg", self.azimuth_deg, -360.0, 360.0)
    }
}

impl ChannelSpec {
    /// Validates the specification; the error is a message for the user.
    pub(crate) fn validate(&self) -> Result<(), String> {
        match self {
            ChannelSpec::Fixed { snr_db } => validate_range("snr_db", *snr_db, -100.0, 200.0),
            ChannelSpec::ThreeState(spec) => spec.validate(),
            ChannelSpec::SemiMarkov(spec) => spec.validate(),
            ChannelSpec::Rayleigh { reference, motion } => {
                reference.validate()?;
                motion.validate()
            }
            ChannelSpec::Measured { reference, points, repeat_ns, .. } => {
                reference.validate()?;
                let last = validate_series("points", points)?;
                if repeat_ns.is_some_and(|repeat| repeat <= last) {
                    return Err("repeat_ns must come after the last point".into());
                }
                Ok(())
            }
            ChannelSpec::RangeLoss { loss, channel } => {
                validate_series("loss", loss)?;
                channel.validate()
            }
        }
    }
}

impl ThreeStateSpec {
    fn validate(&self) -> Result<(), String> {
        self.reference.validate()?;
        self.motion.validate()?;
        self.look_angle.validate()?;
        let n = self.states.len();
        if n == 0 || self.frames_m.len() != n || self.transitions.len() != n {
            return Err("states, frames_m and transitions must be as many, one at least".into());
        }
        self.states.iter().try_for_each(LooSpec::validate)?;
        self.frames_m.iter().try_for_each(|frame| validate_length("frames_m", *frame))?;
        validate_range("transition_m", self.transition_m, 0.0, 1e6)?;
        validate_length("correlation_m", self.correlation_m)?;
        validate_transitions(&self.transitions)
    }
}

impl SemiMarkovSpec {
    fn validate(&self) -> Result<(), String> {
        self.reference.validate()?;
        self.motion.validate()?;
        self.look_angle.validate()?;
        if self.cells.first().is_none_or(|cell| cell.at_ns != 0) {
            return Err("cells: the first must hold from the start".into());
        }
        if self.cells.windows(2).any(|pair| pair[0].at_ns >= pair[1].at_ns) {
            return Err("cells run backwards".into());
        }
        self.cells.iter().try_for_each(SemiMarkovCellSpec::validate)
    }
}

impl SemiMarkovCellSpec {
    fn validate(&self) -> Result<(), String> {
        for state in [&self.good, &self.bad] {
            validate_range("ln_mean", state.ln_mean, -20.0, 20.0)?;
            validate_range("ln_deviation", state.ln_deviation, 1e-3, 10.0)?;
            validate_length("min_length_m", state.min_length_m)?;
            validate_range("mean_db", state.mean_db, -200.0, 20.0)?;
            validate_range("mean_deviation_db", state.mean_deviation_db, 0.0, 50.0)?;
            validate_range("quantiles", state.quantiles.0, 0.0, state.quantiles.1)?;
            validate_range("quantiles", state.quantiles.1, state.quantiles.0, 1.0)?;
            validate_range("deviation_per_db", state.deviation_per_db, -100.0, 100.0)?;
            validate_range("deviation_db", state.deviation_db, -100.0, 100.0)?;
            validate_range("multipath_per_db", state.multipath_per_db, -100.0, 100.0)?;
            validate_range("multipath_db", state.multipath_db, -200.0, 100.0)?;
        }
        validate_length("correlation_m", self.correlation_m)?;
        validate_range("transition_m_per_db", self.transition_m_per_db, -1e3, 1e3)?;
        validate_range("transition_offset_m", self.transition_offset_m, -1e6, 1e6)
    }
}

impl ReferenceSnr {
    /// Replaces the true reference by the estimate.
    pub(crate) fn use_estimate(&mut self) {
        *self = ReferenceSnr { snr_db: self.snr_db + self.error_db, error_db: 0.0 };
    }

    fn validate(&self) -> Result<(), String> {
        validate_range("snr_db", self.snr_db, -100.0, 200.0)?;
        validate_range("error_db", self.error_db, -100.0, 100.0)
    }
}

impl TerminalMotion {
    fn validate(&self) -> Result<(), String> {
        if self.speed_m_s <= 0.0 || self.carrier_hz == 0 {
            return Err("speed_m_s and carrier_hz must be above 0".into());
        }
        validate_range("speed_m_s", self.speed_m_s, 0.0, 1e5)?;
        if self.step_ns < MIN_STEP_NS {
            return Err(format!("step_ns = {} is below 1 us", self.step_ns));
        }
        if self.step_ns > MAX_STEP_NS || self.step_wavelengths() > MAX_STEP_WAVELENGTHS {
            return Err(format!("step_ns = {} exceeds 1 ms or 1/16 wavelength", self.step_ns));
        }
        Ok(())
    }
}

impl LooSpec {
    fn validate(&self) -> Result<(), String> {
        validate_range("mean_db", self.mean_db, -200.0, 20.0)?;
        validate_range("deviation_db", self.deviation_db, 0.0, 50.0)?;
        validate_range("multipath_db", self.multipath_db, -200.0, 20.0)
    }
}

fn validate_length(key: &str, value: f64) -> Result<(), String> {
    validate_range(key, value, 1e-3, 1e6)
}

fn validate_range(key: &str, value: f64, min: f64, max: f64) -> Result<(), String> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} = {value} is not between {min} and {max}"))
    }
}

/// Validates the times and the levels in dB; returns the last time.
fn validate_series(key: &str, points: &[(u64, f64)]) -> Result<u64, String> {
    let Some((last, _)) = points.last() else { return Err(format!("{key} is empty")) };
    if points.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err(format!("{key} run backwards"));
    }
    points.iter().try_for_each(|(_, db)| validate_range(key, *db, -200.0, 200.0))?;
    Ok(*last)
}

/// Validates the transition probabilities: rows sum to 1 and every state is reachable from every other.
fn validate_transitions(rows: &[Vec<f64>]) -> Result<(), String> {
    let n = rows.len();
    for row in rows {
        let sum: f64 = row.iter().sum();
        if row.len() != n
            || row.iter().any(|p| !(0.0..=1.0).contains(p))
            || (sum - 1.0).abs() > 1e-6
        {
            return Err(format!("transitions: {row:?} is no row of {n} chances that add up to 1"));
        }
    }
    for from in 0..n {
        let mut reached = vec![false; n];
        reached[from] = true;
        for _ in 0..n {
            for state in 0..n {
                if reached[state] {
                    (0..n).filter(|to| rows[state][*to] > 0.0).for_each(|to| reached[to] = true);
                }
            }
        }
        if let Some(to) = reached.iter().position(|reached| !reached) {
            return Err(format!("transitions: no transition path from state {from} to state {to}"));
        }
    }
    Ok(())
}
