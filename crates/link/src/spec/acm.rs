//! The serialisable specification of a link with adaptive coding and modulation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt};

use crate::{ChannelSpec, QueueSpec};

/// A queue before a link that adapts modulation and code to the receivers' reports.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct AcmSpec {
    /// The queue.
    pub queue: QueueSpec,
    /// The channel.
    pub channel: ChannelSpec,
    /// Symbol rate in symbols per second.
    pub symbols_s: u64,
    /// Modulations and codes, in ascending order of rate and required Es/N0.
    pub modes: Vec<ModcodSpec>,
    /// Margin of the reported Es/N0 above the threshold of a mode, in dB.
    pub margin_db: f64,
    /// Additional margin for a switch to a faster mode, in dB.
    pub hysteresis_db: f64,
    /// Interval between reports.
    pub report_interval_ns: u64,
    /// Delay of a report.
    pub report_delay_ns: u64,
}

/// A modulation and a code.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ModcodSpec {
    /// Minimum Es/N0 for decoding, in dB.
    pub es_n0_db: f64,
    /// Data bits of a frame.
    pub data_bits: u64,
    /// Coded bits of a frame.
    pub coded_bits: u64,
    /// Symbols of a frame.
    pub symbols: u64,
}

/// Maximum report delay: the history of a channel.
const MAX_REPORT_DELAY_NS: u64 = 1_000_000_000;

impl AcmSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "acm",
        spec_kind: "acm",
        aliases: &[],
        title: "Adaptive coding and modulation: the rate follows the reports of the receivers",
        reference: "ETSI EN 302 307-1",
        options: &[
            Opt::symbol_rate("symbol_rate", "symbols_s", "symbols per second").required(),
            Opt::duration("report_delay", "report_delay_ns", "delay of a report of the channel")
                .max(MAX_REPORT_DELAY_NS as f64)
                .required(),
            Opt::duration("report_interval", "report_interval_ns", "interval between reports")
                .min(1.0)
                .default_integer(100_000_000),
            Opt::decibels("margin", "margin_db", "reported Es/N0 above the threshold of a mode")
                .min(0.0)
                .max(100.0)
                .default_number(0.0),
            Opt::decibels("hysteresis", "hysteresis_db", "additional margin for a faster mode")
                .min(0.0)
                .max(100.0)
                .default_number(0.0),
            Opt::hook(
                "modes",
                "modes",
                "modes",
                "modes in use, such as `[\"QPSK 1/4\", \"8PSK 3/4\"]`; the default is all of DVB-S2",
            ),
            Opt::hook("", "*", "queue_and_channel", "queue and channel of the direction"),
        ],
        draws: false,
        live_name: "",
    };

    /// Returns the data rate of a mode in bits per second.
    pub(crate) fn rate_bit_s(&self, mode: &ModcodSpec) -> u64 {
        let bits = u128::from(self.symbols_s) * u128::from(mode.data_bits);
        (bits / u128::from(mode.symbols)) as u64
    }

    /// Returns the largest data rate of all modes.
    pub(crate) fn max_rate_bit_s(&self) -> u64 {
        self.modes.iter().map(|mode| self.rate_bit_s(mode)).max().unwrap_or(0)
    }

    /// Validates the specification without its queue.
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.channel.factory().validate().map_err(|message| format!("channel: {message}"))?;
        if self.symbols_s == 0 || self.report_interval_ns == 0 {
            return Err("symbols_s and report_interval_ns must be above 0".into());
        }
        if self.report_delay_ns > MAX_REPORT_DELAY_NS {
            return Err("report_delay_ns exceeds 1 s, the longest history of a channel".into());
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
                return Err(format!("modes: {mode:?} has a rate of 0"));
            }
        }
        let rises = self.modes.windows(2).all(|pair| {
            let faster = self.rate_bit_s(&pair[0]) < self.rate_bit_s(&pair[1]);
            faster && pair[0].es_n0_db < pair[1].es_n0_db
        });
        if rises {
            Ok(())
        } else {
            Err("modes: each must be faster than the previous mode and need more Es/N0".into())
        }
    }
}
