//! M-LWDF, modified largest weighted delay first (Andrews, Kumaran, Ramanan, Stolyar, Whiting and Vijayakumar, IEEE
//! Communications Magazine 39(2), 2001): `a W r / r-bar`, W how long the first packet has waited, `a = -log(d) / T` for a
//! delay above T in a share d of packets. Who has no such bound competes by `r / r-bar` alone.

use units::Span;

use super::by_channel::Metric;
use crate::DeadlineSpec;

/// How urgent who has a deadline is.
#[derive(Debug)]
pub(super) struct Urgency {
    /// `a`, per nanosecond.
    rate: f64,
    best_effort: Vec<u32>,
    /// By slot: `a`; none: best effort.
    users: Vec<Option<f64>>,
}

impl Urgency {
    pub fn new(spec: &DeadlineSpec) -> Urgency {
        Urgency {
            rate: -libm::log(spec.violation) / spec.delay_ns as f64,
            best_effort: spec.best_effort.clone(),
            users: Vec::new(),
        }
    }

    pub fn came(&mut self, user: u32) {
        let bound = self.best_effort.binary_search(&user).is_err();
        self.users.push(bound.then_some(self.rate));
    }

    /// `a W`; none: best effort.
    pub fn of(&self, slot: usize, waited: Span) -> Option<f64> {
        self.users[slot].map(|rate| rate * waited.nanos() as f64)
    }
}

/// `a W r / r-bar`.
#[derive(Debug)]
pub(super) struct MLwdf(Urgency);

impl MLwdf {
    pub fn new(spec: &DeadlineSpec) -> MLwdf {
        MLwdf(Urgency::new(spec))
    }
}

impl Metric for MLwdf {
    fn came(&mut self, user: u32) {
        self.0.came(user);
    }

    fn value(&self, slot: usize, _rate: f64, ratio: f64, waited: Span) -> f64 {
        self.0.of(slot, waited).unwrap_or(1.0) * ratio
    }
}
