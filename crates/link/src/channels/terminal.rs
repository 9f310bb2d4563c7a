//! The parts of a channel's specification that several models share: reference, terminal and look angle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Opt;

use crate::checks::{ValidationResult, in_range};

const SPEED_OF_LIGHT_M_S: f64 = 299_792_458.0;
/// One second of history is stored.
const MIN_STEP_NS: u64 = 1_000;
const MAX_STEP_NS: u64 = 1_000_000;
/// In wavelengths.
const MAX_STEP_WAVELENGTHS: f64 = 1.0 / 16.0;

/// Es/N0 at the reference.
pub(super) const SNR: Opt =
    Opt::decibels("snr", "reference.snr_db", "Es/N0 of a coded symbol without attenuation")
        .required();

/// The error of the estimate of Es/N0.
pub(super) const SNR_ERROR: Opt = Opt::decibels(
    "snr_error",
    "reference.error_db",
    "estimate of `snr` in the design of codes, minus `snr`",
)
.default_number(0.0);

/// The speed of the terminal.
pub(super) const SPEED: Opt =
    Opt::speed("speed", "motion.speed_m_s", "speed of the terminal over ground").required();

/// The carrier.
pub(super) const FREQUENCY: Opt =
    Opt::frequency("frequency", "motion.carrier_hz", "carrier frequency")
        .default_integer(2_200_000_000);

/// The step of the time grid. Its default depends on the speed and the carrier.
pub(super) const STEP: Opt = Opt::hook(
    "step",
    "motion.step_ns",
    "step_ns",
    "step of the time grid; the default is the maximum, 1 ms or 1/16 wavelength",
);

/// The seed of states and fading.
pub(super) const SEED: Opt = Opt::integer(
    "seed",
    0,
    i64::MAX as u64,
    "seed of the channel, the same in every run; the default is the seed of the run",
)
.field("motion.seed");

/// The environment of published parameters, which the planner looks up.
pub(super) const ENVIRONMENT: Opt =
    Opt::hook("environment", "", "environment", "environment of the published parameters")
        .required();

/// The elevation of the satellite.
pub(super) const ELEVATION: Opt = Opt::hook(
    "elevation",
    "look_angle.elevation_deg",
    "elevation_deg",
    "elevation of the satellite; `\"orbit\"`: elevation of the last satellite of `[orbit]`",
)
.required();

/// The azimuth of the satellite.
pub(super) const AZIMUTH: Opt = Opt::angle(
    "azimuth",
    "look_angle.azimuth_deg",
    "azimuth of the satellite from the direction of motion",
)
.default_number(0.0);

/// The distance at which Es/N0 is that of the reference; the planner wraps the channel into [`super::RangeLossSpec`].
pub(super) const SNR_RANGE: Opt = Opt::distance(
    "snr_range",
    "",
    "slant range at which Es/N0 is `snr`: Es/N0 follows the distance; requires `elevation = \"orbit\"`",
);

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

impl ReferenceSnr {
    /// Returns the estimate as the true reference.
    pub(super) fn estimate(&self) -> ReferenceSnr {
        ReferenceSnr { snr_db: self.snr_db + self.error_db, error_db: 0.0 }
    }

    /// Validates the specification.
    pub(super) fn validate(&self) -> ValidationResult {
        in_range("snr_db", self.snr_db, -100.0, 200.0)?;
        in_range("error_db", self.error_db, -100.0, 100.0)
    }
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

impl TerminalMotion {
    /// Returns the distance per step in metres.
    pub(crate) fn step_m(&self) -> f64 {
        self.speed_m_s * self.step_ns as f64 * 1e-9
    }

    /// Returns the distance per step in wavelengths.
    pub(crate) fn step_wavelengths(&self) -> f64 {
        self.step_m() * self.carrier_hz as f64 / SPEED_OF_LIGHT_M_S
    }

    /// Validates the specification.
    pub(super) fn validate(&self) -> ValidationResult {
        if self.speed_m_s <= 0.0 || self.carrier_hz == 0 {
            return Err("speed_m_s and carrier_hz must be above 0".into());
        }
        in_range("speed_m_s", self.speed_m_s, 0.0, 1e5)?;
        if self.step_ns < MIN_STEP_NS {
            return Err(format!("step_ns = {} is below 1 us", self.step_ns));
        }
        if self.step_ns > MAX_STEP_NS || self.step_wavelengths() > MAX_STEP_WAVELENGTHS {
            return Err(format!("step_ns = {} exceeds 1 ms or 1/16 wavelength", self.step_ns));
        }
        Ok(())
    }
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

impl LookAngle {
    /// Returns the component of the terminal's motion towards the satellite.
    pub(crate) fn along_motion(&self) -> f64 {
        let cos = |degrees: f64| libm::cos(degrees.to_radians());
        cos(self.elevation_deg) * cos(self.azimuth_deg)
    }

    /// Validates the specification.
    pub(super) fn validate(&self) -> ValidationResult {
        in_range("elevation_deg", self.elevation_deg, 0.0, 90.0)?;
        in_range("azimuth_deg", self.azimuth_deg, -360.0, 360.0)
    }
}

/// Validates a length along the terminal's path.
pub(super) fn in_metres(key: &str, value: f64) -> ValidationResult {
    in_range(key, value, 1e-3, 1e6)
}
