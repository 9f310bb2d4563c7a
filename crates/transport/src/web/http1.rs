//! HTTP/1.1 (RFC 9112) without pipelining: one request at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use units::{Span, Time};

use super::PageSpec;
use super::speaker::Speaker;
use crate::{Notice, Order};

/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// A head of `length` bytes that begins with `start`; longer if that is longer.
fn head(start: &str, length: usize) -> Vec<u8> {
    let mut head = format!("{start}\r\nX: ").into_bytes();
    head.resize(head.len().max(length.saturating_sub(END.len())), b'-');
    head.extend_from_slice(END);
    head
}

/// Takes a whole head off `buffer`.
fn take_head(buffer: &mut Vec<u8>) -> Option<String> {
    let end = buffer.windows(END.len()).position(|window| window == END)? + END.len();
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end);
    Some(head)
}

/// The browser's side.
pub(super) struct Client {
    page: Arc<PageSpec>,
    /// Objects to ask for.
    requests: VecDeque<u32>,
    started: bool,
    /// The object that was asked for.
    current: Option<u32>,
    buffer: Vec<u8>,
    /// Bytes of the body that are still to come, once its head has.
    left: Option<u64>,
    heard: bool,
}

impl Client {
    pub fn new(page: Arc<PageSpec>) -> Client {
        let (requests, buffer) = (VecDeque::new(), Vec::new());
        Client { page, requests, started: false, current: None, buffer, left: None, heard: false }
    }
}

impl Speaker for Client {
    fn start(&mut self, _now: Time) {
        self.started = true;
    }

    fn hear(&mut self, order: Order) {
        order.enter(&mut self.requests);
    }

    fn receive(&mut self, _now: Time, bytes: &[u8], said: &mut Vec<Notice>) {
        let Some(object) = self.current else { return };
        if !std::mem::replace(&mut self.heard, true) {
            said.push(Notice::Response(object));
        }
        self.buffer.extend_from_slice(bytes);
        if self.left.is_none() {
            let Some(head) = take_head(&mut self.buffer) else { return };
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            self.left = Some(length.and_then(|length| length.parse().ok()).unwrap_or(0));
        }
        let Some(left) = &mut self.left else { return };
        let taken = (*left).min(self.buffer.len() as u64);
        *left -= taken;
        self.buffer.drain(..taken as usize);
        said.push(Notice::Body(object, taken));
        if *left == 0 {
            said.push(Notice::End(object));
            self.current = None;
            self.left = None;
            self.heard = false;
        }
    }

    fn send(&mut self, _now: Time, _most: usize, out: &mut Vec<u8>, said: &mut Vec<Notice>) {
        if self.current.is_none()
            && let Some(object) = self.requests.pop_front()
        {
            let length = self.page.objects[object as usize].request_bytes as usize;
            out.extend(head(&format!("GET /{object} HTTP/1.1"), length));
            self.current = Some(object);
            said.push(Notice::Sent(object));
        }
    }

    fn has_data(&self) -> bool {
        self.started && self.current.is_none() && !self.requests.is_empty()
    }

    fn wake_at(&self) -> Time {
        Time::MAX
    }
}

/// The server's side.
pub(super) struct Server {
    page: Arc<PageSpec>,
    buffer: Vec<u8>,
    /// Objects to answer with, and when.
    due: VecDeque<(u32, Time)>,
    /// Bytes left of the body being sent.
    left: u64,
    now: Time,
}

impl Server {
    pub fn new(page: Arc<PageSpec>) -> Server {
        Server { page, buffer: Vec::new(), due: VecDeque::new(), left: 0, now: Time::ZERO }
    }
}

impl Speaker for Server {
    fn start(&mut self, now: Time) {
        self.now = now;
    }

    fn receive(&mut self, now: Time, bytes: &[u8], _said: &mut Vec<Notice>) {
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

    fn send(&mut self, now: Time, most: usize, out: &mut Vec<u8>, _said: &mut Vec<Notice>) {
        self.now = now;
        loop {
            let part = self.left.min(most.saturating_sub(out.len()) as u64);
            out.resize(out.len() + part as usize, 0);
            self.left -= part;
            if self.left > 0 {
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
            self.left = object.body_bytes;
        }
    }

    fn has_data(&self) -> bool {
        self.left > 0 || self.due.front().is_some_and(|(_, due)| *due <= self.now)
    }

    fn wake_at(&self) -> Time {
        let next = self.due.front().filter(|(_, due)| self.left == 0 && *due > self.now);
        next.map_or(Time::MAX, |(_, due)| *due)
    }
}
