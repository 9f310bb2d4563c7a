//! Replaces a closed connection by a compact closing state before its draining period ends, if no result depends on it.

use quinn_proto::{DatagramEvent, EndpointEvent};
use units::Time;

use super::closing::LatePacket;
use super::draining::DrainingConnection;
use super::endpoint::{QuicConnectionEntry, simulated_address};
use super::{Crypto, Endpoint, config};
use crate::datagram::Datagram;
use crate::{FlowEvent, FlowEventKind, Payload};

impl Endpoint {
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
                self.inner.handle_event(handle, EndpointEvent::drained());
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
        let (instant, remote) = (self.clock.instant(now), simulated_address(connection));
        let ecn = quinn_proto::EcnCodepoint::from_bits(datagram.ecn as u8);
        let payload = datagram.payload().into_owned();
        let (data, mut response) = (self.payloads.unpack(datagram), Vec::new());
        match self.inner.handle(instant, remote, None, ecn, data, &mut response) {
            Some(DatagramEvent::ConnectionEvent(..)) => {
                self.respond_late(now, connection, &payload, out)
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.with_simulated_sink(out, |endpoint, packets| {
                    endpoint.send_response(transmit, &response, packets);
                });
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.inner.ignore(incoming),
            None => {}
        }
    }

    /// Handles a late packet of a locally closed connection as the stack would.
    fn respond_late(&mut self, now: Time, connection: u32, late: &[u8], out: &mut Vec<Payload>) {
        let Some(closing_state) = self.draining.closing_state(connection) else { return };
        let mut reply = std::mem::take(&mut self.buffer);
        reply.clear();
        let (done, ecn) = (
            closing_state.receive(now, late, config::is_stateless_reset, &mut reply),
            closing_state.ecn,
        );
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
            self.inner.handle_event(handle, EndpointEvent::drained());
        }
        self.stats.set_last_gauges(drained.gauges);
        self.stats.media_report = None;
    }

    /// Discards locally closed connections at once from now on. Late packets still get responses of the same sizes.
    /// Random packet numbers and bits may differ, so this is for runs that examine no packets. Applications get no
    /// event of an end after that. Requires modelled cryptography.
    pub fn enable_compact_closing(&mut self) {
        self.compact_closing = self.spec.crypto == Crypto::Modelled && self.server.is_none();
    }
}
