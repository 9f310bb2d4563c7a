//! Closed connections, until none of their packets can be in transit (RFC 9000 section 10.2).
//!
//! After a close by the peer no packet is sent; after a local close only responses are. So the stack's state is
//! discarded at once. Late packets are ignored or answered here by the connection's number, which is not used again.
//! The state of the newest connection stays available.

use std::collections::{BTreeMap, BTreeSet};

use cc::CongestionControl;
use quinn_proto::ConnectionHandle;
use units::Time;

use super::closing::ClosingState;
use crate::SenderGauges;

/// The rest of a closed connection.
pub(super) struct DrainingConnection {
    pub(super) gauges: SenderGauges,
    pub(super) controller: Box<dyn CongestionControl>,
    /// State for responses to late packets; `None`: they are ignored.
    pub(super) closing_state: Option<Box<ClosingState>>,
    /// Handle in the stack, if the stack still has the connection.
    pub(super) handle: Option<ConnectionHandle>,
}

/// Closed connections by number.
#[derive(Default)]
pub(super) struct DrainingTable {
    connections: BTreeMap<u32, DrainingConnection>,
    /// One bit per number, since every packet reads it.
    bitmap: Vec<u64>,
    deadlines: BTreeSet<(Time, u32)>,
}

impl DrainingTable {
    /// Inserts connection `number`, which drains until `until`.
    pub(super) fn insert(&mut self, number: u32, until: Time, connection: DrainingConnection) {
        self.deadlines.insert((until, number));
        let word = number as usize / 64;
        self.bitmap.resize(self.bitmap.len().max(word + 1), 0);
        self.bitmap[word] |= 1 << (number % 64);
        self.connections.insert(number, connection);
    }

    /// Returns whether a packet of connection `number` is late.
    #[inline]
    pub(super) fn contains(&self, number: u32) -> bool {
        self.bitmap.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Returns the state for responses to late packets of connection `number`.
    pub(super) fn closing_state(&mut self, number: u32) -> Option<&mut ClosingState> {
        self.connections.get_mut(&number)?.closing_state.as_deref_mut()
    }

    /// Removes connection `number` before its deadline.
    pub(super) fn remove(&mut self, number: u32) -> Option<DrainingConnection> {
        let until = self.deadlines.iter().find(|end| end.1 == number)?.0;
        self.remove_at(until, number)
    }

    fn remove_at(&mut self, until: Time, number: u32) -> Option<DrainingConnection> {
        self.deadlines.remove(&(until, number));
        self.bitmap[number as usize / 64] &= !(1 << (number % 64));
        self.connections.remove(&number)
    }

    /// Returns the earliest end of a draining period.
    pub(super) fn poll_at(&self) -> Time {
        self.deadlines.first().map_or(Time::MAX, |(until, _)| *until)
    }

    /// Removes the first connection that has drained.
    pub(super) fn pop_drained(&mut self, now: Time) -> Option<DrainingConnection> {
        let (until, number) = self.deadlines.first().copied().filter(|end| end.0 <= now)?;
        self.remove_at(until, number)
    }

    /// Returns the state of the newest connection, if it is newer than connection `than`.
    pub(super) fn newest(
        &self,
        than: Option<u32>,
    ) -> Option<(SenderGauges, &dyn CongestionControl)> {
        let (number, rest) = self.connections.last_key_value()?;
        than.is_none_or(|than| than < *number).then_some((rest.gauges, rest.controller.as_ref()))
    }
}
