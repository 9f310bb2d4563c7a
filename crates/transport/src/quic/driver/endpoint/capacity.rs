//! Capacity of a server for new connections.

use units::Time;

use super::connect::ServerLimits;
use super::{ConnectionState, EndpointDriver, QuicConnectionEntry};
use crate::eviction::{Eviction, select_eviction};
use crate::quic::DatagramSink;
use crate::quic::stack::Stack;

/// Closed connections wait for late packets (RFC 9000 section 10.2): number per allowed connection, and allowance.
const CLOSED_PER_CONNECTION: usize = 3;
const CLOSED_ALLOWANCE: usize = 64;

/// Capacity for a new connection.
pub(super) enum Capacity {
    /// There is capacity.
    Available,
    /// There may be capacity soon.
    RetryLater,
    /// There is no capacity.
    Full,
}

impl<S: Stack> EndpointDriver<S> {
    /// Returns the capacity for a new connection, and evicts a connection if necessary.
    pub(super) fn reserve_capacity(
        &mut self,
        now: Time,
        limits: ServerLimits,
        sink: &mut dyn DatagramSink,
    ) -> Capacity {
        let open = |stages: [usize; 3]| stages[0] + stages[1];
        if open(self.state_counts) >= limits.max_connections && !self.pending_input.is_empty() {
            // Connections that close in this turn release capacity for new ones.
            self.poll_due(now, sink);
        }
        let open = open(self.state_counts);
        if self.state_counts[ConnectionState::Closed as usize]
            > CLOSED_PER_CONNECTION * limits.max_connections + CLOSED_ALLOWANCE
        {
            return Capacity::RetryLater;
        }
        if open < limits.max_connections {
            return Capacity::Available;
        }
        if !limits.evict_slow {
            return Capacity::Full;
        }
        let indices: Vec<usize> = self.connections.indices().collect();
        let candidates = indices.into_iter().filter_map(|index| {
            let QuicConnectionEntry { connection, accepted, .. } = &mut self.connections[index];
            let is_candidate = *accepted && !connection.is_closed();
            is_candidate.then(|| {
                (index, connection.connected_at().is_some(), connection.update_activity(now))
            })
        });
        match select_eviction(now, candidates) {
            Eviction::Evict(index) => {
                self.connections[index].connection.evict(now);
                self.poll_connection(now, index, sink);
                Capacity::Available
            }
            Eviction::RetryAt(_) => Capacity::RetryLater,
            Eviction::Full => Capacity::Full,
        }
    }
}
