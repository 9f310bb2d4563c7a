//! The serialisable specification of a queue and its transmitter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{PerUserSpec, SlotsSpec};

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

/// The limit of a queue, without the packet in service.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum QueueLimit {
    /// Maximum number of queued packets.
    Packets(u64),
    /// Maximum number of queued bytes. A larger packet never enters, even if the transmitter is idle.
    Bytes(u64),
}

/// A queue discipline.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueSpec {
    /// First in, first out; an arrival above the limit is dropped. No limit: unbounded.
    DropTail {
        /// The limit.
        limit: Option<QueueLimit>,
    },
    /// First in, first out; an arrival above the limit evicts the oldest packets at the front.
    DropHead {
        /// The limit.
        limit: Option<QueueLimit>,
    },
    /// CoDel (RFC 8289).
    Codel {
        /// The limit.
        limit: Option<QueueLimit>,
        /// Target sojourn time.
        target_ns: u64,
        /// Interval.
        interval_ns: u64,
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool,
    },
    /// FQ-CoDel (RFC 8290).
    FqCodel {
        /// Limit in packets over all queues.
        limit_packets: u64,
        /// Number of hash buckets for flows.
        flows: u32,
        /// Bytes that a queue may send per round.
        quantum_bytes: u32,
        /// CoDel's target.
        target_ns: u64,
        /// CoDel's interval.
        interval_ns: u64,
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool,
    },
    /// One queue per user.
    PerUser(PerUserSpec),
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
    /// Delivery opportunities of a trace (Mahimahi): up to `slot_bytes` may depart at each instant.
    Trace {
        /// Times of the opportunities, in ascending order.
        slots_ns: Vec<u64>,
        /// Bytes per opportunity (Mahimahi: 1504).
        slot_bytes: u32,
        /// Period after which the trace repeats.
        repeat_ns: u64,
    },
    /// A random rate, drawn per time slot.
    Slots {
        /// The time slots.
        slots: SlotsSpec,
        /// Quantiles of the rate, in bits per second, for equally spaced probabilities from 0 to 1.
        rate_bit_s: Vec<u64>,
    },
}
