//! The serialisable specification of a channel.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A radio channel. Its signal-to-noise ratio is Es/N0, of a coded symbol.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ChannelSpec {
    /// White noise alone.
    Fixed {
        /// Es/N0, in dB.
        snr_db: f64,
    },
}
