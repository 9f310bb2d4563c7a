//! The serialisable specification of a queue and its transmitter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{QueueSpec, ReconfigurationSpec};

/// A queue before a transmitter.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TransmitSpec {
    /// The queue.
    pub queue: QueueSpec,
    /// The transmitter.
    pub service: ServiceSpec,
}

/// A change of the rate at `at_ns`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct RateChange {
    /// Time of the change; the rate applies from the next packet onwards.
    pub at_ns: u64,
    /// New rate, in bits per second.
    pub rate_bit_s: u64,
}

/// A transmitter.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ServiceSpec {
    /// A constant rate, with scheduled changes.
    Rate {
        /// Rate, in bits per second.
        rate_bit_s: u64,
        /// Scheduled changes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<RateChange>,
    },
    /// Delivery opportunities of a trace (Mahimahi): up to `opportunity_bytes` may depart at each instant.
    Trace {
        /// Times of the opportunities, in ascending order.
        opportunities_ns: Vec<u64>,
        /// Bytes per opportunity (Mahimahi: 1504).
        opportunity_bytes: u32,
        /// Period after which the trace repeats.
        repeat_ns: u64,
    },
    /// A random rate, drawn per reconfiguration interval.
    Reconfiguration {
        /// The reconfiguration intervals.
        reconfiguration: ReconfigurationSpec,
        /// Quantiles of the rate, in bits per second, for equally spaced probabilities from 0 to 1.
        rate_bit_s: Vec<u64>,
    },
}
