//! A QUIC interface: one socket that opens and accepts connections.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use transport::quic::{
    CloseReason, NetworkConfig, QuicEndpoint, QuicRequirements, QuicSpec, TlsConfig,
};
use transport::{App, AppBuilder, AppCommand, AppNotification, ControllerBuilder, Endpoint as _};
use units::Time;

use crate::{BatchedUdpSocket, Clock, QuicDriver};

/// Configuration of a QUIC interface.
pub struct QuicHostConfig {
    /// The local address of all connections.
    pub listen: SocketAddr,
    /// Keys and ALPN of the sides that can open connections: this one, the peers, or both.
    pub tls: TlsConfig,
    /// Options of the connections.
    pub spec: QuicSpec,
    /// Requirements of the applications.
    pub requirements: QuicRequirements,
    /// The builder of controllers.
    pub controller_builder: ControllerBuilder,
    /// The maximum of concurrent accepted connections; slow ones are evicted for new ones.
    pub max_connections: usize,
    /// The maximum of concurrent handshakes before peers have to validate their address.
    pub max_handshakes: usize,
}

/// An open QUIC interface.
pub(super) struct QuicHostSocket {
    pub(super) driver: QuicDriver,
    /// Connections that are reported as closed and wait for late packets.
    reported_closed: BTreeSet<u32>,
    closed: Vec<(u32, CloseReason)>,
}

impl QuicHostSocket {
    pub(super) fn new(
        plan: QuicHostConfig,
        clock: Clock,
        make_app: AppBuilder,
    ) -> io::Result<QuicHostSocket> {
        let QuicHostConfig {
            tls, max_connections: connections, max_handshakes: handshakes, ..
        } = plan;
        let live = NetworkConfig {
            tls,
            max_connections: connections,
            handshakes_before_retry: handshakes,
        };
        let mut endpoint =
            QuicEndpoint::with_network(&live, &plan.spec, make_app, plan.controller_builder)
                .map_err(io::Error::other)?;
        endpoint.enable_eviction();
        endpoint.set_requirements(plan.requirements);
        let mut driver = QuicDriver::new(endpoint, BatchedUdpSocket::bind(plan.listen, None)?)?;
        driver.clock = clock;
        Ok(QuicHostSocket { driver, reported_closed: BTreeSet::new(), closed: Vec::new() })
    }

    pub(super) fn open_connections(&self) -> usize {
        self.driver.endpoint.live_connections().filter(|live| live.close_reason().is_none()).count()
    }

    pub(super) fn peer_addr(&self, number: u32) -> Option<SocketAddr> {
        let remote = self.driver.endpoint.connection(number)?.remote();
        Some(SocketAddr::new(remote.ip().to_canonical(), remote.port()))
    }

    pub(super) fn connect(
        &mut self,
        now: Time,
        peer: SocketAddr,
        app: Box<dyn App>,
    ) -> Result<u32, String> {
        let QuicDriver { endpoint, socket, .. } = &mut self.driver;
        endpoint.connect_with_app(now, peer, &peer.ip().to_string(), Some(app), socket)
    }

    pub(super) fn send_command(&mut self, number: u32, order: AppCommand) {
        self.driver.endpoint.send_command(number, order);
    }

    pub(super) fn abort(&mut self, now: Time, number: u32) {
        let QuicDriver { endpoint, socket, .. } = &mut self.driver;
        endpoint.abort(now, number, socket);
    }

    pub(super) fn close(&mut self, now: Time) {
        let QuicDriver { endpoint, socket, .. } = &mut self.driver;
        endpoint.close(now, socket);
        socket.flush();
    }

    /// Does the due work.
    pub(super) fn poll(&mut self) -> io::Result<()> {
        self.driver.poll_endpoint()?;
        let endpoint = &mut self.driver.endpoint;
        for connection in endpoint.take_changed() {
            if let Some(end) = connection.close_reason()
                && self.reported_closed.insert(connection.number())
            {
                self.closed.push((connection.number(), end.clone()));
            }
        }
        for ended in endpoint.take_closed() {
            if !self.reported_closed.remove(&ended.number) {
                self.closed.push((ended.number, ended.reason));
            }
        }
        Ok(())
    }

    pub(super) fn take_notifications(&mut self) -> Vec<(u32, AppNotification)> {
        let mut notifications = Vec::new();
        self.driver.endpoint.take_notifications(&mut notifications);
        notifications
    }

    pub(super) fn take_closed(&mut self) -> Vec<(u32, CloseReason)> {
        std::mem::take(&mut self.closed)
    }
}
