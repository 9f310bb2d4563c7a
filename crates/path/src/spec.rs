//! The serialisable specification of a line: its stages. Numbers are whole and carry their unit in
//! their name; nothing here has a default that a reader could not see, because the plan writes
//! every field.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AcmSpec, LossSpec, RadioSpec, SlotDelaySpec, SlotsSpec};

/// One stage.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StageSpec {
    /// A constant delay.
    Delay {
        /// One-way delay.
        delay_ns: u64,
        /// Scheduled changes of the delay; departures stay in order.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<DelayChange>,
    },
    /// A delay that follows a trace; before the first point the first value holds.
    DelayTrace {
        /// Points in order of time, as `[at_ns, delay_ns]`.
        points: Vec<(u64, u64)>,
        /// Between points: the last value holds, or linear interpolation.
        interpolation: Interpolation,
        /// Length after which the trace starts again; none: the last value holds for ever.
        repeat_ns: Option<u64>,
        /// Whether packets may overtake each other when the delay falls.
        reorder: bool,
    },
    /// A delay that is drawn anew in each slot.
    SlotDelay(SlotDelaySpec),
    /// A queue before a transmitter.
    Transmit {
        /// The queue.
        queue: QueueSpec,
        /// The transmitter.
        service: ServiceSpec,
    },
    /// A queue before a radio link.
    Radio(RadioSpec),
    /// A queue before a link with adaptive coding and modulation.
    Acm(Box<AcmSpec>),
    /// Linux netem's `rate` + `delay` + `limit` in one: the limit counts the packets in the delay
    /// line too.
    Netem {
        /// Rate, in bits per second.
        rate_bit_s: u64,
        /// One-way delay after serialisation.
        delay_ns: u64,
        /// Packets in waiting room and delay line together.
        limit_packets: u64,
    },
    /// Packet loss.
    Loss {
        /// The model.
        model: LossSpec,
        /// Scheduled changes: from each instant on, Bernoulli loss with this probability.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<LossChange>,
    },
    /// Random extra delay per packet.
    Jitter {
        /// Distribution of the extra delay.
        model: JitterSpec,
        /// Whether packets may overtake each other; otherwise each leaves no earlier than the one
        /// before it.
        reorder: bool,
    },
    /// Some packets are held back by a fixed time, so that later ones overtake them.
    Reorder {
        /// Probability that a packet is held back.
        probability: f64,
        /// How long it is held back.
        hold_ns: u64,
    },
    /// Periods in which nothing passes.
    Outage {
        /// `[from_ns, to_ns]`, in order, not overlapping.
        windows: Vec<(u64, u64)>,
        /// Length after which the windows come again.
        repeat_ns: Option<u64>,
        /// Packets that meet an outage are dropped, or held until it ends.
        hold: bool,
    },
}

/// From `at_ns` on the delay is `delay_ns`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct DelayChange {
    /// Instant of the change.
    pub at_ns: u64,
    /// New one-way delay.
    pub delay_ns: u64,
}

/// From `at_ns` on packets are lost with probability `probability`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LossChange {
    /// Instant of the change.
    pub at_ns: u64,
    /// New loss probability.
    pub probability: f64,
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

/// How a trace is read between its points.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The last point's value holds.
    Step,
    /// Linear between points.
    Linear,
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

/// Distribution of a random extra delay.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum JitterSpec {
    /// Uniform between 0 and `most_ns`.
    Uniform {
        /// Upper end.
        most_ns: u64,
    },
    /// Normal, cut off below 0.
    Normal {
        /// Mean.
        mean_ns: u64,
        /// Standard deviation.
        deviation_ns: u64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean_ns: u64,
    },
}
