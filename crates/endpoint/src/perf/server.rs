//! The measuring server: answers whoever comes, over QUIC, TCP and TLS, and says what came of it.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use units::{Span, Time};

use super::frames::Frames;
use super::quic_server::QuicSide;
use super::summary::cpu_seconds;
use super::{Failure, Reporter, ServerPlan, Transport, tcp};
use crate::tls::{self, Fingerprint};
use crate::{Clock, Socket};

/// Longest wait while there are connections.
const LOOK: Span = Span(10_000_000);

/// Attempts to find a port that is free for UDP and TCP alike, where none is asked for.
const ATTEMPTS: usize = 16;

/// Where results go, and what both transports share.
pub(super) struct Out {
    pub(super) reporter: Reporter,
    pub(super) frames: Frames,
    /// Number of the next connection.
    pub(super) next: u32,
}

impl Out {
    /// A number for a connection.
    pub(super) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}

/// A server that listens.
pub struct Server {
    plan: ServerPlan,
    clock: Clock,
    quic: Option<QuicSide>,
    tcp: Option<tcp::Side>,
    /// Why TCP is not served although it would be.
    without_tcp: Option<String>,
    fingerprint: Fingerprint,
}

impl Server {
    /// Binds the sockets and makes the certificate ready.
    ///
    /// # Errors
    /// What is wrong with the plan, in words.
    pub fn bind(plan: ServerPlan) -> Result<Server, Failure> {
        let files = plan.certificate.as_ref();
        let files: Option<(&Path, &Path)> = files.map(|files| (&*files.certificate, &*files.key));
        let (config, fingerprint) = tls::server(files).map_err(Failure::Input)?;
        let config = Arc::new(config);
        let address = address(&plan.listen)?;
        let (mut options, mut without_tcp) = (None, None);
        if plan.transport.has_tcp() {
            match tcp::Options::new(&plan.tcp, &plan.congestion) {
                Ok(found) => options = Some(found),
                // A controller of QUIC's alone: QUIC is served, and this is said.
                Err(Failure::Input(why)) if plan.transport == Transport::All => {
                    // Clients are told, where there can be a socket for that.
                    options = tcp::Options::with_default_controller(&plan.tcp).ok();
                    without_tcp = Some(why);
                }
                Err(failure) => return Err(failure),
            }
        }
        for attempt in 1.. {
            let mut quic = None;
            let mut at = address;
            if plan.transport.has_quic() {
                let socket = bound(at, "UDP", |at| Socket::bind(at, None))?;
                at = socket.local()?;
                quic = Some(QuicSide::new(&plan, config.clone(), socket)?);
            }
            let clock = quic.as_ref().map_or_else(Clock::start, QuicSide::clock);
            let listener =
                options.as_ref().map(|options| bound(at, "TCP", |at| options.listen(at)));
            let mut tcp = None;
            match (listener.transpose(), &options) {
                (Ok(Some(listener)), Some(options)) => {
                    let side = tcp::Side::new(&plan, config.clone(), options.clone(), listener)?;
                    tcp = Some(match &without_tcp {
                        None => side,
                        Some(why) => side.refusing(why.trim_start_matches("--congestion: ")),
                    });
                }
                (Err(_), _) if address.port() == 0 && attempt < ATTEMPTS => continue,
                // It would have told clients why TCP is not served, no more.
                (Err(failure), _) if without_tcp.is_none() => return Err(failure),
                _ => {}
            }
            return Ok(Server { plan, clock, quic, tcp, without_tcp, fingerprint });
        }
        unreachable!("the last attempt returns")
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local(&self) -> io::Result<SocketAddr> {
        match (&self.quic, &self.tcp) {
            (Some(quic), _) => quic.local(),
            (None, Some(tcp)) => tcp.local(),
            (None, None) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Fingerprint of its certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Answers until `stop` is set, or the first client has ended where one is wanted; whether it was
    /// stopped.
    ///
    /// # Errors
    /// The sockets' or the screen's; a file that takes nothing.
    pub fn run(mut self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, Failure> {
        let cpu = cpu_seconds();
        let reporter = Reporter::new(&self.plan.report, screen, true)?;
        let frames = Frames::new(self.plan.report.frames.as_ref(), self.clock)?;
        let mut out = Out { reporter, frames, next: 0 };
        let kernel = self.serving_tcp().map(tcp::Side::congestion);
        let (name, transport) = (&self.plan.congestion.name, self.plan.transport.name());
        out.frames.begin(self.clock.now(), "server", transport, name, kernel)?;
        self.greet(&mut out)?;
        let done = self.answer(stop, &mut out);
        let end = match &done {
            Ok(false) => "done".to_owned(),
            Ok(true) => "interrupted".to_owned(),
            Err(failure) => format!("failed: {failure}"),
        };
        out.frames.end(&end, cpu_seconds() - cpu);
        if let (Err(_), Some(quic)) = (&done, &mut self.quic) {
            // The clients are not left to wait.
            quic.close(self.clock.now());
        }
        let cut = self.quic.as_ref().is_some_and(QuicSide::is_cut);
        if cut || out.frames.is_cut() || out.reporter.is_cut() {
            return done.and(Err(Failure::Cut));
        }
        done
    }

    /// TCP's part, if it takes clients.
    fn serving_tcp(&self) -> Option<&tcp::Side> {
        self.tcp.as_ref().filter(|_| self.without_tcp.is_none())
    }

    fn greet(&self, out: &mut Out) -> Result<(), Failure> {
        let mut speaks = Vec::new();
        if self.quic.is_some() {
            speaks.push(format!("QUIC (UDP) with {}", self.plan.congestion.name));
        }
        if let Some(tcp) = self.serving_tcp() {
            let word = match self.plan.transport {
                Transport::Tcp => "TCP",
                Transport::Tls => "TLS (TCP)",
                _ => "TCP and TLS",
            };
            speaks.push(format!("{word} with the kernel's {}", tcp.congestion()));
        }
        out.reporter.say(&format!("listening at {}: {}", self.local()?, speaks.join(", ")))?;
        if let Some(why) = &self.without_tcp {
            out.reporter.say(&format!("TCP is not served: {why}"))?;
        }
        if self.plan.transport != Transport::Tcp {
            out.reporter.say(&format!("certificate fingerprint {}", self.fingerprint))?;
        }
        Ok(())
    }

    fn answer(&mut self, stop: &AtomicBool, out: &mut Out) -> Result<bool, Failure> {
        loop {
            let now = self.clock.now();
            let over = self.look(now, out)?;
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
            let idle = self.quic.as_ref().is_none_or(QuicSide::is_idle)
                && self.tcp.as_ref().is_none_or(tcp::Side::is_idle);
            let mut until = Time::MAX;
            if !idle {
                until = out.reporter.wake_at().min(out.frames.wake_at()).min(now + LOOK);
            } else {
                out.frames.rest();
            }
            if let Some(tcp) = &mut self.tcp {
                until = until.min(tcp.wake_at());
            }
            match (&mut self.quic, &mut self.tcp) {
                (Some(quic), tcp) => {
                    quic.turn(until, tcp.as_ref().map(|tcp| tcp as &dyn AsFd))?;
                }
                (None, Some(tcp)) => tcp.sleep(until.since(now))?,
                (None, None) => {}
            }
            if let Some(tcp) = &mut self.tcp {
                tcp.turn(self.clock)?;
            }
        }
    }

    /// Tells what has changed; whether a client that had done its handshake has ended.
    fn look(&mut self, now: Time, out: &mut Out) -> Result<bool, Failure> {
        let mut over = false;
        if let Some(quic) = &mut self.quic {
            over |= quic.settle(now, out)?;
        }
        if let Some(tcp) = &mut self.tcp {
            over |= tcp.settle(now, out)?;
        }
        if out.reporter.is_due(now) {
            let (all, mut views) = (out.reporter.is_line_due(now), Vec::new());
            if let Some(quic) = &mut self.quic {
                views.extend(quic.look(all));
            }
            if let Some(tcp) = &mut self.tcp {
                views.extend(tcp.look(all));
            }
            out.reporter.tick(now, &views)?;
        }
        if out.frames.is_due(now) {
            if let Some(quic) = &self.quic {
                quic.frames(now, &mut out.frames);
            }
            if let Some(tcp) = &mut self.tcp {
                tcp.frames(now, &mut out.frames);
            }
            out.frames.flush();
        }
        Ok(over)
    }
}

/// An IPv4 peer of a socket for both families, as people write it.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let addresses = text.to_socket_addrs().map_err(|error| {
        Failure::Input(format!("--listen: found \"{text}\", expected ADDRESS:PORT: {error}"))
    })?;
    addresses
        .into_iter()
        .next()
        .ok_or_else(|| Failure::Input(format!("--listen: no address is known for \"{text}\"")))
}

/// A socket at `address`, made by `bind`.
fn bound<T>(
    address: SocketAddr,
    what: &str,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> Result<T, Failure> {
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
        Failure::Input(match why {
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
