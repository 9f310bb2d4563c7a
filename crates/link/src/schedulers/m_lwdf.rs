//! M-LWDF, modified largest weighted delay first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Span};

use super::channel_aware::{AVERAGE, CHANNEL_DELAY, ChannelAware, Metric, WINDOW};
use super::deadline::{BEST_EFFORT, DELAY, Urgency, VIOLATION};
use super::{ExternalScheduler, Scheduler, SchedulerFactory};
use crate::checks::ValidationResult;
use crate::{AverageSpec, DeadlineSpec};

/// Modified largest weighted delay first (M-LWDF).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MLwdfSpec {
    /// The average.
    pub average: AverageSpec,
    /// The delay target.
    pub deadline: DeadlineSpec,
}

impl MLwdfSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "m-lwdf",
        spec_kind: "m_lwdf",
        aliases: &["mlwdf"],
        title: "Modified largest weighted delay first",
        reference: "Andrews et al., IEEE Communications Magazine 39(2), 2001",
        options: &[AVERAGE, WINDOW, CHANNEL_DELAY, DELAY, VIOLATION, BEST_EFFORT],
        draws: false,
        live_name: "",
    };
}

impl SchedulerFactory for MLwdfSpec {
    fn validate(&self) -> ValidationResult {
        self.average.validate()?;
        self.deadline.validate()
    }

    fn build(
        &self,
        channel_delay: Span,
        _: Option<Box<dyn ExternalScheduler>>,
    ) -> Box<dyn Scheduler> {
        Box::new(ChannelAware::new(MLwdf::new(&self.deadline), Some(self.average), channel_delay))
    }
}

/// M-LWDF, modified largest weighted delay first (Andrews, Kumaran, Ramanan, Stolyar, Whiting and Vijayakumar, IEEE
/// Communications Magazine 39(2), 2001): `a W r / r-bar`. W is the waiting time of the head-of-line packet,
/// `a = -log(d) / T` for a delay above T in a share d of packets. The metric of users without a bound is `r / r-bar`.
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
