//! The measuring client: connections on a host, lines, and the result. QUIC has one connection, TCP one per stream.

mod failures;
mod manager;
mod reports;
mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use runtime::Clock;
use runtime::host::{Host, HostSocketConfig};
use runtime::tls::{self, Fingerprint, PresentedCertificate};
use transport::perf_load::{ControllerRequest, PerfClient};
use transport::quic::{CloseReason, TlsConfig};
use transport::{ConnectionKey, StreamSpec};
use units::{Span, Time};

use self::failures::{describe_shortfall, refused_response};
use self::manager::{ClientConnection, PerfClientManager};
use self::sockets::{check_size, quic_socket, tcp_socket};
use super::descriptions::{describe_close, describe_protocol, name_peer};
use super::frames::{ConnectionFrame, FrameWriter};
use super::peer::resolve_host;
use super::qlog::QlogWriter;
use super::report::ConnectionSample;
use super::server_verification::{describe_certificate, server_verification};
use super::summary::cpu_seconds;
use super::tcp_options::PerfTcpOptions;
use super::{PerfClientPlan, PerfTransport, Reporter};
use crate::ProgramError;

/// The interval of checks for a stop.
const POLL_INTERVAL: Span = Span(10_000_000);

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
                    "--transport: expected one of quic, tcp, tls".to_owned(),
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
                HostSocketConfig::Tcp(tcp_socket(&plan, options, remote, config))
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
                return Err(self.timeout_error("is the server running, and is UDP blocked?"));
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
                        "the port is open, but the TLS handshake had no response; does the server use TLS on this port?"
                    } else {
                        "is the server running, and is TCP blocked?"
                    }));
                }
            }
            let end = match name_peer(reason, "server") {
                end if self.is_quic() => end,
                _ if refused_response(report).is_some() => {
                    CloseReason::Lost("refused the controller request".to_owned())
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
}
