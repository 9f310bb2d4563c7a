//! The endpoint for drivers of sockets: peers by address, datagrams in batches, limits for unknown peers. Calls of the
//! simulation end here too, without limits.

use std::net::SocketAddr;

use units::Time;

use super::capacity::Capacity;
use super::{ConnectionState, EndpointDriver, StackPart, index_of_handle};
use crate::quic::controller_shim::ControllerShim;
use crate::quic::driver::connection::ConnectionDriver;
use crate::quic::requested_controller::{NegotiatedController, RequestedControllerBuilder};
use crate::quic::stack::{ConnectionConfig, InboundDatagram, Reception, Stack};
use crate::quic::{DatagramSink, NetworkConfig, QuicSpec, TlsConfig};
use crate::{App, AppBuilder, ControllerBuilder, FlowEvent, FlowEventKind};

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    pub max_connections: usize,
    pub(in crate::quic::driver) handshakes_before_retry: usize,
    /// Slow connections are evicted for new ones.
    pub evict_slow: bool,
}

impl<S: Stack> EndpointDriver<S> {
    /// Creates an endpoint on a real network.
    pub fn with_network(
        network: &NetworkConfig,
        spec: &QuicSpec,
        make_app: AppBuilder,
        make_controller: ControllerBuilder,
    ) -> Result<EndpointDriver<S>, String> {
        let sides = match network.tls {
            TlsConfig::Client(_) => (true, false),
            TlsConfig::Server(_) => (false, true),
            TlsConfig::ClientAndServer(..) => (true, true),
        };
        let stack = S::with_network(network)?;
        let mut endpoint =
            EndpointDriver::from_stack(stack, sides, spec, make_app, make_controller);
        endpoint.limits = Some(ServerLimits {
            max_connections: network.max_connections,
            handshakes_before_retry: network.handshakes_before_retry,
            evict_slow: false,
        });
        Ok(endpoint)
    }

    /// Opens a connection to `remote`, with `app` or an application that the endpoint builds. TLS uses `name`. Returns
    /// the connection's number.
    pub fn connect_with_app(
        &mut self,
        now: Time,
        remote: SocketAddr,
        name: &str,
        app: Option<Box<dyn App>>,
        sink: &mut dyn DatagramSink,
    ) -> Result<u32, String> {
        if !self.can_connect {
            return Err("a server does not connect".to_owned());
        }
        let shim = ControllerShim::new();
        let config = self.connection_config(shim.clone())?;
        let number = self.stats.opened;
        self.stats.opened += 1;
        let (handle, inner) = self.stack.connect(now, config, remote, name)?;
        let opened = StackPart { handle, inner, accepted: false };
        let kind = FlowEventKind::Start;
        self.stats.events.push(FlowEvent { time: now, connection: number, kind, value: 0.0 });
        let index = self.insert(now, opened, number, shim, app);
        self.poll_connection(now, index, sink);
        Ok(number)
    }

    pub(in crate::quic::driver) fn connection_config(
        &self,
        shim: ControllerShim,
    ) -> Result<S::ConnectionConfig, String> {
        self.stack.connection_config(ConnectionConfig {
            spec: &self.spec,
            max_bidi_streams: self.requirements.max_bidi_streams.unwrap_or(self.max_bidi_streams),
            requirements: self.requirements,
            shim,
            has_network: self.limits.is_some(),
        })
    }

    /// Passes a datagram to the stack. Returns the index of its connection, if any, which must then be polled.
    pub(super) fn handle_datagram(
        &mut self,
        now: Time,
        datagram: InboundDatagram,
        number: Option<u32>,
        sink: &mut dyn DatagramSink,
    ) -> Option<usize> {
        let mut response = Vec::new();
        let mut receiver = None;
        let EndpointDriver { stack, connections, index_by_handle, .. } = self;
        let reception = stack.receive(now, datagram, &mut response, |handle, input| {
            receiver = index_of_handle(index_by_handle, connections, handle);
            if let Some(index) = receiver {
                connections[index].connection.handle_input(input);
            }
        });
        match reception {
            Reception::Delivered => receiver,
            Reception::New(incoming) => {
                let incoming = self.admit(now, incoming, sink)?;
                let shim = ControllerShim::new();
                let config = self.connection_config(shim.clone()).ok()?;
                match self.stack.accept(now, incoming, config, &mut response) {
                    Ok((handle, inner)) => {
                        let number = number.unwrap_or(self.stats.opened);
                        self.stats.opened += 1;
                        let accepted = StackPart { handle, inner, accepted: true };
                        Some(self.insert(now, accepted, number, shim, None))
                    }
                    Err(error) => {
                        self.send_response(error.response?, &response, sink);
                        None
                    }
                }
            }
            Reception::Response(transmit) => {
                self.send_response(transmit, &response, sink);
                None
            }
            Reception::Ignored => None,
        }
    }

    /// Refuses a client above the limit. Requests address validation if many handshakes are pending.
    fn admit(
        &mut self,
        now: Time,
        incoming: S::Incoming,
        sink: &mut dyn DatagramSink,
    ) -> Option<S::Incoming> {
        let Some(limits) = self.limits else { return Some(incoming) };
        let handshakes = self.state_counts[ConnectionState::Handshake as usize];
        let proven = S::is_validated(&incoming) || handshakes < limits.handshakes_before_retry;
        let mut response = Vec::new();
        let transmit = if !proven {
            self.stack.retry(incoming, &mut response)?
        } else {
            match self.reserve_capacity(now, limits, sink) {
                Capacity::Available => return Some(incoming),
                // The client sends again (RFC 9002 section 6.2.4).
                Capacity::RetryLater => {
                    self.stack.ignore(incoming);
                    return None;
                }
                Capacity::Full => self.stack.refuse(incoming, &mut response),
            }
        };
        self.send_response(transmit, &response, sink);
        None
    }

    /// Passes a datagram of the network to the stack. After a batch of them [`EndpointDriver::poll_all`] must follow.
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

    /// Lets clients request a controller from now on. `default_name` is the name without a request.
    pub fn set_controller_builder(
        &mut self,
        default_name: &str,
        builder: &RequestedControllerBuilder,
    ) {
        self.negotiated = Some(NegotiatedController::new(default_name, builder));
    }

    /// Declares that the peer opens one stream per connection.
    pub fn limit_to_one_stream(&mut self) {
        self.max_bidi_streams = S::few_bidi_streams(self.spec.crypto);
    }

    /// Takes the live connections that have worked since the last call, in the order of arrival. No other connection
    /// has changed.
    pub fn take_changed(&mut self) -> impl Iterator<Item = &ConnectionDriver<S::Connection>> {
        let changed = std::mem::take(&mut self.changed);
        let changed = changed.into_iter().filter_map(|index| self.connections.get(index));
        let mut changed: Vec<&ConnectionDriver<S::Connection>> =
            changed.map(|member| &member.connection).collect();
        changed.sort_unstable_by_key(|connection| connection.number());
        changed.into_iter()
    }
}
