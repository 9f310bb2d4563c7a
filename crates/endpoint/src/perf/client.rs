//! The measuring client: one connection, its load, its lines, its result.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use transport::load::PerfClient;
use transport::quic::{Connection, End, Ended, Endpoint, Live, LiveTls};
use transport::{MakeApp, StreamSpec};
use units::{Span, Time};

use super::report::View;
use super::summary::{Closing, cpu_seconds};
use super::{ClientPlan, Failure, Reporter, Summary, TrustPlan};
use crate::tls::{Fingerprint, Shown, Trust};
use crate::{Driver, Socket, tls};

/// How often patience is looked at before there is a connection.
const LOOK: Span = Span(10_000_000);

/// Calls after a closed port before it is believed.
const REFUSALS: usize = 8;

/// What the alert of a failed verification is called (RFC 8446 section 6.2); QUIC adds 0x100.
const UNTRUSTED: &str = "certificate";

/// A client, ready to connect.
pub struct Client {
    plan: ClientPlan,
    driver: Driver,
    remote: SocketAddr,
    shown: Shown,
    pinned: Option<Fingerprint>,
}

impl Client {
    /// Finds the server's address and binds a socket.
    ///
    /// # Errors
    /// What is wrong with the plan, in words.
    pub fn start(plan: ClientPlan) -> Result<Client, Failure> {
        let remote = resolve(&plan.host, plan.port)?;
        let (trust, pinned) = trust(&plan, remote)?;
        let (config, shown) = tls::client(&plan.alpn, trust).map_err(Failure::Input)?;
        let mut quic = plan.quic.clone();
        quic.header_bytes = if remote.is_ipv4() { 28 } else { 48 };
        let live = Live { tls: LiveTls::Client(Arc::new(config)), connections: 1, handshakes: 1 };
        let endpoint =
            Endpoint::with_live(&live, &quic, apps(&plan.load), plan.congestion.maker(&quic)?)
                .map_err(Failure::Input)?;
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = Socket::bind(SocketAddr::new(any, 0), Some(remote))
            .map_err(|error| Failure::Run(format!("{remote} cannot be reached: {error}")))?;
        let driver = Driver::new(endpoint, socket)?;
        Ok(Client { plan, driver, remote, shown, pinned })
    }

    /// Runs the load; whether it was stopped before its end.
    ///
    /// # Errors
    /// Why there is no result, or only part of one.
    pub fn run(mut self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, Failure> {
        let mut reporter = Reporter::new(&self.plan.report, screen, false)?;
        let cpu = cpu_seconds();
        let began = self.driver.clock.now();
        let Driver { endpoint, socket, .. } = &mut self.driver;
        endpoint
            .dial(began, self.remote, &self.plan.host, socket)
            .map_err(|error| Failure::Input(format!("{}: {error}", self.plan.host)))?;
        let mut alpn = None;
        let (ended, stopped) = loop {
            let now = self.driver.clock.now();
            if let Some(ended) = self.driver.endpoint.take_ended().pop() {
                break (ended, false);
            }
            let mut over = false;
            if let Some(connection) = self.driver.endpoint.live().next() {
                if alpn.is_none() && connection.connected_at().is_some() {
                    alpn = Some(told(connection));
                    self.greet(&mut reporter, connection, began)?;
                    reporter.begin(now);
                }
                over = connection.end().is_some();
                if reporter.is_due(now) {
                    reporter.tick(now, &[view(connection, began)])?;
                }
            }
            if over {
                break (self.left(now), false);
            }
            if stop.load(Ordering::Relaxed) {
                break (self.left(now), true);
            }
            self.patience(now, began, alpn.is_some())?;
            let until = if alpn.is_some() { reporter.wake_at() } else { now + LOOK };
            self.turn(until, alpn.is_some())?;
        };
        let now = self.driver.clock.now();
        if ended.connected_at.is_none() && !stopped {
            return Err(self.refused(&ended));
        }
        let view = View {
            connection: 0,
            streams: &ended.streams,
            gauges: ended.gauges,
            counters: ended.counters,
            began,
        };
        reporter.end(now, &view)?;
        let closing = Closing {
            role: "client",
            peer: self.remote.to_string(),
            end: (!stopped).then_some(&ended.end),
            alpn: alpn.as_deref().unwrap_or_default(),
            congestion: &self.plan.congestion.name,
            mtu: ended.mtu,
            handshake: ended.connected_at.map(|at| at.since(began)),
            streams: &ended.streams,
            gauges: ended.gauges,
            counters: ended.counters,
            cpu: cpu_seconds() - cpu,
        };
        let summary = Summary::new(now, &closing);
        reporter.say(&summary.to_string())?;
        if reporter.is_json() {
            let text = serde_json::to_string_pretty(&summary).map_err(std::io::Error::from)?;
            reporter.json(&text)?;
        }
        match &ended.end {
            _ if stopped => Ok(true),
            End::Here => Ok(false),
            End::There => Err(Failure::Run(format!(
                "{} closed the connection before the load was done",
                self.remote
            ))),
            End::Lost(why) => Err(Failure::Run(self.lost(why))),
        }
    }

    fn turn(&mut self, until: Time, connected: bool) -> Result<(), Failure> {
        let remote = self.remote;
        let mut done = self.driver.turn(until);
        // What the server said before it went may still be unread: errors come first, one for each datagram
        // sent since.
        for _ in 0..REFUSALS {
            if !connected || !done.as_ref().is_err_and(is_refused) {
                break;
            }
            let again = self.driver.turn(until);
            if self.driver.endpoint.live().next().is_none_or(|live| live.end().is_some()) {
                done = Ok(());
            } else if again.is_err() {
                done = again;
            }
        }
        done.map_err(|error| match error.kind() {
            std::io::ErrorKind::ConnectionRefused if connected => {
                Failure::Run(format!("{remote}: the server is gone (its UDP port is closed)"))
            }
            std::io::ErrorKind::ConnectionRefused => Failure::Run(format!(
                "{remote}: nothing listens there (UDP port closed); is `bentpipe perf server` running?"
            )),
            _ => Failure::Run(format!("{remote} cannot be reached: {error}")),
        })?;
        match self.driver.socket.too_large() {
            Some(size) => Err(Failure::Input(format!(
                "--mtu: the way to {remote} takes no UDP payload of {size} bytes; give a smaller --mtu"
            ))),
            None => Ok(()),
        }
    }

    /// No answer for too long.
    fn patience(&mut self, now: Time, began: Time, connected: bool) -> Result<(), Failure> {
        let timeout = Span(self.plan.timeout_ns as _);
        if connected || now.since(began) < timeout {
            return Ok(());
        }
        let Driver { endpoint, socket, .. } = &mut self.driver;
        endpoint.close(now, socket);
        Err(Failure::Run(format!(
            "{}: no answer within {} s; is the server running, and does UDP pass?",
            self.remote,
            timeout.seconds()
        )))
    }

    /// Closes the connection, tells the peer, and takes what is left of it.
    fn left(&mut self, now: Time) -> Ended {
        let Driver { endpoint, socket, .. } = &mut self.driver;
        endpoint.close(now, socket);
        socket.flush();
        let gone = endpoint.take_ended().pop();
        gone.or_else(|| endpoint.live().next().map(Connection::ended)).expect("one was opened")
    }

    fn greet(
        &self,
        reporter: &mut Reporter,
        connection: &Connection,
        began: Time,
    ) -> Result<(), Failure> {
        let took = connection.connected_at().map_or(0.0, |at| at.since(began).millis());
        let known = match (&self.plan.trust, self.shown.fingerprint()) {
            (TrustPlan::Fingerprint(_), _) => "certificate as pinned".to_owned(),
            (_, Some(found)) => format!("certificate not verified, fingerprint {found}"),
            (_, None) => "no certificate".to_owned(),
        };
        let text = format!(
            "connected to {} in {took:.2} ms, ALPN {}, {}, mtu {}; {known}",
            self.remote,
            told(connection),
            self.plan.congestion.name,
            connection.mtu(),
        );
        Ok(reporter.say(&text)?)
    }

    /// Why there was no handshake.
    fn refused(&self, ended: &Ended) -> Failure {
        let End::Lost(why) = &ended.end else {
            return Failure::Run(format!("{} closed the connection at once", self.remote));
        };
        match (self.pinned, self.shown.fingerprint()) {
            (Some(wanted), Some(found)) if wanted != found => Failure::Run(format!(
                "{}: the server's {UNTRUSTED} is another one: fingerprint {found}, expected {wanted}",
                self.remote
            )),
            _ => Failure::Run(self.lost(why)),
        }
    }

    fn lost(&self, why: &str) -> String {
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

fn told(connection: &Connection) -> String {
    connection.alpn().map_or(String::new(), |alpn| String::from_utf8_lossy(&alpn).into_owned())
}

fn view(connection: &Connection, began: Time) -> View<'_> {
    View {
        connection: 0,
        streams: connection.app().streams(),
        gauges: connection.gauges(),
        counters: connection.counters(),
        began,
    }
}

fn apps(load: &[StreamSpec]) -> MakeApp {
    let load = load.to_vec();
    Box::new(move |_| Box::new(PerfClient::new(&load)))
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let found = (plain, port).to_socket_addrs();
    found
        .ok()
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| Failure::Input(format!("HOST: no address is known for \"{host}\"")))
}

fn trust(plan: &ClientPlan, remote: SocketAddr) -> Result<(Trust, Option<Fingerprint>), Failure> {
    match &plan.trust {
        TrustPlan::Insecure => Ok((Trust::Anyone, None)),
        TrustPlan::Private if tls::is_private(remote.ip()) => Ok((Trust::Anyone, None)),
        TrustPlan::Private => Err(Failure::Input(format!(
            "{} is no private address: give --fingerprint with what the server prints, or --insecure",
            remote.ip()
        ))),
        TrustPlan::Fingerprint(text) => {
            let wanted = Fingerprint::parse(text).map_err(Failure::Input)?;
            Ok((Trust::Pinned(wanted), Some(wanted)))
        }
    }
}
