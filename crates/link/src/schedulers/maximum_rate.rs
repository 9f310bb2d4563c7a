//! Maximum rate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Span};

use super::channel_aware::{CHANNEL_DELAY, ChannelAware, Metric};
use super::{ExternalScheduler, Scheduler, SchedulerFactory};

/// The user with the largest rate.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MaximumRateSpec {}

impl MaximumRateSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "maximum-rate",
        spec_kind: "maximum_rate",
        aliases: &["max-rate", "mr"],
        title: "The user with the best channel",
        reference: "Knopp and Humblet, ICC 1995",
        options: &[CHANNEL_DELAY],
        draws: false,
        live_name: "",
    };
}

impl SchedulerFactory for MaximumRateSpec {
    fn build(
        &self,
        channel_delay: Span,
        _: Option<Box<dyn ExternalScheduler>>,
    ) -> Box<dyn Scheduler> {
        Box::new(ChannelAware::new(MaximumRate, None, channel_delay))
    }
}

/// Maximum rate: serves the user with the best channel (Knopp and Humblet, ICC 1995). It maximises the throughput and
/// starves users with a bad channel. The metric is the rate itself.
#[derive(Debug)]
pub(super) struct MaximumRate;

impl Metric for MaximumRate {
    fn value(&self, _user_index: usize, rate: f64, _ratio: f64, _waited: Span) -> f64 {
        rate
    }
}
