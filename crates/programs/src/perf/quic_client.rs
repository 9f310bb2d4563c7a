//! The measuring client over QUIC: one connection, its load, its lines, its result.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use runtime::tls::{Fingerprint, PresentedCertificate};
use runtime::{BatchedUdpSocket, QuicDriver, tls};
use transport::perf_load::{ControllerRequest, PerfClient};
use transport::quic::{
    CloseReason, ClosedConnection, NetworkConfig, QuicConnection, QuicEndpoint, TlsConfig,
};
use transport::{AppBuilder, StreamSpec};
use units::{Span, Time};

use super::frames::{ConnectionFrame, FrameWriter};
use super::peer::{describe_certificate, pin_mismatch, resolve_host, server_verification};
use super::qlog::QlogWriter;
use super::report::{ControllerNames, ReportScope};
use super::summary::{SummaryInput, cpu_seconds};
use super::{PerfClientPlan, PerfSummary, Reporter, SenderReport};
use crate::ProgramError;

/// The interval of timeout checks before the connection is established.
const POLL_INTERVAL: Span = Span(10_000_000);

/// The maximum of polls after a closed port before the error is final.
const MAX_REFUSED_POLLS: usize = 8;

/// A client, ready to connect.
pub struct QuicMeasuringClient {
    plan: PerfClientPlan,
    driver: QuicDriver,
    remote: SocketAddr,
    presented: PresentedCertificate,
    pinned: Option<Fingerprint>,
    qlog: Option<QlogWriter>,
    /// Bytes of the request on each stream.
    request_bytes: u64,
}

impl QuicMeasuringClient {
    /// Resolves the server's address and binds a socket.
    ///
    /// # Errors
    /// The defect of the plan.
    pub fn start(plan: PerfClientPlan) -> Result<QuicMeasuringClient, ProgramError> {
        let remote = resolve_host(&plan.host, plan.port)?;
        let (trust, pinned) = server_verification(&plan, remote)?;
        let (config, shown) = tls::client_config(&plan.alpn, trust).map_err(ProgramError::Input)?;
        let mut quic = plan.quic.clone();
        quic.header_bytes = if remote.is_ipv4() { 28 } else { 48 };
        let live = NetworkConfig {
            tls: TlsConfig::Client(Arc::new(config)),
            max_connections: 1,
            handshakes_before_retry: 1,
        };
        let question = plan.build_controller_request(&plan.congestion.name)?;
        let apps = app_builder(&plan.load, question.clone());
        let endpoint = QuicEndpoint::with_network(
            &live,
            &quic,
            apps,
            plan.congestion.controller_builder(&quic)?,
        )
        .map_err(ProgramError::Input)?;
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = BatchedUdpSocket::bind(SocketAddr::new(any, 0), Some(remote))
            .map_err(|error| ProgramError::Run(format!("{remote} cannot be reached: {error}")))?;
        let mut driver = QuicDriver::new(endpoint, socket)?;
        let mut qlog = None;
        if let Some(folder) = &plan.report.qlog {
            let made = QlogWriter::new(folder.clone(), "client", &plan.quic, driver.clock)?;
            driver.socket.set_observer(Box::new(made.clone()));
            qlog = Some(made);
        }
        let request = PerfClient::request_bytes(question.as_ref());
        Ok(QuicMeasuringClient {
            plan,
            driver,
            remote,
            presented: shown,
            pinned,
            qlog,
            request_bytes: request,
        })
    }

    /// Runs the load. Returns whether it was stopped before its end.
    ///
    /// # Errors
    /// The reason why the result is missing or incomplete.
    pub fn run(mut self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, ProgramError> {
        let mut reporter = Reporter::new(&self.plan.report, screen, false)?;
        let mut frames = FrameWriter::new(self.plan.report.frames.as_ref(), self.driver.clock)?;
        let cpu = cpu_seconds();
        let began = self.driver.clock.now();
        frames.write_begin(began, "client", "quic", &self.plan.congestion.name, None)?;
        let done = self.measure(began, stop, &mut reporter, &mut frames, cpu);
        let end = match &done {
            Ok(false) => "done".to_owned(),
            Ok(true) => "interrupted".to_owned(),
            Err(failure) => format!("failed: {failure}"),
        };
        frames.write_end(&end, cpu_seconds() - cpu);
        if done.is_err() {
            // Informs the server, so that it does not wait for a timeout.
            let QuicDriver { endpoint, socket, clock } = &mut self.driver;
            endpoint.close(clock.now(), socket);
            socket.flush();
        }
        let cut = self.qlog.as_ref().is_some_and(QlogWriter::is_incomplete);
        if cut || frames.is_incomplete() || reporter.is_incomplete() {
            done.and(Err(ProgramError::IncompleteResults))
        } else {
            done
        }
    }

    fn measure(
        &mut self,
        began: Time,
        stop: &AtomicBool,
        reporter: &mut Reporter,
        frames: &mut FrameWriter,
        cpu: f64,
    ) -> Result<bool, ProgramError> {
        let QuicDriver { endpoint, socket, .. } = &mut self.driver;
        endpoint
            .connect_address(began, self.remote, &self.plan.host, socket)
            .map_err(|error| ProgramError::Input(format!("{}: {error}", self.plan.host)))?;
        let mut alpn = None;
        let (ended, stopped) = loop {
            let now = self.driver.clock.now();
            if let Some(ended) = self.driver.endpoint.take_closed().pop() {
                break (ended, false);
            }
            let mut over = false;
            if let Some(connection) = self.driver.endpoint.live_connections().next() {
                if alpn.is_none() && connection.connected_at().is_some() {
                    alpn = Some(alpn_text(connection));
                    self.print_connected(reporter, connection, began)?;
                    reporter.start_intervals(now);
                    frames.write_connection(now, &self.connection_frame(connection, began)?);
                    if let Some(qlog) = &self.qlog {
                        let controller = &self.plan.congestion.name;
                        qlog.on_connected(
                            0,
                            self.remote,
                            self.driver.socket.local_addr()?,
                            controller,
                        );
                    }
                }
                over = connection.close_reason().is_some();
                if let (Some(qlog), true) = (&self.qlog, alpn.is_some()) {
                    qlog.on_state(now, self.remote, &connection_report(connection));
                }
                if reporter.is_due(now) {
                    reporter.write_due(now, &[self.report_scope(connection, began)])?;
                }
                if frames.is_due(now) && alpn.is_some() {
                    frames.write_sample(
                        now,
                        0,
                        &self.sender_report(connection),
                        connection.app().stream_reports(),
                    );
                    frames.flush();
                }
            }
            if over {
                break (self.close_and_take(now), false);
            }
            if stop.load(Ordering::Relaxed) {
                break (self.close_and_take(now), true);
            }
            self.check_connect_timeout(now, began, alpn.is_some())?;
            let other = if alpn.is_some() { reporter.poll_at() } else { now + POLL_INTERVAL };
            let until = other.min(frames.poll_at());
            self.poll_driver(until, alpn.is_some())?;
        };
        let now = self.driver.clock.now();
        if ended.connected_at.is_none() && !stopped {
            return Err(self.handshake_error(&ended));
        }
        let state = SenderReport::from_quic(&ended.gauges, &ended.counters);
        let sender = state.omit_receiver_window(self.request_bytes * ended.streams.len() as u64);
        let names =
            ControllerNames::new(&self.plan.congestion.name, ended.peer_controller.as_ref());
        let end = (!stopped).then_some(&ended.reason);
        if let Some(qlog) = &self.qlog {
            let why = if stopped { "interrupted" } else { describe_close(&ended.reason) };
            qlog.on_state(now, self.remote, &state);
            qlog.on_closed(now, self.remote, why);
        }
        if alpn.is_some() {
            frames.write_end_connection(now, 0, end, &sender, &ended.streams, names);
        }
        if let Some(answer) =
            ended.peer_controller.as_ref().filter(|answer| answer.refusal_reason.is_some())
        {
            return Err(self.plan.refusal_error(answer));
        }
        reporter
            .write_totals(now, &ReportScope::single(0, began, &ended.streams, sender, names))?;
        let closing = SummaryInput {
            role: "client",
            peer: self.remote.to_string(),
            close_reason: end,
            transport: "quic",
            connections: 1,
            alpn: alpn.as_deref().unwrap_or_default(),
            controllers: names,
            mtu: ended.mtu,
            handshake: ended.connected_at.map(|at| at.since(began)),
            streams: ended.streams.iter().collect(),
            sender,
            cpu_s: cpu_seconds() - cpu,
        };
        let summary = PerfSummary::new(now, &closing);
        reporter.print(&summary.to_string())?;
        if let Some(text) =
            self.plan.missing_response_note(summary.down_bytes, ended.peer_controller.is_some())
        {
            reporter.print(&text)?;
        }
        if reporter.is_json() {
            let text = serde_json::to_string_pretty(&summary).map_err(std::io::Error::from)?;
            reporter.print_json(&text)?;
        }
        match &ended.reason {
            _ if stopped => Ok(true),
            CloseReason::Local => Ok(false),
            CloseReason::Peer => Err(ProgramError::Run(format!(
                "{} closed the connection before the load was done",
                self.remote
            ))),
            CloseReason::Lost(why) => Err(ProgramError::Run(self.describe_loss(why))),
        }
    }

    fn poll_driver(&mut self, until: Time, connected: bool) -> Result<(), ProgramError> {
        let remote = self.remote;
        let mut done = self.driver.poll_once(until);
        // Data that the server sent before its end can still be unread: the socket reports errors first, one per
        // datagram sent since.
        for _ in 0..MAX_REFUSED_POLLS {
            if !connected || !done.as_ref().is_err_and(is_refused) {
                break;
            }
            let again = self.driver.poll_once(until);
            if self
                .driver
                .endpoint
                .live_connections()
                .next()
                .is_none_or(|live| live.close_reason().is_some())
            {
                done = Ok(());
            } else if again.is_err() {
                done = again;
            }
        }
        done.map_err(|error| match error.kind() {
            std::io::ErrorKind::ConnectionRefused if connected => {
                ProgramError::Run(format!("{remote}: the server is gone (its UDP port is closed)"))
            }
            std::io::ErrorKind::ConnectionRefused => ProgramError::Run(format!(
                "{remote}: nothing listens there (UDP port closed); is `bentpipe perf server` running?"
            )),
            _ => ProgramError::Run(format!("{remote} cannot be reached: {error}")),
        })?;
        match self.driver.socket.too_large() {
            Some(size) => Err(ProgramError::Input(format!(
                "--mtu: the way to {remote} takes no UDP payload of {size} bytes; give a smaller --mtu"
            ))),
            None => Ok(()),
        }
    }

    /// Fails when the handshake timeout has expired.
    fn check_connect_timeout(
        &mut self,
        now: Time,
        began: Time,
        connected: bool,
    ) -> Result<(), ProgramError> {
        let timeout = Span(self.plan.timeout_ns as _);
        if connected || now.since(began) < timeout {
            return Ok(());
        }
        let QuicDriver { endpoint, socket, .. } = &mut self.driver;
        endpoint.close(now, socket);
        Err(ProgramError::Run(format!(
            "{}: no answer within {} s; is the server running, and does UDP pass?",
            self.remote,
            timeout.seconds()
        )))
    }

    /// Closes the connection, informs the peer, and returns the final state.
    fn close_and_take(&mut self, now: Time) -> ClosedConnection {
        let QuicDriver { endpoint, socket, .. } = &mut self.driver;
        endpoint.close(now, socket);
        socket.flush();
        let closed = endpoint.take_closed().pop();
        closed
            .or_else(|| {
                endpoint.live_connections().next().map(QuicConnection::to_closed_connection)
            })
            .expect("one was opened")
    }

    fn print_connected(
        &self,
        reporter: &mut Reporter,
        connection: &QuicConnection,
        began: Time,
    ) -> Result<(), ProgramError> {
        let took = connection.connected_at().map_or(0.0, |at| at.since(began).millis());
        let known = describe_certificate(&self.plan.server_verification, &self.presented);
        let text = format!(
            "connected to {} in {took:.2} ms, ALPN {}, UP with {}, mtu {}; {known}",
            self.remote,
            alpn_text(connection),
            self.plan.congestion.name,
            connection.mtu(),
        );
        Ok(reporter.print(&text)?)
    }

    /// Converts a failed handshake to an error.
    fn handshake_error(&self, ended: &ClosedConnection) -> ProgramError {
        let CloseReason::Lost(why) = &ended.reason else {
            return ProgramError::Run(format!("{} closed the connection at once", self.remote));
        };
        pin_mismatch(self.remote, self.pinned, &self.presented)
            .unwrap_or_else(|| ProgramError::Run(self.describe_loss(why)))
    }

    fn sender_report(&self, connection: &QuicConnection) -> SenderReport {
        connection_report(connection).omit_receiver_window(
            self.request_bytes * connection.app().stream_reports().len() as u64,
        )
    }

    fn report_scope<'a>(&'a self, connection: &'a QuicConnection, began: Time) -> ReportScope<'a> {
        let app = connection.app();
        let names = ControllerNames::new(&self.plan.congestion.name, app.peer_controller());
        ReportScope::single(0, began, app.stream_reports(), self.sender_report(connection), names)
    }

    fn connection_frame(
        &self,
        connection: &QuicConnection,
        began: Time,
    ) -> Result<ConnectionFrame<'_>, ProgramError> {
        Ok(ConnectionFrame {
            connection: 0,
            transport: "quic",
            local: self.driver.socket.local_addr()?.to_string(),
            remote: self.remote.to_string(),
            congestion: &self.plan.congestion.name,
            started_at: began,
            connected_at: connection.connected_at().unwrap_or(began),
            mss_bytes: connection.mtu(),
        })
    }

    fn describe_loss(&self, why: &str) -> String {
        let idle = self.plan.quic.idle_timeout_ns.map_or(0.0, |nanos| nanos as f64 / 1e9);
        match why {
            "timed out" => {
                format!("{}: the connection is lost: nothing came for {idle} s", self.remote)
            }
            "reset by peer" => format!("{}: the server has restarted", self.remote),
            _ if why.contains("refused") => {
                format!("{}: the server takes no more connections ({why})", self.remote)
            }
            // no_application_protocol (RFC 7301 section 3.2).
            _ if why.contains("error 120") => {
                format!("{}: the server does not speak ALPN {}", self.remote, self.plan.alpn)
            }
            _ => format!("{}: {why}", self.remote),
        }
    }
}

fn is_refused(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

fn alpn_text(connection: &QuicConnection) -> String {
    connection.alpn().map_or(String::new(), |alpn| String::from_utf8_lossy(&alpn).into_owned())
}

/// Describes the close of a connection.
fn describe_close(end: &CloseReason) -> &str {
    match end {
        CloseReason::Local | CloseReason::Peer => "closed",
        CloseReason::Lost(why) => why,
    }
}

fn connection_report(connection: &QuicConnection) -> SenderReport {
    SenderReport::from_quic(&connection.gauges(), &connection.counters())
}

fn app_builder(load: &[StreamSpec], question: Option<ControllerRequest>) -> AppBuilder {
    let load = load.to_vec();
    Box::new(move |_| {
        Box::new(match &question {
            Some(question) => PerfClient::with_request(&load, question),
            None => PerfClient::new(&load),
        })
    })
}
