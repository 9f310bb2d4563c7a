//! The serialisable contact plan: whole numbers, the unit in the name, and with each entry where it was said.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A contact plan. Times are nanoseconds since its zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanSpec {
    /// What zero stands for: seconds since 1970 (UTC). None where the plan knows relative times only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_unix_s: Option<i64>,
    /// Nodes that are known beside those of the contacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// When who can send to whom.
    pub contacts: Vec<ContactSpec>,
    /// How far apart they are meanwhile.
    #[serde(default)]
    pub ranges: Vec<RangeSpec>,
    /// Who could send to whom before zero and cannot any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<OverSpec>,
}

/// One way between two nodes whose contacts are all over by zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OverSpec {
    /// Who has sent.
    pub from: String,
    /// Who has received.
    pub to: String,
}

/// A time in which a node can send to another, one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContactSpec {
    /// Who sends.
    pub from: String,
    /// Who receives.
    pub to: String,
    /// From when on.
    pub start_ns: u64,
    /// Until when; the last byte has left by then.
    pub stop_ns: u64,
    /// At which rate.
    pub rate_bit_s: u64,
    /// How likely it is; 1 is planned.
    #[serde(default = "certain")]
    pub confidence: f64,
    /// Where that is said, such as `line 3`.
    pub at: String,
}

/// How long light takes from a node to another for some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RangeSpec {
    /// Where a signal leaves.
    pub from: String,
    /// Where it arrives.
    pub to: String,
    /// From when on.
    pub start_ns: u64,
    /// Until when.
    pub stop_ns: u64,
    /// One-way light time.
    pub owlt_ns: u64,
    /// Whether it holds in the other direction too, wherever that has no range of its own.
    pub implies_reverse: bool,
    /// Where that is said.
    pub at: String,
}

fn certain() -> f64 {
    1.0
}
