//! EXP-PF, exponential proportional fair.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Span, Time};

use super::channel_aware::{AVERAGE, CHANNEL_DELAY, ChannelAware, Metric, WINDOW};
use super::deadline::{BEST_EFFORT, DELAY, Urgency, VIOLATION};
use super::{ExternalScheduler, HeadOfLine, Scheduler, SchedulerFactory};
use crate::checks::ValidationResult;
use crate::{AverageSpec, DeadlineSpec};

/// Exponential proportional fair (EXP-PF).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ExpPfSpec {
    /// The average.
    pub average: AverageSpec,
    /// The delay target.
    pub deadline: DeadlineSpec,
}

impl ExpPfSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "exp-pf",
        spec_kind: "exp_pf",
        aliases: &["exppf"],
        title: "Exponential proportional fair",
        reference: "Rhee, Holtzman and Kim, VTC 2003",
        options: &[AVERAGE, WINDOW, CHANNEL_DELAY, DELAY, VIOLATION, BEST_EFFORT],
        draws: false,
        live_name: "",
    };
}

impl SchedulerFactory for ExpPfSpec {
    fn validate(&self) -> ValidationResult {
        self.average.validate()?;
        self.deadline.validate()
    }

    fn build(
        &self,
        channel_delay: Span,
        _: Option<Box<dyn ExternalScheduler>>,
    ) -> Box<dyn Scheduler> {
        Box::new(ChannelAware::new(ExpPf::new(&self.deadline), Some(self.average), channel_delay))
    }
}

/// EXP-PF, exponential proportional fair (Rhee, Holtzman and Kim, VTC 2003):
/// `exp((a W - X) / (1 + sqrt(X))) r / r-bar`. X is the mean of `a W` over the backlogged users with a deadline; `a`
/// and W are those of M-LWDF. The metric of users without a deadline is `r / r-bar`.
#[derive(Debug)]
pub(super) struct ExpPf {
    urgency: Urgency,
    /// X, and `1 / (1 + sqrt(X))`.
    mean: f64,
    slope: f64,
}

impl ExpPf {
    pub fn new(spec: &DeadlineSpec) -> ExpPf {
        ExpPf { urgency: Urgency::new(spec), mean: 0.0, slope: 1.0 }
    }
}

impl Metric for ExpPf {
    fn add_user(&mut self, user: u32) {
        self.urgency.add_user(user);
    }

    fn update(&mut self, now: Time, heads: &[HeadOfLine]) {
        let (mut sum, mut count) = (0.0, 0u32);
        for (user_index, head) in heads.iter().enumerate().filter(|(_, head)| head.is_some()) {
            if let Some(urgency) = self.urgency.value(user_index, now.since(head.arrived)) {
                sum += urgency;
                count += 1;
            }
        }
        self.mean = sum / f64::from(count.max(1));
        self.slope = 1.0 / (1.0 + libm::sqrt(self.mean));
    }

    fn value(&self, user_index: usize, _rate: f64, ratio: f64, waited: Span) -> f64 {
        match self.urgency.value(user_index, waited) {
            Some(urgency) => libm::exp((urgency - self.mean) * self.slope) * ratio,
            None => ratio,
        }
    }
}
