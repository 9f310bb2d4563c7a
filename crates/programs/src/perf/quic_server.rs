//! The QUIC part of the measuring server.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use runtime::{BatchedUdpSocket, Clock, QuicDriver, StreamLimit};
use rustls::ServerConfig;
use transport::perf_load::PerfServer;
use transport::quic::{
    CloseReason, ClosedConnection, NetworkConfig, QuicConnection, QuicEndpoint, TlsConfig,
};
use units::Time;

use super::frames::ReportOutput;
use super::frames::{ConnectionFrame, FrameWriter};
use super::peer::canonical_addr;
use super::qlog::QlogWriter;
use super::report::{ControllerNames, ReportScope};
use super::summary::{SummaryInput, cpu_seconds};
use super::{PerfServerPlan, PerfSummary, SenderReport};
use crate::ProgramError;

/// Data of a connection in addition to the transport's.
struct ConnectionInfo {
    number: u32,
    started_at: Time,
    cpu_at_start: f64,
    alpn: String,
    mtu: u64,
    is_announced: bool,
    /// The result was reported.
    is_reported: bool,
}

/// The QUIC part of a server.
pub(super) struct QuicPerfListener {
    driver: QuicDriver,
    congestion: String,
    /// Connections by the number of the endpoint.
    connections: BTreeMap<u32, ConnectionInfo>,
    /// Connections that have changed since the last report.
    changed: BTreeSet<u32>,
    qlog: Option<QlogWriter>,
}

impl QuicPerfListener {
    /// Serves connections on `socket`.
    ///
    /// # Errors
    /// The defect of the plan.
    pub(super) fn new(
        plan: &PerfServerPlan,
        tls: Arc<ServerConfig>,
        socket: BatchedUdpSocket,
    ) -> Result<QuicPerfListener, ProgramError> {
        let connections = if plan.once { 1 } else { plan.limits.connections };
        let handshakes = plan.limits.handshakes;
        let live = NetworkConfig {
            tls: TlsConfig::Server(tls),
            max_connections: connections,
            handshakes_before_retry: handshakes,
        };
        let streams = plan.limits.streams;
        let mut endpoint = QuicEndpoint::with_network(
            &live,
            &plan.quic,
            Box::new(move |_| Box::new(StreamLimit::new(PerfServer::negotiating(), streams))),
            plan.congestion.controller_builder(&plan.quic)?,
        )
        .map_err(ProgramError::Input)?;
        endpoint
            .set_controller_builder(&plan.congestion.name, &plan.requested_controller_builder());
        if !plan.once {
            endpoint.enable_eviction();
        }
        let mut driver = QuicDriver::new(endpoint, socket)?;
        let mut qlog = None;
        if let Some(folder) = &plan.report.qlog {
            let made = QlogWriter::new(folder.clone(), "server", &plan.quic, driver.clock)?;
            driver.socket.set_observer(Box::new(made.clone()));
            qlog = Some(made);
        }
        let congestion = plan.congestion.name.clone();
        Ok(QuicPerfListener {
            driver,
            congestion,
            connections: BTreeMap::new(),
            changed: BTreeSet::new(),
            qlog,
        })
    }

    /// Returns the clock.
    pub(super) fn clock(&self) -> Clock {
        self.driver.clock
    }

    /// Returns the listening address.
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.driver.socket.local_addr()
    }

    /// Returns whether there is no connection.
    pub(super) fn is_idle(&self) -> bool {
        self.driver.endpoint.live_connections().next().is_none()
    }

    /// Sends the data queued for the socket.
    pub(super) fn flush(&mut self) {
        self.driver.socket.flush();
    }

    /// Polls the driver once.
    pub(super) fn poll_once(&mut self, until: Time, beside: Option<&dyn AsFd>) -> io::Result<()> {
        self.driver.poll_once_with_fd(until, beside)
    }

    /// Returns the data of a connection that is measured now.
    fn measured(&self, connection: &QuicConnection) -> Option<&ConnectionInfo> {
        self.connections
            .get(&connection.number())
            .filter(|known| known.is_announced && !known.is_reported)
    }

    /// Returns the report scopes of all connections, or of those that may have changed.
    pub(super) fn report_scopes(&mut self, all: bool) -> Vec<ReportScope<'_>> {
        let (moved, endpoint) = (std::mem::take(&mut self.changed), &self.driver.endpoint);
        let view = |connection| self.report_scope(connection);
        if all {
            endpoint.live_connections().filter_map(view).collect()
        } else {
            moved.iter().filter_map(|index| endpoint.connection(*index)).filter_map(view).collect()
        }
    }

    fn report_scope<'a>(&'a self, connection: &'a QuicConnection) -> Option<ReportScope<'a>> {
        let known = self.measured(connection)?;
        let app = connection.app();
        let controller = connection.controller_name().unwrap_or(&self.congestion);
        let names = ControllerNames::new(controller, app.peer_controller());
        let sender = connection_report(connection).omit_receiver_window(0);
        Some(ReportScope::single(
            known.number,
            known.started_at,
            app.stream_reports(),
            sender,
            names,
        ))
    }

    /// Writes samples of the measured connections.
    pub(super) fn write_samples(&self, now: Time, frames: &mut FrameWriter) {
        for connection in self.driver.endpoint.live_connections() {
            let Some(known) = self.measured(connection) else { continue };
            let sender = connection_report(connection).omit_receiver_window(0);
            frames.write_sample(now, known.number, &sender, connection.app().stream_reports());
        }
    }

    /// Returns whether a qlog file is incomplete.
    pub(super) fn is_incomplete(&self) -> bool {
        self.qlog.as_ref().is_some_and(QlogWriter::is_incomplete)
    }

    /// Closes all connections without a report.
    pub(super) fn close(&mut self, now: Time) {
        let QuicDriver { endpoint, socket, .. } = &mut self.driver;
        endpoint.close(now, socket);
        socket.flush();
    }

    /// Reports changes. Returns whether a connection with a complete handshake has closed.
    pub(super) fn report_changes(
        &mut self,
        now: Time,
        out: &mut ReportOutput,
    ) -> Result<bool, ProgramError> {
        let closed_connections = self.driver.endpoint.take_closed();
        let mut closed = Vec::new();
        let local = self.local_addr()?;
        for connection in self.driver.endpoint.take_changed() {
            self.changed.insert(connection.number());
            let known =
                self.connections.entry(connection.number()).or_insert_with(|| ConnectionInfo {
                    number: out.allocate_number(),
                    started_at: now,
                    cpu_at_start: cpu_seconds(),
                    alpn: String::new(),
                    mtu: connection.mtu(),
                    is_announced: false,
                    is_reported: false,
                });
            let Some(connected) = connection.connected_at() else { continue };
            if known.is_reported {
                continue;
            }
            let controller = connection.controller_name().unwrap_or(&self.congestion);
            if !std::mem::replace(&mut known.is_announced, true) {
                known.alpn = alpn_text(connection);
                known.mtu = connection.mtu();
                out.reporter.start_intervals(now);
                let from = canonical_addr(connection.remote());
                let line = format!("[{}] from {from}, QUIC, ALPN {}", known.number, known.alpn);
                out.reporter.print(&line)?;
                let opening = ConnectionFrame {
                    connection: known.number,
                    transport: "quic",
                    local: format!(":{}", local.port()),
                    remote: from.to_string(),
                    congestion: &self.congestion,
                    started_at: known.started_at,
                    connected_at: connected,
                    mss_bytes: known.mtu,
                };
                out.frames.write_connection(now, &opening);
                if let Some(qlog) = &self.qlog {
                    qlog.on_connected(known.number, connection.remote(), local, controller);
                }
            }
            if let Some(qlog) = &self.qlog {
                qlog.on_controller(known.number, connection.remote(), controller);
                qlog.on_state(now, connection.remote(), &connection_report(connection));
            }
            if connection.close_reason().is_some() {
                known.is_reported = true;
                closed.push(connection.to_closed_connection());
            }
        }
        let mut over = false;
        for ended in closed {
            self.report_closed(now, &ended, Some(&ended.reason), out)?;
            over = true;
        }
        for ended in closed_connections {
            // An incomplete handshake is not a measurement.
            let fresh = self.connections.get(&ended.number).is_none_or(|known| !known.is_reported);
            if ended.connected_at.is_some() && fresh {
                self.report_closed(now, &ended, Some(&ended.reason), out)?;
                over = true;
            }
            self.connections.remove(&ended.number);
        }
        Ok(over)
    }

    fn report_closed(
        &mut self,
        now: Time,
        ended: &ClosedConnection,
        end: Option<&CloseReason>,
        out: &mut ReportOutput,
    ) -> Result<(), ProgramError> {
        let known = self.connections.get(&ended.number);
        let began = known.map_or(ended.connected_at.unwrap_or(now), |known| known.started_at);
        let number = known.map_or_else(|| out.allocate_number(), |known| known.number);
        let sender =
            SenderReport::from_quic(&ended.gauges, &ended.counters).omit_receiver_window(0);
        let controller = ended.controller.as_deref().unwrap_or(&self.congestion);
        let names = ControllerNames::new(controller, ended.peer_controller.as_ref());
        out.reporter.write_totals(
            now,
            &ReportScope::single(number, began, &ended.streams, sender, names),
        )?;
        out.frames.write_end_connection(now, number, end, &sender, &ended.streams, names);
        if let Some(qlog) = &self.qlog {
            let why = match end {
                None => "interrupted",
                Some(CloseReason::Local | CloseReason::Peer) => "closed",
                Some(CloseReason::Lost(why)) => why,
            };
            qlog.on_controller(number, ended.remote, controller);
            qlog.on_closed(now, ended.remote, why);
        }
        let closing = SummaryInput {
            role: "server",
            peer: canonical_addr(ended.remote).to_string(),
            close_reason: end,
            transport: "quic",
            connections: 1,
            alpn: known.map_or("", |known| &known.alpn),
            controllers: names,
            mtu: known.map_or(ended.mtu, |known| known.mtu),
            handshake: ended.connected_at.map(|at| at.since(began)),
            streams: ended.streams.iter().collect(),
            sender,
            cpu_s: known.map_or(0.0, |known| cpu_seconds() - known.cpu_at_start),
        };
        report_summary(number, &PerfSummary::new(now, &closing), out)
    }

    /// Closes all connections and reports their results.
    pub(super) fn interrupt(
        &mut self,
        now: Time,
        out: &mut ReportOutput,
    ) -> Result<(), ProgramError> {
        let live: Vec<ClosedConnection> = self
            .driver
            .endpoint
            .live_connections()
            .filter(|live| live.connected_at().is_some() && live.close_reason().is_none())
            .map(QuicConnection::to_closed_connection)
            .collect();
        self.close(now);
        for ended in live {
            self.report_closed(now, &ended, None, out)?;
        }
        Ok(())
    }
}

/// Writes the result of a connection, as text or as JSON.
pub(super) fn report_summary(
    number: u32,
    summary: &PerfSummary,
    out: &mut ReportOutput,
) -> Result<(), ProgramError> {
    out.reporter.print(&format!("[{number}] {}\n{summary}", summary.end))?;
    if out.reporter.is_json() {
        out.reporter.print_json(&serde_json::to_string(summary).map_err(io::Error::from)?)?;
    }
    Ok(())
}

fn connection_report(connection: &QuicConnection) -> SenderReport {
    SenderReport::from_quic(&connection.gauges(), &connection.counters())
}

fn alpn_text(connection: &QuicConnection) -> String {
    connection.alpn().map_or(String::new(), |alpn| String::from_utf8_lossy(&alpn).into_owned())
}
