//! A queue of packets, first in, first out.

use std::collections::VecDeque;

use units::{Packet, Time};

use crate::{DropReason, QueueLimit, StageOutput};

/// Queued packets, first in, first out, with their arrival times.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketFifo {
    pub(super) packets: VecDeque<(Time, Packet)>,
    pub(super) bytes: u64,
}

impl PacketFifo {
    pub(super) fn push(&mut self, due: Time, packet: Packet) {
        self.bytes += u64::from(packet.bytes);
        self.packets.push_back((due, packet));
    }

    pub(super) fn pop(&mut self) -> Option<(Time, Packet)> {
        let first = self.packets.pop_front()?;
        self.bytes -= u64::from(first.1.bytes);
        Some(first)
    }

    pub(super) fn pop_last(&mut self) -> Option<(Time, Packet)> {
        let last = self.packets.pop_back()?;
        self.bytes -= u64::from(last.1.bytes);
        Some(last)
    }

    /// Drops all packets at `due`.
    pub(super) fn drop_all(&mut self, due: Time, out: &mut StageOutput) {
        for (_, packet) in self.packets.drain(..) {
            out.drop(due, packet, DropReason::Outage);
        }
        self.bytes = 0;
    }

    /// Returns whether a packet of `bytes` fits under `limit`.
    pub(super) fn fits(&self, limit: Option<QueueLimit>, bytes: u32) -> bool {
        match limit {
            None => true,
            Some(QueueLimit::Packets(most)) => (self.packets.len() as u64) < most,
            Some(QueueLimit::Bytes(most)) => self.bytes + u64::from(bytes) <= most,
        }
    }

    pub(super) fn backlog(&self) -> (u64, u64) {
        (self.packets.len() as u64, self.bytes)
    }

    /// Returns [`crate::Queue::ready_at`] for a queue with packets that are ready at arrival.
    pub(super) fn ready_at(&self) -> Time {
        if self.packets.is_empty() { Time::MAX } else { Time::ZERO }
    }
}
