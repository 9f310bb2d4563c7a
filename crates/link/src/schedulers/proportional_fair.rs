//! Proportional fair.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Span};

use super::channel_aware::{AVERAGE, CHANNEL_DELAY, ChannelAware, Metric, WINDOW};
use super::{ExternalScheduler, Scheduler, SchedulerFactory};
use crate::AverageSpec;
use crate::checks::ValidationResult;

/// The user with the largest ratio of rate to average rate.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ProportionalFairSpec {
    /// The average.
    pub average: AverageSpec,
}

impl ProportionalFairSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "proportional-fair",
        spec_kind: "proportional_fair",
        aliases: &["pf"],
        title: "The user with the largest ratio of rate to average rate",
        reference: "Tauran 2018, equations 6.3 and 6.4; Jalali, Padovani and Pankaj, VTC 2000",
        options: &[AVERAGE, WINDOW, CHANNEL_DELAY],
        draws: false,
        live_name: "",
    };
}

impl SchedulerFactory for ProportionalFairSpec {
    fn validate(&self) -> ValidationResult {
        self.average.validate()
    }

    fn build(
        &self,
        channel_delay: Span,
        _: Option<Box<dyn ExternalScheduler>>,
    ) -> Box<dyn Scheduler> {
        Box::new(ChannelAware::new(ProportionalFair, Some(self.average), channel_delay))
    }
}

/// Proportional fair: the largest ratio of the channel's rate to its average, `r / r-bar` (Tauran 2018, equations 6.3
/// and 6.4). Jalali, Padovani and Pankaj (VTC 2000) average the served rate.
#[derive(Debug)]
pub(super) struct ProportionalFair;

impl Metric for ProportionalFair {
    fn value(&self, _user_index: usize, _rate: f64, ratio: f64, _waited: Span) -> f64 {
        ratio
    }
}
