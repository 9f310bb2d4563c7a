//! The two ways of a path.

use serde::{Deserialize, Serialize};

/// A way of a path, of a link and of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Client to server.
    Up,
    /// Server to client.
    Down,
}
