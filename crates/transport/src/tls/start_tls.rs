//! TLS 1.3 that an application starts after plaintext messages ([`Streams::start_tls`]).

use std::collections::VecDeque;

use bytes::Bytes;
use units::Time;

use super::record::{self, Protection, content};
use super::{FINISHED_13, MESSAGE_HEADER_BYTES, SERVER_HELLO_13, kind, message};
use crate::media::MediaReport;
use crate::perf_load::{ControllerResponse, RequestedController, StreamReport};
use crate::{App, AppCommand, AppEvent, AppNotification, ReadStatus, Streams};

/// The one stream of a TCP connection.
const STREAM: u64 = 0;

/// Lengths of rustls for a self-signed P-256 server certificate without ALPN. They cover plaintext messages and the
/// record with EncryptedExtensions, Certificate, CertificateVerify and Finished. Measured in
/// `endpoint/tests/suite/tls_flights.rs`; an ECDSA signature changes the length by up to 4 bytes.
const CLIENT_HELLO: usize = 193;
const SERVER_FLIGHT: usize = 487;

/// State of the TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TlsState {
    /// TLS was not requested.
    Plaintext,
    /// A server waits for the client's first flight.
    AwaitingClientHello,
    /// The peer's Finished has not arrived.
    AwaitingFinished,
    /// The handshake is done.
    Open,
}

/// An application that can request TLS, over a transport without TLS.
pub struct StartTlsApp {
    app: Box<dyn App>,
    tls: TlsEndpoint,
}

/// One side of TLS on one connection.
struct TlsEndpoint {
    client: bool,
    state: TlsState,
    /// Bytes before a whole record.
    incoming: Vec<u8>,
    /// Data for the application.
    plain: Vec<u8>,
    /// Bytes that the application has read.
    received: u64,
    /// End state of the transport's stream.
    read_status: ReadStatus,
    /// Records that the transport has not accepted.
    outgoing: VecDeque<Bytes>,
    /// The application has finished its stream; `finished`: the transport knows it.
    finishing: bool,
    finished: bool,
    /// The application has closed the connection; `closed`: the transport knows it.
    closing: bool,
    closed: bool,
}

impl StartTlsApp {
    /// Wraps `app`. The `client` is the side that opened the connection.
    pub fn new(app: Box<dyn App>, client: bool) -> StartTlsApp {
        let tls = TlsEndpoint {
            client,
            state: TlsState::Plaintext,
            incoming: Vec::new(),
            plain: Vec::new(),
            received: 0,
            read_status: ReadStatus::Open,
            outgoing: VecDeque::new(),
            finishing: false,
            finished: false,
            closing: false,
            closed: false,
        };
        StartTlsApp { app, tls }
    }

    fn dispatch(&mut self, now: Time, event: AppEvent, transport: &mut dyn Streams) {
        self.app.on_event(now, event, &mut TlsStreams { tls: &mut self.tls, transport });
    }
}

impl App for StartTlsApp {
    fn on_event(&mut self, now: Time, event: AppEvent, transport: &mut dyn Streams) {
        if self.tls.state == TlsState::Plaintext {
            return self.dispatch(now, event, transport);
        }
        self.tls.flush(transport);
        match event {
            AppEvent::Readable(id) => {
                if self.tls.receive_records(transport) {
                    self.dispatch(now, AppEvent::Ready, transport);
                }
                if self.tls.state == TlsState::Open
                    && (!self.tls.plain.is_empty() || self.tls.read_status != ReadStatus::Open)
                {
                    self.dispatch(now, AppEvent::Readable(id), transport);
                }
            }
            AppEvent::Writable if self.tls.state != TlsState::Open => {}
            event => self.dispatch(now, event, transport),
        }
        self.tls.flush(transport);
    }

    fn on_command(&mut self, command: AppCommand) {
        self.app.on_command(command);
    }

    fn poll_at(&self) -> Time {
        self.app.poll_at()
    }

    fn has_data(&self) -> bool {
        let is_writable = matches!(self.tls.state, TlsState::Plaintext | TlsState::Open);
        !self.tls.outgoing.is_empty() || (is_writable && self.app.has_data())
    }

    fn stream_reports(&self) -> &[StreamReport] {
        self.app.stream_reports()
    }

    fn media_report(&self) -> Option<MediaReport> {
        self.app.media_report()
    }

    fn peer_controller(&self) -> Option<&ControllerResponse> {
        self.app.peer_controller()
    }
}

impl TlsEndpoint {
    fn seal(&mut self, protection: Protection, content: u8, plain: &[u8]) {
        let mut out = Vec::with_capacity(plain.len() + 64);
        record::seal(&mut out, protection, content, plain);
        self.outgoing.push_back(out.into());
    }

    /// Sends one record with messages of these types and whole lengths.
    fn send_messages(&mut self, protection: Protection, messages: &[(u8, usize)]) {
        let encoded = messages.iter().map(|(kind, length)| message(*kind, *length));
        let plain: Vec<u8> = encoded.flatten().collect();
        self.seal(protection, content::HANDSHAKE, &plain);
    }

    /// Sends ChangeCipherSpec before the first protected record: compatibility mode (RFC 8446 appendix D.4).
    fn change_cipher_spec(&mut self) {
        self.seal(Protection::None, content::CHANGE_CIPHER_SPEC, &[1]);
    }

    fn start(&mut self) {
        if self.client {
            self.send_messages(Protection::None, &[(kind::CLIENT_HELLO, CLIENT_HELLO)]);
            self.state = TlsState::AwaitingFinished;
        } else {
            self.state = TlsState::AwaitingClientHello;
        }
    }

    /// Handles a message of the peer. Returns whether it completes the handshake.
    fn on_message(&mut self, message: u8) -> bool {
        match (self.state, message) {
            (TlsState::AwaitingClientHello, kind::CLIENT_HELLO) => {
                self.send_messages(Protection::None, &[(kind::SERVER_HELLO, SERVER_HELLO_13)]);
                self.change_cipher_spec();
                let before = (kind::CERTIFICATE, SERVER_FLIGHT - FINISHED_13);
                self.send_messages(Protection::Tls13, &[before, (kind::FINISHED, FINISHED_13)]);
                self.state = TlsState::AwaitingFinished;
                false
            }
            (TlsState::AwaitingFinished, kind::FINISHED) => {
                if self.client {
                    self.change_cipher_spec();
                    self.send_messages(Protection::Tls13, &[(kind::FINISHED, FINISHED_13)]);
                }
                self.state = TlsState::Open;
                true
            }
            _ => false,
        }
    }

    /// Reads the received records. Returns whether they complete the handshake.
    fn receive_records(&mut self, transport: &mut dyn Streams) -> bool {
        let mut incoming = std::mem::take(&mut self.incoming);
        self.read_status = transport.read(STREAM, &mut |_, data| incoming.extend_from_slice(data));
        let (mut taken, mut done) = (0, false);
        while let Some(length) = record::length(&incoming[taken..])
            && let Some(record) = incoming.get(taken..taken + length)
        {
            taken += length;
            let protected = record[0] == content::DATA;
            let protection = if protected { Protection::Tls13 } else { Protection::None };
            match record::open(record, protection) {
                Some((content::HANDSHAKE, mut messages)) => {
                    while let [message, high, middle, low, ..] = *messages {
                        done |= self.on_message(message);
                        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
                        messages =
                            messages.get(MESSAGE_HEADER_BYTES + length..).unwrap_or_default();
                    }
                }
                Some((content::DATA, plain)) => self.plain.extend_from_slice(plain),
                _ => {}
            }
        }
        incoming.drain(..taken);
        self.incoming = incoming;
        done
    }

    /// Gives the transport the waiting records, then the pending finish and close.
    fn flush(&mut self, transport: &mut dyn Streams) {
        while let Some(bytes) = self.outgoing.pop_front() {
            let taken = transport.write(STREAM, bytes.clone());
            if taken < bytes.len() {
                return self.outgoing.push_front(bytes.slice(taken..));
            }
        }
        if self.finishing && !std::mem::replace(&mut self.finished, true) {
            transport.finish(STREAM);
        }
        if self.closing && !std::mem::replace(&mut self.closed, true) {
            transport.close();
        }
    }

    /// Ends the application's data.
    fn finish(&mut self) {
        if !std::mem::replace(&mut self.finishing, true) && self.state == TlsState::Open {
            // close_notify: level and description (RFC 8446 section 6.1).
            self.seal(Protection::Tls13, content::ALERT, &[1, 0]);
        }
    }
}

/// The stream of the connection, as the application uses it.
struct TlsStreams<'a> {
    tls: &'a mut TlsEndpoint,
    transport: &'a mut dyn Streams,
}

impl Streams for TlsStreams<'_> {
    fn open(&mut self) -> Option<u64> {
        self.transport.open()
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        match self.tls.state {
            TlsState::Plaintext => self.transport.write(stream, data),
            TlsState::Open if !self.tls.finishing => {
                self.tls.flush(self.transport);
                if !self.tls.outgoing.is_empty() {
                    return 0;
                }
                self.tls.seal(Protection::Tls13, content::DATA, &data);
                self.tls.flush(self.transport);
                data.len()
            }
            _ => 0,
        }
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        let received = &mut self.tls.received;
        match self.tls.state {
            TlsState::Plaintext => self.transport.read(stream, &mut |offset, data| {
                *received = offset + data.len() as u64;
                take(offset, data);
            }),
            TlsState::Open => {
                if !self.tls.plain.is_empty() {
                    take(*received, &self.tls.plain);
                    *received += self.tls.plain.len() as u64;
                    self.tls.plain.clear();
                }
                self.tls.read_status
            }
            TlsState::AwaitingClientHello | TlsState::AwaitingFinished => ReadStatus::Open,
        }
    }

    fn finish(&mut self, _stream: u64) {
        self.tls.finish();
        self.tls.flush(self.transport);
    }

    fn reset(&mut self, stream: u64) {
        self.transport.reset(stream);
    }

    fn stop(&mut self, stream: u64) {
        self.transport.stop(stream);
    }

    fn request_controller(
        &mut self,
        requested: Option<&RequestedController>,
    ) -> Result<Option<String>, String> {
        self.transport.request_controller(requested)
    }

    fn start_tls(&mut self) -> bool {
        let already_started = self.tls.state != TlsState::Plaintext;
        if !already_started {
            self.tls.start();
            self.tls.flush(self.transport);
        }
        !already_started
    }

    fn notify(&mut self, notification: AppNotification) {
        self.transport.notify(notification);
    }

    fn write_budget(&self) -> usize {
        self.transport.write_budget()
    }

    fn close(&mut self) {
        self.tls.finish();
        self.tls.closing = true;
        self.tls.flush(self.transport);
    }

    fn close_now(&mut self) {
        self.transport.close_now();
    }
}
