//! A QUIC interface: one socket that opens and accepts connections.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use transport::quic::{
    CloseReason, NetworkConfig, QuicConnection, QuicEndpoint, QuicRequirements, QuicSpec,
    RequestedControllerBuilder, TlsConfig,
};
use transport::{App, AppBuilder, AppCommand, AppNotification, ControllerBuilder, Endpoint as _};
use units::Time;

use super::connection_report::{ConnectionReport, canonical_addr};
use crate::{BatchedUdpSocket, Clock, QuicDriver};

/// Configuration of a QUIC interface.
pub struct QuicHostConfig {
    /// The socket of all connections.
    pub socket: BatchedUdpSocket,
    /// Keys and ALPN of the sides that can open connections: this one, the peers, or both.
    pub tls: TlsConfig,
    /// Options of the connections.
    pub spec: QuicSpec,
    /// Requirements of the applications.
    pub requirements: QuicRequirements,
    /// The builder of controllers.
    pub controller_builder: ControllerBuilder,
    /// The maximum of concurrent accepted connections.
    pub max_connections: usize,
    /// Slow connections are evicted for new ones.
    pub evicts_slow: bool,
    /// The maximum of concurrent handshakes before peers have to validate their address.
    pub max_handshakes: usize,
    /// The name of the server for TLS, `None` for the address of the peer.
    pub server_name: Option<String>,
    /// The default controller and the builder of those that peers request, `None` if they request none.
    pub requested_controllers: Option<(String, RequestedControllerBuilder)>,
    /// The host keeps reports of changed and closed connections until they are taken.
    pub keeps_reports: bool,
}

impl QuicHostConfig {
    /// Creates the configuration of an interface with one connection and without reports.
    pub fn new(
        socket: BatchedUdpSocket,
        tls: TlsConfig,
        spec: QuicSpec,
        controller_builder: ControllerBuilder,
    ) -> QuicHostConfig {
        QuicHostConfig {
            socket,
            tls,
            spec,
            requirements: QuicRequirements::default(),
            controller_builder,
            max_connections: 1,
            evicts_slow: true,
            max_handshakes: 1,
            server_name: None,
            requested_controllers: None,
            keeps_reports: false,
        }
    }
}

/// An open QUIC interface.
pub(super) struct QuicHostSocket {
    interface: usize,
    pub(super) driver: QuicDriver,
    local: SocketAddr,
    server_name: Option<String>,
    keeps_reports: bool,
    /// Connections that have worked, and the reports of closed ones, if the interface keeps them.
    changed: BTreeSet<u32>,
    closed_reports: Vec<ConnectionReport<'static>>,
    /// Connections that are reported as closed and wait for late packets.
    reported_closed: BTreeSet<u32>,
    closed: Vec<(u32, CloseReason)>,
}

impl QuicHostSocket {
    pub(super) fn new(
        interface: usize,
        plan: QuicHostConfig,
        clock: Clock,
        make_app: AppBuilder,
    ) -> io::Result<QuicHostSocket> {
        let network = NetworkConfig {
            tls: plan.tls,
            max_connections: plan.max_connections,
            handshakes_before_retry: plan.max_handshakes,
        };
        let mut endpoint =
            QuicEndpoint::with_network(&network, &plan.spec, make_app, plan.controller_builder)
                .map_err(io::Error::other)?;
        if plan.evicts_slow {
            endpoint.enable_eviction();
        }
        if let Some((name, builder)) = &plan.requested_controllers {
            endpoint.set_controller_builder(name, builder);
        }
        endpoint.set_requirements(plan.requirements);
        let local = plan.socket.local_addr()?;
        let mut driver = QuicDriver::new(endpoint, plan.socket)?;
        driver.clock = clock;
        Ok(QuicHostSocket {
            interface,
            driver,
            local,
            server_name: plan.server_name,
            keeps_reports: plan.keeps_reports,
            changed: BTreeSet::new(),
            closed_reports: Vec::new(),
            reported_closed: BTreeSet::new(),
            closed: Vec::new(),
        })
    }

    pub(super) fn open_connections(&self) -> usize {
        self.numbers().count()
    }

    pub(super) fn peer_addr(&self, number: u32) -> Option<SocketAddr> {
        Some(canonical_addr(self.driver.endpoint.connection(number)?.remote()))
    }

    pub(super) fn connect(
        &mut self,
        now: Time,
        peer: SocketAddr,
        app: Box<dyn App>,
    ) -> Result<u32, String> {
        let QuicDriver { endpoint, socket, .. } = &mut self.driver;
        let name = self.server_name.clone().unwrap_or_else(|| peer.ip().to_string());
        endpoint.connect_with_app(now, peer, &name, Some(app), socket)
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
        self.collect_changes();
    }

    /// Does the due work.
    pub(super) fn poll(&mut self) -> io::Result<()> {
        self.driver.poll_endpoint()?;
        self.collect_changes();
        Ok(())
    }

    fn collect_changes(&mut self) {
        let (now, endpoint) = (self.driver.clock.now(), &mut self.driver.endpoint);
        for connection in endpoint.take_changed() {
            let number = connection.number();
            let Some(end) = connection.close_reason() else {
                if self.keeps_reports {
                    self.changed.insert(number);
                }
                continue;
            };
            if !self.reported_closed.insert(number) {
                continue;
            }
            self.changed.remove(&number);
            self.closed.push((number, end.clone()));
            if self.keeps_reports {
                let report = ConnectionReport::from_quic(self.interface, self.local, connection);
                let closed = Some((end.clone(), now));
                self.closed_reports.push(ConnectionReport { closed, ..report }.into_owned());
            }
        }
        for ended in endpoint.take_closed() {
            if self.reported_closed.remove(&ended.number) {
                continue;
            }
            self.changed.remove(&ended.number);
            self.closed.push((ended.number, ended.reason.clone()));
            if self.keeps_reports {
                self.closed_reports.push(ConnectionReport::from_closed_quic(
                    self.interface,
                    self.local,
                    now,
                    ended,
                ));
            }
        }
    }

    /// Returns the numbers of the open connections.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        let live = self.driver.endpoint.live_connections();
        live.filter(|live| live.close_reason().is_none()).map(QuicConnection::number)
    }

    pub(super) fn take_changed(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn take_closed_reports(&mut self) -> Vec<ConnectionReport<'static>> {
        std::mem::take(&mut self.closed_reports)
    }

    pub(super) fn report(&self, number: u32) -> Option<ConnectionReport<'_>> {
        let connection = self.driver.endpoint.connection(number)?;
        let is_open = connection.close_reason().is_none();
        is_open.then(|| ConnectionReport::from_quic(self.interface, self.local, connection))
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
