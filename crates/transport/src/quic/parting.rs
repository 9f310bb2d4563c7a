//! Connections that are closed leave before their time, where nobody sees the difference.

use quinn_proto::{DatagramEvent, EndpointEvent};
use units::Time;

use super::draining::Rest;
use super::endpoint::{Member, address};
use super::farewell::Late;
use super::{Crypto, Endpoint, config};
use crate::datagram::Datagram;
use crate::{Event, EventKind, Payload};

impl Endpoint {
    /// Lets go of what a call before this one has found draining, and of what has drained: whoever watches connections has
    /// seen how they ended meanwhile.
    #[inline]
    pub(super) fn part(&mut self, now: Time) {
        if !self.parting.is_empty() || self.draining.wake_at() <= now {
            self.part_now(now);
        }
    }

    fn part_now(&mut self, now: Time) {
        for slot in std::mem::take(&mut self.parting) {
            let Some(member) = self.connections.get_mut(slot) else { continue };
            let Some(until) = member.connection.drains_until() else { continue };
            let Member { handle, connection, stage, accepted } = self.connections.remove(slot);
            self.numbers.remove(&connection.index());
            self.tally.leave(slot);
            self.stages[stage as usize] -= usize::from(accepted);
            let (index, gauges) = (connection.index(), connection.gauges());
            self.ledger.enter(index, &connection.counters(), connection.app().streams());
            let (controller, farewell) = connection.into_rest();
            // The stack knows whose packets are those that are answered.
            if farewell.is_none() {
                self.inner.handle_event(handle, EndpointEvent::drained());
            }
            let handle = farewell.is_some().then_some(handle);
            self.draining.enter(index, until, Rest { gauges, controller, farewell, handle });
        }
        while let Some(rest) = self.draining.forget(now) {
            self.bury(&rest);
        }
    }

    /// A packet comes for a connection that is closed. The stack says whether it is one of that connection's.
    pub(super) fn receive_late(&mut self, now: Time, datagram: Datagram, out: &mut Vec<Payload>) {
        let connection = datagram.connection;
        if self.draining.farewell(connection).is_none() {
            return;
        }
        let (instant, remote) = (self.clock.instant(now), address(connection));
        let ecn = quinn_proto::EcnCodepoint::from_bits(datagram.ecn as u8);
        let payload = datagram.payload().into_owned();
        let (data, mut response) = (self.payloads.unpack(datagram), Vec::new());
        match self.inner.handle(instant, remote, None, ecn, data, &mut response) {
            Some(DatagramEvent::ConnectionEvent(..)) => self.answer(now, connection, &payload, out),
            Some(DatagramEvent::Response(transmit)) => {
                self.with_packets(out, |endpoint, packets| {
                    endpoint.respond(transmit, &response, packets);
                });
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.inner.ignore(incoming),
            None => {}
        }
    }

    /// Does for a connection that this side has closed what the stack would do.
    fn answer(&mut self, now: Time, connection: u32, late: &[u8], out: &mut Vec<Payload>) {
        let Some(farewell) = self.draining.farewell(connection) else { return };
        let mut answer = std::mem::take(&mut self.buffer);
        answer.clear();
        let (done, ecn) =
            (farewell.receive(now, late, config::is_reset, &mut answer), farewell.ecn);
        match done {
            Late::Ignored => {}
            Late::Answered => self.with_packets(out, |endpoint, packets| {
                endpoint.send_alone(address(connection), None, ecn, &answer, packets);
            }),
            Late::Reset => {
                let event = Event { time: now, connection, kind: EventKind::Lost, value: 0.0 };
                self.ledger.events.push(event);
                if let Some(rest) = self.draining.remove(connection) {
                    self.bury(&rest);
                }
            }
        }
        self.buffer = answer;
    }

    /// Nothing of a connection is waited for any more.
    fn bury(&mut self, rest: &Rest) {
        if let Some(handle) = rest.handle {
            self.inner.handle_event(handle, EndpointEvent::drained());
        }
        self.ledger.last(rest.gauges);
        self.ledger.call = None;
    }

    /// From now on what this side has closed leaves at once but for how late packets are answered, in packets of the same
    /// sizes. Numbers and bits that the stack draws for a packet may be others, so it is for runs of which no packet is
    /// looked into; and applications are not told of an end after that. Cryptography has to be modelled.
    pub fn be_brief(&mut self) {
        self.brief = self.spec.crypto == Crypto::Modelled && self.server.is_none();
    }
}
