//! One endpoint of a flow: the stack's endpoint and its connections.

mod capacity;
pub(super) mod closing;
pub(super) mod connect;
mod draining;
mod simulation;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use units::{Ecn, Time};

use self::connect::ServerLimits;
use self::draining::DrainingTable;
use super::connection::{ConnectionDriver, NewConnection};
use crate::connection_table::{ConnectionTable, CounterTotals};
use crate::datagram::PayloadBuffers;
use crate::endpoint_stats::EndpointStats;
use crate::quic::controller_shim::ControllerShim;
use crate::quic::datagram_sink::SimulatedSink;
use crate::quic::requested_controller::NegotiatedController;
use crate::quic::simulated_address::simulated_address;
use crate::quic::stack::{Stack, StackTransmit};
use crate::quic::{ClosedConnection, DatagramBatch, DatagramSink, QuicRequirements, QuicSpec};
use crate::{App, AppBuilder, AppNotification, ControllerBuilder, Payload, Side};

/// The server's name if there is only one server.
pub(super) const SERVER_NAME: &str = "server.example";

/// Limit of open bidirectional streams of a client; it may open more as they end. The stack allocates an entry for each
/// at the start, about 100 bytes.
const DEFAULT_BIDI_STREAMS: u32 = 1024;

/// A live connection and its keys.
pub(super) struct QuicConnectionEntry<C> {
    /// Handle in the stack.
    pub(super) handle: usize,
    pub(super) connection: ConnectionDriver<C>,
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

/// The stack's part of a new connection.
struct StackPart<C> {
    handle: usize,
    inner: C,
    /// The peer opened it.
    accepted: bool,
}

/// One side of a QUIC flow.
pub struct EndpointDriver<S: Stack> {
    pub(super) stack: S,
    pub spec: QuicSpec,
    pub(super) can_connect: bool,
    pub(super) can_accept: bool,
    pub(super) build_app: AppBuilder,
    pub(super) build_controller: ControllerBuilder,
    pub(super) connections: ConnectionTable<QuicConnectionEntry<S::Connection>>,
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
    pub max_bidi_streams: u32,
    pub requirements: QuicRequirements,
    pub(super) stats: EndpointStats,
    /// Limits of a server on a real network.
    pub limits: Option<ServerLimits>,
    pub closed: Vec<ClosedConnection>,
    /// The controller negotiation with clients.
    pub(super) negotiated: Option<NegotiatedController>,
    /// Indices of connections that were found draining last, and the rest of earlier ones.
    pub(super) reapable: Vec<usize>,
    draining: DrainingTable,
    /// See [`EndpointDriver::enable_compact_closing`].
    pub(super) compact_closing: bool,
    /// Notifications of applications, with their connections.
    notifications: Vec<(u32, AppNotification)>,
}

impl<S: Stack> EndpointDriver<S> {
    /// Creates an endpoint of the simulation.
    pub fn new(
        side: Side,
        spec: &QuicSpec,
        seed: u64,
        name: &str,
        make_app: AppBuilder,
        make_controller: ControllerBuilder,
    ) -> Result<EndpointDriver<S>, String> {
        let stack = S::simulated(side, spec, seed, name)?;
        let sides = (side == Side::Client, side == Side::Server);
        Ok(EndpointDriver::from_stack(stack, sides, spec, make_app, make_controller))
    }

    fn from_stack(
        stack: S,
        (can_connect, can_accept): (bool, bool),
        spec: &QuicSpec,
        make_app: AppBuilder,
        make_controller: ControllerBuilder,
    ) -> EndpointDriver<S> {
        EndpointDriver {
            stack,
            spec: spec.clone(),
            can_connect,
            can_accept,
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
            max_bidi_streams: if can_accept {
                DEFAULT_BIDI_STREAMS
            } else {
                S::few_bidi_streams(spec.crypto)
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

    /// Inserts a connection. Returns its index.
    fn insert(
        &mut self,
        now: Time,
        part: StackPart<S::Connection>,
        number: u32,
        shim: ControllerShim,
        app: Option<Box<dyn App>>,
    ) -> usize {
        let StackPart { handle, inner, accepted } = part;
        let parts = NewConnection {
            inner,
            number,
            shim,
            controller: (self.build_controller)(),
            app: app.unwrap_or_else(|| (self.build_app)(number)),
            compact_closing: self.compact_closing,
            negotiated: self.negotiated.clone(),
            datagram_bytes: self.requirements.datagram_buffer_bytes,
        };
        let connection = ConnectionDriver::new(now, parts, &self.spec);
        let state = ConnectionState::Handshake;
        self.state_counts[state as usize] += usize::from(accepted);
        let index =
            self.connections.push(QuicConnectionEntry { handle, connection, state, accepted });
        if handle >= self.index_by_handle.len() {
            self.index_by_handle.resize(handle + 1, 0);
        }
        self.index_by_handle[handle] = index;
        self.index_by_number.insert(number, index);
        index
    }

    /// Returns the index of the connection with this number.
    pub(super) fn index_of(&self, connection: u32) -> Option<usize> {
        self.index_by_number.get(&connection).copied()
    }

    /// Returns the connection with this number, or `None` if it has ended.
    pub fn connection(&self, number: u32) -> Option<&ConnectionDriver<S::Connection>> {
        Some(&self.connections.get(self.index_of(number)?)?.connection)
    }

    /// Sends a packet without a connection: a stateless reset after the end, or a refusal. The counters of the flow
    /// include it.
    pub(super) fn send_response(
        &mut self,
        transmit: StackTransmit,
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
        while let Some(output) = connection.poll_output() {
            if let Some(input) = self.stack.handle_output(handle, output) {
                connection.handle_input(input);
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

    /// Opens a connection in the simulation to the server named `name`.
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
        work: impl FnOnce(&mut EndpointDriver<S>, &mut SimulatedSink<'_>) -> T,
    ) -> T {
        let (header_bytes, payloads) = (self.spec.header_bytes, std::mem::take(&mut self.payloads));
        let mut packets = SimulatedSink { out, header_bytes, payloads };
        let done = work(self, &mut packets);
        self.payloads = packets.payloads;
        done
    }

    /// Returns the connections that have not ended.
    pub fn live_connections(&self) -> impl Iterator<Item = &ConnectionDriver<S::Connection>> {
        self.connections.iter().map(|member| &member.connection)
    }
}

/// Returns the index of the connection with the stack's `handle`.
fn index_of_handle<C>(
    index_by_handle: &[usize],
    connections: &ConnectionTable<QuicConnectionEntry<C>>,
    handle: usize,
) -> Option<usize> {
    let index = *index_by_handle.get(handle)?;
    connections.get(index).is_some_and(|member| member.handle == handle).then_some(index)
}
