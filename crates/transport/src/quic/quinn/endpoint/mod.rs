//! One endpoint of a flow: the stack's endpoint and its connections.

mod capacity;
pub(super) mod closing;
pub(super) mod connect;
mod draining;

pub use connect::InboundDatagram;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use cc::CongestionControl;
use quinn_proto::{ClientConfig, ConnectionHandle, EndpointConfig, EndpointEvent, ServerConfig};
use units::{Ecn, Time};

use self::connect::ServerLimits;
use self::draining::DrainingTable;
use super::clock::Clock;
use super::connection::{Connection, NewConnection};
use super::controller_shim::ControllerShim;
use super::datagram_sink::SimulatedSink;
use super::requested_controller::NegotiatedController;
use super::{ClosedConnection, DatagramBatch, DatagramSink, QuicRequirements, QuicSpec, config};
use crate::client_ports::{self, client_address_index, client_port};
use crate::connection_table::{ConnectionTable, CounterTotals};
use crate::datagram::PayloadBuffers;
use crate::endpoint_stats::EndpointStats;
use crate::media::MediaReport;
use crate::perf_load::StreamReport;
use crate::{
    App, AppBuilder, AppCommand, AppNotification, ControllerBuilder, FlowCounters, FlowEvent,
    FlowEventKind, Payload, SenderGauges, Side, TimerSource,
};

/// The server's name if there is only one server.
pub(super) const SERVER_NAME: &str = "server.example";

/// A live connection and its keys.
pub(super) struct QuicConnectionEntry {
    pub(super) handle: ConnectionHandle,
    pub(super) connection: Connection,
    pub(super) state: ConnectionState,
    /// The peer opened it.
    pub(super) accepted: bool,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    Handshake,
    Open,
    /// The connection waits for late packets.
    Closed,
}

/// One side of a QUIC flow.
pub struct Endpoint {
    pub(super) inner: quinn_proto::Endpoint,
    pub(super) clock: Clock,
    pub(super) spec: QuicSpec,
    pub(super) client: Option<ClientConfig>,
    pub(super) server: Option<ServerConfig>,
    pub(super) build_app: AppBuilder,
    pub(super) build_controller: ControllerBuilder,
    pub(super) connections: ConnectionTable<QuicConnectionEntry>,
    /// Indices by the stack's handle, and by number.
    index_by_handle: Vec<usize>,
    pub(super) index_by_number: BTreeMap<u32, usize>,
    pub(super) totals: CounterTotals,
    /// Number of accepted connections in each [`ConnectionState`].
    pub(super) state_counts: [usize; 3],
    /// Indices of connections with new input, and of changed ones if a caller takes them.
    pub(super) pending_input: Vec<usize>,
    pub(super) changed: BTreeSet<usize>,
    /// Buffer into which the stack writes datagrams.
    pub(super) buffer: Vec<u8>,
    /// Buffers of the payloads of simulated packets.
    pub(super) payloads: PayloadBuffers,
    /// Bidirectional streams that a peer may have open at once.
    pub(super) max_bidi_streams: u32,
    pub(super) requirements: QuicRequirements,
    pub(super) stats: EndpointStats,
    /// Limits of a server on a real network.
    pub(super) limits: Option<ServerLimits>,
    pub(super) closed: Vec<ClosedConnection>,
    /// The controller negotiation with clients.
    pub(super) negotiated: Option<NegotiatedController>,
    /// Indices of connections that were just found draining, and the rest of earlier ones.
    pub(super) reapable: Vec<usize>,
    draining: DrainingTable,
    /// See [`Endpoint::enable_compact_closing`].
    pub(super) compact_closing: bool,
    /// Notifications of applications, with their connections.
    notifications: Vec<(u32, AppNotification)>,
}

impl Endpoint {
    /// Creates an endpoint named `name`, which keys its random streams.
    ///
    /// # Errors
    /// The error of `spec`, in words.
    pub fn new(
        side: Side,
        spec: &QuicSpec,
        seed: u64,
        name: &str,
        make_app: AppBuilder,
        make_controller: ControllerBuilder,
    ) -> Result<Endpoint, String> {
        let endpoint = Arc::new(config::endpoint(spec, seed, name)?);
        let (client, server) = match side {
            Side::Client => (Some(config::client(spec, seed, name)?), None),
            Side::Server => (None, Some(config::server(spec)?)),
        };
        Ok(Endpoint::from_configs(endpoint, (client, server), spec, make_app, make_controller))
    }

    pub(super) fn from_configs(
        endpoint: Arc<EndpointConfig>,
        (client, server): (Option<ClientConfig>, Option<ServerConfig>),
        spec: &QuicSpec,
        make_app: AppBuilder,
        make_controller: ControllerBuilder,
    ) -> Endpoint {
        let accept = server.clone().map(Arc::new);
        let dials_only = server.is_none();
        Endpoint {
            inner: quinn_proto::Endpoint::new(endpoint, accept, false, None),
            clock: Clock::new(),
            spec: spec.clone(),
            client,
            server,
            build_app: make_app,
            build_controller: make_controller,
            connections: ConnectionTable::default(),
            index_by_handle: Vec::new(),
            index_by_number: BTreeMap::new(),
            totals: CounterTotals::default(),
            state_counts: [0; 3],
            pending_input: Vec::new(),
            changed: BTreeSet::new(),
            // It grows to the data sent at once, which is little if there are many flows.
            buffer: Vec::new(),
            payloads: PayloadBuffers::default(),
            // A server opens no streams.
            max_bidi_streams: if dials_only {
                config::few_bidi_streams(spec.crypto)
            } else {
                config::DEFAULT_BIDI_STREAMS
            },
            requirements: QuicRequirements::default(),
            stats: EndpointStats::default(),
            limits: None,
            closed: Vec::new(),
            negotiated: None,
            reapable: Vec::new(),
            draining: DrainingTable::default(),
            compact_closing: false,
            notifications: Vec::new(),
        }
    }

    pub(super) fn build_shim(&self) -> ControllerShim {
        ControllerShim::new(self.clock, self.spec.initial_window_bytes)
    }

    /// Inserts a connection. Returns its index.
    pub(super) fn insert(
        &mut self,
        now: Time,
        handle: ConnectionHandle,
        inner: quinn_proto::Connection,
        number: u32,
        shim: ControllerShim,
        app: Option<Box<dyn App>>,
    ) -> usize {
        let parts = NewConnection {
            inner,
            number,
            clock: self.clock,
            shim,
            controller: (self.build_controller)(),
            app: app.unwrap_or_else(|| (self.build_app)(number)),
            compact_closing: self.compact_closing,
            negotiated: self.negotiated.clone(),
            datagram_bytes: self.requirements.datagram_buffer_bytes,
        };
        let connection = Connection::new(now, parts, &self.spec);
        let (state, accepted) = (ConnectionState::Handshake, connection.is_accepted());
        self.state_counts[state as usize] += usize::from(accepted);
        let index = self
            .connections
            .push(number, QuicConnectionEntry { handle, connection, state, accepted });
        if handle.0 >= self.index_by_handle.len() {
            self.index_by_handle.resize(handle.0 + 1, 0);
        }
        self.index_by_handle[handle.0] = index;
        self.index_by_number.insert(number, index);
        index
    }

    /// Returns the index of the connection with the stack's `handle`.
    pub(super) fn index_of_handle(&self, handle: ConnectionHandle) -> Option<usize> {
        let index = *self.index_by_handle.get(handle.0)?;
        self.connections.get(index).is_some_and(|member| member.handle == handle).then_some(index)
    }

    /// Returns the index of the connection with this number.
    pub(super) fn index_of(&self, connection: u32) -> Option<usize> {
        self.index_by_number.get(&connection).copied()
    }

    /// Returns the connection with this number, or `None` if it has ended.
    pub fn connection(&self, number: u32) -> Option<&Connection> {
        Some(&self.connections.get(self.index_of(number)?)?.connection)
    }

    /// Sends a packet without a connection: a stateless reset after the end, or a refusal. The counters of the flow
    /// include it.
    pub(super) fn send_response(
        &mut self,
        transmit: quinn_proto::Transmit,
        data: &[u8],
        sink: &mut dyn DatagramSink,
    ) {
        let (to, from) = (transmit.destination, transmit.src_ip);
        self.send_unconnected(to, from, Ecn::NotEct, &data[..transmit.size], sink);
    }

    pub(super) fn send_unconnected(
        &mut self,
        to: SocketAddr,
        from: Option<IpAddr>,
        ecn: Ecn,
        data: &[u8],
        sink: &mut dyn DatagramSink,
    ) {
        let wire = data.len() as u64 + u64::from(self.spec.header_bytes);
        let counters = &mut self.stats.counters;
        counters.sent_packets += 1;
        counters.sent_bytes += wire;
        counters.ack_packets += 1;
        counters.ack_bytes += wire;
        sink.send_batch(DatagramBatch {
            destination: to,
            src_ip: from,
            ecn,
            segment_size: data.len(),
            data,
        });
    }

    /// Polls a connection, and removes it if it has ended.
    pub(super) fn poll_connection(&mut self, now: Time, index: usize, sink: &mut dyn DatagramSink) {
        let QuicConnectionEntry { handle, connection, state, accepted } =
            &mut self.connections[index];
        let (handle, accepted, buffer) = (*handle, *accepted, &mut self.buffer);
        connection.process_events(now, &mut self.stats.events);
        connection.transmit(now, sink, &mut self.stats.events, buffer);
        while let Some(event) = connection.poll_endpoint_event() {
            if let Some(event) = self.inner.handle_event(handle, event) {
                connection.handle_event(event);
                connection.process_events(now, &mut self.stats.events);
                connection.transmit(now, sink, &mut self.stats.events, buffer);
            }
        }
        connection.take_notifications(&mut self.notifications);
        if self.limits.is_some_and(|limits| limits.evict_slow) {
            connection.update_activity(now);
        }
        let next = match (connection.is_closed(), connection.connected_at()) {
            (true, _) => ConnectionState::Closed,
            (false, None) => ConnectionState::Handshake,
            (false, Some(_)) => ConnectionState::Open,
        };
        let before = std::mem::replace(state, next);
        if before != next && accepted {
            self.state_counts[before as usize] -= 1;
            self.state_counts[next as usize] += 1;
        }
        if !connection.is_drained() {
            let wake_at = connection.poll_at();
            if self.limits.is_some() {
                self.changed.insert(index);
            }
            if connection.is_reapable() && self.limits.is_none() {
                self.reapable.push(index);
            }
            self.connections.set_deadline(index, wake_at);
            self.totals.mark_stale(index);
            return;
        }
        let connection = self.connections.remove(index).connection;
        self.index_by_number.remove(&connection.number());
        self.totals.remove(index);
        self.state_counts[next as usize] -= usize::from(accepted);
        let (counters, gauges) = (connection.counters(), connection.gauges());
        if self.limits.is_some() {
            // The statistics of a server do not grow with the number of past connections.
            self.stats.on_connection_closed(connection.number(), &counters, gauges, &[]);
            self.closed.push(connection.to_closed_connection());
            return;
        }
        self.stats.on_connection_closed(
            connection.number(),
            &counters,
            gauges,
            connection.app().stream_reports(),
        );
        self.stats.media_report = connection.app().media_report().map(Box::new);
    }

    /// Polls the connections that are due or have input.
    pub(super) fn poll_due(&mut self, now: Time, sink: &mut dyn DatagramSink) {
        let due = self.connections.take_due(now, &mut self.pending_input);
        for (_, index) in &due {
            self.connections[*index].connection.poll(now);
            self.poll_connection(now, *index, sink);
        }
        self.connections.recycle_due(due);
    }

    /// Returns the options of the endpoint.
    pub fn spec(&self) -> &QuicSpec {
        &self.spec
    }

    /// Opens a connection to the server named `name`, with `app` or an application that the endpoint builds. Sessions
    /// are resumed by that name.
    ///
    /// # Errors
    /// The error of the stack, in words.
    pub fn connect_to(
        &mut self,
        now: Time,
        name: &str,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        let remote = simulated_address(self.stats.opened);
        self.with_simulated_sink(out, |endpoint, packets| {
            endpoint.connect_with_app(now, remote, name, app, packets).map(|_| ())
        })
    }

    /// Runs `work` with a sink that turns datagrams into simulated packets.
    pub(super) fn with_simulated_sink<T>(
        &mut self,
        out: &mut Vec<Payload>,
        work: impl FnOnce(&mut Endpoint, &mut SimulatedSink<'_>) -> T,
    ) -> T {
        let (header_bytes, payloads) = (self.spec.header_bytes, std::mem::take(&mut self.payloads));
        let mut packets = SimulatedSink { out, header_bytes, payloads };
        let done = work(self, &mut packets);
        self.payloads = packets.payloads;
        done
    }

    /// Returns the connections that have not ended.
    pub fn live_connections(&self) -> impl Iterator<Item = &Connection> {
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
        self.reap_closed(now);
        if self.draining.contains(connection) {
            return self.receive_late(now, datagram, out);
        }
        let data = self.payloads.unpack(datagram);
        let inbound =
            InboundDatagram { remote: simulated_address(connection), local: None, ecn, data };
        self.with_simulated_sink(out, |endpoint, packets| {
            if let Some(index) = endpoint.handle_datagram(now, inbound, Some(connection), packets) {
                endpoint.poll_connection(now, index, packets);
            }
        });
    }

    fn exceeds_cache(&self) -> bool {
        self.connections.exceeds_cache()
    }

    fn prefetch_for(&self, payload: &Payload, packets_ahead: usize) {
        let Payload::Datagram(datagram) = payload else { return };
        if let Some(member) = self.connections.prefetch_guess(datagram.connection, packets_ahead) {
            datagram.prefetch();
            member.connection.prefetch(packets_ahead);
        }
    }

    fn poll(&mut self, now: Time, out: &mut Vec<Payload>) {
        self.reap_closed(now);
        self.with_simulated_sink(out, |endpoint, packets| endpoint.poll_due(now, packets));
    }

    fn crash(&mut self, now: Time) {
        let indices: Vec<usize> = self.connections.indices().collect();
        for index in indices {
            let QuicConnectionEntry { handle, connection, state, accepted } =
                self.connections.remove(index);
            self.inner.handle_event(handle, EndpointEvent::drained());
            self.index_by_number.remove(&connection.number());
            self.totals.remove(index);
            self.state_counts[state as usize] -= usize::from(accepted);
            let (number, kind) = (connection.number(), FlowEventKind::Lost);
            let event = FlowEvent { time: now, connection: number, kind, value: 0.0 };
            self.stats.events.push(event);
            let (counters, gauges) = (connection.counters(), connection.gauges());
            self.stats.on_connection_closed(
                number,
                &counters,
                gauges,
                connection.app().stream_reports(),
            );
        }
        self.pending_input.clear();
        self.changed.clear();
        self.reapable.clear();
        self.notifications.clear();
    }

    fn send_command(&mut self, connection: u32, command: AppCommand) {
        let Some(index) = self.index_of(connection) else { return };
        let connection = &mut self.connections[index].connection;
        connection.send_command(command);
        let at = connection.poll_at();
        self.connections.set_deadline(index, at);
    }

    fn take_notifications(&mut self, into: &mut Vec<(u32, AppNotification)>) {
        into.append(&mut self.notifications);
    }

    fn poll_at(&mut self) -> Time {
        if !self.pending_input.is_empty() {
            return Time::ZERO;
        }
        if let Some(member) = self.connections.prefetch_earliest() {
            member.connection.prefetch(1);
        }
        self.connections.poll_at().min(self.draining.poll_at())
    }

    fn poll_source(&mut self) -> (Time, TimerSource) {
        let indices: Vec<usize> = self.connections.indices().collect();
        let deadlines =
            indices.into_iter().map(|index| self.connections[index].connection.poll_source());
        deadlines.min().unwrap_or((Time::MAX, TimerSource::Transport))
    }

    fn counters(&self) -> FlowCounters {
        let mut counters = self.stats.counters;
        let counters_of = |index| Some(self.connections.get(index)?.connection.counters());
        counters.add(&self.totals.total(|index| self.connections.prefetch(index), counters_of));
        counters
    }

    fn gauges(&self) -> SenderGauges {
        let last = self.connections.newest().map(|member| &member.connection);
        match self.draining.newest(last.map(Connection::number)) {
            Some((gauges, _)) => gauges,
            None => last.map_or(self.stats.gauges, Connection::gauges),
        }
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        let last = self.connections.newest().map(|member| &member.connection);
        let drains = self.draining.newest(last.map(Connection::number));
        drains.map(|(_, controller)| controller).or(last.map(Connection::controller))
    }

    fn take_events(&mut self) -> Vec<FlowEvent> {
        self.stats.take_events()
    }

    fn opened(&self) -> u32 {
        self.stats.opened
    }

    fn completed(&self) -> u32 {
        self.stats.completed
    }

    fn connected_at(&self) -> Option<Time> {
        self.stats.connected_at
    }

    fn ended_at(&self) -> Option<Time> {
        self.stats.ended_at
    }

    fn stream_reports(&self) -> Vec<(u32, StreamReport)> {
        self.stats.stream_reports(
            self.live_connections().map(|live| (live.number(), live.app().stream_reports())),
        )
    }

    fn media_report(&self) -> Option<MediaReport> {
        let live = self.live_connections().last().and_then(|live| live.app().media_report());
        live.or_else(|| self.stats.media_report.as_deref().cloned())
    }

    fn quic(&self) -> Option<&Endpoint> {
        Some(self)
    }
}

/// Returns the peer address of connection number `connection` of a flow for the stack. It is the client's address, from
/// which the server derives the number.
pub(super) fn simulated_address(connection: u32) -> SocketAddr {
    let ip = Ipv4Addr::LOCALHOST.to_bits() + client_address_index(connection);
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(ip)), client_port(connection))
}

/// Returns the connection with this address.
pub(in crate::quic) fn connection_number(address: SocketAddr) -> u32 {
    let first = Ipv4Addr::LOCALHOST.to_bits();
    match address.ip() {
        IpAddr::V4(ip) => {
            client_ports::connection_number(ip.to_bits().wrapping_sub(first), address.port())
        }
        IpAddr::V6(_) => unreachable!("{address} is none of `address`"),
    }
}
