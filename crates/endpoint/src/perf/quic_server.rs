//! The QUIC side of the measuring server.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustls::ServerConfig;
use transport::load::PerfServer;
use transport::quic::{Connection, End, Ended, Endpoint, Live, LiveTls};
use units::Time;

use super::frames::{Frames, Opening};
use super::qlog::Qlog;
use super::report::{Names, View};
use super::server::{Out, canonical};
use super::summary::{Closing, cpu_seconds};
use super::{Failure, Sender, ServerPlan, Summary};
use crate::{Bounded, Clock, Driver, Socket};

/// What the server keeps of a connection beside the stack.
struct Known {
    number: u32,
    began: Time,
    cpu: f64,
    alpn: String,
    mtu: u64,
    told: bool,
    /// Its result has been told.
    over: bool,
}

/// QUIC's part of a server.
pub(super) struct QuicSide {
    driver: Driver,
    congestion: String,
    /// By the endpoint's number.
    known: BTreeMap<u32, Known>,
    /// Those that have worked since they were last looked at.
    moved: BTreeSet<u32>,
    qlog: Option<Qlog>,
}

impl QuicSide {
    /// Answers on `socket`.
    ///
    /// # Errors
    /// What is wrong with the plan, in words.
    pub(super) fn new(
        plan: &ServerPlan,
        tls: Arc<ServerConfig>,
        socket: Socket,
    ) -> Result<QuicSide, Failure> {
        let connections = if plan.once { 1 } else { plan.limits.connections };
        let handshakes = plan.limits.handshakes;
        let live = Live { tls: LiveTls::Server(tls), connections, handshakes };
        let streams = plan.limits.streams;
        let mut endpoint = Endpoint::with_live(
            &live,
            &plan.quic,
            Box::new(move |_| Box::new(Bounded::new(PerfServer::listening(), streams))),
            plan.congestion.maker(&plan.quic)?,
        )
        .map_err(Failure::Input)?;
        endpoint.set_chooser(&plan.congestion.name, &plan.chooser());
        if !plan.once {
            endpoint.set_giving_way();
        }
        let mut driver = Driver::new(endpoint, socket)?;
        let mut qlog = None;
        if let Some(folder) = &plan.report.qlog {
            let made = Qlog::new(folder.clone(), "server", &plan.quic, driver.clock)?;
            driver.socket.observe(Box::new(made.clone()));
            qlog = Some(made);
        }
        let congestion = plan.congestion.name.clone();
        Ok(QuicSide { driver, congestion, known: BTreeMap::new(), moved: BTreeSet::new(), qlog })
    }

    /// Its clock.
    pub(super) fn clock(&self) -> Clock {
        self.driver.clock
    }

    /// Where it listens.
    pub(super) fn local(&self) -> io::Result<SocketAddr> {
        self.driver.socket.local()
    }

    /// Whether there is no connection.
    pub(super) fn is_idle(&self) -> bool {
        self.driver.endpoint.live().next().is_none()
    }

    /// Sends what waits for the socket.
    pub(super) fn flush(&mut self) {
        self.driver.socket.flush();
    }

    /// One turn of the driver.
    pub(super) fn turn(&mut self, until: Time, beside: Option<&dyn AsFd>) -> io::Result<()> {
        self.driver.turn_beside(until, beside)
    }

    /// What is known of a connection that is measured now.
    fn measured(&self, connection: &Connection) -> Option<&Known> {
        self.known.get(&connection.index()).filter(|known| known.told && !known.over)
    }

    /// Connections as they stand: all, or those of which there may be something new.
    pub(super) fn look(&mut self, all: bool) -> Vec<View<'_>> {
        let (moved, endpoint) = (std::mem::take(&mut self.moved), &self.driver.endpoint);
        let view = |connection| self.view(connection);
        if all {
            endpoint.live().filter_map(view).collect()
        } else {
            moved.iter().filter_map(|index| endpoint.connection(*index)).filter_map(view).collect()
        }
    }

    fn view<'a>(&'a self, connection: &'a Connection) -> Option<View<'a>> {
        let known = self.measured(connection)?;
        let app = connection.app();
        let own = connection.controller_name().unwrap_or(&self.congestion);
        let names = Names::new(own, app.told());
        let sender = state(connection).told(0);
        Some(View::one(known.number, known.began, app.streams(), sender, names))
    }

    /// Samples of them.
    pub(super) fn frames(&self, now: Time, frames: &mut Frames) {
        for connection in self.driver.endpoint.live() {
            let Some(known) = self.measured(connection) else { continue };
            let sender = state(connection).told(0);
            frames.sample(now, known.number, &sender, connection.app().streams());
        }
    }

    /// Whether a qlog is not whole.
    pub(super) fn is_cut(&self) -> bool {
        self.qlog.as_ref().is_some_and(Qlog::is_cut)
    }

    /// Closes everything, and tells nobody here.
    pub(super) fn close(&mut self, now: Time) {
        let Driver { endpoint, socket, .. } = &mut self.driver;
        endpoint.close(now, socket);
        socket.flush();
    }

    /// Tells what has changed; whether a connection that had done its handshake has ended.
    pub(super) fn settle(&mut self, now: Time, out: &mut Out) -> Result<bool, Failure> {
        let gone = self.driver.endpoint.take_ended();
        let mut closed = Vec::new();
        let local = self.local()?;
        for connection in self.driver.endpoint.take_worked() {
            self.moved.insert(connection.index());
            let known = self.known.entry(connection.index()).or_insert_with(|| Known {
                number: out.number(),
                began: now,
                cpu: cpu_seconds(),
                alpn: String::new(),
                mtu: connection.mtu(),
                told: false,
                over: false,
            });
            let Some(connected) = connection.connected_at() else { continue };
            if known.over {
                continue;
            }
            let own = connection.controller_name().unwrap_or(&self.congestion);
            if !std::mem::replace(&mut known.told, true) {
                known.alpn = told(connection);
                known.mtu = connection.mtu();
                out.reporter.begin(now);
                let from = canonical(connection.remote());
                let line = format!("[{}] from {from}, QUIC, ALPN {}", known.number, known.alpn);
                out.reporter.say(&line)?;
                let opening = Opening {
                    connection: known.number,
                    transport: "quic",
                    local: format!(":{}", local.port()),
                    remote: from.to_string(),
                    congestion: &self.congestion,
                    start: known.began,
                    connected,
                    mss_bytes: known.mtu,
                };
                out.frames.connection(now, &opening);
                if let Some(qlog) = &self.qlog {
                    qlog.connected(known.number, connection.remote(), local, own);
                }
            }
            if let Some(qlog) = &self.qlog {
                qlog.controller(known.number, connection.remote(), own);
                qlog.state(now, connection.remote(), &state(connection));
            }
            if connection.end().is_some() {
                known.over = true;
                closed.push(connection.ended());
            }
        }
        let mut over = false;
        for ended in closed {
            self.tell(now, &ended, Some(&ended.end), out)?;
            over = true;
        }
        for ended in gone {
            // A handshake that came to nothing is no measurement.
            let fresh = self.known.get(&ended.index).is_none_or(|known| !known.over);
            if ended.connected_at.is_some() && fresh {
                self.tell(now, &ended, Some(&ended.end), out)?;
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
        out: &mut Out,
    ) -> Result<(), Failure> {
        let known = self.known.get(&ended.index);
        let began = known.map_or(ended.connected_at.unwrap_or(now), |known| known.began);
        let number = known.map_or_else(|| out.number(), |known| known.number);
        let sender = Sender::quic(&ended.gauges, &ended.counters).told(0);
        let own = ended.controller.as_deref().unwrap_or(&self.congestion);
        let names = Names::new(own, ended.told.as_ref());
        out.reporter.end(now, &View::one(number, began, &ended.streams, sender, names))?;
        out.frames.end_connection(now, number, end, &sender, &ended.streams, names);
        if let Some(qlog) = &self.qlog {
            let why = match end {
                None => "interrupted",
                Some(End::Here | End::There) => "closed",
                Some(End::Lost(why)) => why,
            };
            qlog.controller(number, ended.remote, own);
            qlog.ended(now, ended.remote, why);
        }
        let closing = Closing {
            role: "server",
            peer: canonical(ended.remote).to_string(),
            end,
            transport: "quic",
            connections: 1,
            alpn: known.map_or("", |known| &known.alpn),
            names,
            mtu: known.map_or(ended.mtu, |known| known.mtu),
            handshake: ended.connected_at.map(|at| at.since(began)),
            streams: ended.streams.iter().collect(),
            sender,
            cpu: known.map_or(0.0, |known| cpu_seconds() - known.cpu),
        };
        tell_summary(number, &Summary::new(now, &closing), out)
    }

    /// Closes everything, and tells what there was.
    pub(super) fn interrupt(&mut self, now: Time, out: &mut Out) -> Result<(), Failure> {
        let live: Vec<Ended> = self
            .driver
            .endpoint
            .live()
            .filter(|live| live.connected_at().is_some() && live.end().is_none())
            .map(Connection::ended)
            .collect();
        self.close(now);
        for ended in live {
            self.tell(now, &ended, None, out)?;
        }
        Ok(())
    }
}

/// The result of a connection, for people or for programs.
pub(super) fn tell_summary(number: u32, summary: &Summary, out: &mut Out) -> Result<(), Failure> {
    out.reporter.say(&format!("[{number}] {}\n{summary}", summary.end))?;
    if out.reporter.is_json() {
        out.reporter.json(&serde_json::to_string(summary).map_err(io::Error::from)?)?;
    }
    Ok(())
}

fn state(connection: &Connection) -> Sender {
    Sender::quic(&connection.gauges(), &connection.counters())
}

fn told(connection: &Connection) -> String {
    connection.alpn().map_or(String::new(), |alpn| String::from_utf8_lossy(&alpn).into_owned())
}
