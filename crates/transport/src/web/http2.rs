//! HTTP/2 (RFC 9113): frames of true size, both kinds of flow control, and a server with round-robin streams.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{Span, Time};

use super::PageSpec;
use super::http_connection::HttpConnection;
use crate::{AppCommand, AppNotification};

/// RFC 9113 section 3.4.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame header (RFC 9113 section 4.1).
const FRAME_HEADER_BYTES: usize = 9;
/// Largest payload of a frame (RFC 9113 section 4.2): the minimum of SETTINGS_MAX_FRAME_SIZE, which Chromium does not
/// change.
const MAX_FRAME_PAYLOAD: usize = 1 << 14;
/// Windows before any SETTINGS (RFC 9113 section 6.9.2).
const INITIAL_WINDOW: i64 = 65_535;
/// Chromium's window of the connection and of a stream (net/http/http_network_session.cc).
const CONNECTION_WINDOW: i64 = 15 << 20;
const STREAM_WINDOW: i64 = 6 << 20;
/// Entries of a browser's SETTINGS (Chromium: measured).
const CLIENT_SETTINGS: usize = 4;
/// Entries of a server's SETTINGS: streams, window, frame size (nginx).
const SERVER_SETTINGS: usize = 3;
/// Dependency and weight in a browser's HEADERS (RFC 9113 section 6.2).
const PRIORITY_BYTES: usize = 5;

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

fn write_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: usize) {
    out.extend_from_slice(&(payload as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.resize(out.len() + payload, 0);
}

fn write_u32_frame(out: &mut Vec<u8>, kind: u8, stream: u32, value: u32) {
    write_frame(out, kind, 0, stream, 4);
    let end = out.len();
    out[end - 4..].copy_from_slice(&value.to_be_bytes());
}

/// A frame header, and the rest of its payload that has not arrived.
#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    remaining: usize,
}

/// Splits a byte stream into frames. Payloads of DATA are passed on as they arrive.
#[derive(Debug, Default)]
struct FrameReader {
    buffer: Vec<u8>,
    current: Option<Frame>,
}

/// Result of a reader.
enum FrameEvent {
    /// A frame has begun.
    Started(Frame),
    /// Bytes of a DATA frame, and whether these are the last.
    Data(Frame, usize, bool),
    /// Any other frame, complete.
    Complete(Frame, Vec<u8>),
}

impl FrameReader {
    fn next(&mut self) -> Option<FrameEvent> {
        let Some(frame) = &mut self.current else {
            let head: [u8; FRAME_HEADER_BYTES] =
                self.buffer.get(..FRAME_HEADER_BYTES)?.try_into().ok()?;
            self.buffer.drain(..FRAME_HEADER_BYTES);
            let left = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let frame = Frame { kind: head[3], flags: head[4], stream, remaining: left };
            self.current = Some(frame);
            return Some(FrameEvent::Started(frame));
        };
        let available = frame.remaining.min(self.buffer.len());
        if frame.kind == DATA {
            if available == 0 && frame.remaining > 0 {
                return None;
            }
            frame.remaining -= available;
            self.buffer.drain(..available);
        } else {
            if available < frame.remaining {
                return None;
            }
            frame.remaining = 0;
        }
        let frame = *frame;
        if frame.remaining == 0 {
            self.current = None;
        }
        if frame.kind == DATA {
            return Some(FrameEvent::Data(frame, available, frame.remaining == 0));
        }
        Some(FrameEvent::Complete(frame, self.buffer.drain(..available).collect()))
    }
}

/// One response at the client.
#[derive(Clone, Copy, Debug)]
struct Response {
    object: u32,
    response_started: bool,
    /// Bytes received since the last update of the window.
    taken: i64,
}

/// The browser's side.
pub(super) struct Client {
    page: Arc<PageSpec>,
    /// Objects to request.
    requests: VecDeque<u32>,
    reader: FrameReader,
    started: bool,
    /// Control frames to send.
    control: Vec<u8>,
    /// Responses by (stream id - 1) / 2.
    responses: Vec<Response>,
    taken: i64,
}

impl Client {
    pub fn new(page: Arc<PageSpec>) -> Client {
        Client {
            page,
            requests: VecDeque::new(),
            reader: FrameReader::default(),
            started: false,
            control: Vec::new(),
            responses: Vec::new(),
            taken: 0,
        }
    }

    fn on_response_end(&self, stream: u32, notifications: &mut Vec<AppNotification>) {
        if let Some(response) = self.responses.get(stream as usize / 2) {
            notifications.push(AppNotification::ResponseComplete(response.object));
        }
    }

    /// Opens windows that are more than half used (Chromium's rule, net/spdy/spdy_session.cc).
    fn on_body_data(&mut self, stream: u32, bytes: i64, over: bool) {
        self.taken += bytes;
        if self.taken > CONNECTION_WINDOW / 2 {
            write_u32_frame(&mut self.control, WINDOW_UPDATE, 0, self.taken as u32);
            self.taken = 0;
        }
        let Some(response) = self.responses.get_mut(stream as usize / 2) else { return };
        response.taken += bytes;
        if !over && response.taken > STREAM_WINDOW / 2 {
            write_u32_frame(&mut self.control, WINDOW_UPDATE, stream, response.taken as u32);
            response.taken = 0;
        }
    }
}

impl HttpConnection for Client {
    fn start(&mut self, _now: Time) {
        self.started = true;
        self.control.extend_from_slice(PREFACE);
        write_frame(&mut self.control, SETTINGS, 0, 0, 6 * CLIENT_SETTINGS);
        write_u32_frame(
            &mut self.control,
            WINDOW_UPDATE,
            0,
            (CONNECTION_WINDOW - INITIAL_WINDOW) as u32,
        );
    }

    fn on_command(&mut self, command: AppCommand) {
        command.update_queue(&mut self.requests);
    }

    fn receive(&mut self, _now: Time, bytes: &[u8], notifications: &mut Vec<AppNotification>) {
        self.reader.buffer.extend_from_slice(bytes);
        while let Some(part) = self.reader.next() {
            match part {
                FrameEvent::Started(frame) => {
                    if frame.stream > 0
                        && let Some(response) = self.responses.get_mut(frame.stream as usize / 2)
                        && !std::mem::replace(&mut response.response_started, true)
                    {
                        notifications.push(AppNotification::ResponseStarted(response.object));
                    }
                }
                FrameEvent::Data(head, bytes, last) => {
                    let over = last && head.flags & END_STREAM != 0;
                    if let Some(response) = self.responses.get(head.stream as usize / 2) {
                        notifications
                            .push(AppNotification::BodyData(response.object, bytes as u64));
                    }
                    self.on_body_data(head.stream, bytes as i64, over);
                    if over {
                        self.on_response_end(head.stream, notifications);
                    }
                }
                FrameEvent::Complete(head, _) => match head.kind {
                    SETTINGS if head.flags & ACK == 0 => {
                        write_frame(&mut self.control, SETTINGS, ACK, 0, 0);
                    }
                    HEADERS if head.flags & END_STREAM != 0 => {
                        self.on_response_end(head.stream, notifications)
                    }
                    _ => {}
                },
            }
        }
    }

    fn send(
        &mut self,
        _now: Time,
        _max_bytes: usize,
        out: &mut Vec<u8>,
        notifications: &mut Vec<AppNotification>,
    ) {
        out.append(&mut self.control);
        while let Some(object) = self.requests.pop_front() {
            let stream = 2 * self.responses.len() as u32 + 1;
            self.responses.push(Response { object, response_started: false, taken: 0 });
            let block = (self.page.objects[object as usize].request_bytes as usize).max(4);
            let flags = END_STREAM | END_HEADERS | WITH_PRIORITY;
            write_frame(out, HEADERS, flags, stream, PRIORITY_BYTES + block);
            // The requested object: the first bytes of the header block.
            let at = out.len() - block;
            out[at..at + 4].copy_from_slice(&object.to_be_bytes());
            notifications.push(AppNotification::RequestSent(object));
        }
    }

    fn has_data(&self) -> bool {
        self.started && (!self.control.is_empty() || !self.requests.is_empty())
    }

    fn poll_at(&self) -> Time {
        Time::MAX
    }
}

/// One response at the server.
#[derive(Clone, Copy, Debug)]
struct ResponseStream {
    stream: u32,
    object: u32,
    due: Time,
    head_sent: bool,
    remaining: u64,
    window: i64,
}

/// The server's side.
pub(super) struct Server {
    page: Arc<PageSpec>,
    reader: FrameReader,
    /// The client's preface has not arrived.
    preface: bool,
    control: Vec<u8>,
    responses: Vec<ResponseStream>,
    next_stream: usize,
    window: i64,
    /// Initial window of new streams.
    stream_window: i64,
    now: Time,
}

impl Server {
    pub fn new(page: Arc<PageSpec>) -> Server {
        Server {
            page,
            reader: FrameReader::default(),
            preface: true,
            control: Vec::new(),
            responses: Vec::new(),
            next_stream: 0,
            window: INITIAL_WINDOW,
            stream_window: INITIAL_WINDOW,
            now: Time::ZERO,
        }
    }

    fn on_frame(&mut self, head: Frame, payload: &[u8]) {
        match head.kind {
            SETTINGS if head.flags & ACK == 0 => {
                self.stream_window = STREAM_WINDOW;
                write_frame(&mut self.control, SETTINGS, ACK, 0, 0);
            }
            WINDOW_UPDATE => {
                let Ok(increment) = payload.try_into().map(u32::from_be_bytes) else { return };
                let answer = self.responses.iter_mut().find(|answer| answer.stream == head.stream);
                match answer {
                    Some(answer) => answer.window += i64::from(increment),
                    None if head.stream == 0 => self.window += i64::from(increment),
                    None => {}
                }
            }
            HEADERS => {
                let skip = if head.flags & WITH_PRIORITY != 0 { PRIORITY_BYTES } else { 0 };
                let Some(object) = payload.get(skip..skip + 4) else { return };
                let object = u32::from_be_bytes([object[0], object[1], object[2], object[3]]);
                let Some(spec) = self.page.objects.get(object as usize) else { return };
                self.responses.push(ResponseStream {
                    stream: head.stream,
                    object,
                    due: self.now + Span(spec.think_ns),
                    head_sent: false,
                    remaining: spec.body_bytes,
                    window: self.stream_window,
                });
            }
            _ => {}
        }
    }

    /// Returns whether `answer` has data to send now.
    fn may_send(&self, answer: &ResponseStream) -> bool {
        answer.due <= self.now && (!answer.head_sent || (answer.window > 0 && self.window > 0))
    }
}

impl HttpConnection for Server {
    fn start(&mut self, now: Time) {
        self.now = now;
        write_frame(&mut self.control, SETTINGS, 0, 0, 6 * SERVER_SETTINGS);
    }

    fn receive(&mut self, now: Time, bytes: &[u8], _notifications: &mut Vec<AppNotification>) {
        self.now = now;
        self.reader.buffer.extend_from_slice(bytes);
        if self.preface && self.reader.buffer.len() >= PREFACE.len() {
            self.reader.buffer.drain(..PREFACE.len());
            self.preface = false;
        }
        while !self.preface
            && let Some(part) = self.reader.next()
        {
            if let FrameEvent::Complete(head, payload) = part {
                self.on_frame(head, &payload);
            }
        }
    }

    fn send(
        &mut self,
        now: Time,
        max_bytes: usize,
        out: &mut Vec<u8>,
        _notifications: &mut Vec<AppNotification>,
    ) {
        self.now = now;
        out.append(&mut self.control);
        for answer in &mut self.responses {
            if answer.due <= now && !answer.head_sent {
                answer.head_sent = true;
                let block = self.page.objects[answer.object as usize].response_header_bytes;
                let last = if answer.remaining == 0 { END_STREAM } else { 0 };
                write_frame(out, HEADERS, END_HEADERS | last, answer.stream, block as usize);
            }
        }
        self.responses.retain(|answer| !answer.head_sent || answer.remaining > 0);
        let mut idle = 0;
        while out.len() < max_bytes && idle < self.responses.len() {
            self.next_stream = (self.next_stream + 1) % self.responses.len();
            let answer = self.responses[self.next_stream];
            if !self.may_send(&answer) {
                idle += 1;
                continue;
            }
            idle = 0;
            let next = &mut self.responses[self.next_stream];
            let allowed = (MAX_FRAME_PAYLOAD as i64).min(answer.window).min(self.window);
            let sent = (allowed as u64).min(answer.remaining);
            next.remaining -= sent;
            next.window -= sent as i64;
            self.window -= sent as i64;
            let last = if next.remaining == 0 { END_STREAM } else { 0 };
            write_frame(out, DATA, last, answer.stream, sent as usize);
            if next.remaining == 0 {
                self.responses.remove(self.next_stream);
                // The next response now has this index, and it is next.
                self.next_stream =
                    self.next_stream.wrapping_sub(1).min(self.responses.len().saturating_sub(1));
            }
        }
    }

    fn has_data(&self) -> bool {
        !self.control.is_empty() || self.responses.iter().any(|answer| self.may_send(answer))
    }

    fn poll_at(&self) -> Time {
        let later = self.responses.iter().map(|answer| answer.due).filter(|due| *due > self.now);
        later.min().unwrap_or(Time::MAX)
    }
}
