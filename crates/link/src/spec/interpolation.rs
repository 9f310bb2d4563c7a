//! The interpolation between points.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The interpolation between the points of a trace.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The value of the last point.
    Step,
    /// Linear between points.
    Linear,
}
