//! TLS over a byte stream: an application of the transport below, and what carries HTTP above.
//! Messages and records have their true types and lengths; a side goes on when the bytes of its
//! peer's flight have come, and a record is passed on when it is whole, as its tag demands.

mod handshake;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bytes::Bytes;
use units::Time;

use self::handshake::{Act, Handshake};
use super::Tls;
use super::dial::Dial;
use super::speaker::Speaker;
use crate::load::StreamReport;
use crate::tls;
use crate::tls::record::{self, Protection, content};
use crate::{App, AppEvent, Notice, Order, ReadEnd, Received, Streams};

/// The one stream of a TCP connection.
const STREAM: u64 = 0;

/// The protection of a connection's bytes.
enum Cover {
    Tls,
    /// Nothing: the bytes are HTTP's (`http` URLs).
    Plain,
    /// A server's connection without a byte yet: the first one says which, as ports 443 and 80 would. The
    /// speaker is of a connection without TLS.
    Unknown(Box<dyn Speaker>),
}

/// TLS on one side of one connection, with HTTP over it; or HTTP alone.
pub(super) struct TlsApp {
    cover: Cover,
    handshake: Handshake,
    speaker: Box<dyn Speaker>,
    is_client: bool,
    /// The browser wants the connection closed.
    closing: bool,
    /// The browser wants something that was not looked at yet.
    asked: bool,
    /// What the browser is to hear of it.
    said: Vec<Notice>,
    /// Bytes that are no whole record yet.
    incoming: Vec<u8>,
    /// Bytes that are no whole handshake message yet.
    messages: Vec<u8>,
    /// The peer has sent ChangeCipherSpec.
    peer_protects: bool,
    /// This side has sent ChangeCipherSpec.
    protects: bool,
    outgoing: VecDeque<Bytes>,
    /// Application data may be sent.
    open: bool,
    started: bool,
    closed: bool,
    received: Received,
    report: Vec<StreamReport>,
}

impl TlsApp {
    /// The client of `dial`.
    pub fn client(options: Tls, dial: Dial, speaker: Box<dyn Speaker>) -> TlsApp {
        let handshake = Handshake::new(options, dial.resume, dial.early);
        TlsApp::new(Cover::Tls, handshake, speaker, true)
    }

    /// The client of a connection without TLS.
    pub fn plain(options: Tls, speaker: Box<dyn Speaker>) -> TlsApp {
        TlsApp::new(Cover::Plain, Handshake::new(options, false, false), speaker, true)
    }

    /// A server; `plain` speaks to clients that come without TLS.
    pub fn server(options: Tls, speaker: Box<dyn Speaker>, plain: Box<dyn Speaker>) -> TlsApp {
        let handshake = Handshake::new(options, false, false);
        TlsApp::new(Cover::Unknown(plain), handshake, speaker, false)
    }

    fn new(
        cover: Cover,
        handshake: Handshake,
        speaker: Box<dyn Speaker>,
        is_client: bool,
    ) -> TlsApp {
        TlsApp {
            cover,
            handshake,
            speaker,
            is_client,
            closing: false,
            asked: false,
            said: Vec::new(),
            incoming: Vec::new(),
            messages: Vec::new(),
            peer_protects: false,
            protects: false,
            outgoing: VecDeque::new(),
            open: false,
            started: false,
            closed: false,
            received: Received::default(),
            report: Vec::new(),
        }
    }

    fn say(&mut self, notice: Notice) {
        if self.is_client {
            self.said.push(notice);
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

    /// Requests and responses may go.
    fn open(&mut self, now: Time) {
        self.open = true;
        self.speaker.start(now);
        self.say(Notice::Ready);
    }

    /// Looks at the first byte of a client: a record of a handshake, or the first letter of a method.
    fn uncover(&mut self, now: Time) {
        if let (Cover::Unknown(_), Some(first)) = (&self.cover, self.incoming.first()) {
            let cover = if *first == content::HANDSHAKE { Cover::Tls } else { Cover::Plain };
            let is_plain = matches!(cover, Cover::Plain);
            if let Cover::Unknown(speaker) = std::mem::replace(&mut self.cover, cover)
                && is_plain
            {
                self.speaker = speaker;
                self.open(now);
            }
        }
    }

    fn perform(&mut self, now: Time, acts: &[Act]) {
        for act in acts {
            match *act {
                Act::Say(kind, length, flags, protected) => {
                    let mut message = tls::message(kind, length);
                    if let Some(place) = message.get_mut(handshake::FLAGS_AT) {
                        *place = flags;
                    }
                    let protection = if protected { self.protection() } else { Protection::None };
                    self.seal(protection, content::HANDSHAKE, &message);
                }
                Act::ChangeCipherSpec => {
                    self.seal(Protection::None, content::CHANGE_CIPHER_SPEC, &[1]);
                    self.protects = true;
                }
                Act::Open => self.open(now),
                Act::Ticket => self.say(Notice::Ticket),
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

    /// Takes every whole message off the handshake's bytes.
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

    /// Takes every whole record off the stream's bytes.
    fn read_records(&mut self, now: Time) {
        let incoming = std::mem::take(&mut self.incoming);
        if matches!(self.cover, Cover::Plain) {
            if !incoming.is_empty() {
                self.speaker.receive(now, &incoming, &mut self.said);
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
                Some((content::DATA, plain)) => self.speaker.receive(now, plain, &mut self.said),
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
        if before == 0 && self.received.total() > 0 && matches!(self.cover, Cover::Tls) {
            self.say(Notice::Answered);
        }
        self.uncover(now);
        self.read_records(now);
        if end == ReadEnd::Finished {
            // Also of a side that has closed before.
            self.report[0].fin.get_or_insert(now);
        }
        if end != ReadEnd::Open && !self.closed {
            // The peer ends; so does this side.
            self.close(now, streams);
        }
    }

    fn close(&mut self, now: Time, streams: &mut dyn Streams) {
        if !std::mem::replace(&mut self.closed, true) {
            if self.open && matches!(self.cover, Cover::Tls) {
                // close_notify: level and description (RFC 8446 section 6.1).
                self.seal(self.protection(), content::ALERT, &[1, 0]);
            }
            self.write(now, 0, streams);
            streams.close();
        }
    }

    /// Gives the transport what waits, with bodies up to `most` bytes.
    fn write(&mut self, now: Time, most: usize, streams: &mut dyn Streams) {
        if self.open
            && !self.closed
            && self.outgoing.iter().map(Bytes::len).sum::<usize>() < most.max(1)
        {
            // Heads leave in records of their own, as servers flush them before they have a body:
            // a browser need not wait for a whole record of body to see its response begin.
            for most in [0, most] {
                let mut plain = Vec::new();
                self.speaker.send(now, most, &mut plain, &mut self.said);
                match self.cover {
                    Cover::Tls => self.seal(self.protection(), content::DATA, &plain),
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

    fn work(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        if self.report.is_empty() {
            // All objects of a connection: its end is no object's.
            self.report.push(StreamReport { mode: "pages", ..StreamReport::new(STREAM, now) });
        }
        self.asked = false;
        let mut most = 0;
        match event {
            AppEvent::Ready if self.is_client && !std::mem::replace(&mut self.started, true) => {
                if matches!(self.cover, Cover::Plain) {
                    // The handshake of TCP is the peer's answer.
                    self.open(now);
                    self.say(Notice::Answered);
                } else {
                    let acts = self.handshake.start();
                    self.perform(now, &acts);
                }
            }
            AppEvent::Opened(_) | AppEvent::Readable(_) => self.read(now, streams),
            AppEvent::WantData => most = streams.appetite(),
            AppEvent::Closed => {
                self.closed = true;
                self.outgoing.clear();
                self.say(Notice::Closed);
                return;
            }
            _ => {}
        }
        self.write(now, most, streams);
        if self.closing {
            self.close(now, streams);
        }
    }
}

impl App for TlsApp {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        self.work(now, event, streams);
        self.said.drain(..).for_each(|notice| streams.say(notice));
    }

    fn hear(&mut self, order: Order) {
        self.speaker.hear(order);
        self.closing |= order == Order::Close;
        self.asked |= order != Order::Forget;
    }

    fn wake_at(&self) -> Time {
        if self.closed {
            return Time::MAX;
        }
        match (self.asked, self.open) {
            (true, _) => Time::ZERO,
            (false, true) => self.speaker.wake_at(),
            (false, false) => Time::MAX,
        }
    }

    fn has_data(&self) -> bool {
        !self.outgoing.is_empty() || (self.open && !self.closed && self.speaker.has_data())
    }

    fn streams(&self) -> &[StreamReport] {
        &self.report
    }
}
