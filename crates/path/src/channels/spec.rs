//! The serialisable specification of a channel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Interpolation;

/// A radio channel. Its signal-to-noise ratio is Es/N0, of a coded symbol.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ChannelSpec {
    /// White noise alone.
    Fixed {
        /// Es/N0, in dB.
        snr_db: f64,
    },
    /// Shadowing states that follow each other as a Markov chain, Loo's fading in each (Perez-Fontan).
    ThreeState(Box<ThreeStateSpec>),
    /// A good and a bad state that take turns (ITU-R P.681).
    SemiMarkov(Box<SemiMarkovSpec>),
    /// Echoes without a direct path.
    Rayleigh {
        /// Mean Es/N0.
        reference: Reference,
        /// The terminal and its grid.
        motion: Motion,
    },
    /// Attenuation over time, the same for every user.
    Measured {
        /// Es/N0 without attenuation.
        reference: Reference,
        /// Instants in ns and attenuation in dB, in order.
        points: Vec<(u64, f64)>,
        /// What is between two points.
        interpolation: Interpolation,
        /// All comes again after this; none: the last point holds.
        repeat_ns: Option<u64>,
    },
    /// A channel towards a satellite that comes and goes.
    Ranged {
        /// Instants in ns and the loss of the way beyond that at which Es/N0 is given, in dB, in order; linear between.
        loss: Vec<(u64, f64)>,
        /// The channel at that distance.
        channel: Box<ChannelSpec>,
    },
}

/// Shadowing states that follow each other as a Markov chain, Loo's fading in each (Perez-Fontan).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ThreeStateSpec {
    /// Es/N0 in line of sight.
    pub reference: Reference,
    /// The terminal and its grid.
    pub motion: Motion,
    /// Where the satellite is.
    pub sight: Sight,
    /// The chance of each state (column) after a frame of each (row).
    pub transitions: Vec<Vec<f64>>,
    /// The fading in each state.
    pub states: Vec<LooSpec>,
    /// How far the terminal moves before the state is drawn again, for each state.
    pub frames_m: Vec<f64>,
    /// Over how much of the way the parameters move to those of a new state.
    pub transition_m: f64,
    /// The correlation length of the shadowing.
    pub correlation_m: f64,
}

/// A good and a bad state that take turns (ITU-R P.681), with Loo's fading whose parameters each visit draws anew.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SemiMarkovSpec {
    /// Es/N0 in line of sight.
    pub reference: Reference,
    /// The terminal and its grid.
    pub motion: Motion,
    /// Where the satellite is.
    pub sight: Sight,
    /// What holds from an instant on, the first from the start: as the satellite moves.
    pub cells: Vec<CellSpec>,
}

/// The parameters of ITU-R P.681 at an elevation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// From when on they hold, for visits that begin.
    pub at_ns: u64,
    /// The good state.
    pub good: StateSpec,
    /// The bad state.
    pub bad: StateSpec,
    /// The correlation length of the shadowing.
    pub correlation_m: f64,
    /// Over how much of the way the parameters move to those of a new visit, for each dB between their means (f1)...
    pub transition_m_per_db: f64,
    /// ...and beside that (f2).
    pub transition_least_m: f64,
}

/// One of the two states of ITU-R P.681.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct StateSpec {
    /// Mean of the logarithm of a visit's length in metres.
    pub ln_mean: f64,
    /// Its standard deviation.
    pub ln_deviation: f64,
    /// Shorter visits do not happen.
    pub least_m: f64,
    /// Mean, over visits, of the direct path's mean level.
    pub mean_db: f64,
    /// Its standard deviation.
    pub mean_deviation_db: f64,
    /// Between which of its quantiles it is drawn.
    pub quantiles: (f64, f64),
    /// The direct path's standard deviation for each dB of its mean (g1)...
    pub deviation_per_db: f64,
    /// ...and beside that (g2).
    pub deviation_db: f64,
    /// Multipath power for each dB of the direct path's mean (h1)...
    pub multipath_per_db: f64,
    /// ...and beside that (h2).
    pub multipath_db: f64,
}

/// The signal-to-noise ratio about which a channel varies.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Es/N0 without attenuation, in dB.
    pub snr_db: f64,
    /// By how much those who design for the channel take it for better than it is.
    #[serde(default)]
    pub error_db: f64,
}

/// A terminal that moves at a constant speed, seen on a grid of time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Motion {
    /// The seed of its way and of the fading on it; none: the run's.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The grid: at most 1 ms and the time in which the terminal moves 1/16 wavelength.
    pub step_ns: u64,
    /// Carrier frequency.
    pub carrier_hz: u64,
    /// Speed, in metres a second.
    pub speed_m_s: f64,
}

/// Where the satellite is, seen from the terminal.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Sight {
    /// Above the horizon.
    pub elevation_deg: f64,
    /// From the direction of motion: 0 is straight ahead.
    pub azimuth_deg: f64,
}

/// Loo's distribution, in dB relative to the line of sight.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LooSpec {
    /// Mean of the direct path's level, which is normal in dB.
    pub mean_db: f64,
    /// Its standard deviation.
    pub deviation_db: f64,
    /// Mean power of the multipath.
    pub multipath_db: f64,
}

const LIGHT_M_S: f64 = 299_792_458.0;
/// A second of it is kept.
const LEAST_STEP_NS: u64 = 1_000;
const LONGEST_STEP_NS: u64 = 1_000_000;
/// Of a wavelength.
const LONGEST_STEP: f64 = 1.0 / 16.0;

impl Motion {
    /// The way of a step, in metres.
    pub(super) fn step_m(&self) -> f64 {
        self.speed_m_s * self.step_ns as f64 * 1e-9
    }

    /// The way of a step, in wavelengths.
    pub(super) fn step_wavelengths(&self) -> f64 {
        self.step_m() * self.carrier_hz as f64 / LIGHT_M_S
    }
}

impl Sight {
    /// The part of the terminal's motion that is towards the satellite.
    pub(super) fn ahead(&self) -> f64 {
        let cos = |degrees: f64| libm::cos(degrees.to_radians());
        cos(self.elevation_deg) * cos(self.azimuth_deg)
    }

    fn check(&self) -> Result<(), String> {
        within("elevation_deg", self.elevation_deg, 0.0, 90.0)?;
        within("azimuth_deg", self.azimuth_deg, -360.0, 360.0)
    }
}

impl ChannelSpec {
    /// What is wrong with it, for a person.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            ChannelSpec::Fixed { snr_db } => within("snr_db", *snr_db, -100.0, 200.0),
            ChannelSpec::ThreeState(spec) => spec.check(),
            ChannelSpec::SemiMarkov(spec) => spec.check(),
            ChannelSpec::Rayleigh { reference, motion } => {
                reference.check()?;
                motion.check()
            }
            ChannelSpec::Measured { reference, points, repeat_ns, .. } => {
                reference.check()?;
                let last = curve("points", points)?;
                if repeat_ns.is_some_and(|repeat| repeat <= last) {
                    return Err("repeat_ns must come after the last point".into());
                }
                Ok(())
            }
            ChannelSpec::Ranged { loss, channel } => {
                curve("loss", loss)?;
                channel.check()
            }
        }
    }
}

impl ThreeStateSpec {
    fn check(&self) -> Result<(), String> {
        self.reference.check()?;
        self.motion.check()?;
        self.sight.check()?;
        let n = self.states.len();
        if n == 0 || self.frames_m.len() != n || self.transitions.len() != n {
            return Err("states, frames_m and transitions must be as many, one at least".into());
        }
        self.states.iter().try_for_each(LooSpec::check)?;
        self.frames_m.iter().try_for_each(|frame| length("frames_m", *frame))?;
        within("transition_m", self.transition_m, 0.0, 1e6)?;
        length("correlation_m", self.correlation_m)?;
        chain(&self.transitions)
    }
}

impl SemiMarkovSpec {
    fn check(&self) -> Result<(), String> {
        self.reference.check()?;
        self.motion.check()?;
        self.sight.check()?;
        if self.cells.first().is_none_or(|cell| cell.at_ns != 0) {
            return Err("cells: the first must hold from the start".into());
        }
        if self.cells.windows(2).any(|pair| pair[0].at_ns >= pair[1].at_ns) {
            return Err("cells run backwards".into());
        }
        self.cells.iter().try_for_each(CellSpec::check)
    }
}

impl CellSpec {
    fn check(&self) -> Result<(), String> {
        for state in [&self.good, &self.bad] {
            within("ln_mean", state.ln_mean, -20.0, 20.0)?;
            within("ln_deviation", state.ln_deviation, 1e-3, 10.0)?;
            length("least_m", state.least_m)?;
            within("mean_db", state.mean_db, -200.0, 20.0)?;
            within("mean_deviation_db", state.mean_deviation_db, 0.0, 50.0)?;
            within("quantiles", state.quantiles.0, 0.0, state.quantiles.1)?;
            within("quantiles", state.quantiles.1, state.quantiles.0, 1.0)?;
            within("deviation_per_db", state.deviation_per_db, -100.0, 100.0)?;
            within("deviation_db", state.deviation_db, -100.0, 100.0)?;
            within("multipath_per_db", state.multipath_per_db, -100.0, 100.0)?;
            within("multipath_db", state.multipath_db, -200.0, 100.0)?;
        }
        length("correlation_m", self.correlation_m)?;
        within("transition_m_per_db", self.transition_m_per_db, -1e3, 1e3)?;
        within("transition_least_m", self.transition_least_m, -1e6, 1e6)
    }
}

impl Reference {
    /// Takes the estimate for the truth.
    pub(super) fn believe(&mut self) {
        *self = Reference { snr_db: self.snr_db + self.error_db, error_db: 0.0 };
    }

    fn check(&self) -> Result<(), String> {
        within("snr_db", self.snr_db, -100.0, 200.0)?;
        within("error_db", self.error_db, -100.0, 100.0)
    }
}

impl Motion {
    fn check(&self) -> Result<(), String> {
        if self.speed_m_s <= 0.0 || self.carrier_hz == 0 {
            return Err("speed_m_s and carrier_hz must be above 0".into());
        }
        within("speed_m_s", self.speed_m_s, 0.0, 1e5)?;
        if self.step_ns < LEAST_STEP_NS {
            return Err(format!("step_ns = {} is below 1 us", self.step_ns));
        }
        if self.step_ns > LONGEST_STEP_NS || self.step_wavelengths() > LONGEST_STEP {
            return Err(format!("step_ns = {} exceeds 1 ms or 1/16 wavelength", self.step_ns));
        }
        Ok(())
    }
}

impl LooSpec {
    fn check(&self) -> Result<(), String> {
        within("mean_db", self.mean_db, -200.0, 20.0)?;
        within("deviation_db", self.deviation_db, 0.0, 50.0)?;
        within("multipath_db", self.multipath_db, -200.0, 20.0)
    }
}

fn length(key: &str, value: f64) -> Result<(), String> {
    within(key, value, 1e-3, 1e6)
}

fn within(key: &str, value: f64, least: f64, most: f64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} = {value} is not between {least} and {most}"))
    }
}

/// Instants in order, with dB; returns the last instant.
fn curve(key: &str, points: &[(u64, f64)]) -> Result<u64, String> {
    let Some((last, _)) = points.last() else { return Err(format!("{key} is empty")) };
    if points.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err(format!("{key} run backwards"));
    }
    points.iter().try_for_each(|(_, db)| within(key, *db, -200.0, 200.0))?;
    Ok(*last)
}

/// Rows of chances, and a way from every state to every other.
fn chain(rows: &[Vec<f64>]) -> Result<(), String> {
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
            return Err(format!("transitions: no way leads from state {from} to state {to}"));
        }
    }
    Ok(())
}
