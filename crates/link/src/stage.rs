//! The boundary of a stage: the trait [`Stage`], its output and its updates. The traits of the parts of a transmitter are
//! [`crate::Queue`], [`crate::ServiceProcess`] and [`crate::Channel`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Ecn, Packet, Rate, Span, Time};

/// The reason for which a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// A loss model dropped the packet.
    Loss,
    /// The packet exceeded the limit of a queue.
    QueueOverflow,
    /// Active queue management.
    Aqm,
    /// The link had an outage, or a handover dropped the packets in flight.
    Outage,
    /// The link layer abandoned the packet (retransmission limit, airtime limit).
    LinkLayer,
    /// The node at the end of the simplex link has no route to the destination.
    NoRoute,
}

impl DropReason {
    /// All reasons, in the order of the counters.
    pub const ALL: [DropReason; 6] = [
        DropReason::Loss,
        DropReason::QueueOverflow,
        DropReason::Aqm,
        DropReason::Outage,
        DropReason::LinkLayer,
        DropReason::NoRoute,
    ];

    /// Returns the name that results use.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Loss => "loss",
            DropReason::QueueOverflow => "overflow",
            DropReason::Aqm => "aqm",
            DropReason::Outage => "outage",
            DropReason::LinkLayer => "retry_limit",
            DropReason::NoRoute => "no_route",
        }
    }
}

/// A message between two stages of one simplex link. A stage ignores messages that it does not handle.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Feedback {
    /// The ACK or NACK of a receiver for one attempt (HARQ).
    AckNack {
        /// The user of the packet.
        user: u32,
        /// The packet, by [`crate::Transmission::id`].
        id: u64,
        /// Whether the receiver has decoded the packet.
        is_decoded: bool,
    },
    /// A status report of the receiver (RLC).
    Status {
        /// The number of the report.
        report_number: u64,
    },
}

/// Output buffers of a stage. The caller reuses them, so a packet costs no allocation.
#[derive(Debug, Default)]
pub struct StageOutput {
    /// Emitted packets with their departure times, in order of emission.
    pub emitted: Vec<(Time, Packet)>,
    /// Dropped packets with the time and the reason.
    pub dropped: Vec<(Time, Packet, DropReason)>,
    /// Packets on which [`StageOutput::mark`] has set congestion experienced, since the start.
    pub marked: u64,
    /// Feedback with its time, in order of time; `None` without a feedback channel.
    pub feedback: Option<Vec<(Time, Feedback)>>,
    /// Started attempts of a radio link, in order of time; `None` unless they are recorded.
    pub attempts: Option<Vec<TransmissionAttempt>>,
}

impl StageOutput {
    /// Emits `packet`, which departs at `due`.
    pub fn emit(&mut self, due: Time, packet: Packet) {
        self.emitted.push((due, packet));
    }

    /// Sets congestion experienced on `packet` (RFC 3168 section 5) and counts it.
    pub fn mark(&mut self, packet: &mut Packet) {
        packet.ecn = Ecn::Ce;
        self.marked += 1;
    }

    /// Drops `packet` at `due`.
    pub fn drop(&mut self, due: Time, packet: Packet, reason: DropReason) {
        self.dropped.push((due, packet, reason));
    }

    /// Sends `feedback` at `due` over the feedback channels of this stage ([`crate::SimplexLink::add_feedback`]).
    /// Discards it if there is no channel.
    pub fn send_feedback(&mut self, due: Time, feedback: Feedback) {
        if let Some(pending) = &mut self.feedback {
            pending.push((due, feedback));
        }
    }
}

/// A transmission attempt of a radio link. Attempts of one link do not overlap in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransmissionAttempt {
    /// The begin of the attempt.
    pub begin: Time,
    /// The end of the attempt.
    pub end: Time,
    /// The handle of the packet's payload; a duplicate can carry the handle of another packet.
    pub handle: u32,
    /// The user of the packet.
    pub user: u32,
    /// The packet, by [`crate::Transmission::id`].
    pub transmission_id: u64,
    /// The attempt number, from 1.
    pub attempt_number: u32,
    /// Whether the packet was delivered before this attempt.
    pub is_duplicate: bool,
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

/// A change of a stage at run time: scheduled in the specification or applied live.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StageUpdate {
    /// A new rate, from the next packet onwards.
    Rate(Rate),
    /// A new constant delay for packets that arrive from now on.
    Delay(Span),
    /// A new Bernoulli loss probability.
    Loss(f64),
    /// A new queue limit for packets that arrive from now on. Queued packets remain.
    Limit(Option<QueueLimit>),
    /// The policy for the packets that a stage contains at this instant.
    InFlight(InFlightPolicy),
    /// Whether a transmitter is enabled. A disabled transmitter completes the current service and keeps its queue until
    /// it is enabled again.
    Enabled(bool),
}

/// The policy for packets in flight at a handover.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum InFlightPolicy {
    /// Later packets do not overtake them.
    InOrder,
    /// Later packets can overtake them; they do not overtake each other.
    Reorder,
    /// They are dropped with [`DropReason::Outage`]. In a transmitter, this applies to waiting packets.
    Drop,
}

/// The contents of a stage at one instant, read at each sampling tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueGauge {
    /// Packets that wait for the transmitter.
    pub queued_packets: u64,
    /// Bytes that wait for the transmitter.
    pub queued_bytes: u64,
    /// Bytes that the transmitter has delivered since the start.
    pub sent_bytes: u64,
}

/// One impairment in one direction. Time is an argument and outputs carry their due time. A late wake-up therefore
/// changes only the time at which the caller sees the output.
pub trait Stage: Send {
    /// Accepts a packet that arrives at `due`. Arrivals are in order of time and follow all work due earlier.
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput);

    /// Does all work due by `now`, in order of its due time, and stamps the output with that time.
    fn poll(&mut self, now: Time, out: &mut StageOutput);

    /// Returns the time of the next work; [`Time::MAX`] without work. The caller caches it between calls.
    fn poll_at(&self) -> Time;

    /// Applies an update at `due`. A stage ignores updates that it does not support.
    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        let _ = (due, update, out);
    }

    /// Handles feedback that arrives at `due`. The call follows all work due earlier and precedes work due at the same
    /// instant.
    fn on_feedback(&mut self, due: Time, feedback: &Feedback, out: &mut StageOutput) {
        let _ = (due, feedback, out);
    }

    /// Returns the current contents of the stage.
    fn gauge(&self) -> QueueGauge {
        QueueGauge::default()
    }

    /// Returns the statistics of each user of a radio link, by user index; empty for other stages.
    fn user_stats(&self) -> &[crate::UserLinkStats] {
        &[]
    }

    /// Returns the statistics of the queues per user, in order of user numbers; empty for other stages.
    fn user_queues(&self) -> Vec<crate::UserQueueStats> {
        Vec::new()
    }

    /// Returns the sojourn times in the queue, for stages with a transmitter.
    fn sojourn(&self) -> Option<&crate::Histogram> {
        None
    }
}
