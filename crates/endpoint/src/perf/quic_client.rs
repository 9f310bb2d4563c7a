//! The measuring client over QUIC: one connection, its load, its lines, its result.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use transport::load::{PerfClient, Question};
use transport::quic::{Connection, End, Ended, Endpoint, Live, LiveTls};
use transport::{MakeApp, StreamSpec};
use units::{Span, Time};

use super::client::{refused, resolve, trust, trusted};
use super::frames::{Frames, Opening};
use super::qlog::Qlog;
use super::report::{Names, View};
use super::summary::{Closing, cpu_seconds};
use super::{ClientPlan, Failure, Reporter, Sender, Summary};
use crate::tls::{Fingerprint, Shown};
use crate::{Driver, Socket, tls};

/// How often patience is looked at before there is a connection.
const LOOK: Span = Span(10_000_000);

/// Calls after a closed port before it is believed.
const REFUSALS: usize = 8;

/// A client, ready to connect.
pub struct Client {
    plan: ClientPlan,
    driver: Driver,
    remote: SocketAddr,
    shown: Shown,
    pinned: Option<Fingerprint>,
    qlog: Option<Qlog>,
    /// Bytes of the request on each stream.
    request: u64,
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
        let question = plan.question(&plan.congestion.name)?;
        let apps = apps(&plan.load, question.clone());
        let endpoint = Endpoint::with_live(&live, &quic, apps, plan.congestion.maker(&quic)?)
            .map_err(Failure::Input)?;
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = Socket::bind(SocketAddr::new(any, 0), Some(remote))
            .map_err(|error| Failure::Run(format!("{remote} cannot be reached: {error}")))?;
        let mut driver = Driver::new(endpoint, socket)?;
        let mut qlog = None;
        if let Some(folder) = &plan.report.qlog {
            let made = Qlog::new(folder.clone(), "client", &plan.quic, driver.clock)?;
            driver.socket.observe(Box::new(made.clone()));
            qlog = Some(made);
        }
        let request = PerfClient::request_bytes(question.as_ref());
        Ok(Client { plan, driver, remote, shown, pinned, qlog, request })
    }

    /// Runs the load; whether it was stopped before its end.
    ///
    /// # Errors
    /// Why there is no result, or only part of one.
    pub fn run(mut self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, Failure> {
        let mut reporter = Reporter::new(&self.plan.report, screen, false)?;
        let mut frames = Frames::new(self.plan.report.frames.as_ref(), self.driver.clock)?;
        let cpu = cpu_seconds();
        let began = self.driver.clock.now();
        frames.begin(began, "client", "quic", &self.plan.congestion.name, None)?;
        let done = self.measure(began, stop, &mut reporter, &mut frames, cpu);
        let end = match &done {
            Ok(false) => "done".to_owned(),
            Ok(true) => "interrupted".to_owned(),
            Err(failure) => format!("failed: {failure}"),
        };
        frames.end(&end, cpu_seconds() - cpu);
        if done.is_err() {
            // The server is not left to wait.
            let Driver { endpoint, socket, clock } = &mut self.driver;
            endpoint.close(clock.now(), socket);
            socket.flush();
        }
        let cut = self.qlog.as_ref().is_some_and(Qlog::is_cut);
        if cut || frames.is_cut() || reporter.is_cut() { done.and(Err(Failure::Cut)) } else { done }
    }

    fn measure(
        &mut self,
        began: Time,
        stop: &AtomicBool,
        reporter: &mut Reporter,
        frames: &mut Frames,
        cpu: f64,
    ) -> Result<bool, Failure> {
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
                    self.greet(reporter, connection, began)?;
                    reporter.begin(now);
                    frames.connection(now, &self.opening(connection, began)?);
                    if let Some(qlog) = &self.qlog {
                        let own = &self.plan.congestion.name;
                        qlog.connected(0, self.remote, self.driver.socket.local()?, own);
                    }
                }
                over = connection.end().is_some();
                if let (Some(qlog), true) = (&self.qlog, alpn.is_some()) {
                    qlog.state(now, self.remote, &state(connection));
                }
                if reporter.is_due(now) {
                    reporter.tick(now, &[self.view(connection, began)])?;
                }
                if frames.is_due(now) && alpn.is_some() {
                    frames.sample(now, 0, &self.sender(connection), connection.app().streams());
                    frames.flush();
                }
            }
            if over {
                break (self.left(now), false);
            }
            if stop.load(Ordering::Relaxed) {
                break (self.left(now), true);
            }
            self.patience(now, began, alpn.is_some())?;
            let other = if alpn.is_some() { reporter.wake_at() } else { now + LOOK };
            let until = other.min(frames.wake_at());
            self.turn(until, alpn.is_some())?;
        };
        let now = self.driver.clock.now();
        if ended.connected_at.is_none() && !stopped {
            return Err(self.refused(&ended));
        }
        let state = Sender::quic(&ended.gauges, &ended.counters);
        let sender = state.told(self.request * ended.streams.len() as u64);
        let names = Names::new(&self.plan.congestion.name, ended.told.as_ref());
        let end = (!stopped).then_some(&ended.end);
        if let Some(qlog) = &self.qlog {
            let why = if stopped { "interrupted" } else { words(&ended.end) };
            qlog.state(now, self.remote, &state);
            qlog.ended(now, self.remote, why);
        }
        if alpn.is_some() {
            frames.end_connection(now, 0, end, &sender, &ended.streams, names);
        }
        if let Some(answer) = ended.told.as_ref().filter(|answer| answer.refused.is_some()) {
            return Err(self.plan.refused(answer));
        }
        reporter.end(now, &View::one(0, began, &ended.streams, sender, names))?;
        let closing = Closing {
            role: "client",
            peer: self.remote.to_string(),
            end,
            transport: "quic",
            connections: 1,
            alpn: alpn.as_deref().unwrap_or_default(),
            names,
            mtu: ended.mtu,
            handshake: ended.connected_at.map(|at| at.since(began)),
            streams: ended.streams.iter().collect(),
            sender,
            cpu: cpu_seconds() - cpu,
        };
        let summary = Summary::new(now, &closing);
        reporter.say(&summary.to_string())?;
        if let Some(text) = self.plan.unheard(summary.down_bytes, ended.told.is_some()) {
            reporter.say(&text)?;
        }
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
        let known = trusted(&self.plan.trust, &self.shown);
        let text = format!(
            "connected to {} in {took:.2} ms, ALPN {}, UP with {}, mtu {}; {known}",
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
        refused(self.remote, self.pinned, &self.shown)
            .unwrap_or_else(|| Failure::Run(self.lost(why)))
    }

    fn sender(&self, connection: &Connection) -> Sender {
        state(connection).told(self.request * connection.app().streams().len() as u64)
    }

    fn view<'a>(&'a self, connection: &'a Connection, began: Time) -> View<'a> {
        let app = connection.app();
        let names = Names::new(&self.plan.congestion.name, app.told());
        View::one(0, began, app.streams(), self.sender(connection), names)
    }

    fn opening(&self, connection: &Connection, began: Time) -> Result<Opening<'_>, Failure> {
        Ok(Opening {
            connection: 0,
            transport: "quic",
            local: self.driver.socket.local()?.to_string(),
            remote: self.remote.to_string(),
            congestion: &self.plan.congestion.name,
            start: began,
            connected: connection.connected_at().unwrap_or(began),
            mss_bytes: connection.mtu(),
        })
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

/// How a connection ended, in words.
fn words(end: &End) -> &str {
    match end {
        End::Here | End::There => "closed",
        End::Lost(why) => why,
    }
}

fn state(connection: &Connection) -> Sender {
    Sender::quic(&connection.gauges(), &connection.counters())
}

fn apps(load: &[StreamSpec], question: Option<Question>) -> MakeApp {
    let load = load.to_vec();
    Box::new(move |_| {
        Box::new(match &question {
            Some(question) => PerfClient::asking(&load, question),
            None => PerfClient::new(&load),
        })
    })
}
