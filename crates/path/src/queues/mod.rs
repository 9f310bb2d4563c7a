//! Queue disciplines, and schedulers of users, one file each.

mod by_channel;
mod codel;
mod codes;
mod deficit_round_robin;
mod drop_head;
mod drop_tail;
mod exp_pf;
mod fq_codel;
mod m_lwdf;
mod maximum_rate;
mod own;
mod per_user;
mod proportional_fair;
mod round_robin;
mod scheduler;

pub use codel::Codel;
pub use drop_head::DropHead;
pub use drop_tail::DropTail;
pub use fq_codel::FqCodel;
pub use own::{Decider, Deciders, Decision, Outcome, Waiter};
pub use per_user::PerUser;

use std::collections::VecDeque;

use units::{Packet, Time};

use crate::{Cause, Cx, Limit};

/// Packets that wait, first in, first out, each with the instant it arrived.
#[derive(Clone, Debug, Default)]
struct Waiting {
    packets: VecDeque<(Time, Packet)>,
    bytes: u64,
}

impl Waiting {
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

    /// Drops everything at `due`.
    fn lose(&mut self, due: Time, cx: &mut Cx) {
        for (_, packet) in self.packets.drain(..) {
            cx.drop(due, packet, Cause::Outage);
        }
        self.bytes = 0;
    }

    /// Whether a packet of `bytes` may join under `limit`.
    fn has_room(&self, limit: Option<Limit>, bytes: u32) -> bool {
        match limit {
            None => true,
            Some(Limit::Packets(most)) => (self.packets.len() as u64) < most,
            Some(Limit::Bytes(most)) => self.bytes + u64::from(bytes) <= most,
        }
    }

    fn backlog(&self) -> (u64, u64) {
        (self.packets.len() as u64, self.bytes)
    }

    /// [`crate::Queue::ready_at`] of a queue whose packets are ready as soon as they arrive.
    fn ready_at(&self) -> Time {
        if self.packets.is_empty() { Time::MAX } else { Time::ZERO }
    }
}
