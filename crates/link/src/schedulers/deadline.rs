//! Delay bounds of users, for the schedulers that weigh how long packets have waited.

use crate::checks::{ValidationResult, above_zero, in_order};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Opt, Span};

/// The option `delay`: 100 ms, with which LTE schedulers of calls are compared (Piro et al., LTE-Sim, 2011).
pub(super) const DELAY: Opt = Opt::duration("delay", "deadline.delay_ns", "bound of the delay")
    .min(1.0)
    .default_integer(100_000_000);

/// The option `violation_ratio`: 3 %, the losses that a call tolerates.
pub(super) const VIOLATION: Opt = Opt::probability(
    "violation_ratio",
    "share of packets that may exceed the bound, between 0 and 1",
)
.field("deadline.violation_ratio")
.default_number(0.03);

/// The option `best_effort`.
pub(super) const BEST_EFFORT: Opt =
    Opt::hook("best_effort", "deadline.best_effort", "users", "users or flows without a bound");

/// A delay bound with a maximum share of violations.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DeadlineSpec {
    /// The bound.
    pub delay_ns: u64,
    /// The share of packets that may exceed the bound.
    pub violation_ratio: f64,
    /// Users without a bound, in ascending order.
    pub best_effort: Vec<u32>,
}

impl DeadlineSpec {
    pub(super) fn validate(&self) -> ValidationResult {
        above_zero("delay_ns", self.delay_ns)?;
        in_order("best_effort", self.best_effort.iter().map(|user| u64::from(*user)))?;
        if self.violation_ratio > 0.0 && self.violation_ratio < 1.0 {
            Ok(())
        } else {
            Err(format!("violation_ratio = {} is not between 0 and 1", self.violation_ratio))
        }
    }
}

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
            rate: -libm::log(spec.violation_ratio) / spec.delay_ns as f64,
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
