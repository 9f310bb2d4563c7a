//! Applications that know no transport and no clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use transport::load::StreamReport;
use transport::{App, AppEvent, Notice, Order, ReadEnd, Streams};
use units::Time;

/// Said in the clear before TLS.
const HELLO: &[u8] = b"hello";

#[derive(Default)]
struct Logged {
    lines: Vec<String>,
    written: u64,
}

/// What an application has heard: each kind of event once, where it came first.
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
            // How often, and when first, depends on how quick the path is.
            AppEvent::WantData | AppEvent::Timer => {}
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

/// The byte at `place` of what is said.
fn byte(place: u64) -> u8 {
    (place % 251) as u8
}

/// Puts what has come in order.
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

/// Opens a stream, says so many bytes, and closes when they have come back.
pub struct Asks {
    bytes: u64,
    stream: Option<u64>,
    written: u64,
    received: u64,
    back: InOrder,
    log: Log,
    /// TLS is asked for when the peer has said hello.
    secures: bool,
    secured: bool,
}

impl Asks {
    pub fn new(bytes: u64, log: Log) -> Asks {
        let (back, stream) = (InOrder::default(), None);
        Asks { bytes, stream, written: 0, received: 0, back, log, secures: false, secured: false }
    }

    pub fn securing(bytes: u64, log: Log) -> Asks {
        Asks { secures: true, ..Asks::new(bytes, log) }
    }

    fn write(&mut self, streams: &mut dyn Streams) {
        let Some(stream) = self.stream else { return };
        while self.has_data() {
            let want = (self.bytes - self.written).min(streams.appetite() as u64);
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

impl App for Asks {
    fn on(&mut self, _now: Time, event: AppEvent, streams: &mut dyn Streams) {
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
            AppEvent::WantData => self.write(streams),
            AppEvent::Readable(stream) if self.secures && !self.secured => {
                let mut hello = Vec::new();
                streams.read(stream, &mut |_, data| hello.extend_from_slice(data));
                assert_eq!(hello, HELLO);
                self.back.next = HELLO.len() as u64;
                assert!(streams.secure() && !streams.secure());
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
                if end == ReadEnd::Finished && self.received == self.bytes {
                    self.log.note(&format!("{} bytes came back", self.received));
                    streams.say(Notice::Ready);
                    streams.close();
                }
            }
            _ => {}
        }
    }

    fn wake_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        let begun = self.stream.is_some() && (self.secured || !self.secures);
        begun && self.written < self.bytes
    }

    fn streams(&self) -> &[StreamReport] {
        &[]
    }
}

/// Says back what it is told, and reads no more while it holds 256 KiB.
pub struct Echo {
    stream: u64,
    held: VecDeque<Bytes>,
    bytes: usize,
    came: InOrder,
    ended: bool,
    finished: bool,
    waiting: bool,
    due: bool,
    log: Log,
    /// Nothing is read before it is open.
    gate: Option<Arc<Mutex<bool>>>,
    secures: bool,
}

const MOST: usize = 256 << 10;

impl Echo {
    pub fn new(log: Log) -> Echo {
        Echo {
            stream: 0,
            held: VecDeque::new(),
            bytes: 0,
            came: InOrder::default(),
            ended: false,
            finished: false,
            waiting: false,
            due: false,
            log,
            gate: None,
            secures: false,
        }
    }

    pub fn behind(log: Log, gate: Arc<Mutex<bool>>) -> Echo {
        Echo { gate: Some(gate), ..Echo::new(log) }
    }

    pub fn securing(log: Log) -> Echo {
        Echo { secures: true, ..Echo::new(log) }
    }

    fn read(&mut self, streams: &mut dyn Streams) {
        let shut = self.gate.as_ref().is_some_and(|gate| !*gate.lock().unwrap());
        self.waiting = shut || self.bytes >= MOST;
        if self.waiting {
            return;
        }
        let (came, held, bytes) = (&mut self.came, &mut self.held, &mut self.bytes);
        let end = streams.read(self.stream, &mut |offset, data| {
            let data = came.take(offset, data);
            *bytes += data.len();
            held.push_back(data.into());
        });
        self.ended |= end == ReadEnd::Finished;
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

impl App for Echo {
    fn on(&mut self, _now: Time, event: AppEvent, streams: &mut dyn Streams) {
        self.log.event(event);
        match event {
            AppEvent::Opened(stream) => self.stream = stream,
            AppEvent::Ready if self.secures => self.log.note("secured"),
            AppEvent::Readable(stream) if self.secures && self.came.next == 0 => {
                let mut hello = Vec::new();
                streams.read(stream, &mut |_, data| hello.extend_from_slice(data));
                if !hello.is_empty() {
                    assert_eq!(hello, HELLO);
                    self.came.next = HELLO.len() as u64;
                    streams.write(stream, Bytes::from_static(HELLO));
                    assert!(streams.secure());
                }
            }
            AppEvent::Readable(_) => self.read(streams),
            AppEvent::Timer => self.due = false,
            _ => {}
        }
        self.write(streams);
        if self.waiting && self.bytes < MOST {
            self.read(streams);
            self.write(streams);
        }
    }

    fn hear(&mut self, _order: Order) {
        self.due = true;
    }

    fn wake_at(&self) -> Time {
        if self.due { Time::ZERO } else { Time::MAX }
    }

    fn has_data(&self) -> bool {
        !self.held.is_empty()
    }

    fn streams(&self) -> &[StreamReport] {
        &[]
    }
}

/// Neither reads nor says anything.
pub struct Deaf;

impl App for Deaf {
    fn on(&mut self, _now: Time, _event: AppEvent, _streams: &mut dyn Streams) {}

    fn wake_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        false
    }

    fn streams(&self) -> &[StreamReport] {
        &[]
    }
}
