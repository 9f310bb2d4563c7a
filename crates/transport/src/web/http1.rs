//! HTTP/1.1 (RFC 9112) without pipelining: one request at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{Span, Time};

use super::PageSpec;
use super::http_connection::HttpConnection;
use crate::{AppCommand, AppNotification};

/// The end of a header section.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Builds a header section of `length` bytes that begins with `start`; longer if `start` is longer.
fn head(start: &str, length: usize) -> Vec<u8> {
    let mut head = format!("{start}\r\nX: ").into_bytes();
    head.resize(head.len().max(length.saturating_sub(HEAD_END.len())), b'-');
    head.extend_from_slice(HEAD_END);
    head
}

/// Removes a whole header section from `buffer`.
fn take_head(buffer: &mut Vec<u8>) -> Option<String> {
    let end =
        buffer.windows(HEAD_END.len()).position(|window| window == HEAD_END)? + HEAD_END.len();
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end);
    Some(head)
}

/// The browser's side.
pub(super) struct Client {
    page: Arc<PageSpec>,
    /// Objects to request.
    requests: VecDeque<u32>,
    started: bool,
    /// The requested object.
    current: Option<u32>,
    buffer: Vec<u8>,
    /// Bytes of the body that have not arrived, after its header section.
    body_remaining: Option<u64>,
    response_started: bool,
}

impl Client {
    pub fn new(page: Arc<PageSpec>) -> Client {
        let (requests, buffer) = (VecDeque::new(), Vec::new());
        Client {
            page,
            requests,
            started: false,
            current: None,
            buffer,
            body_remaining: None,
            response_started: false,
        }
    }
}

impl HttpConnection for Client {
    fn start(&mut self, _now: Time) {
        self.started = true;
    }

    fn on_command(&mut self, command: AppCommand) {
        command.update_queue(&mut self.requests);
    }

    fn receive(&mut self, _now: Time, bytes: &[u8], notifications: &mut Vec<AppNotification>) {
        let Some(object) = self.current else { return };
        if !std::mem::replace(&mut self.response_started, true) {
            notifications.push(AppNotification::ResponseStarted(object));
        }
        self.buffer.extend_from_slice(bytes);
        if self.body_remaining.is_none() {
            let Some(head) = take_head(&mut self.buffer) else { return };
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            self.body_remaining = Some(length.and_then(|length| length.parse().ok()).unwrap_or(0));
        }
        let Some(left) = &mut self.body_remaining else { return };
        let taken = (*left).min(self.buffer.len() as u64);
        *left -= taken;
        self.buffer.drain(..taken as usize);
        notifications.push(AppNotification::BodyData(object, taken));
        if *left == 0 {
            notifications.push(AppNotification::ResponseComplete(object));
            self.current = None;
            self.body_remaining = None;
            self.response_started = false;
        }
    }

    fn send(
        &mut self,
        _now: Time,
        _max_bytes: usize,
        out: &mut Vec<u8>,
        notifications: &mut Vec<AppNotification>,
    ) {
        if self.current.is_none()
            && let Some(object) = self.requests.pop_front()
        {
            let length = self.page.objects[object as usize].request_bytes as usize;
            out.extend(head(&format!("GET /{object} HTTP/1.1"), length));
            self.current = Some(object);
            notifications.push(AppNotification::RequestSent(object));
        }
    }

    fn has_data(&self) -> bool {
        self.started && self.current.is_none() && !self.requests.is_empty()
    }

    fn poll_at(&self) -> Time {
        Time::MAX
    }
}

/// The server's side.
pub(super) struct Server {
    page: Arc<PageSpec>,
    buffer: Vec<u8>,
    /// Objects to send, with their times.
    due: VecDeque<(u32, Time)>,
    /// Bytes of the current body that were not sent.
    body_remaining: u64,
    now: Time,
}

impl Server {
    pub fn new(page: Arc<PageSpec>) -> Server {
        Server {
            page,
            buffer: Vec::new(),
            due: VecDeque::new(),
            body_remaining: 0,
            now: Time::ZERO,
        }
    }
}

impl HttpConnection for Server {
    fn start(&mut self, now: Time) {
        self.now = now;
    }

    fn receive(&mut self, now: Time, bytes: &[u8], _notifications: &mut Vec<AppNotification>) {
        self.now = now;
        self.buffer.extend_from_slice(bytes);
        while let Some(head) = take_head(&mut self.buffer) {
            let index = head.strip_prefix("GET /").and_then(|rest| rest.split(' ').next());
            let Some(index) = index.and_then(|index| index.parse::<u32>().ok()) else { continue };
            if let Some(object) = self.page.objects.get(index as usize) {
                self.due.push_back((index, now + Span(object.think_ns)));
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
        loop {
            let sent = self.body_remaining.min(max_bytes.saturating_sub(out.len()) as u64);
            out.resize(out.len() + sent as usize, 0);
            self.body_remaining -= sent;
            if self.body_remaining > 0 {
                return;
            }
            let Some(&(object, due)) = self.due.front() else { return };
            if due > now {
                return;
            }
            self.due.pop_front();
            let object = &self.page.objects[object as usize];
            let start = format!("HTTP/1.1 200 OK\r\nContent-Length: {}", object.body_bytes);
            out.extend(head(&start, object.response_header_bytes as usize));
            self.body_remaining = object.body_bytes;
        }
    }

    fn has_data(&self) -> bool {
        self.body_remaining > 0 || self.due.front().is_some_and(|(_, due)| *due <= self.now)
    }

    fn poll_at(&self) -> Time {
        let next = self.due.front().filter(|(_, due)| self.body_remaining == 0 && *due > self.now);
        next.map_or(Time::MAX, |(_, due)| *due)
    }
}
