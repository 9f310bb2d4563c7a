//! Proportional fair: who has the best channel beside its own average (Tauran 2018, equations 6.3 and 6.4; Jalali,
//! Padovani and Pankaj, VTC 2000, whose average is of what was served).

use units::Span;

use super::by_channel::Metric;

/// `r / r-bar`.
#[derive(Debug)]
pub(super) struct ProportionalFair;

impl Metric for ProportionalFair {
    fn value(&self, _slot: usize, _rate: f64, ratio: f64, _waited: Span) -> f64 {
        ratio
    }
}
