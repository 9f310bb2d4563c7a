//! The stack quinn-proto behind the boundary of `stack`. No other folder of this crate names it.
//!
//! Reading order: `config` (translation of the options), `shim_controller` (replaces the stack's controller),
//! `connection`, `streams`, `modelled_tls` (cryptography).

mod config;
mod connection;
mod modelled_tls;
mod shim_controller;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;

pub use connection::QuinnConnection;
use quinn_proto::{
    ClientConfig, ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointEvent, Incoming,
    ServerConfig, TransportConfig,
};
use units::{Ecn, Time};

use super::clock::Clock;
use super::stack::{
    AcceptError, ConnectionConfig, InboundDatagram, Reception, Stack, StackTransmit,
};
use super::{Crypto, NetworkConfig, QuicSpec};
use crate::Side;

/// An endpoint of the stack.
pub struct Quinn {
    inner: quinn_proto::Endpoint,
    clock: Clock,
    client: Option<ClientConfig>,
    server: Option<ServerConfig>,
}

impl Quinn {
    fn new(
        endpoint: quinn_proto::EndpointConfig,
        client: Option<ClientConfig>,
        server: Option<ServerConfig>,
    ) -> Quinn {
        let accept = server.clone().map(Arc::new);
        let inner = quinn_proto::Endpoint::new(Arc::new(endpoint), accept, false, None);
        Quinn { inner, clock: Clock::new(), client, server }
    }

    fn connection(&self, inner: quinn_proto::Connection) -> QuinnConnection {
        QuinnConnection { inner, clock: self.clock }
    }
}

impl Stack for Quinn {
    type Connection = QuinnConnection;
    type ConnectionConfig = TransportConfig;
    type Incoming = Incoming;

    const DEDUP_WINDOW: u64 = 129;

    fn simulated(side: Side, spec: &QuicSpec, seed: u64, name: &str) -> Result<Quinn, String> {
        let endpoint = config::endpoint(spec, seed, name)?;
        let (client, server) = match side {
            Side::Client => (Some(config::client(spec, seed, name)?), None),
            Side::Server => (None, Some(config::server(spec)?)),
        };
        Ok(Quinn::new(endpoint, client, server))
    }

    fn with_network(network: &NetworkConfig) -> Result<Quinn, String> {
        let (client, server) = config::network_sides(network)?;
        Ok(Quinn::new(config::network_endpoint()?, client, server))
    }

    fn few_bidi_streams(crypto: Crypto) -> u32 {
        config::few_bidi_streams(crypto)
    }

    fn is_stateless_reset(connection_id: &[u8], datagram: &[u8]) -> bool {
        config::is_stateless_reset(connection_id, datagram)
    }

    fn connection_config(&self, config: ConnectionConfig<'_>) -> Result<TransportConfig, String> {
        config::transport(config, self.clock)
    }

    fn connect(
        &mut self,
        now: Time,
        config: TransportConfig,
        remote: SocketAddr,
        name: &str,
    ) -> Result<(usize, QuinnConnection), String> {
        let mut client = self.client.clone().ok_or("a server does not connect")?;
        client.transport_config(Arc::new(config));
        let (handle, inner) = self
            .inner
            .connect(self.clock.instant(now), client, remote, name)
            .map_err(|error| error.to_string())?;
        Ok((handle.0, self.connection(inner)))
    }

    #[inline]
    fn receive(
        &mut self,
        now: Time,
        datagram: InboundDatagram,
        response: &mut Vec<u8>,
        deliver: impl FnOnce(usize, ConnectionEvent),
    ) -> Reception<Incoming> {
        let instant = self.clock.instant(now);
        let InboundDatagram { remote, local, ecn, data } = datagram;
        let ecn = quinn_proto::EcnCodepoint::from_bits(ecn as u8);
        // The match uses no variable: the event is large, and would be copied.
        match self.inner.handle(instant, remote, local, ecn, data, response) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                deliver(handle.0, event);
                Reception::Delivered
            }
            Some(DatagramEvent::NewConnection(incoming)) => Reception::New(incoming),
            Some(DatagramEvent::Response(transmit)) => {
                Reception::Response(to_stack_transmit(transmit))
            }
            None => Reception::Ignored,
        }
    }

    fn is_validated(incoming: &Incoming) -> bool {
        incoming.remote_address_validated()
    }

    fn accept(
        &mut self,
        now: Time,
        incoming: Incoming,
        config: TransportConfig,
        response: &mut Vec<u8>,
    ) -> Result<(usize, QuinnConnection), AcceptError> {
        let server = self.server.clone().map(|mut server| {
            server.transport_config(Arc::new(config));
            Arc::new(server)
        });
        match self.inner.accept(incoming, self.clock.instant(now), response, server) {
            Ok((handle, inner)) => Ok((handle.0, self.connection(inner))),
            Err(error) => Err(AcceptError {
                message: error.cause.to_string(),
                response: error.response.map(to_stack_transmit),
            }),
        }
    }

    fn retry(&mut self, incoming: Incoming, response: &mut Vec<u8>) -> Option<StackTransmit> {
        match self.inner.retry(incoming, response) {
            Ok(transmit) => Some(to_stack_transmit(transmit)),
            Err(error) => {
                self.inner.ignore(error.into_incoming());
                None
            }
        }
    }

    fn refuse(&mut self, incoming: Incoming, response: &mut Vec<u8>) -> StackTransmit {
        to_stack_transmit(self.inner.refuse(incoming, response))
    }

    fn ignore(&mut self, incoming: Incoming) {
        self.inner.ignore(incoming);
    }

    fn handle_output(&mut self, handle: usize, output: EndpointEvent) -> Option<ConnectionEvent> {
        self.inner.handle_event(ConnectionHandle(handle), output)
    }

    fn forget(&mut self, handle: usize) {
        self.inner.handle_event(ConnectionHandle(handle), EndpointEvent::drained());
    }
}

#[inline]
fn to_stack_transmit(transmit: quinn_proto::Transmit) -> StackTransmit {
    let ecn = match transmit.ecn {
        None => Ecn::NotEct,
        Some(quinn_proto::EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(quinn_proto::EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(quinn_proto::EcnCodepoint::Ce) => Ecn::Ce,
    };
    StackTransmit {
        destination: transmit.destination,
        src_ip: transmit.src_ip,
        ecn,
        size: transmit.size,
        segment_size: transmit.segment_size,
    }
}
