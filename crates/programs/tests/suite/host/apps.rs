//! Applications without knowledge of transport and clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use transport::perf_load::StreamReport;
use transport::{App, AppCommand, AppEvent, AppNotification, ReadStatus, Streams};
use units::Time;

/// Sent in plain text before TLS.
const HELLO: &[u8] = b"hello";

#[derive(Default)]
struct Logged {
    lines: Vec<String>,
    written: u64,
}

/// A log of the events of an application: each kind of event once, at its first occurrence.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Logged>>);

impl Log {
    fn note(&self, line: &str) {
        let mut log = self.0.lock().unwrap();
        if !log.lines.iter().any(|known| known == line) {
            log.lines.push(line.to_owned());
        }
    }

    fn event(&self, event: AppEvent) {
        match event {
            // Their number and first time depend on the speed of the path.
            AppEvent::Writable | AppEvent::Timer => {}
            other => {
                let words = format!("{other:?}");
                self.note(words.split('(').next().unwrap());
            }
        }
    }

    pub fn written(&self) -> u64 {
        self.0.lock().unwrap().written
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().lines)
    }
}

/// Returns the byte of the test data at an offset.
fn byte(index: u64) -> u8 {
    (index % 251) as u8
}

/// Reassembles received data in sequence.
#[derive(Default)]
struct InOrder {
    next: u64,
    beyond: BTreeMap<u64, Vec<u8>>,
}

impl InOrder {
    fn take(&mut self, offset: u64, data: &[u8]) -> Vec<u8> {
        self.beyond.insert(offset, data.to_vec());
        let mut whole = Vec::new();
        while let Some(first) = self.beyond.first_entry()
            && *first.key() <= self.next
        {
            let (start, data) = first.remove_entry();
            let fresh = data.get((self.next - start) as usize..).unwrap_or_default();
            self.next += fresh.len() as u64;
            whole.extend_from_slice(fresh);
        }
        whole
    }
}

/// Opens a stream, sends a number of bytes, and closes after they have returned.
pub struct EchoClient {
    bytes: u64,
    stream: Option<u64>,
    written: u64,
    received: u64,
    back: InOrder,
    log: Log,
    /// Whether the client starts TLS after the hello of the peer.
    secures: bool,
    secured: bool,
}

impl EchoClient {
    pub fn new(bytes: u64, log: Log) -> EchoClient {
        let (back, stream) = (InOrder::default(), None);
        EchoClient {
            bytes,
            stream,
            written: 0,
            received: 0,
            back,
            log,
            secures: false,
            secured: false,
        }
    }

    pub fn securing(bytes: u64, log: Log) -> EchoClient {
        EchoClient { secures: true, ..EchoClient::new(bytes, log) }
    }

    fn write(&mut self, streams: &mut dyn Streams) {
        let Some(stream) = self.stream else { return };
        while self.has_data() {
            let want = (self.bytes - self.written).min(streams.write_budget() as u64);
            let data: Vec<u8> = (self.written..self.written + want).map(byte).collect();
            let taken = streams.write(stream, data.into()) as u64;
            self.written += taken;
            self.log.0.lock().unwrap().written = self.written;
            if self.written == self.bytes {
                streams.finish(stream);
            }
            if taken < want {
                return;
            }
        }
    }
}

impl App for EchoClient {
    fn on_event(&mut self, _now: Time, event: AppEvent, streams: &mut dyn Streams) {
        self.log.event(event);
        match event {
            AppEvent::Ready if self.stream.is_none() => {
                self.stream = streams.open();
                if self.secures {
                    assert_eq!(streams.write(0, Bytes::from_static(HELLO)), HELLO.len());
                } else {
                    self.write(streams);
                }
            }
            AppEvent::Ready if self.secures => {
                self.secured = true;
                self.log.note("secured");
                self.write(streams);
            }
            AppEvent::Writable => self.write(streams),
            AppEvent::Readable(stream) if self.secures && !self.secured => {
                let mut hello = Vec::new();
                streams.read(stream, &mut |_, data| hello.extend_from_slice(data));
                assert_eq!(hello, HELLO);
                self.back.next = HELLO.len() as u64;
                assert!(streams.start_tls() && !streams.start_tls());
                assert_eq!(streams.write(stream, Bytes::from_static(b"early")), 0);
            }
            AppEvent::Readable(stream) => {
                let (back, received) = (&mut self.back, &mut self.received);
                let end = streams.read(stream, &mut |offset, data| {
                    for found in back.take(offset, data) {
                        assert_eq!(found, byte(*received));
                        *received += 1;
                    }
                });
                if end == ReadStatus::Finished && self.received == self.bytes {
                    self.log.note(&format!("{} bytes came back", self.received));
                    streams.notify(AppNotification::Ready);
                    streams.close();
                }
            }
            _ => {}
        }
    }

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        let begun = self.stream.is_some() && (self.secured || !self.secures);
        begun && self.written < self.bytes
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &[]
    }
}

/// Echoes received bytes, and stops reading while it buffers 256 KiB.
pub struct EchoServer {
    stream: u64,
    held: VecDeque<Bytes>,
    bytes: usize,
    received: InOrder,
    ended: bool,
    finished: bool,
    waiting: bool,
    due: bool,
    log: Log,
    /// The server reads no data before the gate is open.
    gate: Option<Arc<Mutex<bool>>>,
    secures: bool,
}

const MAX_BYTES: usize = 256 << 10;

impl EchoServer {
    pub fn new(log: Log) -> EchoServer {
        EchoServer {
            stream: 0,
            held: VecDeque::new(),
            bytes: 0,
            received: InOrder::default(),
            ended: false,
            finished: false,
            waiting: false,
            due: false,
            log,
            gate: None,
            secures: false,
        }
    }

    pub fn behind(log: Log, gate: Arc<Mutex<bool>>) -> EchoServer {
        EchoServer { gate: Some(gate), ..EchoServer::new(log) }
    }

    pub fn securing(log: Log) -> EchoServer {
        EchoServer { secures: true, ..EchoServer::new(log) }
    }

    fn read(&mut self, streams: &mut dyn Streams) {
        let shut = self.gate.as_ref().is_some_and(|gate| !*gate.lock().unwrap());
        self.waiting = shut || self.bytes >= MAX_BYTES;
        if self.waiting {
            return;
        }
        let (received, held, bytes) = (&mut self.received, &mut self.held, &mut self.bytes);
        let end = streams.read(self.stream, &mut |offset, data| {
            let data = received.take(offset, data);
            *bytes += data.len();
            held.push_back(data.into());
        });
        self.ended |= end == ReadStatus::Finished;
    }

    fn write(&mut self, streams: &mut dyn Streams) {
        while let Some(mut first) = self.held.pop_front() {
            let taken = streams.write(self.stream, first.clone());
            self.bytes -= taken;
            if taken < first.len() {
                self.held.push_front(first.split_off(taken));
                break;
            }
        }
        if self.ended && self.held.is_empty() && !self.finished {
            self.finished = true;
            streams.finish(self.stream);
        }
    }
}

impl App for EchoServer {
    fn on_event(&mut self, _now: Time, event: AppEvent, streams: &mut dyn Streams) {
        self.log.event(event);
        match event {
            AppEvent::StreamOpened(stream) => self.stream = stream,
            AppEvent::Ready if self.secures => self.log.note("secured"),
            AppEvent::Readable(stream) if self.secures && self.received.next == 0 => {
                let mut hello = Vec::new();
                streams.read(stream, &mut |_, data| hello.extend_from_slice(data));
                if !hello.is_empty() {
                    assert_eq!(hello, HELLO);
                    self.received.next = HELLO.len() as u64;
                    streams.write(stream, Bytes::from_static(HELLO));
                    assert!(streams.start_tls());
                }
            }
            AppEvent::Readable(_) => self.read(streams),
            AppEvent::Timer => self.due = false,
            _ => {}
        }
        self.write(streams);
        if self.waiting && self.bytes < MAX_BYTES {
            self.read(streams);
            self.write(streams);
        }
    }

    fn on_command(&mut self, _order: AppCommand) {
        self.due = true;
    }

    fn poll_at(&self) -> Time {
        if self.due { Time::ZERO } else { Time::MAX }
    }

    fn has_data(&self) -> bool {
        !self.held.is_empty()
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &[]
    }
}

/// Neither reads nor writes.
pub struct SilentApp;

impl App for SilentApp {
    fn on_event(&mut self, _now: Time, _event: AppEvent, _streams: &mut dyn Streams) {}

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        false
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &[]
    }
}
