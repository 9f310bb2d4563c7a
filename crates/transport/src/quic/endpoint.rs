//! One endpoint of a flow: the stack's endpoint and its connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use cc::CongestionControl;
use quinn_proto::{ClientConfig, ConnectionHandle, ServerConfig};
use units::{Ecn, Time};

use super::choice::Choice;
use super::clock::Clock;
use super::connection::{Connection, Parts};
use super::dial::{Arrival, Limits};
use super::gate::Gate;
use super::outlet::Packets;
use super::{Batch, Ended, Outlet, QuicSpec, config};
use crate::ledger::Ledger;
use crate::load::StreamReport;
use crate::ports::{self, client_address, client_port};
use crate::{Asker, Counters, Event, Gauges, MakeApp, MakeController, Payload, Side};

/// The server's name where there is but one.
pub(super) const SERVER_NAME: &str = "server.example";

/// A UDP datagram.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// UDP payload.
    pub data: BytesMut,
    /// ECN field of its IP header.
    pub ecn: Ecn,
    /// Which connection of the flow it belongs to: source upwards, destination downwards.
    pub connection: u32,
    /// IP and UDP headers, bytes.
    pub header_bytes: u16,
}

/// One side of a QUIC flow.
pub struct Endpoint {
    pub(super) inner: quinn_proto::Endpoint,
    pub(super) clock: Clock,
    pub(super) spec: QuicSpec,
    pub(super) client: Option<ClientConfig>,
    pub(super) server: Option<ServerConfig>,
    pub(super) make_app: MakeApp,
    pub(super) make_controller: MakeController,
    pub(super) connections: Vec<(ConnectionHandle, Connection)>,
    pub(super) ledger: Ledger,
    /// Limits of a server on a real network.
    pub(super) limits: Option<Limits>,
    pub(super) ended: Vec<Ended>,
    /// What clients have a say in.
    pub(super) choice: Option<Choice>,
}

impl Endpoint {
    /// An endpoint called `name`, which keys its random streams.
    ///
    /// # Errors
    /// What is wrong with `spec`, in words.
    pub fn new(
        side: Side,
        spec: &QuicSpec,
        seed: u64,
        name: &str,
        make_app: MakeApp,
        make_controller: MakeController,
    ) -> Result<Endpoint, String> {
        let endpoint = Arc::new(config::endpoint(spec, seed, name)?);
        let (client, server) = match side {
            Side::Client => (Some(config::client(spec, seed, name)?), None),
            Side::Server => (None, Some(config::server(spec)?)),
        };
        let accept = server.clone().map(Arc::new);
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
            limits: None,
            ended: Vec::new(),
            choice: None,
        })
    }

    pub(super) fn gate(&self) -> Gate {
        Gate::new(self.clock, self.spec.initial_window_bytes)
    }

    pub(super) fn adopt(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        inner: quinn_proto::Connection,
        index: u32,
        gate: Gate,
    ) {
        let parts = Parts {
            inner,
            index,
            clock: self.clock,
            gate,
            controller: (self.make_controller)(),
            app: (self.make_app)(index),
            live: self.limits.is_some(),
            choice: self.choice.clone(),
        };
        self.connections.push((handle, Connection::new(now, parts, &self.spec)));
    }

    /// Sends what belongs to no connection: a stateless reset to a packet that came after the end, a
    /// refusal. It counts as the flow's all the same.
    pub(super) fn respond(
        &mut self,
        transmit: quinn_proto::Transmit,
        data: &[u8],
        outlet: &mut dyn Outlet,
    ) {
        let data = &data[..transmit.size];
        let wire = data.len() as u64 + u64::from(self.spec.header_bytes);
        let counters = &mut self.ledger.counters;
        counters.sent_packets += 1;
        counters.sent_bytes += wire;
        counters.ack_packets += 1;
        counters.ack_bytes += wire;
        let (to, from, segment) = (transmit.destination, transmit.src_ip, transmit.size);
        outlet.put(Batch { to, from, ecn: Ecn::NotEct, segment, data });
    }

    /// Lets a connection work; whether it has ended and is gone.
    pub(super) fn run(&mut self, now: Time, place: usize, outlet: &mut dyn Outlet) -> bool {
        let (handle, connection) = &mut self.connections[place];
        let handle = *handle;
        connection.settle(now, &mut self.ledger.events);
        connection.transmit(now, outlet, &mut self.ledger.events);
        while let Some(event) = connection.endpoint_event() {
            if let Some(event) = self.inner.handle_event(handle, event) {
                connection.handle(event);
                connection.settle(now, &mut self.ledger.events);
                connection.transmit(now, outlet, &mut self.ledger.events);
            }
        }
        if !connection.is_drained() {
            return false;
        }
        let (_, connection) = self.connections.remove(place);
        let (counters, gauges) = (connection.counters(), connection.gauges());
        if self.limits.is_some() {
            // What a server remembers does not grow with the connections it has had.
            self.ledger.end(connection.index(), &counters, gauges, &[]);
            self.ended.push(connection.ended());
            return true;
        }
        self.ledger.end(connection.index(), &counters, gauges, connection.app().streams());
        true
    }

    /// The options it was built with.
    pub fn spec(&self) -> &QuicSpec {
        &self.spec
    }

    /// Opens a connection to the server called `name`; sessions are resumed by that name.
    ///
    /// # Errors
    /// The stack's, in words.
    pub fn connect_to(
        &mut self,
        now: Time,
        name: &str,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        let remote = address(self.ledger.opened);
        let mut packets = Packets { out, header_bytes: self.spec.header_bytes };
        self.dial(now, remote, name, &mut packets)
    }

    /// Connections that have not ended.
    pub fn live(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().map(|(_, connection)| connection)
    }
}

impl crate::Endpoint for Endpoint {
    fn connect(&mut self, now: Time, out: &mut Vec<Payload>) -> Result<(), String> {
        self.connect_to(now, SERVER_NAME, out)
    }

    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        let Payload::Datagram(Datagram { data, ecn, connection, .. }) = payload else { return };
        let arrival = Arrival { remote: address(connection), local: None, ecn, data };
        let mut packets = Packets { out, header_bytes: self.spec.header_bytes };
        if let Some(place) = self.take(now, arrival, Some(connection), &mut packets) {
            self.run(now, place, &mut packets);
        }
    }

    fn wake(&mut self, now: Time, out: &mut Vec<Payload>) {
        let mut packets = Packets { out, header_bytes: self.spec.header_bytes };
        let mut place = 0;
        while place < self.connections.len() {
            if self.connections[place].1.wake_at() <= now {
                self.connections[place].1.tick(now);
                if self.run(now, place, &mut packets) {
                    continue;
                }
            }
            place += 1;
        }
    }

    fn wake_at(&mut self) -> Time {
        let wakes = self.connections.iter_mut().map(|(_, connection)| connection.wake_at());
        wakes.min().unwrap_or(Time::MAX)
    }

    fn asker(&mut self) -> (Time, Asker) {
        let askers = self.connections.iter_mut().map(|(_, connection)| connection.asker());
        askers.min().unwrap_or((Time::MAX, Asker::Transport))
    }

    fn counters(&self) -> Counters {
        let mut counters = self.ledger.counters;
        for (_, connection) in &self.connections {
            counters.add(&connection.counters());
        }
        counters
    }

    fn gauges(&self) -> Gauges {
        self.connections.last().map_or(self.ledger.gauges, |(_, connection)| connection.gauges())
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        self.connections.last().map(|(_, connection)| connection.controller())
    }

    fn take_events(&mut self) -> Vec<Event> {
        self.ledger.take_events()
    }

    fn opened(&self) -> u32 {
        self.ledger.opened
    }

    fn completed(&self) -> u32 {
        self.ledger.completed
    }

    fn connected_at(&self) -> Option<Time> {
        self.ledger.connected_at
    }

    fn ended_at(&self) -> Option<Time> {
        self.ledger.ended_at
    }

    fn streams(&self) -> Vec<(u32, StreamReport)> {
        let live = self.connections.iter();
        self.ledger.streams(live.map(|(_, live)| (live.index(), live.app().streams())))
    }

    fn quic(&self) -> Option<&Endpoint> {
        Some(self)
    }
}

/// What the stack takes for the peer's address of connection number `connection` of a flow: that of the client, so
/// that the server can say which connection it sees.
pub(super) fn address(connection: u32) -> SocketAddr {
    let ip = Ipv4Addr::LOCALHOST.to_bits() + client_address(connection);
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(ip)), client_port(connection))
}

/// The connection with this address.
pub(super) fn connection(address: SocketAddr) -> u32 {
    let first = Ipv4Addr::LOCALHOST.to_bits();
    match address.ip() {
        IpAddr::V4(ip) => ports::connection(ip.to_bits().wrapping_sub(first), address.port()),
        IpAddr::V6(_) => unreachable!("{address} is none of `address`"),
    }
}
