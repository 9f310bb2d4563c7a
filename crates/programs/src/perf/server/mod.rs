//! The measuring server: a connection manager that serves QUIC, TCP and TLS on one port number, and reports the results.

mod manager;
mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use runtime::Clock;
use runtime::host::{
    ConnectionReport, ConnectionTimeouts, Host, HostSocketConfig, TcpHostConfig, TcpProtocol,
};
use runtime::tls::{self, Fingerprint};
use transport::ConnectionKey;
use transport::quic::{CloseReason, TlsConfig};
use units::{Span, Time};

use self::manager::{MeasuredConnection, PerfServerManager};
use self::sockets::{bind_sockets, quic_config, resolve_listen};
use super::descriptions::{describe_close, describe_protocol, name_peer};
use super::frames::{ConnectionFrame, FrameWriter};
use super::qlog::QlogWriter;
use super::report::{ControllerNames, ReportScope};
use super::summary::{SummaryInput, cpu_seconds};
use super::tcp_options::{PerfTcpOptions, apply_requested_controller};
use super::{PerfServerPlan, PerfSummary, PerfTransport, Reporter, SenderReport};
use crate::ProgramError;

/// The maximum wait while there are connections.
const POLL_INTERVAL: Span = Span(10_000_000);

/// The timeout for the first byte or the TLS handshake of a TCP client: the default timeout of `bentpipe perf client`.
const HELLO_TIMEOUT: Span = Span::from_secs(10);

/// With `--once` the TCP client's next connection arrives one RTT after the end of the previous one. The server waits
/// three RTTs plus this margin.
const NEXT_CONNECTION_MARGIN: Span = Span::from_millis(200);

/// The output of results.
struct ReportOutput {
    reporter: Reporter,
    frames: FrameWriter,
    /// The number of the next connection.
    next_number: u32,
}

/// A listening server.
pub struct MeasuringServer {
    plan: PerfServerPlan,
    clock: Clock,
    host: Host<PerfServerManager>,
    local: SocketAddr,
    /// The interface of TCP, and the kernel's name of its controller.
    tcp: Option<(usize, String)>,
    /// The reason why TCP is not served although the plan includes it.
    tcp_unavailable: Option<String>,
    fingerprint: Fingerprint,
    qlog: Option<QlogWriter>,
    connections: BTreeMap<ConnectionKey, MeasuredConnection>,
    /// Connections that have changed since the last sample, or had data to send then.
    unsampled: BTreeSet<ConnectionKey>,
    /// With `--once`: the time at which the TCP client is considered gone.
    client_timeout_at: Option<Time>,
}

impl MeasuringServer {
    /// Binds the sockets and prepares the certificate.
    ///
    /// # Errors
    /// The defect of the plan.
    pub fn bind(plan: PerfServerPlan) -> Result<MeasuringServer, ProgramError> {
        let files = plan.certificate.as_ref();
        let files: Option<(&Path, &Path)> = files.map(|files| (&*files.certificate, &*files.key));
        let (config, fingerprint) = tls::server_config(files).map_err(ProgramError::Input)?;
        let config = Arc::new(config);
        let address = resolve_listen(&plan.listen)?;
        let (mut options, mut without_tcp) = (None, None);
        if plan.transport.has_tcp() {
            match PerfTcpOptions::new(&plan.tcp, &plan.congestion) {
                Ok(found) => options = Some(found),
                // The controller exists for QUIC alone: the server serves QUIC, and prints the reason.
                Err(ProgramError::Input(why)) if plan.transport == PerfTransport::All => {
                    // TCP clients get the reason, if a socket for them can be opened.
                    options = PerfTcpOptions::with_default_controller(&plan.tcp).ok();
                    without_tcp = Some(why);
                }
                Err(failure) => return Err(failure),
            }
        }
        let (udp, listener) =
            bind_sockets(&plan, address, options.as_ref(), without_tcp.is_none())?;
        let local = match (&udp, &listener) {
            (Some(socket), _) => socket.local_addr()?,
            (None, Some(listener)) => listener.local_addr()?,
            (None, None) => return Err(io::Error::from(io::ErrorKind::NotConnected).into()),
        };
        let (clock, mut qlog, mut tcp) = (Clock::start(), None, None);
        let mut sockets = Vec::new();
        let mut manager = PerfServerManager {
            quic: udp.as_ref().map(|_| 0),
            max_streams: plan.limits.streams,
            refusal: None,
            accepted: Vec::new(),
        };
        if let Some(mut socket) = udp {
            if let Some(folder) = &plan.report.qlog {
                let made = QlogWriter::new(folder.clone(), "server", &plan.quic, clock)?;
                socket.set_observer(Box::new(made.clone()));
                qlog = Some(made);
            }
            let made = quic_config(&plan, TlsConfig::Server(config.clone()), socket)?;
            sockets.push(HostSocketConfig::Quic(Box::new(made)));
        }
        if let (Some(listener), Some(options)) = (listener, options) {
            tcp = Some((sockets.len(), options.congestion().to_owned()));
            let why = without_tcp.as_deref().map(|why| why.trim_start_matches("--congestion: "));
            manager.refusal = why.map(str::to_owned);
            let policy = plan.controller_policy;
            let idle = Span(plan.tcp.idle_timeout_ns);
            let timeouts =
                ConnectionTimeouts { handshake: HELLO_TIMEOUT.min(idle), idle: Some(idle) };
            sockets.push(HostSocketConfig::Tcp(TcpHostConfig {
                protocol: TcpProtocol::FirstByte {
                    plain: plan.transport != PerfTransport::Tls,
                    tls: (plan.transport != PerfTransport::Tcp).then_some(config),
                },
                evicts_active_peers: !plan.once || without_tcp.is_some(),
                controller_setter: Some(Arc::new(move |socket, request| {
                    apply_requested_controller(socket, request, policy)
                })),
                reads_before_reset: true,
                keeps_reports: true,
                ..TcpHostConfig::new(
                    Some(listener),
                    options.into_socket_options(),
                    timeouts,
                    plan.limits.connections,
                )
            }));
        }
        let mut host =
            Host::new(manager, sockets).map_err(|error| ProgramError::Input(error.to_string()))?;
        host.set_clock(clock);
        Ok(MeasuringServer {
            plan,
            clock,
            host,
            local,
            tcp,
            tcp_unavailable: without_tcp,
            fingerprint,
            qlog,
            connections: BTreeMap::new(),
            unsampled: BTreeSet::new(),
            client_timeout_at: None,
        })
    }

    /// Returns the listening address.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    /// Returns the fingerprint of the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Serves until `stop` is set, or until the first client has finished if the plan requests that. Returns whether it
    /// was stopped.
    ///
    /// # Errors
    /// An error of the sockets or of the screen, or a failed write to a file.
    pub fn run(mut self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, ProgramError> {
        let cpu = cpu_seconds();
        let reporter = Reporter::new(&self.plan.report, screen, true)?;
        let frames = FrameWriter::new(self.plan.report.frames.as_ref(), self.clock)?;
        let mut out = ReportOutput { reporter, frames, next_number: 0 };
        let (name, transport) = (&self.plan.congestion.name, self.plan.transport.name());
        let kernel = self.kernel_controller();
        out.frames.write_begin(self.clock.now(), "server", transport, name, kernel)?;
        self.print_listening(&mut out)?;
        let done = self.serve(stop, &mut out);
        let end = match &done {
            Ok(false) => "done".to_owned(),
            Ok(true) => "interrupted".to_owned(),
            Err(failure) => format!("failed: {failure}"),
        };
        out.frames.write_end(&end, cpu_seconds() - cpu);
        // Informs the clients, so that they do not wait for a timeout.
        self.host.close();
        let cut = self.qlog.as_ref().is_some_and(QlogWriter::is_incomplete);
        if cut || out.frames.is_incomplete() || out.reporter.is_incomplete() {
            return done.and(Err(ProgramError::IncompleteResults));
        }
        done
    }

    /// Returns the kernel's name of the controller of TCP, if the server accepts TCP clients.
    fn kernel_controller(&self) -> Option<&str> {
        let serves = self.tcp_unavailable.is_none();
        self.tcp.as_ref().filter(|_| serves).map(|(_, name)| name.as_str())
    }

    fn print_listening(&self, out: &mut ReportOutput) -> Result<(), ProgramError> {
        let mut speaks = Vec::new();
        if self.plan.transport.has_quic() {
            speaks.push(format!("QUIC (UDP) with {}", self.plan.congestion.name));
        }
        if let Some(name) = self.kernel_controller() {
            let word = match self.plan.transport {
                PerfTransport::Tcp => "TCP",
                PerfTransport::Tls => "TLS (TCP)",
                _ => "TCP and TLS",
            };
            speaks.push(format!("{word} with the kernel's {name}"));
        }
        out.reporter.print(&format!("listening at {}: {}", self.local, speaks.join(", ")))?;
        if let Some(why) = &self.tcp_unavailable {
            out.reporter.print(&format!("TCP is not available: {why}"))?;
        }
        if self.plan.transport != PerfTransport::Tcp {
            out.reporter.print(&format!("certificate fingerprint {}", self.fingerprint))?;
        }
        Ok(())
    }

    fn serve(&mut self, stop: &AtomicBool, out: &mut ReportOutput) -> Result<bool, ProgramError> {
        loop {
            let now = self.clock.now();
            let over = self.report_changes(now, out)?;
            self.write_due(now, out)?;
            if over && self.plan.once {
                return Ok(false);
            }
            if stop.load(Ordering::Relaxed) {
                self.host.close();
                for report in self.host.take_closed() {
                    self.report_closed(now, &report, None, out)?;
                }
                return Ok(true);
            }
            let mut until = self.client_timeout_at.unwrap_or(Time::MAX);
            if self.host.has_connections() || self.client_timeout_at.is_some() {
                let due = out.reporter.poll_at().min(out.frames.poll_at());
                until = until.min(due).min(now + POLL_INTERVAL);
            } else {
                out.frames.pause();
            }
            self.host.poll_once(until)?;
        }
    }

    /// Reports new and closed connections. Returns whether the only requested client has finished.
    fn report_changes(&mut self, now: Time, out: &mut ReportOutput) -> Result<bool, ProgramError> {
        let accepted = std::mem::take(&mut self.host.manager().accepted);
        self.connections.extend(accepted);
        let changed = self.host.take_changed();
        for &key in &changed {
            let Some(known) = self.connections.get_mut(&key) else { continue };
            if known.is_announced && self.qlog.is_none() {
                continue;
            }
            let connected = self.host.report(key).is_some_and(|live| live.connected_at.is_some());
            if connected && !known.is_announced {
                self.host.update_report(key);
            }
            let Some(report) = self.host.report(key) else { continue };
            let peer = announce(now, known, &report, (&self.plan, self.qlog.as_ref()), out)?;
            self.restrict_to(peer);
        }
        self.unsampled.extend(changed);
        let mut over = false;
        for report in self.host.take_closed() {
            let peer = match self.connections.get_mut(&report.key) {
                Some(known) => {
                    announce(now, known, &report, (&self.plan, self.qlog.as_ref()), out)?
                }
                None => None,
            };
            self.restrict_to(peer);
            let Some((reason, at)) = &report.closed else { continue };
            let (end, rtt) = (name_peer(reason, "client"), report.sender.smoothed_rtt_ms);
            // An incomplete handshake is not a measurement.
            if !self.report_closed(*at, &report, Some(&end), out)? {
                continue;
            }
            if report.transport == "quic" {
                over = true;
            } else {
                let round_trips = Span::from_seconds(rtt.unwrap_or(0.0) * 3e-3);
                self.client_timeout_at = Some(now + round_trips + NEXT_CONNECTION_MARGIN);
            }
        }
        let tcp = self.tcp.as_ref().filter(|_| self.plan.once && self.tcp_unavailable.is_none());
        if tcp.is_none_or(|(interface, _)| self.host.open_connections(*interface) > 0) {
            self.client_timeout_at = None;
        }
        Ok(over || self.client_timeout_at.is_some_and(|at| at <= now))
    }

    /// With `--once` only the first TCP client is accepted from now on. A refused client is not a measurement.
    fn restrict_to(&mut self, peer: Option<SocketAddr>) {
        if let (Some(peer), Some((interface, _))) = (peer, &self.tcp)
            && self.plan.once
            && self.tcp_unavailable.is_none()
        {
            self.host.set_only_peer(*interface, peer.ip());
        }
    }

    /// Writes the lines and the samples that are due.
    fn write_due(&mut self, now: Time, out: &mut ReportOutput) -> Result<(), ProgramError> {
        if out.reporter.is_due(now) {
            let all = out.reporter.is_line_due(now);
            let reports = sample_reports(&mut self.host, &mut self.unsampled, all);
            let views = reports.iter().filter_map(|report| {
                let known = self.connections.get(&report.key).filter(|known| known.is_announced)?;
                let (sender, names) = (sender_report(report), controllers(report, &self.plan));
                let began = known.started_at;
                Some(ReportScope::single(known.number?, began, &report.streams, sender, names))
            });
            let views: Vec<ReportScope<'_>> = views.collect();
            out.reporter.write_due(now, &views)?;
        }
        if out.frames.is_due(now) {
            for key in self.host.connections() {
                self.host.update_report(key);
                let known = self.connections.get(&key).filter(|known| known.is_announced);
                let number = known.and_then(|known| known.number);
                if let (Some(number), Some(report)) = (number, self.host.report(key)) {
                    out.frames.write_sample(now, number, &sender_report(&report), &report.streams);
                }
            }
            out.frames.flush();
        }
        Ok(())
    }

    /// Reports a closed connection, if it was announced. Returns whether it was.
    fn report_closed(
        &mut self,
        at: Time,
        report: &ConnectionReport<'_>,
        end: Option<&CloseReason>,
        out: &mut ReportOutput,
    ) -> Result<bool, ProgramError> {
        self.unsampled.remove(&report.key);
        let Some(known) = self.connections.remove(&report.key) else { return Ok(false) };
        let Some(number) = known.number.filter(|_| known.is_announced) else { return Ok(false) };
        let (sender, names) = (sender_report(report), controllers(report, &self.plan));
        let (began, streams) = (known.started_at, &report.streams);
        out.reporter
            .write_totals(at, &ReportScope::single(number, began, streams, sender, names))?;
        out.frames.write_end_connection(at, number, end, &sender, streams, names);
        if let (Some(qlog), "quic") = (&self.qlog, report.transport) {
            qlog.on_controller(number, report.remote, names.local);
            qlog.on_closed(at, report.remote, describe_close(end));
        }
        let closing = SummaryInput {
            role: "server",
            peer: report.remote.to_string(),
            close_reason: end,
            transport: report.transport,
            connections: 1,
            alpn: &known.alpn,
            controllers: names,
            mtu: if report.transport == "quic" { known.mtu } else { report.mss },
            handshake: report.connected_at.map(|at| at.since(began)),
            streams: streams.iter().collect(),
            sender,
            cpu_s: cpu_seconds() - known.cpu_at_start,
        };
        let summary = PerfSummary::new(at, &closing);
        out.reporter.print(&format!("[{number}] {}\n{summary}", summary.end))?;
        if out.reporter.is_json() {
            let text = serde_json::to_string(&summary).map_err(io::Error::from)?;
            out.reporter.print_json(&text)?;
        }
        Ok(true)
    }
}

/// Queries and returns the states of all connections, or of those that may have changed.
fn sample_reports<'a>(
    host: &'a mut Host<PerfServerManager>,
    unsampled: &mut BTreeSet<ConnectionKey>,
    all: bool,
) -> Vec<ConnectionReport<'a>> {
    let mut moved = std::mem::take(unsampled);
    if all {
        moved.extend(host.connections());
    }
    for &key in &moved {
        host.update_report(key);
    }
    let host = &*host;
    let reports: Vec<_> = moved.iter().filter_map(|&key| host.report(key)).collect();
    unsampled.extend(reports.iter().filter(|report| report.is_sending).map(|report| report.key));
    reports
}

/// Reports a change of a connection. Returns the address of the peer at the end of its handshake.
fn announce(
    now: Time,
    known: &mut MeasuredConnection,
    report: &ConnectionReport<'_>,
    (plan, qlog): (&PerfServerPlan, Option<&QlogWriter>),
    out: &mut ReportOutput,
) -> Result<Option<SocketAddr>, ProgramError> {
    let is_quic = report.transport == "quic";
    if known.number.is_none() && (is_quic || report.connected_at.is_some()) {
        known.number = Some(out.next_number);
        out.next_number += 1;
    }
    let (Some(number), Some(connected)) = (known.number, report.connected_at) else {
        return Ok(None);
    };
    let (first, names) = (!known.is_announced, controllers(report, plan));
    if first {
        known.is_announced = true;
        known.alpn = report.alpn.clone().unwrap_or_default();
        known.mtu = report.mss;
        out.reporter.start_intervals(now);
        let (remote, quic) = (report.remote, if is_quic { "QUIC, " } else { "" });
        let over = describe_protocol(report);
        out.reporter.print(&format!("[{number}] from {remote}, {quic}{over}"))?;
        let port = report.local.port();
        let opening = ConnectionFrame {
            connection: number,
            transport: report.transport,
            local: if is_quic { format!(":{port}") } else { report.local.to_string() },
            remote: remote.to_string(),
            congestion: if is_quic { &plan.congestion.name } else { names.local },
            started_at: known.started_at,
            connected_at: connected,
            mss_bytes: report.mss,
        };
        out.frames.write_connection(now, &opening);
    }
    if let Some(qlog) = qlog.filter(|_| is_quic) {
        if first {
            qlog.on_connected(number, report.remote, report.local, names.local);
        }
        qlog.on_controller(number, report.remote, names.local);
        qlog.on_state(now, report.remote, &report.sender);
    }
    Ok(first.then_some(report.remote).filter(|_| !is_quic))
}

/// Returns the sender statistics of a connection, without the window of a receiver.
fn sender_report(report: &ConnectionReport<'_>) -> SenderReport {
    report.sender.omit_receiver_window(0)
}

fn controllers<'a>(
    report: &'a ConnectionReport<'_>,
    plan: &'a PerfServerPlan,
) -> ControllerNames<'a> {
    let name = report.controller.as_deref().unwrap_or(&plan.congestion.name);
    ControllerNames::new(name, report.peer_controller.as_deref())
}

#[cfg(test)]
mod tests;
