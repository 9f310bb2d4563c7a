//! Maximum rate: serves the user with the best channel (Knopp and Humblet, ICC 1995). It maximises the throughput and
//! starves users with a bad channel.

use units::Span;

use super::channel_aware::Metric;

/// The rate itself.
#[derive(Debug)]
pub(super) struct MaximumRate;

impl Metric for MaximumRate {
    fn value(&self, _user_index: usize, rate: f64, _ratio: f64, _waited: Span) -> f64 {
        rate
    }
}
