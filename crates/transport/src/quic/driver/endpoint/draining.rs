//! Closed connections, until none of their packets can be in transit (RFC 9000 section 10.2).
//!
//! After a close by the peer no packet is sent; after a local close only responses are. So the stack's state is
//! discarded at once. Late packets are ignored or answered here by the connection's number, which is not used again.
//! The state of the newest connection stays available. If no result depends on it, a compact closing state replaces a
//! closed connection before its draining period ends.

use std::collections::{BTreeMap, BTreeSet};

use cc::CongestionControl;
use units::Time;

use super::closing::{ClosingState, LatePacket};
use super::{EndpointDriver, QuicConnectionEntry};
use crate::datagram::Datagram;
use crate::quic::Crypto;
use crate::quic::simulated_address::simulated_address;
use crate::quic::stack::{InboundDatagram, Reception, Stack};
use crate::{FlowEvent, FlowEventKind, Payload, SenderGauges};

/// The rest of a closed connection.
pub(super) struct DrainingConnection {
    pub(super) gauges: SenderGauges,
    pub(super) controller: Box<dyn CongestionControl>,
    /// State for responses to late packets; `None`: they are ignored.
    pub(super) closing_state: Option<Box<ClosingState>>,
    /// Handle in the stack, if the stack still has the connection.
    pub(super) handle: Option<usize>,
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

impl<S: Stack> EndpointDriver<S> {
    /// Removes the connections that an earlier call found draining, and those that have drained. Observers of
    /// connections have seen their end meanwhile.
    #[inline]
    pub(super) fn reap_closed(&mut self, now: Time) {
        if !self.reapable.is_empty() || self.draining.poll_at() <= now {
            self.reap_due(now);
        }
    }

    fn reap_due(&mut self, now: Time) {
        for index in std::mem::take(&mut self.reapable) {
            let Some(member) = self.connections.get_mut(index) else { continue };
            let Some(until) = member.connection.closing_deadline() else { continue };
            let QuicConnectionEntry { handle, connection, state, accepted } =
                self.connections.remove(index);
            self.index_by_number.remove(&connection.number());
            self.totals.remove(index);
            self.state_counts[state as usize] -= usize::from(accepted);
            let (number, gauges) = (connection.number(), connection.gauges());
            self.stats.add_closed(
                number,
                &connection.counters(),
                connection.app().stream_reports(),
            );
            let (controller, closing_state) = connection.into_draining();
            // The stack identifies the packets that get a response.
            if closing_state.is_none() {
                self.stack.forget(handle);
            }
            let handle = closing_state.is_some().then_some(handle);
            self.draining.insert(
                number,
                until,
                DrainingConnection { gauges, controller, closing_state, handle },
            );
        }
        while let Some(drained) = self.draining.pop_drained(now) {
            self.discard(&drained);
        }
    }

    /// Handles a packet of a closed connection. The stack checks that it belongs to that connection.
    pub(super) fn receive_late(&mut self, now: Time, datagram: Datagram, out: &mut Vec<Payload>) {
        let connection = datagram.connection;
        if self.draining.closing_state(connection).is_none() {
            return;
        }
        let (remote, ecn) = (simulated_address(connection), datagram.ecn);
        let payload = datagram.payload().into_owned();
        let (data, mut response) = (self.payloads.unpack(datagram), Vec::new());
        let inbound = InboundDatagram { remote, local: None, ecn, data };
        match self.stack.receive(now, inbound, &mut response, |_, _| {}) {
            Reception::Delivered => self.respond_late(now, connection, &payload, out),
            Reception::Response(transmit) => {
                self.with_simulated_sink(out, |endpoint, packets| {
                    endpoint.send_response(transmit, &response, packets);
                });
            }
            Reception::New(incoming) => self.stack.ignore(incoming),
            Reception::Ignored => {}
        }
    }

    /// Handles a late packet of a locally closed connection as the stack would.
    fn respond_late(&mut self, now: Time, connection: u32, late: &[u8], out: &mut Vec<Payload>) {
        let Some(closing_state) = self.draining.closing_state(connection) else { return };
        let mut reply = std::mem::take(&mut self.buffer);
        reply.clear();
        let (done, ecn) = (closing_state.receive::<S>(now, late, &mut reply), closing_state.ecn);
        match done {
            LatePacket::Ignore => {}
            LatePacket::Respond => self.with_simulated_sink(out, |endpoint, packets| {
                endpoint.send_unconnected(
                    simulated_address(connection),
                    None,
                    ecn,
                    &reply,
                    packets,
                );
            }),
            LatePacket::Reset => {
                let event =
                    FlowEvent { time: now, connection, kind: FlowEventKind::Lost, value: 0.0 };
                self.stats.events.push(event);
                if let Some(drained) = self.draining.remove(connection) {
                    self.discard(&drained);
                }
            }
        }
        self.buffer = reply;
    }

    /// Discards the rest of a connection that has drained.
    fn discard(&mut self, drained: &DrainingConnection) {
        if let Some(handle) = drained.handle {
            self.stack.forget(handle);
        }
        self.stats.set_last_gauges(drained.gauges);
        self.stats.media_report = None;
    }

    /// Replaces locally closed connections by their closing state from now on, with modelled cryptography.
    pub fn enable_compact_closing(&mut self) {
        self.compact_closing = self.spec.crypto == Crypto::Modelled && !self.can_accept;
    }
}
