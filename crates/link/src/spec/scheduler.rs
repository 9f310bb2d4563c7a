//! The serialisable specification of queues per user and of their scheduler.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::QueueLimit;
use crate::validate::{above_zero, in_order};

/// Maximum number of users of a link; user numbers are below it.
pub const MAX_USERS: u32 = 65_536;

/// History of a channel in nanoseconds.
const CHANNEL_HISTORY_NS: u64 = 1_000_000_000;

/// One queue per user, first in, first out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PerUserSpec {
    /// The scheduler.
    pub scheduler: SchedulerSpec,
    /// Limit of the queue of each user.
    pub limit: Option<QueueLimit>,
    /// Limit of all queues together. An arrival above it evicts packets from the tail of the longest queue.
    pub total: Option<QueueLimit>,
    /// Age of the channel state at the scheduler.
    pub channel_delay_ns: u64,
}

/// A scheduler of users. A rate is the mutual information per coded bit of a user's channel.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum SchedulerSpec {
    /// One packet per user in turn.
    RoundRobin,
    /// Equal bytes per user in turn, scaled by weights.
    DeficitRoundRobin {
        /// Bytes per turn of a user with weight 1.
        quantum_bytes: u32,
        /// Users and their weights, in ascending order; other users have weight 1.
        weights: Vec<(u32, f64)>,
    },
    /// The user with the largest rate.
    MaximumRate,
    /// The user with the largest ratio of rate to average rate.
    ProportionalFair {
        /// The average.
        average: AverageSpec,
    },
    /// Proportional fair with a limit: packets that have waited too long are dropped.
    Codes {
        /// The average.
        average: AverageSpec,
        /// Maximum waiting time of a packet.
        time_limit_ns: u64,
    },
    /// Modified largest weighted delay first (M-LWDF).
    MLwdf {
        /// The average.
        average: AverageSpec,
        /// The delay target.
        deadline: DeadlineSpec,
    },
    /// Exponential proportional fair (EXP-PF).
    ExpPf {
        /// The average.
        average: AverageSpec,
        /// The delay target.
        deadline: DeadlineSpec,
    },
    /// An external scheduler.
    #[serde(rename = "own")]
    External(ExternalSchedulerSpec),
}

/// A scheduler that is implemented outside of this crate.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ExternalSchedulerSpec {
    /// Its name in the scenario.
    #[serde(rename = "called")]
    pub scheduler_name: String,
    /// Its options as JSON.
    pub options_json: String,
}

/// An exponential average of a user's rates.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AverageSpec {
    /// The averaged quantity.
    #[serde(rename = "of")]
    pub quantity: AveragedQuantity,
    /// The time constant.
    pub window_ns: u64,
}

/// The quantity to average.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum AveragedQuantity {
    /// The rate of the channel.
    Channel,
    /// The decoded bytes.
    Served,
}

/// A delay bound with a maximum share of violations.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DeadlineSpec {
    /// The bound.
    pub delay_ns: u64,
    /// The share of packets that may exceed the bound.
    pub violation: f64,
    /// Users without a bound, in ascending order.
    pub best_effort: Vec<u32>,
}

impl PerUserSpec {
    /// Validates the specification.
    pub(crate) fn validate(&self) -> Result<(), String> {
        if self.channel_delay_ns > CHANNEL_HISTORY_NS {
            return Err("channel_delay_ns is above one second".into());
        }
        match &self.scheduler {
            SchedulerSpec::RoundRobin | SchedulerSpec::MaximumRate | SchedulerSpec::External(_) => {
                Ok(())
            }
            SchedulerSpec::DeficitRoundRobin { quantum_bytes, weights } => {
                above_zero("quantum_bytes", u64::from(*quantum_bytes))?;
                in_order("weights", weights.iter().map(|(user, _)| u64::from(*user)))?;
                match weights.iter().find(|(_, weight)| !(1e-3..=1e6).contains(weight)) {
                    Some((user, weight)) => Err(format!(
                        "weights: {weight} of user {user} is not between 0.001 and 1,000,000"
                    )),
                    None => Ok(()),
                }
            }
            SchedulerSpec::ProportionalFair { average } => average.validate(),
            SchedulerSpec::Codes { average, time_limit_ns } => {
                average.validate()?;
                above_zero("time_limit_ns", *time_limit_ns)
            }
            SchedulerSpec::MLwdf { average, deadline }
            | SchedulerSpec::ExpPf { average, deadline } => {
                average.validate()?;
                deadline.validate()
            }
        }
    }
}

impl AverageSpec {
    fn validate(&self) -> Result<(), String> {
        above_zero("window_ns", self.window_ns)
    }
}

impl DeadlineSpec {
    fn validate(&self) -> Result<(), String> {
        above_zero("delay_ns", self.delay_ns)?;
        in_order("best_effort", self.best_effort.iter().map(|user| u64::from(*user)))?;
        if self.violation > 0.0 && self.violation < 1.0 {
            Ok(())
        } else {
            Err(format!("violation = {} is not between 0 and 1", self.violation))
        }
    }
}
