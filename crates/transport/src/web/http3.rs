//! HTTP/3 (RFC 9114) over QUIC's streams: one bidirectional stream per request, and three unidirectional ones from each
//! side.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use units::{Span, Time};

use super::PageSpec;
use crate::perf_load::{StreamReport, zeros};
use crate::{App, AppCommand, AppEvent, AppNotification, ReadStatus, ReceivedRanges, Streams};

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
/// Bytes of a body that a server writes at a time, so that streams alternate.
const WRITE_QUANTUM: u64 = 1 << 14;

/// Appends a variable-length integer (RFC 9000 section 16).
fn write_varint(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

/// Appends a HEADERS frame. Returns the start of the header block.
fn write_headers(out: &mut Vec<u8>, block: usize) -> usize {
    let length = block + QPACK_PREFIX;
    out.push(HEADERS);
    write_varint(out, length as u64);
    let start = out.len() + QPACK_PREFIX;
    out.resize(out.len() + length, 0);
    start
}

/// Returns everything before the body: HEADERS, and the header of the single DATA frame.
fn response_head(page: &PageSpec, object: u32) -> Vec<u8> {
    let object = &page.objects[object as usize];
    let mut out = Vec::new();
    write_headers(&mut out, object.response_header_bytes as usize);
    if object.body_bytes > 0 {
        out.push(DATA);
        write_varint(&mut out, object.body_bytes);
    }
    out
}

fn open_control(streams: &mut dyn Streams) {
    for kind in UNIDIRECTIONAL {
        let Some(id) = streams.open_uni() else { return };
        let mut out = vec![kind];
        if kind == UNIDIRECTIONAL[0] {
            out.push(SETTINGS);
            write_varint(&mut out, SETTINGS_BYTES as u64);
            out.resize(out.len() + SETTINGS_BYTES, 0);
        }
        streams.write(id, out.into());
    }
}

/// Returns whether a stream carries a request (RFC 9000 section 2.1): bidirectional, from the client.
fn carries_request(id: u64) -> bool {
    id & 3 == 0
}

/// Reads a control stream of the peer and discards its data.
fn discard_stream(id: u64, streams: &mut dyn Streams) {
    let _ = streams.read(id, &mut |_, _| {});
}

/// The browser's side.
pub(super) struct Client {
    page: Arc<PageSpec>,
    /// Time at which the connection was opened.
    opened: Time,
    /// Objects to request.
    requests: VecDeque<u32>,
    /// The browser has closed the connection.
    closing: bool,
    /// A command of the browser is not processed yet.
    command_pending: bool,
    ready: bool,
    peer_responded: bool,
    closed: bool,
    /// Per report: its object, the received ranges, and the length of the response's header.
    responses: Vec<(u32, ReceivedRanges, u64)>,
    reports: Vec<StreamReport>,
}

impl Client {
    /// Creates the client of a connection opened at `opened`.
    pub fn new(page: Arc<PageSpec>, opened: Time) -> Client {
        Client {
            page,
            opened,
            requests: VecDeque::new(),
            closing: false,
            command_pending: false,
            ready: false,
            peer_responded: false,
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
            let start = write_headers(&mut out, block);
            // The requested object: the first bytes of the header block.
            out[start..start + 4].copy_from_slice(&object.to_be_bytes());
            let length = out.len() as u64;
            streams.write(id, out.into());
            streams.finish(id);
            let report = StreamReport::new(id, now);
            self.reports.push(StreamReport { written: length, finished: Some(now), ..report });
            let head = response_head(&self.page, object).len() as u64;
            self.responses.push((object, ReceivedRanges::default(), head));
            streams.notify(AppNotification::RequestSent(object));
        }
    }

    fn on_peer_response(&mut self, streams: &mut dyn Streams) {
        if !std::mem::replace(&mut self.peer_responded, true) {
            streams.notify(AppNotification::PeerResponded);
        }
    }

    fn read(&mut self, now: Time, id: u64, streams: &mut dyn Streams) {
        self.on_peer_response(streams);
        let Some(index) = self.reports.iter().position(|report| report.id == id) else {
            return discard_stream(id, streams);
        };
        let (object, received, head) = &mut self.responses[index];
        let (object, before) = (*object, received.in_order());
        let end = streams.read(id, &mut |offset, data| {
            received.insert(offset, offset + data.len() as u64);
        });
        let after = received.in_order();
        self.reports[index].update(now, received);
        if before == 0 && after > 0 {
            streams.notify(AppNotification::ResponseStarted(object));
        }
        let body = after.saturating_sub(*head) - before.saturating_sub(*head);
        if body > 0 {
            streams.notify(AppNotification::BodyData(object, body));
        }
        if end == ReadStatus::Finished && self.reports[index].fin.is_none() {
            self.reports[index].fin = Some(now);
            streams.notify(AppNotification::ResponseComplete(object));
        }
    }
}

impl App for Client {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        self.command_pending = false;
        match event {
            AppEvent::Ready if !std::mem::replace(&mut self.ready, true) => {
                open_control(streams);
                streams.notify(AppNotification::Ready);
                // Without early data, the handshake is the response of the peer.
                if now > self.opened {
                    self.on_peer_response(streams);
                }
            }
            AppEvent::StreamOpened(id) | AppEvent::Readable(id) => self.read(now, id, streams),
            AppEvent::Closed => {
                self.closed = true;
                streams.notify(AppNotification::Closed);
                return;
            }
            _ => {}
        }
        self.request(now, streams);
        if self.closing && !std::mem::replace(&mut self.closed, true) {
            streams.close_now();
        }
    }

    fn on_command(&mut self, command: AppCommand) {
        command.update_queue(&mut self.requests);
        self.closing |= command == AppCommand::Close;
        self.command_pending |= command != AppCommand::CancelQueued;
    }

    fn poll_at(&self) -> Time {
        if self.command_pending && !self.closed { Time::ZERO } else { Time::MAX }
    }

    fn has_data(&self) -> bool {
        false
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &self.reports
    }
}

/// One response at the server.
#[derive(Debug, Default)]
struct ResponseStream {
    request: Vec<u8>,
    received: ReceivedRanges,
    /// The object and its time, once the request is complete.
    object: Option<(u32, Time)>,
    head: Option<Bytes>,
    remaining: u64,
    done: bool,
}

/// The server's side.
pub(super) struct Server {
    page: Arc<PageSpec>,
    responses: Vec<ResponseStream>,
    reports: Vec<StreamReport>,
    started: bool,
    next_stream: usize,
    now: Time,
}

impl Server {
    pub fn new(page: Arc<PageSpec>) -> Server {
        let (answers, reports) = (Vec::new(), Vec::new());
        Server {
            page,
            responses: answers,
            reports,
            started: false,
            next_stream: 0,
            now: Time::ZERO,
        }
    }

    fn read(&mut self, now: Time, id: u64, streams: &mut dyn Streams) {
        if !carries_request(id) {
            return discard_stream(id, streams);
        }
        let index = match self.reports.iter().position(|report| report.id == id) {
            Some(index) => index,
            None => {
                self.reports.push(StreamReport::new(id, now));
                self.responses.push(ResponseStream::default());
                self.reports.len() - 1
            }
        };
        let answer = &mut self.responses[index];
        let (request, received) = (&mut answer.request, &mut answer.received);
        let end = streams.read(id, &mut |offset, data| {
            let (start, end) = (offset as usize, offset as usize + data.len());
            request.resize(request.len().max(end), 0);
            request[start..end].copy_from_slice(data);
            received.insert(offset, end as u64);
        });
        let report = &mut self.reports[index];
        report.update(now, received);
        if end != ReadStatus::Finished || report.fin.is_some() {
            return;
        }
        report.fin = Some(now);
        // Type: 1 byte. Length: 1 byte below 64, 2 (RFC 9000 section 16), or 4 below 2^30. Then the prefix.
        let length = 1usize << (answer.request.get(1).copied().unwrap_or(0) >> 6);
        let start = 1 + length + QPACK_PREFIX;
        let Some(&[a, b, c, d]) = answer.request.get(start..start + 4) else { return };
        let object = u32::from_be_bytes([a, b, c, d]);
        let Some(spec) = self.page.objects.get(object as usize) else { return };
        answer.object = Some((object, now + Span(spec.think_ns)));
        answer.head = Some(response_head(&self.page, object).into());
        answer.remaining = spec.body_bytes;
    }

    fn may_send(&self, answer: &ResponseStream) -> bool {
        !answer.done && answer.object.is_some_and(|(_, due)| due <= self.now)
    }

    /// Writes up to `max_bytes` to the stack, streams in turn.
    fn write(&mut self, now: Time, max_bytes: usize, streams: &mut dyn Streams) {
        let (mut left, mut idle) = (max_bytes as u64, 0);
        while left > 0 && idle < self.responses.len() {
            self.next_stream = (self.next_stream + 1) % self.responses.len();
            if !self.may_send(&self.responses[self.next_stream]) {
                idle += 1;
                continue;
            }
            let (answer, report) =
                (&mut self.responses[self.next_stream], &mut self.reports[self.next_stream]);
            let mut written = 0;
            if let Some(head) = answer.head.take() {
                written = streams.write(report.id, head.clone());
                if written < head.len() {
                    answer.head = Some(head.slice(written..));
                }
            }
            if answer.head.is_none() && answer.remaining > 0 {
                let body_bytes =
                    streams.write(report.id, zeros(answer.remaining.min(WRITE_QUANTUM).min(left)));
                answer.remaining -= body_bytes as u64;
                written += body_bytes;
            }
            report.written += written as u64;
            left = left.saturating_sub(written as u64);
            idle = if written == 0 { idle + 1 } else { 0 };
            if answer.head.is_none() && answer.remaining == 0 {
                answer.done = true;
                report.finished = Some(now);
                streams.finish(report.id);
            }
        }
    }
}

impl App for Server {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        self.now = now;
        match event {
            AppEvent::Ready if !std::mem::replace(&mut self.started, true) => open_control(streams),
            AppEvent::StreamOpened(id) | AppEvent::Readable(id) => self.read(now, id, streams),
            AppEvent::Writable => self.write(now, streams.write_budget(), streams),
            AppEvent::Stopped(id) => {
                if let Some(index) = self.reports.iter().position(|report| report.id == id) {
                    self.responses[index].done = true;
                    streams.reset(id);
                }
            }
            _ => {}
        }
    }

    fn poll_at(&self) -> Time {
        let due = self.responses.iter().filter_map(|answer| answer.object.map(|(_, due)| due));
        due.filter(|due| *due > self.now).min().unwrap_or(Time::MAX)
    }

    fn has_data(&self) -> bool {
        self.responses.iter().any(|answer| self.may_send(answer))
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &self.reports
    }
}
