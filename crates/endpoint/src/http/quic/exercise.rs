//! A transport that does what a script of bytes says, and checks what HTTP/3 does on it: for property tests
//! and for the fuzzer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use transport::{App, AppEvent, ReadEnd, Streams};
use units::{Span, Time};

use super::state::{LOW, WINDOW};
use super::{Context, WebApp};
use crate::Clock;
use crate::http::filler::Filler;
use crate::http::log::AccessLog;
use crate::http::site::{Resource, Site};

/// Most bytes of a request's header there.
const HEADER: u32 = 4096;

/// Bytes of the largest object there.
const LARGEST: u64 = 300_000;

/// Requests a client may have open there.
const STREAMS: usize = 16;

/// A GET of `/` and one of `/large`: static table, literals without Huffman coding.
const REQUESTS: [&[u8]; 2] =
    [b"\x01\x08\0\0\xd1\xd7\xc1\x50\x01o", b"\x01\x0f\0\0\xd1\xd7\x51\x06/large\x50\x01o"];

/// One stream of the pretended transport.
#[derive(Default)]
struct Pipe {
    arrived: Vec<(u64, Vec<u8>)>,
    next: u64,
    finished: bool,
    reset: bool,
    stopped: bool,
    written: u64,
    ended: bool,
    /// All that was sent on it has been acknowledged: only then may the client open another (RFC 9000 section 4.6).
    acknowledged: bool,
    /// The client wants no more.
    unwanted: bool,
}

/// The pretended transport.
#[derive(Default)]
struct Pretended {
    pipes: BTreeMap<u64, Pipe>,
    own: u64,
    appetite: usize,
    /// Bytes that a write takes at most.
    room: usize,
    closed: Option<u64>,
}

impl Streams for Pretended {
    fn open(&mut self) -> Option<u64> {
        panic!("a server opens no request");
    }

    fn open_uni(&mut self) -> Option<u64> {
        let id = self.own * 4 + 3;
        self.own += 1;
        (id < 12).then(|| {
            self.pipes.insert(id, Pipe::default());
            id
        })
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        assert!(self.closed.is_none(), "written after closing");
        let pipe = self.pipes.get_mut(&stream).expect("a stream that was opened");
        assert!(!pipe.ended, "written after the end of stream {stream}");
        let taken = data.len().min(self.room);
        self.room -= taken;
        pipe.written += taken as u64;
        taken
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadEnd {
        let Some(pipe) = self.pipes.get_mut(&stream) else { return ReadEnd::Reset };
        assert!(!pipe.stopped, "read after stopping");
        if pipe.reset {
            return ReadEnd::Reset;
        }
        for (offset, data) in pipe.arrived.drain(..) {
            take(offset, &data);
        }
        if pipe.finished { ReadEnd::Finished } else { ReadEnd::Open }
    }

    fn finish(&mut self, stream: u64) {
        let pipe = self.pipes.get_mut(&stream).expect("a stream that was opened");
        assert!(!std::mem::replace(&mut pipe.ended, true), "finished twice");
    }

    fn reset(&mut self, stream: u64) {
        let pipe = self.pipes.get_mut(&stream).expect("a stream that was opened");
        let again = std::mem::replace(&mut pipe.ended, true);
        assert!(!again || pipe.unwanted, "reset after the end");
        pipe.acknowledged = true;
    }

    fn stop(&mut self, stream: u64) {
        let pipe = self.pipes.get_mut(&stream).expect("a stream that was opened");
        assert!(!std::mem::replace(&mut pipe.stopped, true), "stopped twice");
    }

    fn appetite(&self) -> usize {
        self.appetite
    }

    fn close(&mut self) {
        self.close_with(0);
    }

    fn close_with(&mut self, code: u64) {
        assert!(self.closed.replace(code).is_none(), "closed twice");
    }
}

fn context() -> Arc<Context> {
    static SITE: OnceLock<Arc<Site>> = OnceLock::new();
    let site = SITE.get_or_init(|| {
        let resource = |bytes, think| Resource {
            location: None,
            content_type: "text/plain",
            body: Filler::new().pieces(bytes).collect(),
            think,
            header_bytes: Some(300),
        };
        let resources = BTreeMap::from([
            ("/".to_owned(), resource(1000, Duration::ZERO)),
            ("/large".to_owned(), resource(LARGEST, Duration::from_millis(5))),
        ]);
        Arc::new(Site::new(resources, None, None))
    });
    Arc::new(Context {
        site: site.clone(),
        log: Arc::new(AccessLog::default()),
        clock: Clock::start(),
        header_bytes: HEADER,
        prefix: "q".to_owned(),
        peers: Mutex::default(),
    })
}

/// One connection as a client that does what `script` says would have it. Panics where something is kept
/// without bound, or done that the transport does not allow. Returns the requests that were answered whole,
/// and the code that the server closed the connection with.
#[doc(hidden)]
pub fn exercise(script: &[u8]) -> (u64, Option<u64>) {
    let context = context();
    let mut app = WebApp::new(0, context.clone());
    let mut pretended = Pretended { appetite: 1 << 15, room: 1 << 16, ..Pretended::default() };
    let mut now = Time::ZERO;
    let (mut requests, mut unidirectional) = (0, 0);
    let mut rest = script;
    app.on(now, AppEvent::Ready, &mut pretended);
    while let [word, tail @ ..] = rest {
        rest = tail;
        if pretended.closed.is_some() {
            break;
        }
        let mut take = |most: usize| {
            let length = most.min(rest.len());
            let (data, tail) = rest.split_at(length);
            rest = tail;
            data.to_vec()
        };
        let operation = word >> 4;
        let small = usize::from(word & 15);
        let place = if operation & 1 == 0 { small as u64 * 4 } else { small as u64 % 4 * 4 + 2 };
        now += Span(1_000_000);
        match operation {
            // A request whole, or its beginning.
            0 | 1 => {
                let open = pretended.pipes.iter();
                let open = open.filter(|(id, pipe)| **id & 3 == 0 && !pipe.acknowledged).count();
                if open >= STREAMS {
                    continue;
                }
                let id = requests * 4;
                requests += 1;
                let request = REQUESTS[small & 1].to_vec();
                let data = if operation == 0 { request } else { take(small * 8) };
                let pipe = Pipe { finished: operation == 0, ..Pipe::default() };
                pretended.pipes.insert(id, pipe);
                arrive(&mut pretended, id, 0, data);
                app.on(now, AppEvent::Opened(id), &mut pretended);
            }
            2 => {
                if unidirectional < 8 {
                    let id = unidirectional * 4 + 2;
                    unidirectional += 1;
                    pretended.pipes.insert(id, Pipe::default());
                    let data = take(small);
                    arrive(&mut pretended, id, 0, data);
                    app.on(now, AppEvent::Opened(id), &mut pretended);
                }
            }
            // More on a stream, in order, after a gap, or a lot.
            3..=6 => {
                let gap = if operation == 5 { 3 } else { 0 };
                let data = if operation == 6 { vec![small as u8; 4000] } else { take(8) };
                if arrive(&mut pretended, place, gap, data) {
                    app.on(now, AppEvent::Readable(place), &mut pretended);
                }
            }
            7 | 8 => {
                let reset = operation == 8;
                if let Some(pipe) = pretended.pipes.get_mut(&place)
                    && place & 1 == 0
                    && !pipe.stopped
                    && !pipe.finished
                    && !pipe.reset
                {
                    (pipe.finished, pipe.reset) = (!reset, reset);
                    app.on(now, AppEvent::Readable(place), &mut pretended);
                }
            }
            9 => {
                if let Some(pipe) = pretended.pipes.get_mut(&place)
                    && place & 3 == 0
                    && !std::mem::replace(&mut pipe.unwanted, true)
                {
                    let known = app.shared.lock().streams.contains_key(&place);
                    app.on(now, AppEvent::Stopped(place), &mut pretended);
                    assert!(!known || pretended.pipes[&place].ended, "a stopped stream stays open");
                }
            }
            10 => {
                if let Some(pipe) = pretended.pipes.get_mut(&place)
                    && pipe.ended
                {
                    pipe.acknowledged = true;
                    app.on(now, AppEvent::Finished(place), &mut pretended);
                }
            }
            11 => {
                now += Span(small as u64 * 1_000_000);
                if app.wake_at() <= now {
                    app.on(now, AppEvent::Timer, &mut pretended);
                }
            }
            _ => {
                pretended.room = 1 << (small + 4);
                if app.has_data() {
                    app.on(now, AppEvent::WantData, &mut pretended);
                }
            }
        }
        app.check();
    }
    if pretended.closed.is_some() {
        app.on(now, AppEvent::Closed, &mut pretended);
        assert!(!app.has_data());
    }
    let answered = pretended
        .pipes
        .iter()
        .filter(|(id, pipe)| **id & 3 == 0 && pipe.ended && pipe.written > 1000)
        .count();
    (answered as u64, pretended.closed)
}

/// Puts data into a stream, `gap` bytes beyond what has come; whether the stream takes any.
fn arrive(pretended: &mut Pretended, id: u64, gap: u64, data: Vec<u8>) -> bool {
    let Some(pipe) = pretended.pipes.get_mut(&id) else { return false };
    // Streams of the server's own are not written by the client.
    if id & 1 == 1 || pipe.stopped || pipe.reset || (pipe.finished && pipe.next > 0) {
        return false;
    }
    let length = data.len() as u64;
    pipe.arrived.push((pipe.next + gap, data));
    pipe.next += length + gap;
    true
}

impl WebApp {
    /// What is kept for the client is bounded.
    fn check(&self) {
        let state = self.shared.lock();
        assert!(
            state.streams.len() <= 2 * STREAMS + 16,
            "{} streams are kept",
            state.streams.len()
        );
        for (id, stream) in &state.streams {
            // One piece beyond the mark, and a header.
            assert!(
                stream.queued <= LOW + (1 << 16) + 1000,
                "stream {id} queues {}",
                stream.queued
            );
        }
        let most = u64::from(HEADER) + 2 * WINDOW;
        assert!(state.largest_unread() <= most || state.closed, "{}", state.largest_unread());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Enough turns of writing for everything that was asked for.
    fn with_writing(mut script: Vec<u8>) -> Vec<u8> {
        script.extend([0xbf; 4]);
        script.extend([0xcf; 200]);
        script
    }

    #[test]
    fn requests_are_answered_whole_and_in_turn() {
        let script = with_writing(vec![0x00, 0x01, 0x00]);
        assert_eq!(exercise(&script), (3, None));
    }

    #[test]
    fn a_request_in_pieces_waits_for_its_end() {
        let mut script = vec![0x11];
        script.extend(&REQUESTS[0][..8]);
        assert_eq!(exercise(&with_writing(script.clone())), (0, None));
        script.push(0x40);
        script.extend(&REQUESTS[0][8..]);
        // A frame of an unknown type fills the eight bytes (RFC 9114 section 7.2.8).
        script.extend([0x21, 3, 0, 0, 0]);
        assert_eq!(exercise(&with_writing(script)), (1, None));
    }

    #[test]
    fn too_much_and_too_many_resets_end_it() {
        // A frame of 64 MB begins, and comes.
        let script: Vec<u8> = [&[0x11, 0x01, 0x84, 0, 0, 0, 0, 0, 0][..], &[0x60; 64]].concat();
        assert_eq!(exercise(&script), (0, Some(0x107)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn no_script_breaks_it(script in proptest::collection::vec(any::<u8>(), 0..400)) {
            exercise(&script);
        }
    }
}
