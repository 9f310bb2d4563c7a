//! M-LWDF, modified largest weighted delay first (Andrews, Kumaran, Ramanan, Stolyar, Whiting and Vijayakumar, IEEE
//! Communications Magazine 39(2), 2001): `a W r / r-bar`. W is the waiting time of the head-of-line packet,
//! `a = -log(d) / T` for a delay above T in a share d of packets. The metric of users without a bound is `r / r-bar`.

use units::Span;

use super::channel_aware::Metric;
use crate::DeadlineSpec;

/// The urgency of users with a deadline.
#[derive(Debug)]
pub(super) struct Urgency {
    /// `a`, per nanosecond.
    rate: f64,
    best_effort: Vec<u32>,
    /// `a` by user index; `None` for best effort.
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

    pub fn add_user(&mut self, user: u32) {
        let bound = self.best_effort.binary_search(&user).is_err();
        self.users.push(bound.then_some(self.rate));
    }

    /// Returns `a W`; `None` for best effort.
    pub fn value(&self, user_index: usize, waited: Span) -> Option<f64> {
        self.users[user_index].map(|rate| rate * waited.nanos() as f64)
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
    fn add_user(&mut self, user: u32) {
        self.0.add_user(user);
    }

    fn value(&self, user_index: usize, _rate: f64, ratio: f64, waited: Span) -> f64 {
        self.0.value(user_index, waited).unwrap_or(1.0) * ratio
    }
}
