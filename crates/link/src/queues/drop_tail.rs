//! First in, first out; an arrival above the limit is dropped or evicts packets at the front.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Packet, Time};

use super::QueueFactory;
use super::packet_fifo::PacketFifo;
use super::queue_factory::LIMIT;
use crate::checks::ValidationResult;
use crate::stage_factory::BuildContext;
use crate::{
    Channel, DropReason, InFlightPolicy, Queue, QueueLimit, StageOutput, StageUpdate, checks,
};

/// First in, first out; an arrival above the limit is dropped.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DropTailSpec {
    /// The limit; unbounded without one.
    pub limit: Option<QueueLimit>,
}

impl DropTailSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "drop-tail",
        spec_kind: "drop_tail",
        aliases: &[],
        title: "Drops arrivals above the limit",
        reference: "",
        options: &[LIMIT],
        draws: false,
        live_name: "",
    };
}

impl QueueFactory for DropTailSpec {
    fn validate(&self) -> ValidationResult {
        checks::limit(self.limit)
    }

    fn build(&self, _: &BuildContext) -> Box<dyn Queue> {
        Box::new(DropTail::new(self.limit))
    }
}

/// A queue that drops arrivals above the limit.
#[derive(Debug)]
pub struct DropTail {
    limit: Option<QueueLimit>,
    fifo: PacketFifo,
    last_dequeued_arrival: Option<Time>,
}

impl DropTail {
    /// Creates a queue of at most `limit`; unlimited without one.
    pub fn new(limit: Option<QueueLimit>) -> DropTail {
        DropTail { limit, fifo: PacketFifo::default(), last_dequeued_arrival: None }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        if self.fifo.fits(self.limit, packet.bytes) {
            self.fifo.push(due, packet);
        } else {
            out.drop(due, packet, DropReason::QueueOverflow);
        }
    }

    fn dequeue(&mut self, _now: Time, _: &mut dyn Channel, _: &mut StageOutput) -> Option<Packet> {
        let (arrival, packet) = self.fifo.pop()?;
        self.last_dequeued_arrival = Some(arrival);
        Some(packet)
    }

    fn ready_at(&self) -> Time {
        self.fifo.ready_at()
    }

    fn backlog(&self) -> (u64, u64) {
        self.fifo.backlog()
    }

    fn last_dequeued_arrival(&self) -> Option<Time> {
        self.last_dequeued_arrival
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        match update {
            StageUpdate::Limit(limit) => self.limit = *limit,
            StageUpdate::InFlight(InFlightPolicy::Drop) => self.fifo.drop_all(due, out),
            _ => {}
        }
    }
}

/// First in, first out; an arrival above the limit evicts the oldest packets at the front.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DropHeadSpec {
    /// The limit; unbounded without one.
    pub limit: Option<QueueLimit>,
}

impl DropHeadSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "drop-head",
        spec_kind: "drop_head",
        aliases: &[],
        title: "Drops the oldest packets until the arrival fits",
        reference: "Lakshman, Neidhardt and Ott, INFOCOM 1996",
        options: &[LIMIT],
        draws: false,
        live_name: "",
    };
}

impl QueueFactory for DropHeadSpec {
    fn validate(&self) -> ValidationResult {
        checks::limit(self.limit)
    }

    fn build(&self, _: &BuildContext) -> Box<dyn Queue> {
        Box::new(DropHead::new(self.limit))
    }
}

/// A queue that drops the oldest packets until the arrival fits (Lakshman, Neidhardt and Ott, INFOCOM 1996). A sender
/// detects a loss one queueing delay earlier than with drop-tail, and the delivered data is recent.
#[derive(Debug)]
pub struct DropHead {
    limit: Option<QueueLimit>,
    fifo: PacketFifo,
    last_dequeued_arrival: Option<Time>,
}

impl DropHead {
    /// Creates a queue of at most `limit`; unlimited without one.
    pub fn new(limit: Option<QueueLimit>) -> DropHead {
        DropHead { limit, fifo: PacketFifo::default(), last_dequeued_arrival: None }
    }
}

impl Queue for DropHead {
    fn enqueue(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        // A packet that does not fit an empty queue evicts no other packet.
        if !PacketFifo::default().fits(self.limit, packet.bytes) {
            out.drop(due, packet, DropReason::QueueOverflow);
            return;
        }
        while !self.fifo.fits(self.limit, packet.bytes)
            && let Some((_, oldest)) = self.fifo.pop()
        {
            out.drop(due, oldest, DropReason::QueueOverflow);
        }
        self.fifo.push(due, packet);
    }

    fn dequeue(&mut self, _now: Time, _: &mut dyn Channel, _: &mut StageOutput) -> Option<Packet> {
        let (arrival, packet) = self.fifo.pop()?;
        self.last_dequeued_arrival = Some(arrival);
        Some(packet)
    }

    fn ready_at(&self) -> Time {
        self.fifo.ready_at()
    }

    fn backlog(&self) -> (u64, u64) {
        self.fifo.backlog()
    }

    fn last_dequeued_arrival(&self) -> Option<Time> {
        self.last_dequeued_arrival
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        match update {
            StageUpdate::Limit(limit) => self.limit = *limit,
            StageUpdate::InFlight(InFlightPolicy::Drop) => self.fifo.drop_all(due, out),
            _ => {}
        }
    }
}
