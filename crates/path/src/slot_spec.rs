//! What is drawn anew in each slot, each by its quantiles: values for equally spaced probabilities from 0 to 1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::slots::check_quantiles;
use crate::validate::{above_zero, probability};

pub use crate::slots::SlotsSpec;

/// A delay of slots.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SlotDelaySpec {
    /// When they begin.
    pub slots: SlotsSpec,
    /// The one-way delay of a slot without its jitter; both directions of a link have the same rank.
    pub delay_ns: Vec<u64>,
    /// What a step of a slot adds; empty: nothing.
    pub jitter_ns: Vec<u64>,
    /// How long a jitter holds.
    pub step_ns: u64,
    /// Of the Gaussian sequence behind the jitter, from step to step; 0 to less than 1.
    pub correlation: f64,
}

impl SlotDelaySpec {
    /// Says what is wrong with it.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.slots.check()?;
        check_quantiles("delay_ns", self.delay_ns.iter().map(|ns| *ns as f64))?;
        if !self.jitter_ns.is_empty() {
            check_quantiles("jitter_ns", self.jitter_ns.iter().map(|ns| *ns as f64))?;
        }
        above_zero("step_ns", self.step_ns)?;
        if !(0.0..1.0).contains(&self.correlation) {
            return Err(format!("correlation = {} is not from 0 to below 1", self.correlation));
        }
        Ok(())
    }

    /// The smallest delay.
    pub(crate) fn least_ns(&self) -> u64 {
        self.delay_ns.first().copied().unwrap_or(0) + self.jitter_ns.first().copied().unwrap_or(0)
    }
}

/// Losses of slots: bursts where one hands over to the next, and single packets in between.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SlotLossSpec {
    /// When they begin.
    pub slots: SlotsSpec,
    /// The probability with which each packet of a slot is lost by itself.
    pub probability: Vec<f64>,
    /// The chance that a slot begins with a burst, in which everything is lost.
    pub burst_probability: f64,
    /// How long such a burst is; empty only without bursts.
    pub burst_ns: Vec<u64>,
}

impl SlotLossSpec {
    /// Says what is wrong with it.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.slots.check()?;
        check_quantiles("probability", self.probability.iter().copied())?;
        self.probability.iter().try_for_each(|p| probability("probability", *p))?;
        probability("burst_probability", self.burst_probability)?;
        if self.burst_probability > 0.0 || !self.burst_ns.is_empty() {
            check_quantiles("burst_ns", self.burst_ns.iter().map(|ns| *ns as f64))?;
        }
        Ok(())
    }
}
