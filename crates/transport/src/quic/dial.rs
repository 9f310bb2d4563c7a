//! An endpoint as a driver of sockets uses it: peers by their address, datagrams in batches, limits on
//! what strangers may ask for. The simulation's calls end here too, without limits.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::{DatagramEvent, Incoming};
use units::{Ecn, Time};

use super::choice::{Choice, Chooser};
use super::clock::Clock;
use super::gate::Gate;
use super::room::Room;
use super::{Ended, Endpoint, Live, Outlet, QuicSpec, config};
use crate::ledger::Ledger;
use crate::{Event, EventKind, MakeApp, MakeController};

/// How much a server takes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) connections: usize,
    handshakes: usize,
    /// Slow connections give way to new ones.
    pub(super) give_way: bool,
    /// Bidirectional streams that a peer may have open at once; none: the usual number.
    streams: Option<u32>,
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
        let accept = server.clone().map(Arc::new);
        let endpoint = Arc::new(config::live_endpoint()?);
        Ok(Endpoint {
            inner: quinn_proto::Endpoint::new(endpoint, accept, false, None),
            clock: Clock::new(),
            spec: spec.clone(),
            client,
            server,
            make_app,
            make_controller,
            connections: Vec::new(),
            ledger: Ledger::default(),
            limits: Some(Limits {
                connections: live.connections,
                handshakes: live.handshakes,
                give_way: false,
                streams: None,
            }),
            ended: Vec::new(),
            choice: None,
        })
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
        self.adopt(now, handle, inner, index, gate);
        self.run(now, self.connections.len() - 1, outlet);
        Ok(())
    }

    fn transport(&self, gate: Gate) -> Result<quinn_proto::TransportConfig, String> {
        let mut transport = config::transport(&self.spec, gate)?;
        if let Some(limits) = self.limits {
            // Where large packets vanish the stack falls back to this.
            transport.min_mtu(config::LEAST_MTU);
            if let Some(streams) = limits.streams {
                transport.max_concurrent_bidi_streams(streams.into());
            }
        }
        Ok(transport)
    }

    /// Gives a datagram to the stack. Its connection, if it has one, is then to be run: its place.
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
        match self.inner.handle(instant, remote, local, ecn, data, &mut response)? {
            DatagramEvent::ConnectionEvent(handle, event) => {
                let place = self.connections.iter().position(|(own, _)| *own == handle)?;
                self.connections[place].1.handle(event);
                Some(place)
            }
            DatagramEvent::NewConnection(incoming) => {
                let incoming = self.admit(now, incoming, outlet)?;
                let gate = self.gate();
                let mut server = self.server.clone()?;
                server.transport_config(Arc::new(self.transport(gate.clone()).ok()?));
                match self.inner.accept(incoming, instant, &mut response, Some(Arc::new(server))) {
                    Ok((handle, inner)) => {
                        let index = index.unwrap_or(self.ledger.opened);
                        self.ledger.opened += 1;
                        self.adopt(now, handle, inner, index, gate);
                        Some(self.connections.len() - 1)
                    }
                    Err(error) => {
                        self.respond(error.response?, &response, outlet);
                        None
                    }
                }
            }
            DatagramEvent::Response(transmit) => {
                self.respond(transmit, &response, outlet);
                None
            }
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
        let handshakes =
            self.live().filter(|live| live.connected_at().is_none() && !live.is_closed()).count();
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
        if let Some(place) = self.take(now, arrival, None, outlet) {
            self.connections[place].1.mark();
        }
    }

    /// Lets every connection work that has been fed or whose time has come.
    pub fn run_all(&mut self, now: Time, outlet: &mut dyn Outlet) {
        let mut place = 0;
        while place < self.connections.len() {
            let connection = &mut self.connections[place].1;
            let fed = connection.unmark();
            let due = connection.wake_at() <= now;
            if due {
                connection.tick(now);
            }
            if !((fed || due) && self.run(now, place, outlet)) {
                place += 1;
            }
        }
        // Of real networks nobody asks for them, and a server lives long.
        self.ledger.forget_events();
    }

    /// Closes all connections at once.
    pub fn close(&mut self, now: Time, outlet: &mut dyn Outlet) {
        for place in (0..self.connections.len()).rev() {
            self.connections[place].1.abort(now);
            self.run(now, place, outlet);
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
        if let Some(limits) = &mut self.limits {
            limits.streams = Some(most);
        }
    }

    /// Connections that are gone since the last call.
    pub fn take_ended(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.ended)
    }
}
