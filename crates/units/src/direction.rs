//! The two ways of a path.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A way of a path, of a link and of data.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Client to server.
    Up,
    /// Server to client.
    Down,
}
