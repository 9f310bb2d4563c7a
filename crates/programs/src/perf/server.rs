//! The measuring server: serves clients over QUIC, TCP and TLS, and reports the results.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use runtime::tls::{self, Fingerprint};
use runtime::{BatchedUdpSocket, Clock};
use units::{Span, Time};

use super::frames::{FrameWriter, ReportOutput};
use super::quic_server::QuicPerfListener;
use super::summary::cpu_seconds;
use super::{PerfServerPlan, PerfTransport, Reporter, tcp};
use crate::ProgramError;

/// The maximum wait while there are connections.
const POLL_INTERVAL: Span = Span(10_000_000);

/// The maximum of attempts to find a port that is free for UDP and TCP, if the plan selects none.
const MAX_BIND_ATTEMPTS: usize = 16;

/// A listening server.
pub struct MeasuringServer {
    plan: PerfServerPlan,
    clock: Clock,
    quic: Option<QuicPerfListener>,
    tcp: Option<tcp::TcpPerfListener>,
    /// The reason why TCP is not served although the plan includes it.
    tcp_unavailable: Option<String>,
    fingerprint: Fingerprint,
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
            match tcp::PerfTcpOptions::new(&plan.tcp, &plan.congestion) {
                Ok(found) => options = Some(found),
                // The controller exists for QUIC alone: the server serves QUIC, and prints the reason.
                Err(ProgramError::Input(why)) if plan.transport == PerfTransport::All => {
                    // TCP clients get the reason, if a socket for them can be opened.
                    options = tcp::PerfTcpOptions::with_default_controller(&plan.tcp).ok();
                    without_tcp = Some(why);
                }
                Err(failure) => return Err(failure),
            }
        }
        for attempt in 1.. {
            let mut quic = None;
            let mut at = address;
            if plan.transport.has_quic() {
                let socket = bind_with_fallback(at, "UDP", |at| BatchedUdpSocket::bind(at, None))?;
                at = socket.local_addr()?;
                quic = Some(QuicPerfListener::new(&plan, config.clone(), socket)?);
            }
            let clock = quic.as_ref().map_or_else(Clock::start, QuicPerfListener::clock);
            let listener = options
                .as_ref()
                .map(|options| bind_with_fallback(at, "TCP", |at| options.listen(at)));
            let mut tcp = None;
            match (listener.transpose(), &options) {
                (Ok(Some(listener)), Some(options)) => {
                    let side = tcp::TcpPerfListener::new(
                        &plan,
                        config.clone(),
                        options.clone(),
                        listener,
                    )?;
                    tcp = Some(match &without_tcp {
                        None => side,
                        Some(why) => side.refusing(why.trim_start_matches("--congestion: ")),
                    });
                }
                (Err(_), _) if address.port() == 0 && attempt < MAX_BIND_ATTEMPTS => continue,
                // TCP would only refuse clients here, so the server can run without it.
                (Err(failure), _) if without_tcp.is_none() => return Err(failure),
                _ => {}
            }
            return Ok(MeasuringServer {
                plan,
                clock,
                quic,
                tcp,
                tcp_unavailable: without_tcp,
                fingerprint,
            });
        }
        unreachable!("the last attempt returns")
    }

    /// Returns the listening address.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match (&self.quic, &self.tcp) {
            (Some(quic), _) => quic.local_addr(),
            (None, Some(tcp)) => tcp.local_addr(),
            (None, None) => Err(io::ErrorKind::NotConnected.into()),
        }
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
        let kernel = self.serving_tcp().map(tcp::TcpPerfListener::congestion);
        let (name, transport) = (&self.plan.congestion.name, self.plan.transport.name());
        out.frames.write_begin(self.clock.now(), "server", transport, name, kernel)?;
        self.print_listening(&mut out)?;
        let done = self.serve(stop, &mut out);
        let end = match &done {
            Ok(false) => "done".to_owned(),
            Ok(true) => "interrupted".to_owned(),
            Err(failure) => format!("failed: {failure}"),
        };
        out.frames.write_end(&end, cpu_seconds() - cpu);
        if let (Err(_), Some(quic)) = (&done, &mut self.quic) {
            // Informs the clients, so that they do not wait for a timeout.
            quic.close(self.clock.now());
        }
        let cut = self.quic.as_ref().is_some_and(QuicPerfListener::is_incomplete);
        if cut || out.frames.is_incomplete() || out.reporter.is_incomplete() {
            return done.and(Err(ProgramError::IncompleteResults));
        }
        done
    }

    /// Returns the TCP part, if it accepts clients.
    fn serving_tcp(&self) -> Option<&tcp::TcpPerfListener> {
        self.tcp.as_ref().filter(|_| self.tcp_unavailable.is_none())
    }

    fn print_listening(&self, out: &mut ReportOutput) -> Result<(), ProgramError> {
        let mut speaks = Vec::new();
        if self.quic.is_some() {
            speaks.push(format!("QUIC (UDP) with {}", self.plan.congestion.name));
        }
        if let Some(tcp) = self.serving_tcp() {
            let word = match self.plan.transport {
                PerfTransport::Tcp => "TCP",
                PerfTransport::Tls => "TLS (TCP)",
                _ => "TCP and TLS",
            };
            speaks.push(format!("{word} with the kernel's {}", tcp.congestion()));
        }
        out.reporter.print(&format!(
            "listening at {}: {}",
            self.local_addr()?,
            speaks.join(", ")
        ))?;
        if let Some(why) = &self.tcp_unavailable {
            out.reporter.print(&format!("TCP is not served: {why}"))?;
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
            if over && self.plan.once {
                if let Some(quic) = &mut self.quic {
                    quic.flush();
                }
                return Ok(false);
            }
            if stop.load(Ordering::Relaxed) {
                if let Some(quic) = &mut self.quic {
                    quic.interrupt(now, out)?;
                }
                if let Some(tcp) = &mut self.tcp {
                    tcp.interrupt(now, out)?;
                }
                return Ok(true);
            }
            let idle = self.quic.as_ref().is_none_or(QuicPerfListener::is_idle)
                && self.tcp.as_ref().is_none_or(tcp::TcpPerfListener::is_idle);
            let mut until = Time::MAX;
            if !idle {
                until = out.reporter.poll_at().min(out.frames.poll_at()).min(now + POLL_INTERVAL);
            } else {
                out.frames.pause();
            }
            if let Some(tcp) = &mut self.tcp {
                until = until.min(tcp.poll_at());
            }
            match (&mut self.quic, &mut self.tcp) {
                (Some(quic), tcp) => {
                    quic.poll_once(until, tcp.as_ref().map(|tcp| tcp as &dyn AsFd))?;
                }
                (None, Some(tcp)) => tcp.sleep(until.since(now))?,
                (None, None) => {}
            }
            if let Some(tcp) = &mut self.tcp {
                tcp.poll_once(self.clock)?;
            }
        }
    }

    /// Reports changes. Returns whether a client with a complete handshake has finished.
    fn report_changes(&mut self, now: Time, out: &mut ReportOutput) -> Result<bool, ProgramError> {
        let mut over = false;
        if let Some(quic) = &mut self.quic {
            over |= quic.report_changes(now, out)?;
        }
        if let Some(tcp) = &mut self.tcp {
            over |= tcp.report_changes(now, out)?;
        }
        if out.reporter.is_due(now) {
            let (all, mut views) = (out.reporter.is_line_due(now), Vec::new());
            if let Some(quic) = &mut self.quic {
                views.extend(quic.report_scopes(all));
            }
            if let Some(tcp) = &mut self.tcp {
                views.extend(tcp.report_scopes(all));
            }
            out.reporter.write_due(now, &views)?;
        }
        if out.frames.is_due(now) {
            if let Some(quic) = &self.quic {
                quic.write_samples(now, &mut out.frames);
            }
            if let Some(tcp) = &mut self.tcp {
                tcp.write_samples(now, &mut out.frames);
            }
            out.frames.flush();
        }
        Ok(over)
    }
}

fn resolve_listen(text: &str) -> Result<SocketAddr, ProgramError> {
    let addresses = text.to_socket_addrs().map_err(|error| {
        ProgramError::Input(format!("--listen: found \"{text}\", expected ADDRESS:PORT: {error}"))
    })?;
    addresses
        .into_iter()
        .next()
        .ok_or_else(|| ProgramError::Input(format!("--listen: no address is known for \"{text}\"")))
}

/// Opens a socket at `address` by `bind`.
fn bind_with_fallback<T>(
    address: SocketAddr,
    what: &str,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> Result<T, ProgramError> {
    let bound = match bind(address) {
        // A machine without IPv6.
        Err(error)
            if error.raw_os_error() == Some(nix::errno::Errno::EAFNOSUPPORT as i32)
                && address.ip().is_unspecified() =>
        {
            bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()))
        }
        other => other,
    };
    bound.map_err(|error| {
        let (why, port) = (error.kind(), address.port());
        ProgramError::Input(match why {
            io::ErrorKind::AddrInUse => {
                format!(
                    "--listen: {what} port {port} is in use; give another with --listen ADDRESS:PORT"
                )
            }
            io::ErrorKind::PermissionDenied => {
                format!("--listen: port {port} is not allowed to this user; ports from 1024 are")
            }
            io::ErrorKind::AddrNotAvailable => {
                format!("--listen: {} is no address of this machine", address.ip())
            }
            _ => format!("--listen {address}: {error}"),
        })
    })
}
