//! Properties drawn per time slot, each by its quantiles: values for equally spaced probabilities from 0 to 1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::checks::{above_zero, check_quantiles};

pub use crate::time_slots::ReconfigurationSpec;

/// A delay drawn per time slot.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ReconfigurationDelaySpec {
    /// The reconfiguration intervals.
    pub reconfiguration: ReconfigurationSpec,
    /// One-way delay of a slot without jitter; both directions of a link use the same rank.
    pub delay_ns: Vec<u64>,
    /// Additional delay per jitter step of a slot; empty: no jitter.
    pub jitter_ns: Vec<u64>,
    /// Length of a jitter step.
    pub step_ns: u64,
    /// Correlation of the Gaussian sequence of the jitter from step to step; 0 to less than 1.
    pub correlation: f64,
}

impl ReconfigurationDelaySpec {
    /// Validates the specification.
    pub(crate) fn validate(&self) -> Result<(), String> {
        self.reconfiguration.validate()?;
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

    /// Returns the largest delay.
    pub(crate) fn max_ns(&self) -> u64 {
        self.delay_ns.last().copied().unwrap_or(0) + self.jitter_ns.last().copied().unwrap_or(0)
    }

    /// Returns the smallest delay.
    pub(crate) fn min_ns(&self) -> u64 {
        self.delay_ns.first().copied().unwrap_or(0) + self.jitter_ns.first().copied().unwrap_or(0)
    }
}
