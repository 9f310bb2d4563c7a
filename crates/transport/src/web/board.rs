//! Where the browser and its connections leave word for each other. Applications live inside their
//! transport's connections, so neither can call the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use units::Time;

/// Version of HTTP on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
    Http3,
}

impl Protocol {
    /// Its ALPN name (RFC 7301's registry).
    pub fn alpn(self) -> &'static str {
        match self {
            Protocol::Http1 => "http/1.1",
            Protocol::Http2 => "h2",
            Protocol::Http3 => "h3",
        }
    }
}

/// What a connection is opened for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dial {
    /// Index of the host.
    pub host: u32,
    pub protocol: Protocol,
    /// A ticket is there: the TLS session is resumed.
    pub resume: bool,
    /// Early data may be sent.
    pub early: bool,
    /// Which profile of the run opens it; a session belongs to one profile.
    pub profile: u32,
    /// When it is opened.
    pub at: Time,
}

/// What a connection tells the browser; numbers are objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Requests may go.
    Ready,
    /// The server has answered: its handshake, or data.
    Answered,
    /// A session ticket came.
    Ticket,
    /// A request was given to the transport.
    Sent(u32),
    /// First byte of a response.
    Response(u32),
    /// Bytes of its body.
    Body(u32, u64),
    /// Its last byte.
    End(u32),
    /// The connection is over.
    Closed,
}

/// What the browser asks of one connection.
#[derive(Debug)]
struct Line {
    dial: Dial,
    requests: VecDeque<u32>,
    close: bool,
    /// Something was asked since the application last worked.
    poke: bool,
}

/// All lines of a run.
#[derive(Debug, Default)]
struct Lines {
    lines: Vec<Line>,
    /// The line of each connection, QUIC's and TCP's.
    numbers: [Vec<usize>; 2],
    news: Vec<(usize, Time, News)>,
    /// Something was asked that the applications may not have seen.
    asked: bool,
}

/// The board itself; copies share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<Lines>>);

impl Board {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new line; returns it and the number that its connection will have in its transport.
    pub fn add(&self, dial: Dial) -> (usize, u32) {
        let mut lines = self.lock();
        let line = lines.lines.len();
        lines.lines.push(Line { dial, requests: VecDeque::new(), close: false, poke: false });
        let numbers = &mut lines.numbers[usize::from(dial.protocol != Protocol::Http3)];
        numbers.push(line);
        let number = numbers.len() as u32 - 1;
        (line, number)
    }

    /// The end of connection `number`, QUIC's or TCP's.
    pub fn end(&self, quic: bool, number: u32) -> LineEnd {
        let line = self.lock().numbers[usize::from(!quic)][number as usize];
        LineEnd { board: self.clone(), line }
    }

    /// Asks for `object` on `line`.
    pub fn request(&self, line: usize, object: u32) {
        let mut lines = self.lock();
        lines.asked = true;
        let line = &mut lines.lines[line];
        line.requests.push_back(object);
        line.poke = true;
    }

    /// Asks `line` to close; requests that have not gone are forgotten.
    pub fn close(&self, line: usize) {
        let mut lines = self.lock();
        lines.asked = true;
        let line = &mut lines.lines[line];
        line.requests.clear();
        line.close = true;
        line.poke = true;
    }

    /// Forgets requests that have not gone.
    pub fn forget(&self, line: usize) {
        self.lock().lines[line].requests.clear();
    }

    /// Everything said since the last call.
    pub fn take_news(&self) -> Vec<(usize, Time, News)> {
        std::mem::take(&mut self.lock().news)
    }

    /// Whether anything was asked since the last call.
    pub fn take_asked(&self) -> bool {
        std::mem::take(&mut self.lock().asked)
    }

    /// Whether anything was said that the browser has not seen.
    pub fn has_news(&self) -> bool {
        !self.lock().news.is_empty()
    }
}

/// A connection's end of its line.
#[derive(Clone, Debug)]
pub(super) struct LineEnd {
    board: Board,
    line: usize,
}

impl LineEnd {
    pub fn dial(&self) -> Dial {
        self.board.lock().lines[self.line].dial
    }

    pub fn tell(&self, now: Time, news: News) {
        self.board.lock().news.push((self.line, now, news));
    }

    /// The next object to ask for.
    pub fn next_request(&self) -> Option<u32> {
        self.board.lock().lines[self.line].requests.pop_front()
    }

    /// Whether an object waits to be asked for.
    pub fn has_request(&self) -> bool {
        !self.board.lock().lines[self.line].requests.is_empty()
    }

    /// Whether the browser wants the connection closed.
    pub fn wants_close(&self) -> bool {
        self.board.lock().lines[self.line].close
    }

    /// Takes note that the application works, so that it need not be woken.
    pub fn attend(&self) {
        self.board.lock().lines[self.line].poke = false;
    }

    /// [`Time::ZERO`] if something was asked since [`LineEnd::attend`].
    pub fn wake_at(&self) -> Time {
        if self.board.lock().lines[self.line].poke { Time::ZERO } else { Time::MAX }
    }
}
