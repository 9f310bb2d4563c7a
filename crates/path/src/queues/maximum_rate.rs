//! Maximum rate: who has the best channel, as long as it has it (Knopp and Humblet, ICC 1995). It carries most, and
//! nothing to who has a bad one.

use units::Span;

use super::by_channel::Metric;

/// The rate itself.
#[derive(Debug)]
pub(super) struct MaximumRate;

impl Metric for MaximumRate {
    fn value(&self, _slot: usize, rate: f64, _ratio: f64, _waited: Span) -> f64 {
        rate
    }
}
