//! HTTP/2 (RFC 9113): frames of true size, both kinds of flow control, and a server that serves
//! its streams in turn.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{Span, Time};

use super::PageSpec;
use super::speaker::Speaker;
use crate::{Notice, Order};

/// RFC 9113 section 3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame's head (RFC 9113 section 4.1).
const HEAD: usize = 9;
/// Largest payload of a frame (RFC 9113 section 4.2: the least that SETTINGS_MAX_FRAME_SIZE allows,
/// which Chromium leaves as it is).
const FRAME: usize = 1 << 14;
/// Windows before anything is said (RFC 9113 section 6.9.2).
const FIRST_WINDOW: i64 = 65_535;
/// Chromium's window of the connection and of a stream (net/http/http_network_session.cc).
const CONNECTION_WINDOW: i64 = 15 << 20;
const STREAM_WINDOW: i64 = 6 << 20;
/// Entries of a browser's SETTINGS (Chromium: measured).
const CLIENT_SETTINGS: usize = 4;
/// Entries of a server's: streams, window, frame size (nginx).
const SERVER_SETTINGS: usize = 3;
/// Dependency and weight in a browser's HEADERS (RFC 9113 section 6.2).
const PRIORITY: usize = 5;

/// Types of frames (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
/// Flags: END_STREAM of DATA and HEADERS, ACK of SETTINGS.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const WITH_PRIORITY: u8 = 0x20;

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: usize) {
    out.extend_from_slice(&(payload as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.resize(out.len() + payload, 0);
}

fn number(out: &mut Vec<u8>, kind: u8, stream: u32, value: u32) {
    frame(out, kind, 0, stream, 4);
    let end = out.len();
    out[end - 4..].copy_from_slice(&value.to_be_bytes());
}

/// A frame's head, and how much of its payload is still to come.
#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    left: usize,
}

/// Cuts a byte stream into frames; payloads of DATA are passed on as they come.
#[derive(Debug, Default)]
struct Reader {
    buffer: Vec<u8>,
    current: Option<Frame>,
}

/// What a reader found.
enum Part {
    /// A frame has begun.
    Begin(Frame),
    /// Bytes of a DATA frame, and whether they are its last.
    Data(Frame, usize, bool),
    /// Any other frame, whole.
    Whole(Frame, Vec<u8>),
}

impl Reader {
    fn next(&mut self) -> Option<Part> {
        let Some(frame) = &mut self.current else {
            let head: [u8; HEAD] = self.buffer.get(..HEAD)?.try_into().ok()?;
            self.buffer.drain(..HEAD);
            let left = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let frame = Frame { kind: head[3], flags: head[4], stream, left };
            self.current = Some(frame);
            return Some(Part::Begin(frame));
        };
        let here = frame.left.min(self.buffer.len());
        if frame.kind == DATA {
            if here == 0 && frame.left > 0 {
                return None;
            }
            frame.left -= here;
            self.buffer.drain(..here);
        } else {
            if here < frame.left {
                return None;
            }
            frame.left = 0;
        }
        let frame = *frame;
        if frame.left == 0 {
            self.current = None;
        }
        if frame.kind == DATA {
            return Some(Part::Data(frame, here, frame.left == 0));
        }
        Some(Part::Whole(frame, self.buffer.drain(..here).collect()))
    }
}

/// One response as the client sees it.
#[derive(Clone, Copy, Debug)]
struct Response {
    object: u32,
    heard: bool,
    /// Bytes taken since the window was last opened.
    taken: i64,
}

/// The browser's side.
pub(super) struct Client {
    page: Arc<PageSpec>,
    /// Objects to ask for.
    requests: VecDeque<u32>,
    reader: Reader,
    started: bool,
    /// Control frames to send.
    control: Vec<u8>,
    /// By (stream id - 1) / 2.
    responses: Vec<Response>,
    taken: i64,
}

impl Client {
    pub fn new(page: Arc<PageSpec>) -> Client {
        Client {
            page,
            requests: VecDeque::new(),
            reader: Reader::default(),
            started: false,
            control: Vec::new(),
            responses: Vec::new(),
            taken: 0,
        }
    }

    fn end(&self, stream: u32, said: &mut Vec<Notice>) {
        if let Some(response) = self.responses.get(stream as usize / 2) {
            said.push(Notice::End(response.object));
        }
    }

    /// Opens windows that are more than half used (Chromium's rule, net/spdy/spdy_session.cc).
    fn take(&mut self, stream: u32, bytes: i64, over: bool) {
        self.taken += bytes;
        if self.taken > CONNECTION_WINDOW / 2 {
            number(&mut self.control, WINDOW_UPDATE, 0, self.taken as u32);
            self.taken = 0;
        }
        let Some(response) = self.responses.get_mut(stream as usize / 2) else { return };
        response.taken += bytes;
        if !over && response.taken > STREAM_WINDOW / 2 {
            number(&mut self.control, WINDOW_UPDATE, stream, response.taken as u32);
            response.taken = 0;
        }
    }
}

impl Speaker for Client {
    fn start(&mut self, _now: Time) {
        self.started = true;
        self.control.extend_from_slice(PREFACE);
        frame(&mut self.control, SETTINGS, 0, 0, 6 * CLIENT_SETTINGS);
        number(&mut self.control, WINDOW_UPDATE, 0, (CONNECTION_WINDOW - FIRST_WINDOW) as u32);
    }

    fn hear(&mut self, order: Order) {
        order.enter(&mut self.requests);
    }

    fn receive(&mut self, _now: Time, bytes: &[u8], said: &mut Vec<Notice>) {
        self.reader.buffer.extend_from_slice(bytes);
        while let Some(part) = self.reader.next() {
            match part {
                Part::Begin(frame) => {
                    if frame.stream > 0
                        && let Some(response) = self.responses.get_mut(frame.stream as usize / 2)
                        && !std::mem::replace(&mut response.heard, true)
                    {
                        said.push(Notice::Response(response.object));
                    }
                }
                Part::Data(head, bytes, last) => {
                    let over = last && head.flags & END_STREAM != 0;
                    if let Some(response) = self.responses.get(head.stream as usize / 2) {
                        said.push(Notice::Body(response.object, bytes as u64));
                    }
                    self.take(head.stream, bytes as i64, over);
                    if over {
                        self.end(head.stream, said);
                    }
                }
                Part::Whole(head, _) => match head.kind {
                    SETTINGS if head.flags & ACK == 0 => {
                        frame(&mut self.control, SETTINGS, ACK, 0, 0);
                    }
                    HEADERS if head.flags & END_STREAM != 0 => self.end(head.stream, said),
                    _ => {}
                },
            }
        }
    }

    fn send(&mut self, _now: Time, _most: usize, out: &mut Vec<u8>, said: &mut Vec<Notice>) {
        out.append(&mut self.control);
        while let Some(object) = self.requests.pop_front() {
            let stream = 2 * self.responses.len() as u32 + 1;
            self.responses.push(Response { object, heard: false, taken: 0 });
            let block = (self.page.objects[object as usize].request_bytes as usize).max(4);
            let flags = END_STREAM | END_HEADERS | WITH_PRIORITY;
            frame(out, HEADERS, flags, stream, PRIORITY + block);
            // What is asked for: the first bytes of the header block.
            let at = out.len() - block;
            out[at..at + 4].copy_from_slice(&object.to_be_bytes());
            said.push(Notice::Sent(object));
        }
    }

    fn has_data(&self) -> bool {
        self.started && (!self.control.is_empty() || !self.requests.is_empty())
    }

    fn wake_at(&self) -> Time {
        Time::MAX
    }
}

/// One response as the server sends it.
#[derive(Clone, Copy, Debug)]
struct Answer {
    stream: u32,
    object: u32,
    due: Time,
    head_sent: bool,
    left: u64,
    window: i64,
}

/// The server's side.
pub(super) struct Server {
    page: Arc<PageSpec>,
    reader: Reader,
    /// The client's preface is still to come.
    preface: bool,
    control: Vec<u8>,
    answers: Vec<Answer>,
    turn: usize,
    window: i64,
    /// Windows of new streams.
    stream_window: i64,
    now: Time,
}

impl Server {
    pub fn new(page: Arc<PageSpec>) -> Server {
        Server {
            page,
            reader: Reader::default(),
            preface: true,
            control: Vec::new(),
            answers: Vec::new(),
            turn: 0,
            window: FIRST_WINDOW,
            stream_window: FIRST_WINDOW,
            now: Time::ZERO,
        }
    }

    fn on_frame(&mut self, head: Frame, payload: &[u8]) {
        match head.kind {
            SETTINGS if head.flags & ACK == 0 => {
                self.stream_window = STREAM_WINDOW;
                frame(&mut self.control, SETTINGS, ACK, 0, 0);
            }
            WINDOW_UPDATE => {
                let Ok(increment) = payload.try_into().map(u32::from_be_bytes) else { return };
                let answer = self.answers.iter_mut().find(|answer| answer.stream == head.stream);
                match answer {
                    Some(answer) => answer.window += i64::from(increment),
                    None if head.stream == 0 => self.window += i64::from(increment),
                    None => {}
                }
            }
            HEADERS => {
                let skip = if head.flags & WITH_PRIORITY != 0 { PRIORITY } else { 0 };
                let Some(object) = payload.get(skip..skip + 4) else { return };
                let object = u32::from_be_bytes([object[0], object[1], object[2], object[3]]);
                let Some(spec) = self.page.objects.get(object as usize) else { return };
                self.answers.push(Answer {
                    stream: head.stream,
                    object,
                    due: self.now + Span(spec.think_ns),
                    head_sent: false,
                    left: spec.body_bytes,
                    window: self.stream_window,
                });
            }
            _ => {}
        }
    }

    /// Whether `answer` has something that may go now.
    fn may_send(&self, answer: &Answer) -> bool {
        answer.due <= self.now && (!answer.head_sent || (answer.window > 0 && self.window > 0))
    }
}

impl Speaker for Server {
    fn start(&mut self, now: Time) {
        self.now = now;
        frame(&mut self.control, SETTINGS, 0, 0, 6 * SERVER_SETTINGS);
    }

    fn receive(&mut self, now: Time, bytes: &[u8], _said: &mut Vec<Notice>) {
        self.now = now;
        self.reader.buffer.extend_from_slice(bytes);
        if self.preface && self.reader.buffer.len() >= PREFACE.len() {
            self.reader.buffer.drain(..PREFACE.len());
            self.preface = false;
        }
        while !self.preface
            && let Some(part) = self.reader.next()
        {
            if let Part::Whole(head, payload) = part {
                self.on_frame(head, &payload);
            }
        }
    }

    fn send(&mut self, now: Time, most: usize, out: &mut Vec<u8>, _said: &mut Vec<Notice>) {
        self.now = now;
        out.append(&mut self.control);
        for answer in &mut self.answers {
            if answer.due <= now && !answer.head_sent {
                answer.head_sent = true;
                let block = self.page.objects[answer.object as usize].response_header_bytes;
                let last = if answer.left == 0 { END_STREAM } else { 0 };
                frame(out, HEADERS, END_HEADERS | last, answer.stream, block as usize);
            }
        }
        self.answers.retain(|answer| !answer.head_sent || answer.left > 0);
        let mut idle = 0;
        while out.len() < most && idle < self.answers.len() {
            self.turn = (self.turn + 1) % self.answers.len();
            let answer = self.answers[self.turn];
            if !self.may_send(&answer) {
                idle += 1;
                continue;
            }
            idle = 0;
            let next = &mut self.answers[self.turn];
            let most = (FRAME as i64).min(answer.window).min(self.window);
            let part = (most as u64).min(answer.left);
            next.left -= part;
            next.window -= part as i64;
            self.window -= part as i64;
            let last = if next.left == 0 { END_STREAM } else { 0 };
            frame(out, DATA, last, answer.stream, part as usize);
            if next.left == 0 {
                self.answers.remove(self.turn);
                // The next in line is now at this place, and its turn has come.
                self.turn = self.turn.wrapping_sub(1).min(self.answers.len().saturating_sub(1));
            }
        }
    }

    fn has_data(&self) -> bool {
        !self.control.is_empty() || self.answers.iter().any(|answer| self.may_send(answer))
    }

    fn wake_at(&self) -> Time {
        let later = self.answers.iter().map(|answer| answer.due).filter(|due| *due > self.now);
        later.min().unwrap_or(Time::MAX)
    }
}
