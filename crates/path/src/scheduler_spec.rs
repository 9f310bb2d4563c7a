//! The serialisable specification of a queue for each user, and of who decides whose packet goes next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Limit;
use crate::validate::{above_zero, in_order};

/// Users that a link can have: their numbers are below.
pub const MOST_USERS: u32 = 65_536;

/// How far back a channel answers.
const PAST_NS: u64 = 1_000_000_000;

/// A queue for each user, first in, first out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PerUserSpec {
    /// Whose packet goes next.
    pub scheduler: SchedulerSpec,
    /// What bounds each user's queue.
    pub limit: Option<Limit>,
    /// What bounds all of them together: who finds no room takes that of the last of the longest queue.
    pub total: Option<Limit>,
    /// How late the scheduler knows the channel.
    pub channel_delay_ns: u64,
}

/// Who decides whose packet goes next. A rate is the mutual information per coded bit that a user's channel has.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum SchedulerSpec {
    /// One packet of each user in turn.
    RoundRobin,
    /// As many bytes of each user in turn.
    DeficitRoundRobin {
        /// Bytes a user of weight 1 may send in its turn.
        quantum_bytes: u32,
        /// Users and their weights, in order; those that are not here have weight 1.
        weights: Vec<(u32, f64)>,
    },
    /// Who has the largest rate.
    MaximumRate,
    /// Who has the largest rate beside its average.
    ProportionalFair {
        /// The average.
        average: AverageSpec,
    },
    /// Proportional fair; who has waited for too long is dropped.
    Codes {
        /// The average.
        average: AverageSpec,
        /// How long a packet waits at most.
        time_limit_ns: u64,
    },
    /// Modified largest weighted delay first.
    MLwdf {
        /// The average.
        average: AverageSpec,
        /// What is asked for.
        deadline: DeadlineSpec,
    },
    /// Exponential proportional fair.
    ExpPf {
        /// The average.
        average: AverageSpec,
        /// What is asked for.
        deadline: DeadlineSpec,
    },
    /// One that is given from outside.
    Own(OwnSpec),
}

/// A scheduler that is given from outside.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OwnSpec {
    /// What the scenario calls it.
    pub called: String,
    /// Its options, as JSON.
    pub options_json: String,
}

/// An exponential average of a user's rates.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AverageSpec {
    /// Of which.
    pub of: Averaged,
    /// Its time constant.
    pub window_ns: u64,
}

/// What is averaged.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Averaged {
    /// What the channel could have carried.
    Channel,
    /// What was decoded.
    Served,
}

/// A bound of the delay that only a few packets may exceed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DeadlineSpec {
    /// The bound.
    pub delay_ns: u64,
    /// The share that may exceed it.
    pub violation: f64,
    /// Users without such a bound, in order.
    pub best_effort: Vec<u32>,
}

impl PerUserSpec {
    /// Says what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.channel_delay_ns > PAST_NS {
            return Err("channel_delay_ns is above one second".into());
        }
        match &self.scheduler {
            SchedulerSpec::RoundRobin | SchedulerSpec::MaximumRate | SchedulerSpec::Own(_) => {
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
            SchedulerSpec::ProportionalFair { average } => average.check(),
            SchedulerSpec::Codes { average, time_limit_ns } => {
                average.check()?;
                above_zero("time_limit_ns", *time_limit_ns)
            }
            SchedulerSpec::MLwdf { average, deadline }
            | SchedulerSpec::ExpPf { average, deadline } => {
                average.check()?;
                deadline.check()
            }
        }
    }
}

impl AverageSpec {
    fn check(&self) -> Result<(), String> {
        above_zero("window_ns", self.window_ns)
    }
}

impl DeadlineSpec {
    fn check(&self) -> Result<(), String> {
        above_zero("delay_ns", self.delay_ns)?;
        in_order("best_effort", self.best_effort.iter().map(|user| u64::from(*user)))?;
        if self.violation > 0.0 && self.violation < 1.0 {
            Ok(())
        } else {
            Err(format!("violation = {} is not between 0 and 1", self.violation))
        }
    }
}
