//! The browser's connections: which are opened, and which of them is asked for an object.

use units::{Span, Time};

use super::{Browser, Phase};
use crate::Order;
use crate::web::Http;
use crate::web::dial::{Dial, Protocol};

/// A connection as the browser knows it.
#[derive(Debug)]
pub(super) struct Connection {
    pub dial: Dial,
    pub ready: Option<Time>,
    pub answered: bool,
    /// It is over, or was asked to close.
    pub closed: bool,
    /// Objects it was asked for that have not come.
    pub waiting: Vec<u32>,
}

impl Browser {
    /// Opens a connection.
    pub(super) fn dial(
        &mut self,
        now: Time,
        host: usize,
        protocol: Protocol,
        dials: &mut Vec<Dial>,
    ) {
        let tls = self.spec.tls;
        let resume = tls.resumption && self.memory.hosts[host].ticket;
        let quic = protocol == Protocol::Http3;
        let opened = &mut self.opened[usize::from(quic)];
        let number = self.transports.number(quic, *opened);
        *opened += 1;
        let dial = Dial {
            number,
            host: host as u32,
            protocol,
            resume,
            early: resume && tls.early_data,
            profile: self.memory.number,
            at: now,
        };
        self.connections.push(Connection {
            dial,
            ready: None,
            answered: false,
            closed: false,
            waiting: Vec::new(),
        });
        dials.push(dial);
        if self.spec.http == Http::AltSvc && protocol == Protocol::Http3 {
            self.hosts[host].race = Some(now + Span(self.spec.quic_head_start_ns));
        }
        if matches!(self.phase, Phase::Loading(_))
            && let Some(load) = self.loads.last_mut()
        {
            load.connections += 1;
        }
    }

    /// Connections that are not over.
    pub(super) fn live(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().filter(|connection| !connection.closed)
    }

    /// What new connections to `host` speak.
    pub(super) fn protocol(&self, host: usize) -> Protocol {
        let known = self.memory.hosts[host];
        match self.spec.http {
            _ if !self.page.hosts[host].tls => Protocol::Plain,
            Http::Http1 => Protocol::Http1,
            Http::Http2 => Protocol::Http2,
            Http::Http3 => Protocol::Http3,
            Http::AltSvc if known.http3 && !known.broken => Protocol::Http3,
            Http::AltSvc => Protocol::Http2,
        }
    }

    /// Whether a connection to `host` may be used, or none is on its way.
    pub(super) fn is_up(&self, host: usize) -> bool {
        let mut own = self.live().filter(|own| own.dial.host as usize == host).peekable();
        own.peek().is_none() || own.any(|own| own.ready.is_some() && own.answered)
    }

    /// Gives the queue of `host` to connections, and opens those that are missing.
    pub(super) fn serve(&mut self, now: Time, host: usize, dials: &mut Vec<Dial>) {
        if let Some(at) = self.hosts[host].race {
            self.race(now, host, at, dials);
        }
        if self.hosts[host].queue.is_empty() {
            return;
        }
        let to = |connection: &Connection| connection.dial.host as usize == host;
        let protocol = self.protocol(host);
        if matches!(protocol, Protocol::Plain | Protocol::Http1) {
            for place in 0..self.connections.len() {
                let connection = &self.connections[place];
                let idle = connection.ready.is_some() && connection.waiting.is_empty();
                if to(connection) && !connection.closed && idle {
                    if self.hosts[host].queue.is_empty() {
                        return;
                    }
                    let object = self.hosts[host].queue.remove(0);
                    self.give(place, object);
                }
            }
            let open = self.live().filter(|connection| to(connection)).count();
            let coming = self.live().filter(|c| to(c) && c.ready.is_none()).count();
            let wanted = self.hosts[host].queue.len().saturating_sub(coming);
            let most = self.spec.connections_per_host as usize;
            for _ in 0..wanted.min(most.saturating_sub(open)) {
                self.dial(now, host, protocol, dials);
            }
            return;
        }
        // What is open stays in use (RFC 7838 section 2.2), what has won a race too.
        let usable = |connection: &Connection| {
            to(connection)
                && !connection.closed
                && (connection.dial.protocol == protocol || connection.answered)
        };
        let best = (0..self.connections.len())
            .filter(|place| usable(&self.connections[*place]))
            .max_by_key(|place| {
                let connection = &self.connections[*place];
                (connection.answered, connection.dial.protocol == protocol, usize::MAX - place)
            });
        let place = match best {
            Some(place) => place,
            None => {
                self.dial(now, host, protocol, dials);
                self.connections.len() - 1
            }
        };
        for object in std::mem::take(&mut self.hosts[host].queue) {
            self.give(place, object);
        }
    }

    /// TCP joins a race when QUIC has not answered in time, and wins it if it answers first.
    pub(super) fn race(&mut self, now: Time, host: usize, at: Time, dials: &mut Vec<Dial>) {
        let find = |browser: &Browser, quic: bool| {
            browser.connections.iter().position(|connection| {
                connection.dial.host as usize == host
                    && !connection.closed
                    && (connection.dial.protocol == Protocol::Http3) == quic
            })
        };
        let quic = find(self, true);
        if quic.is_some_and(|place| self.connections[place].answered) {
            self.hosts[host].race = Some(Time::MAX);
            return;
        }
        let tcp = find(self, false);
        if at <= now {
            self.hosts[host].race = Some(Time::MAX);
            if tcp.is_none() {
                self.dial(now, host, Protocol::Http2, dials);
            }
        }
        let won = tcp.filter(|place| {
            self.connections[*place].answered && self.connections[*place].ready.is_some()
        });
        if let (Some(winner), Some(loser)) = (won, quic) {
            let loser = &mut self.connections[loser];
            let waiting = std::mem::take(&mut loser.waiting);
            if !waiting.is_empty() {
                self.orders.push((loser.dial.number, Order::Forget));
            }
            for object in waiting {
                self.give(winner, object);
            }
        }
    }

    /// Asks a connection for an object.
    fn give(&mut self, place: usize, object: u32) {
        let connection = &mut self.connections[place];
        connection.waiting.push(object);
        self.orders.push((connection.dial.number, Order::Ask(object)));
        if let Some(report) = self.reports[object as usize] {
            let report = &mut self.requests[report];
            report.connection = connection.dial.number;
            report.protocol = connection.dial.protocol.alpn();
        }
    }
}
