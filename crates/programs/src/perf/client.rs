//! The measuring client: connections on a host, lines, and the result. QUIC has one connection, TCP one per stream.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use runtime::host::{
    ConnectionReport, ConnectionTimeouts, Host, HostSocketConfig, QuicHostConfig, TLS_RECORD,
    TcpHostConfig, TcpProtocol,
};
use runtime::tls::{self, Fingerprint, PresentedCertificate};
use runtime::{BatchedUdpSocket, Clock};
use rustls::pki_types::ServerName;
use transport::perf_load::{AmountSpec, ControllerRequest, PerfClient, StreamReport};
use transport::quic::{CloseReason, TlsConfig};
use transport::{
    App, AppNotification, ConnectionControl, ConnectionKey, ConnectionManager, StreamSpec,
};
use units::{Span, Time};

use super::frames::{ConnectionFrame, FrameWriter};
use super::qlog::QlogWriter;
use super::report::{ConnectionSample, ControllerNames, ReportScope};
use super::server_verification::{describe_certificate, pin_mismatch, server_verification};
use super::summary::{SummaryInput, cpu_seconds};
use super::tcp_options::PerfTcpOptions;
use super::{
    PerfClientPlan, PerfSummary, PerfTransport, Reporter, SenderReport, describe_close,
    describe_protocol, name_peer,
};
use crate::ProgramError;

/// The interval of checks for a stop.
const POLL_INTERVAL: Span = Span(10_000_000);

/// The maximum of polls after a closed port before the error is final.
const MAX_REFUSED_POLLS: usize = 8;

/// Opens the connections of a load.
struct PerfClientManager {
    remote: String,
    /// The index and the application of each connection to open.
    queued: Vec<(usize, Box<dyn App>)>,
    /// The index, the time and the outcome of each attempt.
    opened: Vec<(usize, Time, Result<ConnectionKey, String>)>,
}

impl ConnectionManager for PerfClientManager {
    fn on_accept(&mut self, _now: Time, _key: ConnectionKey) -> Box<dyn App> {
        unreachable!("a client has no listening socket")
    }

    fn on_app_notification(
        &mut self,
        _now: Time,
        _key: ConnectionKey,
        _notification: AppNotification,
    ) {
    }

    fn on_close(&mut self, _now: Time, _key: ConnectionKey, _reason: &CloseReason) {}

    fn poll(&mut self, now: Time, control: &mut dyn ConnectionControl) {
        for (index, app) in self.queued.drain(..) {
            self.opened.push((index, now, control.connect(0, &self.remote, app)));
        }
    }

    fn poll_at(&mut self) -> Time {
        if self.queued.is_empty() { Time::MAX } else { Time::ZERO }
    }
}

/// A connection of the load.
struct ClientConnection {
    key: ConnectionKey,
    started_at: Time,
    /// The handshake was reported.
    is_announced: bool,
    /// The close was reported.
    is_reported: bool,
    /// The application protocol.
    alpn: Option<String>,
    /// The state at the close.
    closed: Option<ConnectionReport<'static>>,
}

/// The output of the results.
struct ClientOutput {
    reporter: Reporter,
    frames: FrameWriter,
    cpu_at_start: f64,
    began: Time,
}

/// A client, ready to connect.
pub struct MeasuringClient {
    plan: PerfClientPlan,
    host: Host<PerfClientManager>,
    clock: Clock,
    remote: SocketAddr,
    /// The kernel's name of the controller of TCP.
    kernel_controller: Option<String>,
    presented: PresentedCertificate,
    pinned: Option<Fingerprint>,
    qlog: Option<QlogWriter>,
    controller_request: Option<ControllerRequest>,
    /// The streams of each connection.
    loads: Vec<Vec<StreamSpec>>,
    /// Connections by index in the load, `None` before their start; and their indices.
    connections: Vec<Option<ClientConnection>>,
    indices: BTreeMap<ConnectionKey, usize>,
    /// The number of closed connections.
    closed_count: usize,
    /// Indices that can start, and those that wait for the end of a stream.
    due: Vec<usize>,
    dependents: BTreeMap<u64, Vec<usize>>,
}

impl MeasuringClient {
    /// Resolves the server's address and prepares the transport.
    ///
    /// # Errors
    /// The defect of the plan.
    pub fn start(plan: PerfClientPlan) -> Result<MeasuringClient, ProgramError> {
        let options = match plan.transport {
            PerfTransport::Quic => None,
            PerfTransport::Tcp | PerfTransport::Tls => {
                plan.load.iter().try_for_each(check_size)?;
                Some(PerfTcpOptions::new(&plan.tcp, &plan.congestion)?)
            }
            PerfTransport::All => {
                return Err(ProgramError::Input(
                    "--transport: a client speaks one: quic, tcp or tls".to_owned(),
                ));
            }
        };
        let name = options.as_ref().map_or(&*plan.congestion.name, PerfTcpOptions::congestion);
        let controller_request = plan.build_controller_request(name)?;
        let kernel_controller = options.as_ref().map(|options| options.congestion().to_owned());
        let remote = resolve_host(&plan.host, plan.port)?;
        let (mut config, mut presented, mut pinned) = (None, PresentedCertificate::default(), None);
        if plan.transport != PerfTransport::Tcp {
            let (trust, wanted) = server_verification(&plan, remote)?;
            let (made, certificate) =
                tls::client_config(&plan.alpn, trust).map_err(ProgramError::Input)?;
            (config, presented, pinned) = (Some(Arc::new(made)), certificate, wanted);
        }
        let (clock, mut qlog) = (Clock::start(), None);
        let mut loads = vec![plan.load.clone()];
        let (mut due, mut dependents) = (vec![0], BTreeMap::<u64, Vec<usize>>::new());
        let socket = match options {
            None => {
                let config = config.expect("QUIC has TLS");
                let (made, writer) = quic_socket(&plan, remote, TlsConfig::Client(config), clock)?;
                qlog = writer;
                HostSocketConfig::Quic(Box::new(made))
            }
            Some(options) => {
                let alone = |stream: &StreamSpec| StreamSpec { after: None, ..stream.clone() };
                loads = plan.load.iter().map(|stream| vec![alone(stream)]).collect();
                due.clear();
                for (index, stream) in plan.load.iter().enumerate() {
                    match stream.after {
                        None => due.push(index),
                        Some(id) => dependents.entry(id).or_default().push(index),
                    }
                }
                let idle = Span(plan.tcp.idle_timeout_ns);
                let handshake = idle.min(Span(plan.timeout_ns));
                let timeouts = ConnectionTimeouts { handshake, idle: Some(idle) };
                let name = ServerName::try_from(plan.host.clone())
                    .unwrap_or_else(|_| ServerName::IpAddress(remote.ip().into()));
                HostSocketConfig::Tcp(TcpHostConfig {
                    protocol: match config {
                        Some(config) => TcpProtocol::TlsClient(config, name),
                        None => TcpProtocol::Plain(None),
                    },
                    closes_after_fin: true,
                    reads_before_reset: true,
                    keeps_reports: true,
                    ..TcpHostConfig::new(None, options.into_socket_options(), timeouts, 0)
                })
            }
        };
        let manager = PerfClientManager {
            remote: remote.to_string(),
            queued: Vec::new(),
            opened: Vec::new(),
        };
        let mut host = Host::new(manager, vec![socket])
            .map_err(|error| ProgramError::Input(error.to_string()))?;
        host.set_clock(clock);
        Ok(MeasuringClient {
            host,
            clock,
            remote,
            kernel_controller,
            presented,
            pinned,
            qlog,
            controller_request,
            connections: loads.iter().map(|_| None).collect(),
            loads,
            indices: BTreeMap::new(),
            closed_count: 0,
            due,
            dependents,
            plan,
        })
    }

    fn is_quic(&self) -> bool {
        self.plan.transport == PerfTransport::Quic
    }

    /// Runs the load. Returns whether it was stopped before its end.
    ///
    /// # Errors
    /// The reason why the result is missing or incomplete.
    pub fn run(mut self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, ProgramError> {
        let reporter = Reporter::new(&self.plan.report, screen, false)?;
        let frames = FrameWriter::new(self.plan.report.frames.as_ref(), self.clock)?;
        let (cpu_at_start, began) = (cpu_seconds(), self.clock.now());
        let mut out = ClientOutput { reporter, frames, cpu_at_start, began };
        let (name, kernel) = (&self.plan.congestion.name, self.kernel_controller.as_deref());
        out.frames.write_begin(began, "client", self.plan.transport.name(), name, kernel)?;
        let done = self.measure(stop, &mut out);
        let end = match &done {
            Ok(false) => "done".to_owned(),
            Ok(true) => "interrupted".to_owned(),
            Err(failure) => format!("failed: {failure}"),
        };
        out.frames.write_end(&end, cpu_seconds() - cpu_at_start);
        if done.is_err() {
            // Informs the server, so that it does not wait for a timeout.
            self.host.close();
        }
        let cut = self.qlog.as_ref().is_some_and(QlogWriter::is_incomplete);
        if cut || out.frames.is_incomplete() || out.reporter.is_incomplete() {
            done.and(Err(ProgramError::IncompleteResults))
        } else {
            done
        }
    }

    fn measure(&mut self, stop: &AtomicBool, out: &mut ClientOutput) -> Result<bool, ProgramError> {
        self.queue_due();
        let mut greeted = false;
        let (lost, stopped) = loop {
            let now = self.clock.now();
            self.collect_opened()?;
            let changed = self.host.take_changed();
            let closed = self.collect_closed();
            for key in changed {
                greeted |= self.announce(self.indices[&key], now, greeted, out)?;
            }
            for &index in &closed {
                greeted |= self.announce(index, now, greeted, out)?;
            }
            if greeted && out.reporter.is_due(now) {
                self.update_reports();
                let live = self.live_reports();
                out.reporter.write_due(now, &[self.report_scope(&live, out.began)])?;
            }
            if out.frames.is_due(now) {
                self.write_samples(now, &mut out.frames);
            }
            if let Some(lost) = self.report_closed(&closed, &mut out.frames)? {
                break (Some(lost), false);
            }
            self.queue_due();
            if self.closed_count == self.connections.len() {
                break (None, false);
            }
            if stop.load(Ordering::Relaxed) {
                break (None, true);
            }
            let timeout = Span(self.plan.timeout_ns);
            if self.is_quic() && !greeted && now.since(out.began) >= timeout {
                return Err(self.timeout_error("is the server running, and does UDP pass?"));
            }
            let mut until = out.frames.poll_at().min(now + POLL_INTERVAL);
            if greeted {
                until = until.min(out.reporter.poll_at());
            }
            self.poll_host(until, greeted)?;
        };
        let now = self.clock.now();
        if !greeted && !stopped {
            return Err(self.handshake_error(lost.as_ref()));
        }
        self.host.close();
        self.collect_closed();
        for (index, connection) in self.opened_connections() {
            let Some(report) = &connection.closed else { continue };
            if let Some(qlog) = &self.qlog {
                let reason = report.closed.as_ref().map(|(reason, _)| reason);
                qlog.on_state(now, report.remote, &report.sender);
                qlog.on_closed(now, report.remote, describe_close(reason.filter(|_| !stopped)));
            }
            if connection.is_announced && !connection.is_reported {
                let sample = self.sample(report);
                let ConnectionSample { streams, sender, controllers } = &sample;
                out.frames.write_end_connection(
                    now,
                    index as u32,
                    None,
                    sender,
                    streams,
                    *controllers,
                );
            }
        }
        let reports = self.opened_connections().filter_map(|(_, it)| it.closed.as_ref());
        let mut refused = reports.filter_map(refused_response);
        if let Some(answer) = refused.next() {
            return Err(self.plan.refusal_error(answer));
        }
        self.report_result(now, lost.as_ref(), stopped, out)?;
        match lost {
            None => Ok(stopped),
            Some(reason) => Err(ProgramError::Run(self.describe_failure(&reason))),
        }
    }

    fn report_result(
        &self,
        now: Time,
        lost: Option<&CloseReason>,
        stopped: bool,
        out: &mut ClientOutput,
    ) -> Result<(), ProgramError> {
        let none = BTreeMap::new();
        let view = self.report_scope(&none, out.began);
        out.reporter.write_totals(now, &view)?;
        let reports = || self.opened_connections().filter_map(|(_, it)| it.closed.as_ref());
        let alpn = self.opened_connections().find_map(|(_, it)| it.alpn.as_deref());
        let closing = SummaryInput {
            role: "client",
            peer: self.remote.to_string(),
            close_reason: (!stopped).then_some(lost.unwrap_or(&CloseReason::Local)),
            transport: self.plan.transport.name(),
            connections: self.opened_connections().count(),
            alpn: alpn.unwrap_or_default(),
            controllers: view.controllers(),
            mtu: reports().map(|report| report.mss).max().unwrap_or(0),
            handshake: reports().find_map(|report| Some(report.connected_at?.since(out.began))),
            sender: SenderReport::aggregate(view.samples.iter().map(|part| &part.sender)),
            streams: view.samples.iter().flat_map(|part| part.streams).collect(),
            cpu_s: cpu_seconds() - out.cpu_at_start,
        };
        let summary = PerfSummary::new(now, &closing);
        out.reporter.print(&summary.to_string())?;
        if let Some(text) =
            self.plan.missing_response_note(summary.down_bytes, view.controllers().peer.is_some())
        {
            out.reporter.print(&text)?;
        }
        if out.reporter.is_json() {
            let text = serde_json::to_string_pretty(&summary).map_err(io::Error::from)?;
            out.reporter.print_json(&text)?;
        }
        Ok(())
    }

    /// Queues the connections of due streams.
    fn queue_due(&mut self) {
        self.due.sort_unstable();
        for index in std::mem::take(&mut self.due) {
            let load = &self.loads[index];
            let app = Box::new(match &self.controller_request {
                Some(request) => PerfClient::with_request(load, request),
                None => PerfClient::new(load),
            });
            self.host.manager().queued.push((index, app));
        }
    }

    /// Takes the opened connections.
    fn collect_opened(&mut self) -> Result<(), ProgramError> {
        let opened = std::mem::take(&mut self.host.manager().opened);
        for (index, started_at, outcome) in opened {
            let key = outcome.map_err(|error| match self.is_quic() {
                true => ProgramError::Input(format!("{}: {error}", self.plan.host)),
                false => ProgramError::Run(format!("{} cannot be reached: {error}", self.remote)),
            })?;
            self.indices.insert(key, index);
            self.connections[index] = Some(ClientConnection {
                key,
                started_at,
                is_announced: false,
                is_reported: false,
                alpn: None,
                closed: None,
            });
        }
        Ok(())
    }

    /// Takes the reports of closed connections. Returns their indices in ascending order.
    fn collect_closed(&mut self) -> BTreeSet<usize> {
        let mut indices = BTreeSet::new();
        for report in self.host.take_closed() {
            let index = self.indices[&report.key];
            if let Some(connection) = &mut self.connections[index] {
                connection.closed = Some(report);
                indices.insert(index);
            }
        }
        indices
    }

    /// Reports a change of the connection at `index`. Returns whether its handshake is complete.
    fn announce(
        &mut self,
        index: usize,
        now: Time,
        greeted: bool,
        out: &mut ClientOutput,
    ) -> Result<bool, ProgramError> {
        let Some(connection) = &mut self.connections[index] else { return Ok(false) };
        let (key, known) = (connection.key, connection.is_announced);
        if known && self.qlog.is_none() {
            return Ok(true);
        }
        if !known && self.host.report(key).is_some_and(|live| live.connected_at.is_some()) {
            self.host.update_report(key);
        }
        let live = self.host.report(key);
        let report = connection.closed.as_ref().or(live.as_ref());
        let Some((report, connected)) = report.and_then(|it| Some((it, it.connected_at?))) else {
            return Ok(false);
        };
        connection.is_announced = true;
        if !known {
            connection.alpn.clone_from(&report.alpn);
        }
        let name = &self.plan.congestion.name;
        if let Some(qlog) = &self.qlog {
            if !known {
                qlog.on_connected(0, report.remote, report.local, name);
            }
            qlog.on_state(now, report.remote, &report.sender);
        }
        if known {
            return Ok(true);
        }
        let opening = ConnectionFrame {
            connection: index as u32,
            transport: report.transport,
            local: report.local.to_string(),
            remote: report.remote.to_string(),
            congestion: report.controller.as_deref().unwrap_or(name),
            started_at: connection.started_at,
            connected_at: connected,
            mss_bytes: report.mss,
        };
        out.frames.write_connection(now, &opening);
        if greeted {
            return Ok(true);
        }
        out.reporter.start_intervals(now);
        let took = connected.since(out.began).millis();
        let unit = if report.transport == "quic" { "mtu" } else { "mss" };
        let mut text = format!(
            "connected to {} in {took:.2} ms, {}, UP with {}, {unit} {}",
            self.remote,
            describe_protocol(report),
            self.kernel_controller.as_ref().unwrap_or(name),
            report.mss,
        );
        if self.plan.transport != PerfTransport::Tcp {
            text += "; ";
            text += &describe_certificate(&self.plan.server_verification, &self.presented);
        }
        out.reporter.print(&text)?;
        Ok(true)
    }

    /// Reports closed connections. Returns the reason if one was lost.
    fn report_closed(
        &mut self,
        closed: &BTreeSet<usize>,
        frames: &mut FrameWriter,
    ) -> Result<Option<CloseReason>, ProgramError> {
        for &index in closed {
            let Some(connection) = &self.connections[index] else { continue };
            let Some(report) = &connection.closed else { continue };
            let Some((reason, at)) = &report.closed else { continue };
            let timeout = Span(self.plan.timeout_ns);
            let timed_out = *reason == CloseReason::Lost("timed out".to_owned());
            if timed_out && !self.is_quic() && report.connected_at.is_none() {
                let waited = at.since(connection.started_at);
                if waited >= timeout {
                    return Err(self.timeout_error(if report.tcp_established {
                        "the port is open, but no answer to TLS came; does the server speak it there?"
                    } else {
                        "is the server running, and does TCP pass?"
                    }));
                }
            }
            let end = match name_peer(reason, "server") {
                end if self.is_quic() => end,
                _ if refused_response(report).is_some() => {
                    CloseReason::Lost("refused a wish".to_owned())
                }
                end @ CloseReason::Lost(_) => end,
                _ => describe_shortfall(&self.plan.load[index], &report.streams)
                    .map_or(CloseReason::Local, CloseReason::Lost),
            };
            if connection.is_announced {
                let ConnectionSample { streams, sender, controllers } = self.sample(report);
                frames.write_end_connection(
                    *at,
                    index as u32,
                    Some(&end),
                    &sender,
                    streams,
                    controllers,
                );
            }
            if let Some(connection) = &mut self.connections[index] {
                connection.is_reported = true;
            }
            if end != CloseReason::Local {
                return Ok(Some(end));
            }
            self.closed_count += 1;
            let id = self.plan.load.get(index).map(|stream| stream.stream_id);
            self.due.extend(id.and_then(|id| self.dependents.remove(&id)).unwrap_or_default());
        }
        Ok(None)
    }

    fn opened_connections(&self) -> impl Iterator<Item = (usize, &ClientConnection)> {
        self.connections
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| Some((index, slot.as_ref()?)))
    }

    /// Queries the states of the open connections.
    fn update_reports(&mut self) {
        for key in self.host.connections() {
            self.host.update_report(key);
        }
    }

    /// Returns the states of the open connections.
    fn live_reports(&self) -> BTreeMap<ConnectionKey, ConnectionReport<'_>> {
        let report = |key| Some((key, self.host.report(key)?));
        self.host.connections().into_iter().filter_map(report).collect()
    }

    fn write_samples(&mut self, now: Time, frames: &mut FrameWriter) {
        self.update_reports();
        let live = self.live_reports();
        for (index, connection) in self.opened_connections() {
            let report = connection.closed.as_ref().or_else(|| live.get(&connection.key));
            if let Some(report) = report
                && connection.is_announced
                && !connection.is_reported
            {
                let sample = self.sample(report);
                frames.write_sample(now, index as u32, &sample.sender, sample.streams);
            }
        }
        frames.flush();
    }

    fn sample<'a>(&'a self, report: &'a ConnectionReport<'a>) -> ConnectionSample<'a> {
        let request = PerfClient::request_bytes(self.controller_request.as_ref());
        let requests = request * report.streams.len() as u64;
        let name = report.controller.as_deref().unwrap_or(&self.plan.congestion.name);
        ConnectionSample {
            streams: &report.streams,
            sender: report.sender.omit_receiver_window(requests),
            controllers: ControllerNames::new(name, report.peer_controller.as_deref()),
        }
    }

    /// Returns the scope of all connections, with the states of the open ones.
    fn report_scope<'a>(
        &'a self,
        live: &'a BTreeMap<ConnectionKey, ConnectionReport<'a>>,
        began: Time,
    ) -> ReportScope<'a> {
        let reports = self.opened_connections().filter_map(|(_, connection)| {
            connection.closed.as_ref().or_else(|| live.get(&connection.key))
        });
        let samples = reports.map(|report| self.sample(report)).collect();
        ReportScope { connection: 0, samples, started_at: began }
    }

    fn poll_host(&mut self, until: Time, connected: bool) -> Result<(), ProgramError> {
        let remote = self.remote;
        let mut done = self.host.poll_once(until);
        if !self.is_quic() {
            return Ok(done?);
        }
        // Data that the server sent before its end can still be unread: the socket reports errors first, one per
        // datagram sent since.
        for _ in 0..MAX_REFUSED_POLLS {
            if !connected || !done.as_ref().is_err_and(is_refused) {
                break;
            }
            let again = self.host.poll_once(until);
            if self.host.connections().is_empty() {
                done = Ok(());
            } else if again.is_err() {
                done = again;
            }
        }
        done.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused if connected => {
                ProgramError::Run(format!("{remote}: the server is gone (its UDP port is closed)"))
            }
            io::ErrorKind::ConnectionRefused => ProgramError::Run(format!(
                "{remote}: nothing listens there (UDP port closed); is `bentpipe perf server` running?"
            )),
            _ => ProgramError::Run(format!("{remote} cannot be reached: {error}")),
        })?;
        match self.host.too_large(0) {
            Some(size) => Err(ProgramError::Input(format!(
                "--mtu: the way to {remote} takes no UDP payload of {size} bytes; give a smaller --mtu"
            ))),
            None => Ok(()),
        }
    }

    fn timeout_error(&self, question: &str) -> ProgramError {
        let (remote, seconds) = (self.remote, Span(self.plan.timeout_ns).seconds());
        ProgramError::Run(format!("{remote}: no answer within {seconds} s; {question}"))
    }

    /// Converts a failed handshake to an error.
    fn handshake_error(&self, lost: Option<&CloseReason>) -> ProgramError {
        let Some(reason @ CloseReason::Lost(_)) = lost else {
            let closed = if self.is_quic() { " closed the connection" } else { ": closed" };
            return ProgramError::Run(format!("{}{closed} at once", self.remote));
        };
        pin_mismatch(self.remote, self.pinned, &self.presented)
            .unwrap_or_else(|| ProgramError::Run(self.describe_failure(reason)))
    }

    fn describe_failure(&self, reason: &CloseReason) -> String {
        let (remote, alpn) = (self.remote, &self.plan.alpn);
        let CloseReason::Lost(why) = reason else {
            return format!("{remote} closed the connection before the load was done");
        };
        let idle = if self.is_quic() {
            self.plan.quic.idle_timeout_ns.map_or(0.0, |nanos| nanos as f64 / 1e9)
        } else {
            Span(self.plan.tcp.idle_timeout_ns).seconds()
        };
        match &**why {
            "timed out" => {
                let verb = if self.is_quic() { "came" } else { "moved" };
                format!("{remote}: the connection is lost: nothing {verb} for {idle} s")
            }
            "reset by peer" if self.is_quic() => format!("{remote}: the server has restarted"),
            _ if self.is_quic() && why.contains("refused") => {
                format!("{remote}: the server takes no more connections ({why})")
            }
            "refused" => format!(
                "{remote}: nothing listens there (TCP port closed); is `bentpipe perf server` running?"
            ),
            // no_application_protocol (RFC 7301 section 3.2), as QUIC and as rustls write it.
            _ if why.contains(if self.is_quic() {
                "error 120"
            } else {
                "NoApplicationProtocol"
            }) =>
            {
                format!("{remote}: the server does not speak ALPN {alpn}")
            }
            _ if !self.is_quic() && why.contains("reset") => {
                format!("{remote}: {why}; it may take no more connections, or be gone")
            }
            _ => format!("{remote}: {why}"),
        }
    }
}

/// Builds the QUIC socket of a client, and its qlog.
fn quic_socket(
    plan: &PerfClientPlan,
    remote: SocketAddr,
    tls: TlsConfig,
    clock: Clock,
) -> Result<(QuicHostConfig, Option<QlogWriter>), ProgramError> {
    let mut spec = plan.quic.clone();
    spec.header_bytes = if remote.is_ipv4() { 28 } else { 48 };
    let builder = plan.congestion.controller_builder(&spec)?;
    let any: IpAddr = match remote {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut socket = BatchedUdpSocket::bind(SocketAddr::new(any, 0), Some(remote))
        .map_err(|error| ProgramError::Run(format!("{remote} cannot be reached: {error}")))?;
    let mut qlog = None;
    if let Some(folder) = &plan.report.qlog {
        let made = QlogWriter::new(folder.clone(), "client", &plan.quic, clock)?;
        socket.set_observer(Box::new(made.clone()));
        qlog = Some(made);
    }
    let config = QuicHostConfig {
        server_name: Some(plan.host.clone()),
        keeps_reports: true,
        ..QuicHostConfig::new(socket, tls, spec, builder)
    };
    Ok((config, qlog))
}

/// Resolves the address of a host.
pub(crate) fn resolve_host(host: &str, port: u16) -> Result<SocketAddr, ProgramError> {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let found = (plain, port).to_socket_addrs();
    found
        .ok()
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| ProgramError::Input(format!("HOST: no address is known for \"{host}\"")))
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Returns the response of a server that refused the controller request.
fn refused_response<'a>(
    report: &'a ConnectionReport<'_>,
) -> Option<&'a transport::perf_load::ControllerResponse> {
    report.peer_controller.as_deref().filter(|answer| answer.refusal_reason.is_some())
}

/// Describes missing parts of a response: TCP closes a complete and an incomplete one alike.
fn describe_shortfall(asked: &StreamSpec, streams: &[StreamReport]) -> Option<String> {
    let stream = streams.first()?;
    let came = stream.received_in_order;
    match asked.amount {
        AmountSpec::Data { down_bytes, .. } if came != down_bytes => {
            Some(format!("the server answered {came} bytes, expected {down_bytes}"))
        }
        _ if stream.finished.is_none() => {
            Some("the server has ended the stream before all was sent".to_owned())
        }
        _ => None,
    }
}

/// Checks that a server cannot interpret the first byte of a size as TLS.
fn check_size(stream: &StreamSpec) -> Result<(), ProgramError> {
    match stream.amount {
        AmountSpec::Data { down_bytes, .. } if down_bytes.to_be_bytes()[0] == TLS_RECORD => {
            Err(ProgramError::Input(format!(
                "LOAD: found a response of {down_bytes} bytes, expected less than 1.5e18 over TCP"
            )))
        }
        _ => Ok(()),
    }
}
