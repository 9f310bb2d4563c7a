//! The serialisable specification of a line: its stages. Numbers are whole and carry their unit in
//! their name; nothing here has a default that a reader could not see, because the plan writes
//! every field.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::blueprint::Blueprint;
use crate::{
    AcmSpec, Change, DelaySpec, DelayTraceSpec, JitterSpec, LossSpec, NetemSpec, NrSpec,
    OutageSpec, PerUserSpec, RadioSpec, ReorderSpec, SlotDelaySpec, SlotsSpec,
};

/// One stage. What is known of each is said where its table is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StageSpec {
    /// A constant delay.
    Delay(DelaySpec),
    /// A delay that follows a trace; before the first point the first value holds.
    DelayTrace(DelayTraceSpec),
    /// A delay that is drawn anew in each slot.
    SlotDelay(SlotDelaySpec),
    /// A queue before a transmitter.
    Transmit(TransmitSpec),
    /// A queue before a radio link.
    Radio(RadioSpec),
    /// A queue before a 5G link.
    Nr(Box<NrSpec>),
    /// A queue before a link with adaptive coding and modulation.
    Acm(Box<AcmSpec>),
    /// Linux netem's `rate` + `delay` + `limit` in one: the limit counts the packets in the delay
    /// line too.
    Netem(NetemSpec),
    /// Packet loss.
    Loss(LossSpec),
    /// Random extra delay per packet.
    Jitter(JitterSpec),
    /// Some packets are held back by a fixed time, so that later ones overtake them.
    Reorder(ReorderSpec),
    /// Periods in which nothing passes.
    Outage(OutageSpec),
}

impl StageSpec {
    /// The table of the kind that it is.
    pub(crate) fn blueprint(&self) -> &dyn Blueprint {
        match self {
            StageSpec::Delay(spec) => spec,
            StageSpec::DelayTrace(spec) => spec,
            StageSpec::SlotDelay(spec) => spec,
            StageSpec::Transmit(spec) => spec,
            StageSpec::Radio(spec) => spec,
            StageSpec::Nr(spec) => &**spec,
            StageSpec::Acm(spec) => &**spec,
            StageSpec::Netem(spec) => spec,
            StageSpec::Loss(spec) => spec,
            StageSpec::Jitter(spec) => spec,
            StageSpec::Reorder(spec) => spec,
            StageSpec::Outage(spec) => spec,
        }
    }

    /// Whether a stage of this specification can be changed so.
    pub fn takes(&self, change: &Change) -> bool {
        self.blueprint().takes(change)
    }
}

/// A queue before a transmitter.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TransmitSpec {
    /// The queue.
    pub queue: QueueSpec,
    /// The transmitter.
    pub service: ServiceSpec,
}

/// From `at_ns` on the rate is `rate_bit_s`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct RateChange {
    /// Instant of the change; the rate holds from the next packet on.
    pub at_ns: u64,
    /// New rate, in bits per second.
    pub rate_bit_s: u64,
}

/// What bounds a queue; the packet in service does not count.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// At most this many packets wait.
    Packets(u64),
    /// At most this many bytes wait; a larger packet never enters, not even before an idle
    /// transmitter.
    Bytes(u64),
}

/// A queue discipline.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueSpec {
    /// First in, first out; an arrival that does not fit is dropped. No limit: unbounded.
    DropTail {
        /// The bound.
        limit: Option<Limit>,
    },
    /// First in, first out; an arrival that does not fit makes room at the front, where the oldest wait.
    DropHead {
        /// The bound.
        limit: Option<Limit>,
    },
    /// CoDel (RFC 8289).
    Codel {
        /// The bound.
        limit: Option<Limit>,
        /// Target sojourn time.
        target_ns: u64,
        /// Interval.
        interval_ns: u64,
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool,
    },
    /// FQ-CoDel (RFC 8290).
    FqCodel {
        /// Packets over all queues.
        limit_packets: u64,
        /// Number of queues flows are hashed into.
        flows: u32,
        /// Bytes a queue may send in its turn.
        quantum_bytes: u32,
        /// CoDel's target.
        target_ns: u64,
        /// CoDel's interval.
        interval_ns: u64,
        /// Mark ECN-capable packets instead of dropping them.
        ecn: bool,
    },
    /// One for each user.
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
    /// Delivery opportunities of a trace (Mahimahi): at each instant up to `slot_bytes` may leave.
    Trace {
        /// Instants of the opportunities, in order.
        slots_ns: Vec<u64>,
        /// Bytes an opportunity carries (Mahimahi: 1504).
        slot_bytes: u32,
        /// Length after which the trace starts again.
        repeat_ns: u64,
    },
    /// A rate that is drawn anew in each slot.
    Slots {
        /// When they begin.
        slots: SlotsSpec,
        /// Quantiles of the rate, in bits per second, for equally spaced probabilities from 0 to 1.
        rate_bit_s: Vec<u64>,
    },
}
