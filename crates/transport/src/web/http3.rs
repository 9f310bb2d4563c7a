//! HTTP/3 (RFC 9114) over QUIC's streams: a bidirectional stream a request, and three
//! unidirectional ones from each side.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use units::{Span, Time};

use super::PageSpec;
use crate::load::{StreamReport, zeros};
use crate::{App, AppEvent, Notice, Order, ReadEnd, Received, Streams};

/// Types of frames (RFC 9114 section 7.2).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
/// Types of unidirectional streams: control (RFC 9114 section 6.2.1), QPACK's encoder and decoder
/// (RFC 9204 section 4.2).
const UNIDIRECTIONAL: [u8; 3] = [0, 2, 3];
/// Payload of SETTINGS: QPACK's table and blocked streams, field section size (Chromium and
/// servers send 2 to 4 entries of 2 to 9 bytes).
const SETTINGS_BYTES: usize = 18;
/// Required Insert Count and Base (RFC 9204 section 4.5.1).
const QPACK_PREFIX: usize = 2;
/// A server gives the stack this much of a body at a time, so that streams take turns.
const TURN: u64 = 1 << 14;

/// A variable-length integer (RFC 9000 section 16).
fn varint(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// A HEADERS frame; returns where the header block begins.
fn headers(out: &mut Vec<u8>, block: usize) -> usize {
    let length = block + QPACK_PREFIX;
    out.push(HEADERS);
    varint(out, length as u64);
    let start = out.len() + QPACK_PREFIX;
    out.resize(out.len() + length, 0);
    start
}

/// Everything before the body: HEADERS, and the head of the one DATA frame.
fn response_head(page: &PageSpec, object: u32) -> Vec<u8> {
    let object = &page.objects[object as usize];
    let mut out = Vec::new();
    headers(&mut out, object.response_header_bytes as usize);
    if object.body_bytes > 0 {
        out.push(DATA);
        varint(&mut out, object.body_bytes);
    }
    out
}

fn open_control(streams: &mut dyn Streams) {
    for kind in UNIDIRECTIONAL {
        let Some(id) = streams.open_uni() else { return };
        let mut out = vec![kind];
        if kind == UNIDIRECTIONAL[0] {
            out.push(SETTINGS);
            varint(&mut out, SETTINGS_BYTES as u64);
            out.resize(out.len() + SETTINGS_BYTES, 0);
        }
        streams.write(id, out.into());
    }
}

/// Whether a request's stream (RFC 9000 section 2.1): bidirectional, the client's.
fn carries_request(id: u64) -> bool {
    id & 3 == 0
}

/// Reads and forgets a control stream of the peer.
fn skip(id: u64, streams: &mut dyn Streams) {
    let _ = streams.read(id, &mut |_, _| {});
}

/// The browser's side.
pub(super) struct Client {
    page: Arc<PageSpec>,
    /// When the connection was opened.
    opened: Time,
    /// Objects to ask for.
    requests: VecDeque<u32>,
    /// The browser wants the connection closed.
    closing: bool,
    /// The browser wants something that was not looked at yet.
    asked: bool,
    ready: bool,
    answered: bool,
    closed: bool,
    /// Of each report: its object, what has come, and how long the response's head is.
    responses: Vec<(u32, Received, u64)>,
    reports: Vec<StreamReport>,
}

impl Client {
    /// On a connection opened at `opened`.
    pub fn new(page: Arc<PageSpec>, opened: Time) -> Client {
        Client {
            page,
            opened,
            requests: VecDeque::new(),
            closing: false,
            asked: false,
            ready: false,
            answered: false,
            closed: false,
            responses: Vec::new(),
            reports: Vec::new(),
        }
    }

    fn request(&mut self, now: Time, streams: &mut dyn Streams) {
        while self.ready && !self.requests.is_empty() {
            let Some(id) = streams.open() else { return };
            let Some(object) = self.requests.pop_front() else { return };
            let mut out = Vec::new();
            let block = (self.page.objects[object as usize].request_bytes as usize).max(4);
            let start = headers(&mut out, block);
            // What is asked for: the first bytes of the header block.
            out[start..start + 4].copy_from_slice(&object.to_be_bytes());
            let length = out.len() as u64;
            streams.write(id, out.into());
            streams.finish(id);
            let report = StreamReport::new(id, now);
            self.reports.push(StreamReport { written: length, finished: Some(now), ..report });
            let head = response_head(&self.page, object).len() as u64;
            self.responses.push((object, Received::default(), head));
            streams.say(Notice::Sent(object));
        }
    }

    fn answered(&mut self, streams: &mut dyn Streams) {
        if !std::mem::replace(&mut self.answered, true) {
            streams.say(Notice::Answered);
        }
    }

    fn read(&mut self, now: Time, id: u64, streams: &mut dyn Streams) {
        self.answered(streams);
        let Some(place) = self.reports.iter().position(|report| report.id == id) else {
            return skip(id, streams);
        };
        let (object, received, head) = &mut self.responses[place];
        let (object, before) = (*object, received.in_order());
        let end = streams.read(id, &mut |offset, data| {
            received.insert(offset, offset + data.len() as u64);
        });
        let after = received.in_order();
        self.reports[place].update(now, received);
        if before == 0 && after > 0 {
            streams.say(Notice::Response(object));
        }
        let body = after.saturating_sub(*head) - before.saturating_sub(*head);
        if body > 0 {
            streams.say(Notice::Body(object, body));
        }
        if end == ReadEnd::Finished && self.reports[place].fin.is_none() {
            self.reports[place].fin = Some(now);
            streams.say(Notice::End(object));
        }
    }
}

impl App for Client {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        self.asked = false;
        match event {
            AppEvent::Ready if !std::mem::replace(&mut self.ready, true) => {
                open_control(streams);
                streams.say(Notice::Ready);
                // Without early data the handshake itself is the answer.
                if now > self.opened {
                    self.answered(streams);
                }
            }
            AppEvent::Opened(id) | AppEvent::Readable(id) => self.read(now, id, streams),
            AppEvent::Closed => {
                self.closed = true;
                streams.say(Notice::Closed);
                return;
            }
            _ => {}
        }
        self.request(now, streams);
        if self.closing && !std::mem::replace(&mut self.closed, true) {
            streams.close_now();
        }
    }

    fn hear(&mut self, order: Order) {
        order.enter(&mut self.requests);
        self.closing |= order == Order::Close;
        self.asked |= order != Order::Forget;
    }

    fn wake_at(&self) -> Time {
        if self.asked && !self.closed { Time::ZERO } else { Time::MAX }
    }

    fn has_data(&self) -> bool {
        false
    }

    fn streams(&self) -> &[StreamReport] {
        &self.reports
    }
}

/// One response as the server sends it.
#[derive(Debug, Default)]
struct Answer {
    request: Vec<u8>,
    received: Received,
    /// The object and when it is due, once the request is whole.
    object: Option<(u32, Time)>,
    head: Option<Bytes>,
    left: u64,
    done: bool,
}

/// The server's side.
pub(super) struct Server {
    page: Arc<PageSpec>,
    answers: Vec<Answer>,
    reports: Vec<StreamReport>,
    started: bool,
    turn: usize,
    now: Time,
}

impl Server {
    pub fn new(page: Arc<PageSpec>) -> Server {
        let (answers, reports) = (Vec::new(), Vec::new());
        Server { page, answers, reports, started: false, turn: 0, now: Time::ZERO }
    }

    fn read(&mut self, now: Time, id: u64, streams: &mut dyn Streams) {
        if !carries_request(id) {
            return skip(id, streams);
        }
        let place = match self.reports.iter().position(|report| report.id == id) {
            Some(place) => place,
            None => {
                self.reports.push(StreamReport::new(id, now));
                self.answers.push(Answer::default());
                self.reports.len() - 1
            }
        };
        let answer = &mut self.answers[place];
        let (request, received) = (&mut answer.request, &mut answer.received);
        let end = streams.read(id, &mut |offset, data| {
            let (start, end) = (offset as usize, offset as usize + data.len());
            request.resize(request.len().max(end), 0);
            request[start..end].copy_from_slice(data);
            received.insert(offset, end as u64);
        });
        let report = &mut self.reports[place];
        report.update(now, received);
        if end != ReadEnd::Finished || report.fin.is_some() {
            return;
        }
        report.fin = Some(now);
        // Type 1 byte, length 1 byte below 64 or 2 (RFC 9000 section 16), 4 below 2^30, prefix.
        let length = 1usize << (answer.request.get(1).copied().unwrap_or(0) >> 6);
        let start = 1 + length + QPACK_PREFIX;
        let Some(&[a, b, c, d]) = answer.request.get(start..start + 4) else { return };
        let object = u32::from_be_bytes([a, b, c, d]);
        let Some(spec) = self.page.objects.get(object as usize) else { return };
        answer.object = Some((object, now + Span(spec.think_ns)));
        answer.head = Some(response_head(&self.page, object).into());
        answer.left = spec.body_bytes;
    }

    fn may_send(&self, answer: &Answer) -> bool {
        !answer.done && answer.object.is_some_and(|(_, due)| due <= self.now)
    }

    /// Gives the stack up to `most` bytes, streams in turn.
    fn write(&mut self, now: Time, most: usize, streams: &mut dyn Streams) {
        let (mut left, mut idle) = (most as u64, 0);
        while left > 0 && idle < self.answers.len() {
            self.turn = (self.turn + 1) % self.answers.len();
            if !self.may_send(&self.answers[self.turn]) {
                idle += 1;
                continue;
            }
            let (answer, report) = (&mut self.answers[self.turn], &mut self.reports[self.turn]);
            let mut gone = 0;
            if let Some(head) = answer.head.take() {
                gone = streams.write(report.id, head.clone());
                if gone < head.len() {
                    answer.head = Some(head.slice(gone..));
                }
            }
            if answer.head.is_none() && answer.left > 0 {
                let part = streams.write(report.id, zeros(answer.left.min(TURN).min(left)));
                answer.left -= part as u64;
                gone += part;
            }
            report.written += gone as u64;
            left = left.saturating_sub(gone as u64);
            idle = if gone == 0 { idle + 1 } else { 0 };
            if answer.head.is_none() && answer.left == 0 {
                answer.done = true;
                report.finished = Some(now);
                streams.finish(report.id);
            }
        }
    }
}

impl App for Server {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        self.now = now;
        match event {
            AppEvent::Ready if !std::mem::replace(&mut self.started, true) => open_control(streams),
            AppEvent::Opened(id) | AppEvent::Readable(id) => self.read(now, id, streams),
            AppEvent::WantData => self.write(now, streams.appetite(), streams),
            AppEvent::Stopped(id) => {
                if let Some(place) = self.reports.iter().position(|report| report.id == id) {
                    self.answers[place].done = true;
                    streams.reset(id);
                }
            }
            _ => {}
        }
    }

    fn wake_at(&self) -> Time {
        let due = self.answers.iter().filter_map(|answer| answer.object.map(|(_, due)| due));
        due.filter(|due| *due > self.now).min().unwrap_or(Time::MAX)
    }

    fn has_data(&self) -> bool {
        self.answers.iter().any(|answer| self.may_send(answer))
    }

    fn streams(&self) -> &[StreamReport] {
        &self.reports
    }
}
