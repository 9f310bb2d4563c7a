//! An endpoint as a driver of sockets uses it: peers by their address, datagrams in batches, limits on
//! what strangers may ask for. The simulation's calls end here too, without limits.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::{DatagramEvent, Incoming};
use units::{Ecn, Time};

use super::choice::{Choice, Chooser};
use super::endpoint::Stage;
use super::gate::Gate;
use super::room::Room;
use super::{Connection, Ended, Endpoint, Live, Needs, Outlet, QuicSpec, config};
use crate::{App, Event, EventKind, MakeApp, MakeController};

/// How much a server takes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) connections: usize,
    pub(super) handshakes: usize,
    /// Slow connections give way to new ones.
    pub(super) give_way: bool,
}

/// A datagram from outside.
pub struct Arrival {
    /// The peer.
    pub remote: SocketAddr,
    /// The address of ours it was sent to, where it is known.
    pub local: Option<IpAddr>,
    /// ECN field of its IP header.
    pub ecn: Ecn,
    /// UDP payload.
    pub data: BytesMut,
}

impl Endpoint {
    /// An endpoint on a real network; `spec` says nothing of cryptography and handshake then.
    ///
    /// # Errors
    /// What is wrong with `spec` or with TLS, in words.
    pub fn with_live(
        live: &Live,
        spec: &QuicSpec,
        make_app: MakeApp,
        make_controller: MakeController,
    ) -> Result<Endpoint, String> {
        let (client, server) = config::live_sides(live)?;
        let endpoint = Arc::new(config::live_endpoint()?);
        let sides = (client, server);
        let mut endpoint = Endpoint::of(endpoint, sides, spec, make_app, make_controller);
        endpoint.limits = Some(Limits {
            connections: live.connections,
            handshakes: live.handshakes,
            give_way: false,
        });
        Ok(endpoint)
    }

    /// Opens a connection to `remote`, which TLS knows as `name`.
    ///
    /// # Errors
    /// The stack's, in words.
    pub fn dial(
        &mut self,
        now: Time,
        remote: SocketAddr,
        name: &str,
        outlet: &mut dyn Outlet,
    ) -> Result<(), String> {
        self.dial_with(now, remote, name, None, outlet).map(|_| ())
    }

    /// The same, with this application or one that the endpoint makes: the connection's number.
    ///
    /// # Errors
    /// The stack's, in words.
    pub fn dial_with(
        &mut self,
        now: Time,
        remote: SocketAddr,
        name: &str,
        app: Option<Box<dyn App>>,
        outlet: &mut dyn Outlet,
    ) -> Result<u32, String> {
        let mut config = self.client.clone().ok_or("a server does not connect")?;
        let gate = self.gate();
        config.transport_config(Arc::new(self.transport(gate.clone())?));
        let index = self.ledger.opened;
        self.ledger.opened += 1;
        let (handle, inner) = self
            .inner
            .connect(self.clock.instant(now), config, remote, name)
            .map_err(|error| error.to_string())?;
        let kind = EventKind::Start;
        self.ledger.events.push(Event { time: now, connection: index, kind, value: 0.0 });
        let slot = self.adopt(now, handle, inner, index, gate, app);
        self.run(now, slot, outlet);
        Ok(index)
    }

    pub(super) fn transport(&self, gate: Gate) -> Result<quinn_proto::TransportConfig, String> {
        let streams = self.needs.bidi_streams.unwrap_or(self.streams);
        let mut transport = config::transport(&self.spec, streams, self.needs, gate)?;
        if self.limits.is_some() {
            // Where large packets vanish the stack falls back to this.
            transport.min_mtu(config::LEAST_MTU);
            if self.needs.datagram_bytes.is_none() {
                transport.datagram_receive_buffer_size(None);
            }
        }
        Ok(transport)
    }

    /// Gives a datagram to the stack. Its connection, if it has one, is then to be run: its slot.
    pub(super) fn take(
        &mut self,
        now: Time,
        arrival: Arrival,
        index: Option<u32>,
        outlet: &mut dyn Outlet,
    ) -> Option<usize> {
        let instant = self.clock.instant(now);
        let ecn = quinn_proto::EcnCodepoint::from_bits(arrival.ecn as u8);
        let Arrival { remote, local, data, .. } = arrival;
        let mut response = Vec::new();
        // Matched where it stands: what it holds is large, and would be copied on the way.
        match self.inner.handle(instant, remote, local, ecn, data, &mut response) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let slot = self.place(handle)?;
                self.connections[slot].connection.handle(event);
                Some(slot)
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let incoming = self.admit(now, incoming, outlet)?;
                let gate = self.gate();
                let mut server = self.server.clone()?;
                server.transport_config(Arc::new(self.transport(gate.clone()).ok()?));
                match self.inner.accept(incoming, instant, &mut response, Some(Arc::new(server))) {
                    Ok((handle, inner)) => {
                        let index = index.unwrap_or(self.ledger.opened);
                        self.ledger.opened += 1;
                        Some(self.adopt(now, handle, inner, index, gate, None))
                    }
                    Err(error) => {
                        self.respond(error.response?, &response, outlet);
                        None
                    }
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.respond(transmit, &response, outlet);
                None
            }
            None => None,
        }
    }

    /// Refuses a client that is too many, and has a client prove its address when many are knocking.
    fn admit(
        &mut self,
        now: Time,
        incoming: Incoming,
        outlet: &mut dyn Outlet,
    ) -> Option<Incoming> {
        let Some(limits) = self.limits else { return Some(incoming) };
        let handshakes = self.stages[Stage::Handshake as usize];
        let proven = incoming.remote_address_validated() || handshakes < limits.handshakes;
        let mut response = Vec::new();
        let transmit = if !proven {
            match self.inner.retry(incoming, &mut response) {
                Ok(transmit) => transmit,
                Err(error) => {
                    self.inner.ignore(error.into_incoming());
                    return None;
                }
            }
        } else {
            match self.room(now, limits, outlet) {
                Room::Free => return Some(incoming),
                // The client comes again (RFC 9002 section 6.2.4).
                Room::Later => {
                    self.inner.ignore(incoming);
                    return None;
                }
                Room::None => self.inner.refuse(incoming, &mut response),
            }
        };
        self.respond(transmit, &response, outlet);
        None
    }

    /// A datagram from outside: [`Endpoint::run_all`] is to follow, after as many as have come at once.
    pub fn feed(&mut self, now: Time, arrival: Arrival, outlet: &mut dyn Outlet) {
        let slot = self.take(now, arrival, None, outlet);
        self.fed.extend(slot);
    }

    /// Lets every connection work that has been fed or whose time has come.
    pub fn run_all(&mut self, now: Time, outlet: &mut dyn Outlet) {
        self.run_due(now, outlet);
        // Of real networks nobody asks for them, and a server lives long.
        self.ledger.forget_events();
    }

    /// Closes all connections at once.
    pub fn close(&mut self, now: Time, outlet: &mut dyn Outlet) {
        let slots: Vec<usize> = self.connections.slots().rev().collect();
        for slot in slots {
            self.connections[slot].connection.abort(now);
            self.run(now, slot, outlet);
        }
    }

    /// Closes a connection at once, by its number, if it has not ended.
    pub fn abort(&mut self, now: Time, connection: u32, outlet: &mut dyn Outlet) {
        if let Some(slot) = self.slot(connection) {
            self.connections[slot].connection.abort(now);
            self.run(now, slot, outlet);
        }
    }

    /// Further connections a server takes from now on.
    pub fn set_connections(&mut self, most: usize) {
        if let Some(limits) = &mut self.limits {
            limits.connections = most;
        }
    }

    /// From now on clients have a say in the controller, which is called `own` where they do not.
    pub fn set_chooser(&mut self, own: &str, chooser: &Chooser) {
        self.choice = Some(Choice::new(own, chooser));
    }

    /// From now on slow connections give way to new ones when all places are taken.
    pub fn set_giving_way(&mut self) {
        if let Some(limits) = &mut self.limits {
            limits.give_way = true;
        }
    }

    /// Bidirectional streams that a peer may have open at once on connections from now on.
    pub fn set_streams(&mut self, most: u32) {
        self.streams = most;
    }

    /// What applications need on connections from now on.
    pub fn set_needs(&mut self, needs: Needs) {
        self.needs = needs;
    }

    /// The peer opens one stream a connection.
    pub fn expect_one_stream(&mut self) {
        self.streams = config::few_streams(self.spec.crypto);
    }

    /// Connections that have worked since the last call and are not gone, in the order in which they came: no other
    /// has changed.
    pub fn take_worked(&mut self) -> impl Iterator<Item = &Connection> {
        let worked = std::mem::take(&mut self.worked);
        let worked = worked.into_iter().filter_map(|slot| self.connections.get(slot));
        let mut worked: Vec<&Connection> = worked.map(|member| &member.connection).collect();
        worked.sort_unstable_by_key(|connection| connection.index());
        worked.into_iter()
    }

    /// Connections that are gone since the last call.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }
}
