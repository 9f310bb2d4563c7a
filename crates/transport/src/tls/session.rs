//! TLS over a byte stream: an application of the transport that carries HTTP. Messages and records have their true
//! types and lengths. A side continues after the bytes of its peer's flight. A record is passed on only when it is
//! complete, as its tag requires.

use std::collections::VecDeque;

use bytes::Bytes;
use units::Time;

use super::handshake::{self, HandshakeAction, TlsHandshake};
use crate::perf_load::StreamReport;
use crate::tls;
use crate::tls::record::{self, Protection, content};
use crate::web::{ConnectRequest, HttpConnection, TlsSpec};
use crate::{App, AppCommand, AppEvent, AppNotification, ReadStatus, ReceivedRanges, Streams};

/// The one stream of a TCP connection.
const STREAM: u64 = 0;

/// The protection of a connection's bytes.
enum ConnectionSecurity {
    Tls,
    /// None: the bytes are HTTP (`http` URLs).
    Plain,
    /// A server's connection before its first byte, which selects the protection as ports 443 and 80 would. The value
    /// handles connections without TLS.
    Undetermined(Box<dyn HttpConnection>),
}

/// TLS on one side of one connection, with HTTP over it; or HTTP alone.
pub(crate) struct TlsApp {
    security: ConnectionSecurity,
    handshake: TlsHandshake,
    http: Box<dyn HttpConnection>,
    is_client: bool,
    /// The browser has closed the connection.
    closing: bool,
    /// A command of the browser is not processed yet.
    command_pending: bool,
    /// Notifications for the browser.
    notifications: Vec<AppNotification>,
    /// Bytes before a whole record.
    incoming: Vec<u8>,
    /// Bytes before a whole handshake message.
    messages: Vec<u8>,
    /// The peer has sent ChangeCipherSpec.
    peer_protects: bool,
    /// This side has sent ChangeCipherSpec.
    protects: bool,
    outgoing: VecDeque<Bytes>,
    /// Application data is allowed.
    open: bool,
    started: bool,
    closed: bool,
    received: ReceivedRanges,
    report: Vec<StreamReport>,
}

impl TlsApp {
    /// Creates the client of `request`.
    pub fn client(
        options: TlsSpec,
        request: ConnectRequest,
        http: Box<dyn HttpConnection>,
    ) -> TlsApp {
        let handshake = TlsHandshake::new(options, request.resume, request.early_data);
        TlsApp::new(ConnectionSecurity::Tls, handshake, http, true)
    }

    /// Creates the client of a connection without TLS.
    pub fn plain(options: TlsSpec, http: Box<dyn HttpConnection>) -> TlsApp {
        TlsApp::new(ConnectionSecurity::Plain, TlsHandshake::new(options, false, false), http, true)
    }

    /// Creates a server; `plain` serves clients without TLS.
    pub fn server(
        options: TlsSpec,
        http: Box<dyn HttpConnection>,
        plain: Box<dyn HttpConnection>,
    ) -> TlsApp {
        let handshake = TlsHandshake::new(options, false, false);
        TlsApp::new(ConnectionSecurity::Undetermined(plain), handshake, http, false)
    }

    fn new(
        security: ConnectionSecurity,
        handshake: TlsHandshake,
        http: Box<dyn HttpConnection>,
        is_client: bool,
    ) -> TlsApp {
        TlsApp {
            security,
            handshake,
            http,
            is_client,
            closing: false,
            command_pending: false,
            notifications: Vec::new(),
            incoming: Vec::new(),
            messages: Vec::new(),
            peer_protects: false,
            protects: false,
            outgoing: VecDeque::new(),
            open: false,
            started: false,
            closed: false,
            received: ReceivedRanges::default(),
            report: Vec::new(),
        }
    }

    fn notify(&mut self, notification: AppNotification) {
        if self.is_client {
            self.notifications.push(notification);
        }
    }

    fn protection(&self) -> Protection {
        if self.handshake.is_13() {
            Protection::Tls13
        } else if self.protects {
            Protection::Tls12
        } else {
            Protection::None
        }
    }

    fn seal(&mut self, protection: Protection, content: u8, plain: &[u8]) {
        let mut out = Vec::with_capacity(plain.len() + 64);
        record::seal(&mut out, protection, content, plain);
        self.outgoing.push_back(out.into());
    }

    /// Allows requests and responses.
    fn open(&mut self, now: Time) {
        self.open = true;
        self.http.start(now);
        self.notify(AppNotification::Ready);
    }

    /// Checks the first byte of a client: a handshake record, or the first letter of a method.
    fn detect_security(&mut self, now: Time) {
        if let (ConnectionSecurity::Undetermined(_), Some(first)) =
            (&self.security, self.incoming.first())
        {
            let security = if *first == content::HANDSHAKE {
                ConnectionSecurity::Tls
            } else {
                ConnectionSecurity::Plain
            };
            let is_plain = matches!(security, ConnectionSecurity::Plain);
            if let ConnectionSecurity::Undetermined(speaker) =
                std::mem::replace(&mut self.security, security)
                && is_plain
            {
                self.http = speaker;
                self.open(now);
            }
        }
    }

    fn perform(&mut self, now: Time, acts: &[HandshakeAction]) {
        for act in acts {
            match *act {
                HandshakeAction::SendMessage(kind, length, flags, protected) => {
                    let mut message = tls::message(kind, length);
                    if let Some(byte) = message.get_mut(handshake::FLAGS_AT) {
                        *byte = flags;
                    }
                    let protection = if protected { self.protection() } else { Protection::None };
                    self.seal(protection, content::HANDSHAKE, &message);
                }
                HandshakeAction::ChangeCipherSpec => {
                    self.seal(Protection::None, content::CHANGE_CIPHER_SPEC, &[1]);
                    self.protects = true;
                }
                HandshakeAction::EnableApplicationData => self.open(now),
                HandshakeAction::SessionTicket => self.notify(AppNotification::SessionTicket),
            }
        }
    }

    fn on_message(&mut self, now: Time, message: u8, flags: u8) {
        let acts = if self.is_client {
            self.handshake.client(message)
        } else {
            self.handshake.server(message, flags)
        };
        self.perform(now, &acts);
    }

    /// Removes every whole message from the handshake's bytes.
    fn read_messages(&mut self, now: Time) {
        while let Some(head) = self.messages.get(..4) {
            let length = 4 + u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
            if self.messages.len() < length {
                return;
            }
            let flags = self.messages[..length].get(handshake::FLAGS_AT).copied().unwrap_or(0);
            let message = self.messages[0];
            self.messages.drain(..length);
            self.on_message(now, message, flags);
        }
    }

    /// Removes every whole record from the stream's bytes.
    fn read_records(&mut self, now: Time) {
        let incoming = std::mem::take(&mut self.incoming);
        if matches!(self.security, ConnectionSecurity::Plain) {
            if !incoming.is_empty() {
                self.http.receive(now, &incoming, &mut self.notifications);
            }
            return;
        }
        let mut rest = incoming.as_slice();
        while let Some(length) = record::length(rest)
            && length <= rest.len()
        {
            let (record, after) = rest.split_at(length);
            rest = after;
            let protection = match (self.handshake.is_13(), record[0]) {
                (true, content::DATA) => Protection::Tls13,
                (false, _) if self.peer_protects => Protection::Tls12,
                _ => Protection::None,
            };
            match record::open(record, protection) {
                Some((content::HANDSHAKE, plain)) => {
                    self.messages.extend_from_slice(plain);
                    self.read_messages(now);
                }
                Some((content::CHANGE_CIPHER_SPEC, _)) => self.peer_protects = true,
                Some((content::DATA, plain)) => {
                    self.http.receive(now, plain, &mut self.notifications)
                }
                _ => {}
            }
        }
        self.incoming = rest.to_vec();
    }

    fn read(&mut self, now: Time, streams: &mut dyn Streams) {
        let (incoming, received) = (&mut self.incoming, &mut self.received);
        let before = received.total();
        let end = streams.read(STREAM, &mut |offset, data| {
            debug_assert_eq!(offset, received.in_order(), "TCP delivers in order");
            received.insert(offset, offset + data.len() as u64);
            incoming.extend_from_slice(data);
        });
        let Some(report) = self.report.first_mut() else { return };
        report.update(now, &self.received);
        if before == 0
            && self.received.total() > 0
            && matches!(self.security, ConnectionSecurity::Tls)
        {
            self.notify(AppNotification::PeerResponded);
        }
        self.detect_security(now);
        self.read_records(now);
        if end == ReadStatus::Finished {
            // This also applies to a side that has closed before.
            self.report[0].fin.get_or_insert(now);
        }
        if end != ReadStatus::Open && !self.closed {
            // The peer has ended, so this side ends.
            self.close(now, streams);
        }
    }

    fn close(&mut self, now: Time, streams: &mut dyn Streams) {
        if !std::mem::replace(&mut self.closed, true) {
            if self.open && matches!(self.security, ConnectionSecurity::Tls) {
                // close_notify: level and description (RFC 8446 section 6.1).
                self.seal(self.protection(), content::ALERT, &[1, 0]);
            }
            self.write(now, 0, streams);
            streams.close();
        }
    }

    /// Writes waiting data to the transport, with bodies up to `max_bytes`.
    fn write(&mut self, now: Time, max_bytes: usize, streams: &mut dyn Streams) {
        if self.open
            && !self.closed
            && self.outgoing.iter().map(Bytes::len).sum::<usize>() < max_bytes.max(1)
        {
            // Headers use separate records, since servers flush them before they have a body. A browser then sees the
            // start of a response before a whole record of body.
            for max_body_bytes in [0, max_bytes] {
                let mut plain = Vec::new();
                self.http.send(now, max_body_bytes, &mut plain, &mut self.notifications);
                match self.security {
                    ConnectionSecurity::Tls => self.seal(self.protection(), content::DATA, &plain),
                    _ if plain.is_empty() => {}
                    _ => self.outgoing.push_back(plain.into()),
                }
            }
        }
        let report = &mut self.report[0];
        while let Some(bytes) = self.outgoing.pop_front() {
            let length = bytes.len();
            let taken = streams.write(STREAM, bytes.clone());
            report.written += taken as u64;
            if taken < length {
                self.outgoing.push_front(bytes.slice(taken..));
                return;
            }
        }
    }

    fn process(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        if self.report.is_empty() {
            // One report for all objects of a connection: its end is not that of an object.
            self.report.push(StreamReport { mode: "pages", ..StreamReport::new(STREAM, now) });
        }
        self.command_pending = false;
        let mut budget = 0;
        match event {
            AppEvent::Ready if self.is_client && !std::mem::replace(&mut self.started, true) => {
                if matches!(self.security, ConnectionSecurity::Plain) {
                    // The handshake of TCP is the peer's answer.
                    self.open(now);
                    self.notify(AppNotification::PeerResponded);
                } else {
                    let acts = self.handshake.start();
                    self.perform(now, &acts);
                }
            }
            AppEvent::StreamOpened(_) | AppEvent::Readable(_) => self.read(now, streams),
            AppEvent::Writable => budget = streams.write_budget(),
            AppEvent::Closed => {
                self.closed = true;
                self.outgoing.clear();
                self.notify(AppNotification::Closed);
                return;
            }
            _ => {}
        }
        self.write(now, budget, streams);
        if self.closing {
            self.close(now, streams);
        }
    }
}

impl App for TlsApp {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        self.process(now, event, streams);
        self.notifications.drain(..).for_each(|notice| streams.notify(notice));
    }

    fn on_command(&mut self, command: AppCommand) {
        self.http.on_command(command);
        self.closing |= command == AppCommand::Close;
        self.command_pending |= command != AppCommand::CancelQueued;
    }

    fn poll_at(&self) -> Time {
        if self.closed {
            return Time::MAX;
        }
        match (self.command_pending, self.open) {
            (true, _) => Time::ZERO,
            (false, true) => self.http.poll_at(),
            (false, false) => Time::MAX,
        }
    }

    fn has_data(&self) -> bool {
        !self.outgoing.is_empty() || (self.open && !self.closed && self.http.has_data())
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &self.report
    }
}
