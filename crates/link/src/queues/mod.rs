//! Queue disciplines.

mod codel;
mod drop_tail;
mod fq_codel;
mod per_user;

pub use codel::{Codel, CodelSpec};
pub use drop_tail::{DropHead, DropHeadSpec, DropTail, DropTailSpec};
pub use fq_codel::{FqCodel, FqCodelSpec};
pub use per_user::{MAX_USERS, PerUserQueue, PerUserSpec};

use std::collections::VecDeque;

use units::{Opt, Packet, Time};

use crate::kind::kind;
use crate::stage_factory::{BuildContext, ValidationResult};
use crate::{DropReason, ExternalSchedulerSpec, Queue, QueueLimit, StageOutput};

kind! {
    /// A queue discipline.
    QueueSpec, "kind", QueueFactory {
        DropTail(DropTailSpec),
        DropHead(DropHeadSpec),
        Codel(CodelSpec),
        FqCodel(FqCodelSpec),
        PerUser(PerUserSpec),
    }
}

/// The specification of a queue discipline.
pub(crate) trait QueueFactory {
    /// Validates the specification.
    fn validate(&self) -> ValidationResult;

    /// Builds the queue of a valid specification.
    fn build(&self, context: &BuildContext) -> Box<dyn Queue>;

    /// Returns whether the limit can change to `limit` during a run.
    fn supports_limit(&self, limit: Option<QueueLimit>) -> bool {
        let _ = limit;
        true
    }

    /// Returns the external scheduler that the queue needs.
    fn external_scheduler(&self) -> Option<&ExternalSchedulerSpec> {
        None
    }
}

/// The limit, which the planner computes from the key `queue` of a direction.
const LIMIT: Opt = Opt::hook("", "limit", "limit", "the limit of the queue");

/// Queued packets, first in, first out, with their arrival times.
#[derive(Clone, Debug, Default)]
struct PacketFifo {
    packets: VecDeque<(Time, Packet)>,
    bytes: u64,
}

impl PacketFifo {
    fn push(&mut self, due: Time, packet: Packet) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back((due, packet));
    }

    fn pop(&mut self) -> Option<(Time, Packet)> {
        let first = self.packets.pop_front()?;
        self.bytes -= u64::from(first.1.bytes);
        Some(first)
    }

    fn pop_last(&mut self) -> Option<(Time, Packet)> {
        let last = self.packets.pop_back()?;
        self.bytes -= u64::from(last.1.bytes);
        Some(last)
    }

    /// Drops all packets at `due`.
    fn drop_all(&mut self, due: Time, out: &mut StageOutput) {
        for (_, packet) in self.packets.drain(..) {
            out.drop(due, packet, DropReason::Outage);
        }
        self.bytes = 0;
    }

    /// Returns whether a packet of `bytes` fits under `limit`.
    fn fits(&self, limit: Option<QueueLimit>, bytes: u32) -> bool {
        match limit {
            None => true,
            Some(QueueLimit::Packets(max)) => (self.packets.len() as u64) < max,
            Some(QueueLimit::Bytes(max)) => self.bytes + u64::from(bytes) <= max,
        }
    }

    fn backlog(&self) -> (u64, u64) {
        (self.packets.len() as u64, self.bytes)
    }

    /// Returns [`crate::Queue::ready_at`] for a queue with packets that are ready at arrival.
    fn ready_at(&self) -> Time {
        if self.packets.is_empty() { Time::MAX } else { Time::ZERO }
    }
}
