//! Proportional fair: the largest ratio of the channel's rate to its average (Tauran 2018, equations 6.3 and 6.4).
//! Jalali, Padovani and Pankaj (VTC 2000) average the served rate.

use units::Span;

use super::channel_aware::Metric;

/// `r / r-bar`.
#[derive(Debug)]
pub(super) struct ProportionalFair;

impl Metric for ProportionalFair {
    fn value(&self, _user_index: usize, _rate: f64, ratio: f64, _waited: Span) -> f64 {
        ratio
    }
}
