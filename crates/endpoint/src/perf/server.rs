//! The measuring server: answers every connection, and says what came of it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use transport::load::PerfServer;
use transport::quic::{Connection, End, Ended, Endpoint, Live, LiveTls};
use units::{Span, Time};

use super::report::View;
use super::summary::{Closing, cpu_seconds};
use super::{Failure, Reporter, ServerPlan, Summary};
use crate::tls::Fingerprint;
use crate::{Bounded, Driver, Socket, tls};

/// Longest wait while there are connections.
const LOOK: Span = Span(10_000_000);

/// What the server keeps of a connection beside the stack.
struct Known {
    began: Time,
    cpu: f64,
    alpn: String,
    mtu: u64,
    told: bool,
    /// Its result has been told.
    over: bool,
}

/// A server that listens.
pub struct Server {
    plan: ServerPlan,
    driver: Driver,
    fingerprint: Fingerprint,
    known: BTreeMap<u32, Known>,
}

impl Server {
    /// Binds the socket and makes the certificate ready.
    ///
    /// # Errors
    /// What is wrong with the plan, in words.
    pub fn bind(plan: ServerPlan) -> Result<Server, Failure> {
        let files = plan.certificate.as_ref();
        let files: Option<(&Path, &Path)> = files.map(|files| (&*files.certificate, &*files.key));
        let (config, fingerprint) = tls::server(files).map_err(Failure::Input)?;
        let connections = if plan.once { 1 } else { plan.limits.connections };
        let handshakes = plan.limits.handshakes;
        let live = Live { tls: LiveTls::Server(Arc::new(config)), connections, handshakes };
        let streams = plan.limits.streams;
        let endpoint = Endpoint::with_live(
            &live,
            &plan.quic,
            Box::new(move |_| Box::new(Bounded::new(PerfServer::default(), streams))),
            plan.congestion.maker(&plan.quic)?,
        )
        .map_err(Failure::Input)?;
        let driver = Driver::new(endpoint, listen(&plan.listen)?)?;
        Ok(Server { plan, driver, fingerprint, known: BTreeMap::new() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.driver.socket.local()
    }

    /// Fingerprint of its certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Answers until `stop` is set, or the first connection has ended where one is wanted; whether it
    /// was stopped.
    ///
    /// # Errors
    /// The socket's, the screen's or the file's.
    pub fn run(mut self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, Failure> {
        let mut reporter = Reporter::new(&self.plan.report, screen, true)?;
        let (local, congestion) = (self.local()?, &self.plan.congestion.name);
        reporter.say(&format!("listening at {local} (UDP), {congestion}"))?;
        reporter.say(&format!("certificate fingerprint {}", self.fingerprint))?;
        loop {
            let now = self.driver.clock.now();
            let over = self.look(now, &mut reporter)?;
            if over && self.plan.once {
                self.driver.socket.flush();
                return Ok(false);
            }
            if stop.load(Ordering::Relaxed) {
                self.interrupt(now, &mut reporter)?;
                return Ok(true);
            }
            let idle = self.driver.endpoint.live().next().is_none();
            let until = if idle { Time::MAX } else { reporter.wake_at().min(now + LOOK) };
            self.driver.turn(until)?;
        }
    }

    /// Tells what has changed; whether a connection that had done its handshake has ended.
    fn look(&mut self, now: Time, reporter: &mut Reporter) -> Result<bool, Failure> {
        let gone = self.driver.endpoint.take_ended();
        let due = reporter.is_due(now);
        let mut views = Vec::new();
        let mut closed = Vec::new();
        for connection in self.driver.endpoint.live() {
            let known = self.known.entry(connection.index()).or_insert_with(|| Known {
                began: now,
                cpu: cpu_seconds(),
                alpn: String::new(),
                mtu: connection.mtu(),
                told: false,
                over: false,
            });
            if connection.connected_at().is_none() || known.over {
                continue;
            }
            if !std::mem::replace(&mut known.told, true) {
                known.alpn = told(connection);
                known.mtu = connection.mtu();
                reporter.begin(now);
                let (index, from) = (connection.index(), canonical(connection.remote()));
                reporter.say(&format!("[{index}] from {from}, ALPN {}", known.alpn))?;
            }
            if connection.end().is_some() {
                known.over = true;
                closed.push(connection.ended());
            } else if due {
                views.push(View {
                    connection: connection.index(),
                    streams: connection.app().streams(),
                    gauges: connection.gauges(),
                    counters: connection.counters(),
                    began: known.began,
                });
            }
        }
        if due {
            reporter.tick(now, &views)?;
        }
        drop(views);
        let mut over = false;
        for ended in closed {
            self.tell(now, &ended, Some(&ended.end), reporter)?;
            over = true;
        }
        for ended in gone {
            // A handshake that came to nothing is no measurement.
            let fresh = self.known.get(&ended.index).is_none_or(|known| !known.over);
            if ended.connected_at.is_some() && fresh {
                self.tell(now, &ended, Some(&ended.end), reporter)?;
                over = true;
            }
            self.known.remove(&ended.index);
        }
        Ok(over)
    }

    fn tell(
        &mut self,
        now: Time,
        ended: &Ended,
        end: Option<&End>,
        reporter: &mut Reporter,
    ) -> Result<(), Failure> {
        let known = self.known.get(&ended.index);
        let began = known.map_or(ended.connected_at.unwrap_or(now), |known| known.began);
        let view = View {
            connection: ended.index,
            streams: &ended.streams,
            gauges: ended.gauges,
            counters: ended.counters,
            began,
        };
        reporter.end(now, &view)?;
        let closing = Closing {
            role: "server",
            peer: canonical(ended.remote).to_string(),
            end,
            alpn: known.map_or("", |known| &known.alpn),
            congestion: &self.plan.congestion.name,
            mtu: known.map_or(ended.mtu, |known| known.mtu),
            handshake: ended.connected_at.map(|at| at.since(began)),
            streams: &ended.streams,
            gauges: ended.gauges,
            counters: ended.counters,
            cpu: known.map_or(0.0, |known| cpu_seconds() - known.cpu),
        };
        let summary = Summary::new(now, &closing);
        reporter.say(&format!("[{}] {}\n{summary}", ended.index, summary.end))?;
        if reporter.is_json() {
            reporter.json(&serde_json::to_string(&summary).map_err(io::Error::from)?)?;
        }
        Ok(())
    }

    /// Closes everything, and tells what there was.
    fn interrupt(&mut self, now: Time, reporter: &mut Reporter) -> Result<(), Failure> {
        let live: Vec<Ended> = self
            .driver
            .endpoint
            .live()
            .filter(|live| live.connected_at().is_some() && live.end().is_none())
            .map(Connection::ended)
            .collect();
        let Driver { endpoint, socket, .. } = &mut self.driver;
        endpoint.close(now, socket);
        socket.flush();
        for ended in live {
            self.tell(now, &ended, None, reporter)?;
        }
        Ok(())
    }
}

fn told(connection: &Connection) -> String {
    connection.alpn().map_or(String::new(), |alpn| String::from_utf8_lossy(&alpn).into_owned())
}

/// An IPv4 peer of a socket for both families, as people write it.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn listen(text: &str) -> Result<Socket, Failure> {
    let addresses = text.to_socket_addrs().map_err(|error| {
        Failure::Input(format!("--listen: found \"{text}\", expected ADDRESS:PORT: {error}"))
    })?;
    let Some(address) = addresses.into_iter().next() else {
        return Err(Failure::Input(format!("--listen: no address is known for \"{text}\"")));
    };
    let bound = match Socket::bind(address, None) {
        // A machine without IPv6.
        Err(error)
            if error.raw_os_error() == Some(nix::errno::Errno::EAFNOSUPPORT as i32)
                && address.ip().is_unspecified() =>
        {
            Socket::bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port()), None)
        }
        other => other,
    };
    bound.map_err(|error| {
        let (why, port) = (error.kind(), address.port());
        Failure::Input(match why {
            io::ErrorKind::AddrInUse => {
                format!(
                    "--listen: UDP port {port} is in use; give another with --listen ADDRESS:PORT"
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
