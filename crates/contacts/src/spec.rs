//! The serialisable contact plan: integers with the unit in the name, and the location of each declaration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A contact plan. Times are nanoseconds since its zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanSpec {
    /// The zero of the plan in seconds since 1970 (UTC), or `None` for a plan with relative times only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch_unix_s: Option<i64>,
    /// Additional nodes besides those of the contacts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The contacts.
    pub contacts: Vec<ContactSpec>,
    /// The ranges.
    #[serde(default)]
    pub ranges: Vec<RangeSpec>,
    /// The pairs with contacts before zero and none after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expired_pairs: Vec<ExpiredPairSpec>,
}

/// A direction between two nodes with expired contacts only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpiredPairSpec {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
}

/// A time during which a node can send to another, in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContactSpec {
    /// The sender.
    pub from: String,
    /// The receiver.
    pub to: String,
    /// The start.
    pub start_ns: u64,
    /// The end, by which the last byte has been sent.
    pub stop_ns: u64,
    /// The rate.
    pub rate_bit_s: u64,
    /// The probability; 1 means planned.
    #[serde(default = "certain")]
    pub confidence: f64,
    /// The location of the declaration, such as `line 3`.
    pub declared_at: String,
}

/// The light time from a node to another during an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RangeSpec {
    /// The sender of the signal.
    pub from: String,
    /// The receiver of the signal.
    pub to: String,
    /// The start.
    pub start_ns: u64,
    /// The end.
    pub stop_ns: u64,
    /// The one-way light time.
    pub owlt_ns: u64,
    /// Whether the range also applies to the reverse direction, where that has no explicit range.
    pub implies_reverse: bool,
    /// The location of the declaration.
    pub declared_at: String,
}

fn certain() -> f64 {
    1.0
}
