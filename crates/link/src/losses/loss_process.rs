//! The boundary of a loss model: its specification and its state.

use units::{RandomStream, Time};

use crate::checks::ValidationResult;

/// The specification of a loss model.
pub(crate) trait LossFactory {
    /// Validates the specification.
    fn validate(&self) -> ValidationResult;

    /// Builds the loss process of simplex link `name` in run `seed`; `random` is the stream of the packets' draws.
    fn build(&self, name: &str, seed: u64, random: &mut RandomStream) -> Box<dyn LossProcess>;
}

/// A loss model with its state.
pub(crate) trait LossProcess: Send + std::fmt::Debug {
    /// Returns whether the packet that arrives at `at` is lost. A model draws equally often for every packet, so that
    /// runs with different probabilities use the same random numbers.
    fn is_lost(&mut self, at: Time, random: &mut RandomStream) -> bool;
}
