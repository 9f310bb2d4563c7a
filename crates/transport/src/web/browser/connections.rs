//! The browser's connections: which ones it opens, and which one gets a request.

use units::{Span, Time};

use super::Browser;
use crate::AppCommand;
use crate::web::HttpVersionPolicy;
use crate::web::{ConnectRequest, Protocol};

/// A connection of the browser.
#[derive(Debug)]
pub(super) struct BrowserConnection {
    pub request: ConnectRequest,
    pub ready: Option<Time>,
    pub answered: bool,
    /// The connection has ended, or got the command to close.
    pub closed: bool,
    /// Requested objects that have not arrived.
    pub waiting: Vec<u32>,
}

impl Browser {
    /// Opens a connection.
    pub(super) fn connect(
        &mut self,
        now: Time,
        host: usize,
        protocol: Protocol,
        requests: &mut Vec<ConnectRequest>,
    ) {
        let tls = self.spec.tls;
        let resume = tls.resumption && self.profile.hosts[host].ticket;
        let quic = protocol == Protocol::Http3;
        let opened = &mut self.opened[usize::from(quic)];
        let number = self.transports.report_number(quic, *opened);
        *opened += 1;
        let request = ConnectRequest {
            number,
            host: host as u32,
            protocol,
            resume,
            early_data: resume && tls.early_data,
            profile: self.profile.number,
            opened_at: now,
        };
        self.connections.push(BrowserConnection {
            request,
            ready: None,
            answered: false,
            closed: false,
            waiting: Vec::new(),
        });
        requests.push(request);
        if self.spec.http == HttpVersionPolicy::AltSvc && protocol == Protocol::Http3 {
            self.hosts[host].race = Some(now + Span(self.spec.quic_head_start_ns));
        }
        if self.is_loading()
            && let Some(load) = self.loads.last_mut()
        {
            load.connections += 1;
        }
    }

    /// Returns the connections that have not ended.
    pub(super) fn live_connections(&self) -> impl Iterator<Item = &BrowserConnection> {
        self.connections.iter().filter(|connection| !connection.closed)
    }

    /// Returns the protocol of new connections to `host`.
    pub(super) fn protocol(&self, host: usize) -> Protocol {
        let profile = self.profile.hosts[host];
        match self.spec.http {
            _ if !self.page.hosts[host].tls => Protocol::Plain,
            HttpVersionPolicy::Http1 => Protocol::Http1,
            HttpVersionPolicy::Http2 => Protocol::Http2,
            HttpVersionPolicy::Http3 => Protocol::Http3,
            HttpVersionPolicy::AltSvc if profile.http3 && !profile.http3_broken => Protocol::Http3,
            HttpVersionPolicy::AltSvc => Protocol::Http2,
        }
    }

    /// Returns whether a connection to `host` is usable, or none is pending.
    pub(super) fn is_host_ready(&self, host: usize) -> bool {
        let mut to_host = self
            .live_connections()
            .filter(|connection| connection.request.host as usize == host)
            .peekable();
        to_host.peek().is_none()
            || to_host.any(|connection| connection.ready.is_some() && connection.answered)
    }

    /// Assigns the queue of `host` to connections, and opens missing ones.
    pub(super) fn assign_requests(
        &mut self,
        now: Time,
        host: usize,
        requests: &mut Vec<ConnectRequest>,
    ) {
        if let Some(at) = self.hosts[host].race {
            self.race(now, host, at, requests);
        }
        if self.hosts[host].queue.is_empty() {
            return;
        }
        let to = |connection: &BrowserConnection| connection.request.host as usize == host;
        let protocol = self.protocol(host);
        if matches!(protocol, Protocol::Plain | Protocol::Http1) {
            for index in 0..self.connections.len() {
                let connection = &self.connections[index];
                let idle = connection.ready.is_some() && connection.waiting.is_empty();
                if to(connection) && !connection.closed && idle {
                    if self.hosts[host].queue.is_empty() {
                        return;
                    }
                    let object = self.hosts[host].queue.remove(0);
                    self.send_request(index, object);
                }
            }
            let open = self.live_connections().filter(|connection| to(connection)).count();
            let connecting = self.live_connections().filter(|c| to(c) && c.ready.is_none()).count();
            let wanted = self.hosts[host].queue.len().saturating_sub(connecting);
            let max = self.spec.connections_per_host as usize;
            for _ in 0..wanted.min(max.saturating_sub(open)) {
                self.connect(now, host, protocol, requests);
            }
            return;
        }
        // An open connection stays in use (RFC 7838 section 2.2), and so does the winner of a race.
        let usable = |connection: &BrowserConnection| {
            to(connection)
                && !connection.closed
                && (connection.request.protocol == protocol || connection.answered)
        };
        let preferred = (0..self.connections.len())
            .filter(|index| usable(&self.connections[*index]))
            .max_by_key(|index| {
                let connection = &self.connections[*index];
                (connection.answered, connection.request.protocol == protocol, usize::MAX - index)
            });
        let index = match preferred {
            Some(index) => index,
            None => {
                self.connect(now, host, protocol, requests);
                self.connections.len() - 1
            }
        };
        for object in std::mem::take(&mut self.hosts[host].queue) {
            self.send_request(index, object);
        }
    }

    /// Adds TCP to a race if QUIC has not answered in time. TCP wins if it answers first.
    pub(super) fn race(
        &mut self,
        now: Time,
        host: usize,
        at: Time,
        requests: &mut Vec<ConnectRequest>,
    ) {
        let find = |browser: &Browser, quic: bool| {
            browser.connections.iter().position(|connection| {
                connection.request.host as usize == host
                    && !connection.closed
                    && (connection.request.protocol == Protocol::Http3) == quic
            })
        };
        let quic = find(self, true);
        if quic.is_some_and(|index| self.connections[index].answered) {
            self.hosts[host].race = Some(Time::MAX);
            return;
        }
        let tcp = find(self, false);
        if at <= now {
            self.hosts[host].race = Some(Time::MAX);
            if tcp.is_none() {
                self.connect(now, host, Protocol::Http2, requests);
            }
        }
        let won = tcp.filter(|index| {
            self.connections[*index].answered && self.connections[*index].ready.is_some()
        });
        if let (Some(winner), Some(loser)) = (won, quic) {
            let loser = &mut self.connections[loser];
            let waiting = std::mem::take(&mut loser.waiting);
            if !waiting.is_empty() {
                self.commands.push((loser.request.number, AppCommand::CancelQueued));
            }
            for object in waiting {
                self.send_request(winner, object);
            }
        }
    }

    /// Sends the request of an object to a connection.
    fn send_request(&mut self, index: usize, object: u32) {
        let connection = &mut self.connections[index];
        connection.waiting.push(object);
        self.commands.push((connection.request.number, AppCommand::Request(object)));
        if let Some(report) = self.reports[object as usize] {
            let report = &mut self.requests[report];
            report.connection = connection.request.number;
            report.protocol = connection.request.protocol.alpn();
        }
    }
}
