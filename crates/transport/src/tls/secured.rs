//! TLS 1.3 that an application begins behind words of its own ([`Streams::secure`]).

use std::collections::VecDeque;

use bytes::Bytes;
use units::Time;

use super::record::{self, Protection, content};
use super::{FINISHED_13, HEAD, SERVER_HELLO_13, kind, message};
use crate::calls::CallSide;
use crate::load::{Answer, StreamReport, Wish};
use crate::{App, AppEvent, Notice, Order, ReadEnd, Streams};

/// The one stream of a TCP connection.
const STREAM: u64 = 0;

/// Lengths of what rustls says where a server shows a certificate of its own for P-256 and nobody names a protocol:
/// messages in clear, and the one record in which EncryptedExtensions, Certificate, CertificateVerify and Finished come
/// (measured: `endpoint/tests/suite/tls_flights.rs`; ECDSA's signatures make it 4 bytes longer or shorter).
const CLIENT_HELLO: usize = 193;
const SERVER_FLIGHT: usize = 487;

/// How far TLS is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It was not asked for.
    Clear,
    /// A server waits for the client's first flight.
    Hello,
    /// The peer's Finished is to come.
    Finished,
    /// The handshake is done.
    Open,
}

/// An application that may ask for TLS, over a transport that has none of its own.
pub struct Secured {
    app: Box<dyn App>,
    tls: Tls,
}

/// One side of TLS on one connection.
struct Tls {
    client: bool,
    stage: Stage,
    /// Bytes that are no whole record yet.
    incoming: Vec<u8>,
    /// What has come for the application.
    plain: Vec<u8>,
    /// Bytes that the application was given.
    received: u64,
    /// How the transport's bytes have ended.
    end: ReadEnd,
    /// Records that the transport has not taken.
    outgoing: VecDeque<Bytes>,
    /// The application has no more to say; the transport has heard it.
    finishing: bool,
    finished: bool,
    /// The application is done with the connection; the transport has heard it.
    closing: bool,
    closed: bool,
}

impl Secured {
    /// `app`, whose side has dialled if it is the `client`.
    pub fn new(app: Box<dyn App>, client: bool) -> Secured {
        let tls = Tls {
            client,
            stage: Stage::Clear,
            incoming: Vec::new(),
            plain: Vec::new(),
            received: 0,
            end: ReadEnd::Open,
            outgoing: VecDeque::new(),
            finishing: false,
            finished: false,
            closing: false,
            closed: false,
        };
        Secured { app, tls }
    }

    fn tell(&mut self, now: Time, event: AppEvent, transport: &mut dyn Streams) {
        self.app.on(now, event, &mut Inside { tls: &mut self.tls, transport });
    }
}

impl App for Secured {
    fn on(&mut self, now: Time, event: AppEvent, transport: &mut dyn Streams) {
        if self.tls.stage == Stage::Clear {
            return self.tell(now, event, transport);
        }
        self.tls.flush(transport);
        match event {
            AppEvent::Readable(id) => {
                if self.tls.hear(transport) {
                    self.tell(now, AppEvent::Ready, transport);
                }
                if self.tls.stage == Stage::Open
                    && (!self.tls.plain.is_empty() || self.tls.end != ReadEnd::Open)
                {
                    self.tell(now, AppEvent::Readable(id), transport);
                }
            }
            AppEvent::WantData if self.tls.stage != Stage::Open => {}
            event => self.tell(now, event, transport),
        }
        self.tls.flush(transport);
    }

    fn hear(&mut self, order: Order) {
        self.app.hear(order);
    }

    fn wake_at(&self) -> Time {
        self.app.wake_at()
    }

    fn has_data(&self) -> bool {
        let may = matches!(self.tls.stage, Stage::Clear | Stage::Open);
        !self.tls.outgoing.is_empty() || (may && self.app.has_data())
    }

    fn streams(&self) -> &[StreamReport] {
        self.app.streams()
    }

    fn call(&self) -> Option<CallSide> {
        self.app.call()
    }

    fn told(&self) -> Option<&Answer> {
        self.app.told()
    }
}

impl Tls {
    fn seal(&mut self, protection: Protection, content: u8, plain: &[u8]) {
        let mut out = Vec::with_capacity(plain.len() + 64);
        record::seal(&mut out, protection, content, plain);
        self.outgoing.push_back(out.into());
    }

    /// One record with messages of these types and whole lengths.
    fn say(&mut self, protection: Protection, messages: &[(u8, usize)]) {
        let said = messages.iter().map(|(kind, length)| message(*kind, *length));
        let plain: Vec<u8> = said.flatten().collect();
        self.seal(protection, content::HANDSHAKE, &plain);
    }

    /// The compatibility mode has it before the first protected record (RFC 8446 appendix D.4).
    fn change_cipher_spec(&mut self) {
        self.seal(Protection::None, content::CHANGE_CIPHER_SPEC, &[1]);
    }

    fn begin(&mut self) {
        if self.client {
            self.say(Protection::None, &[(kind::CLIENT_HELLO, CLIENT_HELLO)]);
            self.stage = Stage::Finished;
        } else {
            self.stage = Stage::Hello;
        }
    }

    /// A message of the peer; whether the handshake is done by it.
    fn on_message(&mut self, message: u8) -> bool {
        match (self.stage, message) {
            (Stage::Hello, kind::CLIENT_HELLO) => {
                self.say(Protection::None, &[(kind::SERVER_HELLO, SERVER_HELLO_13)]);
                self.change_cipher_spec();
                let before = (kind::CERTIFICATE, SERVER_FLIGHT - FINISHED_13);
                self.say(Protection::Tls13, &[before, (kind::FINISHED, FINISHED_13)]);
                self.stage = Stage::Finished;
                false
            }
            (Stage::Finished, kind::FINISHED) => {
                if self.client {
                    self.change_cipher_spec();
                    self.say(Protection::Tls13, &[(kind::FINISHED, FINISHED_13)]);
                }
                self.stage = Stage::Open;
                true
            }
            _ => false,
        }
    }

    /// Takes what has come; whether the handshake is done by it.
    fn hear(&mut self, transport: &mut dyn Streams) -> bool {
        let mut incoming = std::mem::take(&mut self.incoming);
        self.end = transport.read(STREAM, &mut |_, data| incoming.extend_from_slice(data));
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
                        messages = messages.get(HEAD + length..).unwrap_or_default();
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

    /// Gives the transport what waits, and says what it is to hear behind that.
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

    /// The application's last word.
    fn finish(&mut self) {
        if !std::mem::replace(&mut self.finishing, true) && self.stage == Stage::Open {
            // close_notify: level and description (RFC 8446 section 6.1).
            self.seal(Protection::Tls13, content::ALERT, &[1, 0]);
        }
    }
}

/// The connection's stream as the application sees it.
struct Inside<'a> {
    tls: &'a mut Tls,
    transport: &'a mut dyn Streams,
}

impl Streams for Inside<'_> {
    fn open(&mut self) -> Option<u64> {
        self.transport.open()
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        match self.tls.stage {
            Stage::Clear => self.transport.write(stream, data),
            Stage::Open if !self.tls.finishing => {
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

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadEnd {
        let received = &mut self.tls.received;
        match self.tls.stage {
            Stage::Clear => self.transport.read(stream, &mut |offset, data| {
                *received = offset + data.len() as u64;
                take(offset, data);
            }),
            Stage::Open => {
                if !self.tls.plain.is_empty() {
                    take(*received, &self.tls.plain);
                    *received += self.tls.plain.len() as u64;
                    self.tls.plain.clear();
                }
                self.tls.end
            }
            Stage::Hello | Stage::Finished => ReadEnd::Open,
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

    fn controller(&mut self, wish: Option<&Wish>) -> Result<Option<String>, String> {
        self.transport.controller(wish)
    }

    fn secure(&mut self) -> bool {
        let asked = self.tls.stage != Stage::Clear;
        if !asked {
            self.tls.begin();
            self.tls.flush(self.transport);
        }
        !asked
    }

    fn say(&mut self, notice: Notice) {
        self.transport.say(notice);
    }

    fn appetite(&self) -> usize {
        self.transport.appetite()
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
