//! The serialisable specification of a link with adaptive coding and modulation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ChannelSpec, QueueSpec};

/// A queue before a link whose modulation and code follow what its receivers report.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AcmSpec {
    /// The queue.
    pub queue: QueueSpec,
    /// The channel.
    pub channel: ChannelSpec,
    /// Symbols per second.
    pub symbols_s: u64,
    /// Modulations and codes, each faster than the one before and in need of more.
    pub modes: Vec<ModeSpec>,
    /// How much more than a mode needs must be reported for it, in dB.
    pub margin_db: f64,
    /// How much more again for a faster one than the one in use, in dB.
    pub hysteresis_db: f64,
    /// From one report to the next.
    pub report_interval_ns: u64,
    /// How long a report is on its way.
    pub report_delay_ns: u64,
}

/// A modulation and a code.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ModeSpec {
    /// Es/N0 from which on it is decoded, in dB.
    pub es_n0_db: f64,
    /// Bits of a frame that are packets'.
    pub data_bits: u64,
    /// Bits of a frame with its code.
    pub coded_bits: u64,
    /// Symbols of a frame.
    pub symbols: u64,
}

/// How far back a channel answers.
const LONGEST_DELAY_NS: u64 = 1_000_000_000;

impl AcmSpec {
    /// Bits of packets per second in a mode.
    pub(crate) fn rate_bit_s(&self, mode: &ModeSpec) -> u64 {
        let bits = u128::from(self.symbols_s) * u128::from(mode.data_bits);
        (bits / u128::from(mode.symbols)) as u64
    }

    /// The fastest it ever is.
    pub(crate) fn most_rate_bit_s(&self) -> u64 {
        self.modes.iter().map(|mode| self.rate_bit_s(mode)).max().unwrap_or(0)
    }

    /// What is wrong with it, but for its queue.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.channel.check().map_err(|message| format!("channel: {message}"))?;
        if self.symbols_s == 0 || self.report_interval_ns == 0 {
            return Err("symbols_s and report_interval_ns must be above 0".into());
        }
        if self.report_delay_ns > LONGEST_DELAY_NS {
            return Err("report_delay_ns exceeds 1 s, as far back as a channel answers".into());
        }
        for (key, value) in [("margin_db", self.margin_db), ("hysteresis_db", self.hysteresis_db)] {
            if !(0.0..=100.0).contains(&value) {
                return Err(format!("{key} = {value} is not between 0 and 100"));
            }
        }
        if self.modes.is_empty() {
            return Err("modes is empty".into());
        }
        for mode in &self.modes {
            let known = mode.es_n0_db.is_finite() && mode.symbols > 0;
            if !known || mode.coded_bits < mode.data_bits || self.rate_bit_s(mode) == 0 {
                return Err(format!("modes: {mode:?} carries nothing"));
            }
        }
        let rises = self.modes.windows(2).all(|pair| {
            let faster = self.rate_bit_s(&pair[0]) < self.rate_bit_s(&pair[1]);
            faster && pair[0].es_n0_db < pair[1].es_n0_db
        });
        if rises { Ok(()) } else { Err("modes: each must be faster and need more Es/N0".into()) }
    }
}
