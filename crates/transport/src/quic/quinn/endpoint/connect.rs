//! The endpoint for drivers of sockets: peers by address, datagrams in batches, limits for unknown peers. Calls of the
//! simulation end here too, without limits.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::{DatagramEvent, Incoming};
use units::{Ecn, Time};

use super::super::controller_shim::ControllerShim;
use super::super::{
    ClosedConnection, Connection, DatagramSink, NetworkConfig, QuicRequirements, QuicSpec, config,
};
use super::capacity::Capacity;
use super::{ConnectionState, Endpoint};
use crate::quic::requested_controller::{NegotiatedController, RequestedControllerBuilder};
use crate::{App, AppBuilder, ControllerBuilder, FlowEvent, FlowEventKind};

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub(in crate::quic::quinn) struct ServerLimits {
    pub(in crate::quic::quinn) max_connections: usize,
    pub(in crate::quic::quinn) handshakes_before_retry: usize,
    /// Slow connections are evicted for new ones.
    pub(in crate::quic::quinn) evict_slow: bool,
}

/// A datagram from the network.
pub struct InboundDatagram {
    /// The peer.
    pub remote: SocketAddr,
    /// The local address to which it was sent, if known.
    pub local: Option<IpAddr>,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// UDP payload.
    pub data: BytesMut,
}

impl Endpoint {
    /// Creates an endpoint on a real network. Cryptography and handshake in `spec` have no effect then.
    ///
    /// # Errors
    /// The error of `spec` or TLS, in words.
    pub fn with_network(
        network: &NetworkConfig,
        spec: &QuicSpec,
        make_app: AppBuilder,
        make_controller: ControllerBuilder,
    ) -> Result<Endpoint, String> {
        let (client, server) = config::network_sides(network)?;
        let endpoint = Arc::new(config::network_endpoint()?);
        let sides = (client, server);
        let mut endpoint = Endpoint::from_configs(endpoint, sides, spec, make_app, make_controller);
        endpoint.limits = Some(ServerLimits {
            max_connections: network.max_connections,
            handshakes_before_retry: network.handshakes_before_retry,
            evict_slow: false,
        });
        Ok(endpoint)
    }

    /// Opens a connection to `remote`; TLS uses `name`.
    ///
    /// # Errors
    /// The error of the stack, in words.
    pub fn connect_address(
        &mut self,
        now: Time,
        remote: SocketAddr,
        name: &str,
        sink: &mut dyn DatagramSink,
    ) -> Result<(), String> {
        self.connect_with_app(now, remote, name, None, sink).map(|_| ())
    }

    /// Does the same with `app`, or with an application that the endpoint builds. Returns the connection's number.
    ///
    /// # Errors
    /// The error of the stack, in words.
    pub fn connect_with_app(
        &mut self,
        now: Time,
        remote: SocketAddr,
        name: &str,
        app: Option<Box<dyn App>>,
        sink: &mut dyn DatagramSink,
    ) -> Result<u32, String> {
        let mut config = self.client.clone().ok_or("a server does not connect")?;
        let shim = self.build_shim();
        config.transport_config(Arc::new(self.transport_config(shim.clone())?));
        let number = self.stats.opened;
        self.stats.opened += 1;
        let (handle, inner) = self
            .inner
            .connect(self.clock.instant(now), config, remote, name)
            .map_err(|error| error.to_string())?;
        let kind = FlowEventKind::Start;
        self.stats.events.push(FlowEvent { time: now, connection: number, kind, value: 0.0 });
        let index = self.insert(now, handle, inner, number, shim, app);
        self.poll_connection(now, index, sink);
        Ok(number)
    }

    pub(in crate::quic::quinn) fn transport_config(
        &self,
        shim: ControllerShim,
    ) -> Result<quinn_proto::TransportConfig, String> {
        let streams = self.requirements.max_bidi_streams.unwrap_or(self.max_bidi_streams);
        let mut transport = config::transport(&self.spec, streams, self.requirements, shim)?;
        if self.limits.is_some() {
            // On a path that drops large packets the stack falls back to this size.
            transport.min_mtu(config::MIN_MTU_BYTES);
            if self.requirements.datagram_buffer_bytes.is_none() {
                transport.datagram_receive_buffer_size(None);
            }
        }
        Ok(transport)
    }

    /// Passes a datagram to the stack. Returns the index of its connection, if any, which must then be polled.
    pub(super) fn handle_datagram(
        &mut self,
        now: Time,
        datagram: InboundDatagram,
        number: Option<u32>,
        sink: &mut dyn DatagramSink,
    ) -> Option<usize> {
        let instant = self.clock.instant(now);
        let ecn = quinn_proto::EcnCodepoint::from_bits(datagram.ecn as u8);
        let InboundDatagram { remote, local, data, .. } = datagram;
        let mut response = Vec::new();
        // The match uses no variable: the event is large, and would be copied.
        match self.inner.handle(instant, remote, local, ecn, data, &mut response) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let index = self.index_of_handle(handle)?;
                self.connections[index].connection.handle_event(event);
                Some(index)
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let incoming = self.admit(now, incoming, sink)?;
                let shim = self.build_shim();
                let mut server = self.server.clone()?;
                server.transport_config(Arc::new(self.transport_config(shim.clone()).ok()?));
                match self.inner.accept(incoming, instant, &mut response, Some(Arc::new(server))) {
                    Ok((handle, inner)) => {
                        let number = number.unwrap_or(self.stats.opened);
                        self.stats.opened += 1;
                        Some(self.insert(now, handle, inner, number, shim, None))
                    }
                    Err(error) => {
                        self.send_response(error.response?, &response, sink);
                        None
                    }
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.send_response(transmit, &response, sink);
                None
            }
            None => None,
        }
    }

    /// Refuses a client above the limit. Requests address validation if many handshakes are pending.
    fn admit(
        &mut self,
        now: Time,
        incoming: Incoming,
        sink: &mut dyn DatagramSink,
    ) -> Option<Incoming> {
        let Some(limits) = self.limits else { return Some(incoming) };
        let handshakes = self.state_counts[ConnectionState::Handshake as usize];
        let proven =
            incoming.remote_address_validated() || handshakes < limits.handshakes_before_retry;
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
            match self.reserve_capacity(now, limits, sink) {
                Capacity::Available => return Some(incoming),
                // The client sends again (RFC 9002 section 6.2.4).
                Capacity::RetryLater => {
                    self.inner.ignore(incoming);
                    return None;
                }
                Capacity::Full => self.inner.refuse(incoming, &mut response),
            }
        };
        self.send_response(transmit, &response, sink);
        None
    }

    /// Passes a datagram of the network to the stack. After a batch of them [`Endpoint::poll_all`] must follow.
    pub fn push(&mut self, now: Time, datagram: InboundDatagram, sink: &mut dyn DatagramSink) {
        let index = self.handle_datagram(now, datagram, None, sink);
        self.pending_input.extend(index);
    }

    /// Polls every connection that has input or is due.
    pub fn poll_all(&mut self, now: Time, sink: &mut dyn DatagramSink) {
        self.poll_due(now, sink);
        // Real networks have no reader of events, and a server runs for long.
        self.stats.discard_events();
    }

    /// Closes all connections at once.
    pub fn close(&mut self, now: Time, sink: &mut dyn DatagramSink) {
        let indices: Vec<usize> = self.connections.indices().rev().collect();
        for index in indices {
            self.connections[index].connection.abort(now);
            self.poll_connection(now, index, sink);
        }
    }

    /// Closes a connection at once, by its number, if it is live.
    pub fn abort(&mut self, now: Time, connection: u32, sink: &mut dyn DatagramSink) {
        if let Some(index) = self.index_of(connection) {
            self.connections[index].connection.abort(now);
            self.poll_connection(now, index, sink);
        }
    }

    /// Sets the maximum number of connections of a server from now on.
    pub fn set_max_connections(&mut self, max: usize) {
        if let Some(limits) = &mut self.limits {
            limits.max_connections = max;
        }
    }

    /// Lets clients request a controller from now on. `default_name` is the name without a request.
    pub fn set_controller_builder(
        &mut self,
        default_name: &str,
        builder: &RequestedControllerBuilder,
    ) {
        self.negotiated = Some(NegotiatedController::new(default_name, builder));
    }

    /// Lets a full server evict slow connections for new ones from now on.
    pub fn enable_eviction(&mut self) {
        if let Some(limits) = &mut self.limits {
            limits.evict_slow = true;
        }
    }

    /// Sets the limit of open bidirectional streams of a peer, for later connections.
    pub fn set_max_bidi_streams(&mut self, max: u32) {
        self.max_bidi_streams = max;
    }

    /// Sets the requirements of applications for later connections.
    pub fn set_requirements(&mut self, requirements: QuicRequirements) {
        self.requirements = requirements;
    }

    /// Declares that the peer opens one stream per connection.
    pub fn limit_to_one_stream(&mut self) {
        self.max_bidi_streams = config::few_bidi_streams(self.spec.crypto);
    }

    /// Takes the live connections that have worked since the last call, in the order of arrival. No other connection
    /// has changed.
    pub fn take_changed(&mut self) -> impl Iterator<Item = &Connection> {
        let changed = std::mem::take(&mut self.changed);
        let changed = changed.into_iter().filter_map(|index| self.connections.get(index));
        let mut changed: Vec<&Connection> = changed.map(|member| &member.connection).collect();
        changed.sort_unstable_by_key(|connection| connection.number());
        changed.into_iter()
    }

    /// Takes the connections that have ended since the last call.
    pub fn take_closed(&mut self) -> Vec<ClosedConnection> {
        std::mem::take(&mut self.closed)
    }
}
