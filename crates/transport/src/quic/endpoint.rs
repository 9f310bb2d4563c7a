//! One endpoint of a flow: the stack's endpoint and its connections.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use cc::CongestionControl;
use quinn_proto::{ClientConfig, ConnectionHandle, EndpointConfig, EndpointEvent, ServerConfig};
use units::{Ecn, Time};

use super::choice::Choice;
use super::clock::Clock;
use super::connection::{Connection, Parts};
use super::dial::{Arrival, Limits};
use super::draining::Draining;
use super::gate::Gate;
use super::outlet::Packets;
use super::{Batch, Ended, Needs, Outlet, QuicSpec, config};
use crate::calls::CallSide;
use crate::datagram::Payloads;
use crate::ledger::Ledger;
use crate::load::StreamReport;
use crate::ports::{self, client_address, client_port};
use crate::roster::{Roster, Tally};
use crate::{
    App, Asker, Counters, Event, EventKind, Gauges, MakeApp, MakeController, Notice, Order,
    Payload, Side,
};

/// The server's name where there is but one.
pub(super) const SERVER_NAME: &str = "server.example";

/// A connection that has not ended, and what it is known as.
pub(super) struct Member {
    pub(super) handle: ConnectionHandle,
    pub(super) connection: Connection,
    pub(super) stage: Stage,
    /// The peer has opened it.
    pub(super) accepted: bool,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Handshake,
    Open,
    /// It waits for late packets.
    Closed,
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
    pub(super) connections: Roster<Member>,
    /// Slots by the stack's handle, and by number.
    places: Vec<usize>,
    pub(super) numbers: BTreeMap<u32, usize>,
    pub(super) tally: Tally,
    /// How many of the accepted are at each [`Stage`].
    pub(super) stages: [usize; 3],
    /// Slots of those that have been fed, and of those that have worked, as far as somebody asks.
    pub(super) fed: Vec<usize>,
    pub(super) worked: BTreeSet<usize>,
    /// What the stack writes datagrams into.
    pub(super) buffer: Vec<u8>,
    /// Where the payloads of the loop's packets lie.
    pub(super) payloads: Payloads,
    /// Bidirectional streams that a peer may have open at once.
    pub(super) streams: u32,
    pub(super) needs: Needs,
    pub(super) ledger: Ledger,
    /// Limits of a server on a real network.
    pub(super) limits: Option<Limits>,
    pub(super) ended: Vec<Ended>,
    /// What clients have a say in.
    pub(super) choice: Option<Choice>,
    /// Slots of those that were found draining just now, and what is left of the others.
    pub(super) parting: Vec<usize>,
    pub(super) draining: Draining,
    /// See [`Endpoint::be_brief`].
    pub(super) brief: bool,
    /// What applications have said, and on which connection.
    said: Vec<(u32, Notice)>,
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
        Ok(Endpoint::of(endpoint, (client, server), spec, make_app, make_controller))
    }

    pub(super) fn of(
        endpoint: Arc<EndpointConfig>,
        (client, server): (Option<ClientConfig>, Option<ServerConfig>),
        spec: &QuicSpec,
        make_app: MakeApp,
        make_controller: MakeController,
    ) -> Endpoint {
        let accept = server.clone().map(Arc::new);
        let dials_only = server.is_none();
        Endpoint {
            inner: quinn_proto::Endpoint::new(endpoint, accept, false, None),
            clock: Clock::new(),
            spec: spec.clone(),
            client,
            server,
            make_app,
            make_controller,
            connections: Roster::default(),
            places: Vec::new(),
            numbers: BTreeMap::new(),
            tally: Tally::default(),
            stages: [0; 3],
            fed: Vec::new(),
            worked: BTreeSet::new(),
            // It grows to what is sent at once, which is little where flows are many.
            buffer: Vec::new(),
            payloads: Payloads::default(),
            // A server opens none.
            streams: if dials_only { config::few_streams(spec.crypto) } else { config::STREAMS },
            needs: Needs::default(),
            ledger: Ledger::default(),
            limits: None,
            ended: Vec::new(),
            choice: None,
            parting: Vec::new(),
            draining: Draining::default(),
            brief: false,
            said: Vec::new(),
        }
    }

    pub(super) fn gate(&self) -> Gate {
        Gate::new(self.clock, self.spec.initial_window_bytes)
    }

    /// Takes a connection in; its slot.
    pub(super) fn adopt(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        inner: quinn_proto::Connection,
        index: u32,
        gate: Gate,
        app: Option<Box<dyn App>>,
    ) -> usize {
        let parts = Parts {
            inner,
            index,
            clock: self.clock,
            gate,
            controller: (self.make_controller)(),
            app: app.unwrap_or_else(|| (self.make_app)(index)),
            brief: self.brief,
            choice: self.choice.clone(),
            datagram_bytes: self.needs.datagram_bytes,
        };
        let connection = Connection::new(now, parts, &self.spec);
        let (stage, accepted) = (Stage::Handshake, connection.is_accepted());
        self.stages[stage as usize] += usize::from(accepted);
        let slot = self.connections.push(index, Member { handle, connection, stage, accepted });
        if handle.0 >= self.places.len() {
            self.places.resize(handle.0 + 1, 0);
        }
        self.places[handle.0] = slot;
        self.numbers.insert(index, slot);
        slot
    }

    /// The slot of the connection that the stack knows by `handle`.
    pub(super) fn place(&self, handle: ConnectionHandle) -> Option<usize> {
        let slot = *self.places.get(handle.0)?;
        self.connections.get(slot).is_some_and(|member| member.handle == handle).then_some(slot)
    }

    /// The slot of the connection with this number.
    pub(super) fn slot(&self, connection: u32) -> Option<usize> {
        self.numbers.get(&connection).copied()
    }

    /// The connection with this number; none: it has ended.
    pub fn connection(&self, number: u32) -> Option<&Connection> {
        Some(&self.connections.get(self.slot(number)?)?.connection)
    }

    /// Sends what belongs to no connection: a stateless reset to a packet that came after the end, a
    /// refusal. It counts as the flow's all the same.
    pub(super) fn respond(
        &mut self,
        transmit: quinn_proto::Transmit,
        data: &[u8],
        outlet: &mut dyn Outlet,
    ) {
        let (to, from) = (transmit.destination, transmit.src_ip);
        self.send_alone(to, from, Ecn::NotEct, &data[..transmit.size], outlet);
    }

    pub(super) fn send_alone(
        &mut self,
        to: SocketAddr,
        from: Option<IpAddr>,
        ecn: Ecn,
        data: &[u8],
        outlet: &mut dyn Outlet,
    ) {
        let wire = data.len() as u64 + u64::from(self.spec.header_bytes);
        let counters = &mut self.ledger.counters;
        counters.sent_packets += 1;
        counters.sent_bytes += wire;
        counters.ack_packets += 1;
        counters.ack_bytes += wire;
        outlet.put(Batch { to, from, ecn, segment: data.len(), data });
    }

    /// Lets a connection work, and lets it go if it has ended.
    pub(super) fn run(&mut self, now: Time, slot: usize, outlet: &mut dyn Outlet) {
        let Member { handle, connection, stage, accepted } = &mut self.connections[slot];
        let (handle, accepted, buffer) = (*handle, *accepted, &mut self.buffer);
        connection.settle(now, &mut self.ledger.events);
        connection.transmit(now, outlet, &mut self.ledger.events, buffer);
        while let Some(event) = connection.endpoint_event() {
            if let Some(event) = self.inner.handle_event(handle, event) {
                connection.handle(event);
                connection.settle(now, &mut self.ledger.events);
                connection.transmit(now, outlet, &mut self.ledger.events, buffer);
            }
        }
        connection.take_said(&mut self.said);
        if self.limits.is_some_and(|limits| limits.give_way) {
            connection.place(now);
        }
        let next = match (connection.is_closed(), connection.connected_at()) {
            (true, _) => Stage::Closed,
            (false, None) => Stage::Handshake,
            (false, Some(_)) => Stage::Open,
        };
        let before = std::mem::replace(stage, next);
        if before != next && accepted {
            self.stages[before as usize] -= 1;
            self.stages[next as usize] += 1;
        }
        if !connection.is_drained() {
            let wake_at = connection.wake_at();
            if self.limits.is_some() {
                self.worked.insert(slot);
            }
            if connection.is_parting() && self.limits.is_none() {
                self.parting.push(slot);
            }
            self.connections.wake(slot, wake_at);
            self.tally.touch(slot);
            return;
        }
        let connection = self.connections.remove(slot).connection;
        self.numbers.remove(&connection.index());
        self.tally.leave(slot);
        self.stages[next as usize] -= usize::from(accepted);
        let (counters, gauges) = (connection.counters(), connection.gauges());
        if self.limits.is_some() {
            // What a server remembers does not grow with the connections it has had.
            self.ledger.end(connection.index(), &counters, gauges, &[]);
            self.ended.push(connection.ended());
            return;
        }
        self.ledger.end(connection.index(), &counters, gauges, connection.app().streams());
        self.ledger.call = connection.app().call().map(Box::new);
    }

    /// Lets those work whose time has come, and those that have been fed.
    pub(super) fn run_due(&mut self, now: Time, outlet: &mut dyn Outlet) {
        let due = self.connections.take_due(now, &mut self.fed);
        for (_, slot) in &due {
            self.connections[*slot].connection.tick(now);
            self.run(now, *slot, outlet);
        }
        self.connections.done(due);
    }

    /// The options it was built with.
    pub fn spec(&self) -> &QuicSpec {
        &self.spec
    }

    /// Opens a connection to the server called `name`, with this application or one that it makes; sessions are
    /// resumed by that name.
    ///
    /// # Errors
    /// The stack's, in words.
    pub fn connect_to(
        &mut self,
        now: Time,
        name: &str,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        let remote = address(self.ledger.opened);
        self.with_packets(out, |endpoint, packets| {
            endpoint.dial_with(now, remote, name, app, packets).map(|_| ())
        })
    }

    /// Does `work` whose datagrams become the loop's packets.
    pub(super) fn with_packets<T>(
        &mut self,
        out: &mut Vec<Payload>,
        work: impl FnOnce(&mut Endpoint, &mut Packets<'_>) -> T,
    ) -> T {
        let (header_bytes, payloads) = (self.spec.header_bytes, std::mem::take(&mut self.payloads));
        let mut packets = Packets { out, header_bytes, payloads };
        let done = work(self, &mut packets);
        self.payloads = packets.payloads;
        done
    }

    /// Connections that have not ended.
    pub fn live(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().map(|member| &member.connection)
    }
}

impl crate::Endpoint for Endpoint {
    fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        self.connect_to(now, SERVER_NAME, app, out)
    }

    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        let Payload::Datagram(datagram) = payload else { return };
        let (ecn, connection) = (datagram.ecn, datagram.connection);
        self.part(now);
        if self.draining.has(connection) {
            return self.receive_late(now, datagram, out);
        }
        let data = self.payloads.unpack(datagram);
        let arrival = Arrival { remote: address(connection), local: None, ecn, data };
        self.with_packets(out, |endpoint, packets| {
            if let Some(slot) = endpoint.take(now, arrival, Some(connection), packets) {
                endpoint.run(now, slot, packets);
            }
        });
    }

    fn is_crowd(&self) -> bool {
        self.connections.is_crowd()
    }

    fn expect(&self, payload: &Payload, others: usize) {
        let Payload::Datagram(datagram) = payload else { return };
        if let Some(member) = self.connections.expected(datagram.connection, others) {
            datagram.expect();
            member.connection.expect(others);
        }
    }

    fn wake(&mut self, now: Time, out: &mut Vec<Payload>) {
        self.part(now);
        self.with_packets(out, |endpoint, packets| endpoint.run_due(now, packets));
    }

    fn stop(&mut self, now: Time) {
        let slots: Vec<usize> = self.connections.slots().collect();
        for slot in slots {
            let Member { handle, connection, stage, accepted } = self.connections.remove(slot);
            self.inner.handle_event(handle, EndpointEvent::drained());
            self.numbers.remove(&connection.index());
            self.tally.leave(slot);
            self.stages[stage as usize] -= usize::from(accepted);
            let (index, kind) = (connection.index(), EventKind::Lost);
            let event = Event { time: now, connection: index, kind, value: 0.0 };
            self.ledger.events.push(event);
            let (counters, gauges) = (connection.counters(), connection.gauges());
            self.ledger.end(index, &counters, gauges, connection.app().streams());
        }
        self.fed.clear();
        self.worked.clear();
        self.parting.clear();
        self.said.clear();
    }

    fn say(&mut self, connection: u32, order: Order) {
        let Some(slot) = self.slot(connection) else { return };
        let connection = &mut self.connections[slot].connection;
        connection.say(order);
        let at = connection.wake_at();
        self.connections.wake(slot, at);
    }

    fn take_said(&mut self, into: &mut Vec<(u32, Notice)>) {
        into.append(&mut self.said);
    }

    fn wake_at(&mut self) -> Time {
        if !self.fed.is_empty() {
            return Time::ZERO;
        }
        if let Some(member) = self.connections.waking() {
            member.connection.expect(1);
        }
        self.connections.wake_at().min(self.draining.wake_at())
    }

    fn asker(&mut self) -> (Time, Asker) {
        let slots: Vec<usize> = self.connections.slots().collect();
        let askers = slots.into_iter().map(|slot| self.connections[slot].connection.asker());
        askers.min().unwrap_or((Time::MAX, Asker::Transport))
    }

    fn counters(&self) -> Counters {
        let mut counters = self.ledger.counters;
        let of = |slot| Some(self.connections.get(slot)?.connection.counters());
        counters.add(&self.tally.total(|slot| self.connections.fetch(slot), of));
        counters
    }

    fn gauges(&self) -> Gauges {
        let last = self.connections.last().map(|member| &member.connection);
        match self.draining.newest(last.map(Connection::index)) {
            Some((gauges, _)) => gauges,
            None => last.map_or(self.ledger.gauges, Connection::gauges),
        }
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        let last = self.connections.last().map(|member| &member.connection);
        let drains = self.draining.newest(last.map(Connection::index));
        drains.map(|(_, controller)| controller).or(last.map(Connection::controller))
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
        self.ledger.streams(self.live().map(|live| (live.index(), live.app().streams())))
    }

    fn call(&self) -> Option<CallSide> {
        let live = self.live().last().and_then(|live| live.app().call());
        live.or_else(|| self.ledger.call.as_deref().cloned())
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
