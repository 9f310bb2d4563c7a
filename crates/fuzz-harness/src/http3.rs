//! A transport that runs a script of bytes and checks the behaviour of HTTP/3 on it: for property tests and for the
//! fuzzer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use programs::test_support::{
    AccessLog, BodyFiller, Http3App, LOW_WATERMARK, QuicServerContext, Resource, STREAM_WINDOW,
    Site,
};
use runtime::Clock;
use transport::{App, AppEvent, ReadStatus, Streams};
use units::{Span, Time};

/// The limit of a request header in bytes in this test.
const MAX_HEADER_BYTES: u32 = 4096;

/// The length of the largest object in bytes in this test.
const LARGE_OBJECT_BYTES: u64 = 300_000;

/// The limit of open requests per client in this test.
const MAX_OPEN_REQUESTS: usize = 16;

/// A GET of `/` and one of `/large`: static table, literals without Huffman coding.
const REQUESTS: [&[u8]; 2] =
    [b"\x01\x08\0\0\xd1\xd7\xc1\x50\x01o", b"\x01\x0f\0\0\xd1\xd7\x51\x06/large\x50\x01o"];

/// One stream of the scripted transport.
#[derive(Default)]
struct ScriptedStream {
    received: Vec<(u64, Vec<u8>)>,
    next: u64,
    finished: bool,
    reset: bool,
    stopped: bool,
    written: u64,
    ended: bool,
    /// All sent data is acknowledged: only then can the client open another stream (RFC 9000 section 4.6).
    acknowledged: bool,
    /// The client has stopped the stream.
    unwanted: bool,
}

/// The scripted transport.
#[derive(Default)]
struct ScriptedTransport {
    streams: BTreeMap<u64, ScriptedStream>,
    opened_uni: u64,
    write_budget: usize,
    /// The maximum of bytes per write.
    write_capacity: usize,
    close_code: Option<u64>,
}

impl Streams for ScriptedTransport {
    fn open(&mut self) -> Option<u64> {
        panic!("a server opens no request");
    }

    fn open_uni(&mut self) -> Option<u64> {
        let id = self.opened_uni * 4 + 3;
        self.opened_uni += 1;
        (id < 12).then(|| {
            self.streams.insert(id, ScriptedStream::default());
            id
        })
    }

    fn write(&mut self, stream: u64, data: Bytes) -> usize {
        assert!(self.close_code.is_none(), "written after closing");
        let pipe = self.streams.get_mut(&stream).expect("a stream that was opened");
        assert!(!pipe.ended, "written after the end of stream {stream}");
        let taken = data.len().min(self.write_capacity);
        self.write_capacity -= taken;
        pipe.written += taken as u64;
        taken
    }

    fn read(&mut self, stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        let Some(pipe) = self.streams.get_mut(&stream) else { return ReadStatus::Reset };
        assert!(!pipe.stopped, "read after stopping");
        if pipe.reset {
            return ReadStatus::Reset;
        }
        for (offset, data) in pipe.received.drain(..) {
            take(offset, &data);
        }
        if pipe.finished { ReadStatus::Finished } else { ReadStatus::Open }
    }

    fn finish(&mut self, stream: u64) {
        let pipe = self.streams.get_mut(&stream).expect("a stream that was opened");
        assert!(!std::mem::replace(&mut pipe.ended, true), "finished twice");
    }

    fn reset(&mut self, stream: u64) {
        let pipe = self.streams.get_mut(&stream).expect("a stream that was opened");
        let again = std::mem::replace(&mut pipe.ended, true);
        assert!(!again || pipe.unwanted, "reset after the end");
        pipe.acknowledged = true;
    }

    fn stop(&mut self, stream: u64) {
        let pipe = self.streams.get_mut(&stream).expect("a stream that was opened");
        assert!(!std::mem::replace(&mut pipe.stopped, true), "stopped twice");
    }

    fn write_budget(&self) -> usize {
        self.write_budget
    }

    fn close(&mut self) {
        self.close_with_code(0);
    }

    fn close_with_code(&mut self, code: u64) {
        assert!(self.close_code.replace(code).is_none(), "closed twice");
    }
}

fn context() -> Arc<QuicServerContext> {
    static SITE: OnceLock<Arc<Site>> = OnceLock::new();
    let site = SITE.get_or_init(|| {
        let resource = |bytes, think| Resource {
            location: None,
            content_type: "text/plain",
            body: BodyFiller::new().pieces(bytes).collect(),
            think_time: think,
            header_bytes: Some(300),
        };
        let resources = BTreeMap::from([
            ("/".to_owned(), resource(1000, Duration::ZERO)),
            ("/large".to_owned(), resource(LARGE_OBJECT_BYTES, Duration::from_millis(5))),
        ]);
        Arc::new(Site::new(resources, None, None))
    });
    Arc::new(QuicServerContext {
        site: site.clone(),
        log: Arc::new(AccessLog::default()),
        clock: Clock::start(),
        header_bytes: MAX_HEADER_BYTES,
        prefix: "q".to_owned(),
        peers: Mutex::default(),
    })
}

/// Runs one connection with a client that follows `script`. Panics on unbounded memory or on a call that the transport
/// forbids. Returns the number of completely answered requests, and the close code of the server.
pub fn exercise_http3(script: &[u8]) -> (u64, Option<u64>) {
    let context = context();
    let mut app = Http3App::new(0, context.clone());
    let mut pretended = ScriptedTransport {
        write_budget: 1 << 15,
        write_capacity: 1 << 16,
        ..ScriptedTransport::default()
    };
    let mut now = Time::ZERO;
    let (mut requests, mut unidirectional) = (0, 0);
    let mut rest = script;
    app.on_event(now, AppEvent::Ready, &mut pretended);
    while let [word, tail @ ..] = rest {
        rest = tail;
        if pretended.close_code.is_some() {
            break;
        }
        let mut take = |max: usize| {
            let length = max.min(rest.len());
            let (data, tail) = rest.split_at(length);
            rest = tail;
            data.to_vec()
        };
        let operation = word >> 4;
        let small = usize::from(word & 15);
        let stream_id =
            if operation & 1 == 0 { small as u64 * 4 } else { small as u64 % 4 * 4 + 2 };
        now += Span(1_000_000);
        match operation {
            // A complete request, or its start.
            0 | 1 => {
                let open = pretended.streams.iter();
                let open = open.filter(|(id, pipe)| **id & 3 == 0 && !pipe.acknowledged).count();
                if open >= MAX_OPEN_REQUESTS {
                    continue;
                }
                let id = requests * 4;
                requests += 1;
                let request = REQUESTS[small & 1].to_vec();
                let data = if operation == 0 { request } else { take(small * 8) };
                let pipe = ScriptedStream { finished: operation == 0, ..ScriptedStream::default() };
                pretended.streams.insert(id, pipe);
                push_data(&mut pretended, id, 0, data);
                app.on_event(now, AppEvent::StreamOpened(id), &mut pretended);
            }
            2 => {
                if unidirectional < 8 {
                    let id = unidirectional * 4 + 2;
                    unidirectional += 1;
                    pretended.streams.insert(id, ScriptedStream::default());
                    let data = take(small);
                    push_data(&mut pretended, id, 0, data);
                    app.on_event(now, AppEvent::StreamOpened(id), &mut pretended);
                }
            }
            // More data on a stream: in sequence, after a gap, or a large amount.
            3..=6 => {
                let gap = if operation == 5 { 3 } else { 0 };
                let data = if operation == 6 { vec![small as u8; 4000] } else { take(8) };
                if push_data(&mut pretended, stream_id, gap, data) {
                    app.on_event(now, AppEvent::Readable(stream_id), &mut pretended);
                }
            }
            7 | 8 => {
                let reset = operation == 8;
                if let Some(pipe) = pretended.streams.get_mut(&stream_id)
                    && stream_id & 1 == 0
                    && !pipe.stopped
                    && !pipe.finished
                    && !pipe.reset
                {
                    (pipe.finished, pipe.reset) = (!reset, reset);
                    app.on_event(now, AppEvent::Readable(stream_id), &mut pretended);
                }
            }
            9 => {
                if let Some(pipe) = pretended.streams.get_mut(&stream_id)
                    && stream_id & 3 == 0
                    && !std::mem::replace(&mut pipe.unwanted, true)
                {
                    let known = app.shared.lock().streams.contains_key(&stream_id);
                    app.on_event(now, AppEvent::Stopped(stream_id), &mut pretended);
                    assert!(
                        !known || pretended.streams[&stream_id].ended,
                        "a stopped stream stays open"
                    );
                }
            }
            10 => {
                if let Some(pipe) = pretended.streams.get_mut(&stream_id)
                    && pipe.ended
                {
                    pipe.acknowledged = true;
                    app.on_event(now, AppEvent::Finished(stream_id), &mut pretended);
                }
            }
            11 => {
                now += Span(small as u64 * 1_000_000);
                if app.poll_at() <= now {
                    app.on_event(now, AppEvent::Timer, &mut pretended);
                }
            }
            _ => {
                pretended.write_capacity = 1 << (small + 4);
                if app.has_data() {
                    app.on_event(now, AppEvent::Writable, &mut pretended);
                }
            }
        }
        check(&app);
    }
    if pretended.close_code.is_some() {
        app.on_event(now, AppEvent::Closed, &mut pretended);
        assert!(!app.has_data());
    }
    let answered = pretended
        .streams
        .iter()
        .filter(|(id, pipe)| **id & 3 == 0 && pipe.ended && pipe.written > 1000)
        .count();
    (answered as u64, pretended.close_code)
}

/// Adds data to a stream, `gap` bytes after the received data. Returns whether the stream accepts it.
fn push_data(pretended: &mut ScriptedTransport, id: u64, gap: u64, data: Vec<u8>) -> bool {
    let Some(pipe) = pretended.streams.get_mut(&id) else { return false };
    // The client does not write to streams of the server.
    if id & 1 == 1 || pipe.stopped || pipe.reset || (pipe.finished && pipe.next > 0) {
        return false;
    }
    let length = data.len() as u64;
    pipe.received.push((pipe.next + gap, data));
    pipe.next += length + gap;
    true
}

/// Checks that the memory used for the client is bounded.
fn check(app: &Http3App) {
    let state = app.shared.lock();
    assert!(
        state.streams.len() <= 2 * MAX_OPEN_REQUESTS + 16,
        "{} streams are kept",
        state.streams.len()
    );
    for (id, stream) in &state.streams {
        // One piece beyond the mark, and a header.
        assert!(
            stream.queued <= LOW_WATERMARK + (1 << 16) + 1000,
            "stream {id} queues {}",
            stream.queued
        );
    }
    let max_bytes = u64::from(MAX_HEADER_BYTES) + 2 * STREAM_WINDOW;
    assert!(state.max_unread() <= max_bytes || state.closed, "{}", state.max_unread());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Appends enough writes for all requested data.
    fn with_writing(mut script: Vec<u8>) -> Vec<u8> {
        script.extend([0xbf; 4]);
        script.extend([0xcf; 200]);
        script
    }

    #[test]
    fn requests_are_answered_completely_and_in_rotation() {
        let script = with_writing(vec![0x00, 0x01, 0x00]);
        assert_eq!(exercise_http3(&script), (3, None));
    }

    #[test]
    fn a_request_in_pieces_waits_for_its_end() {
        let mut script = vec![0x11];
        script.extend(&REQUESTS[0][..8]);
        assert_eq!(exercise_http3(&with_writing(script.clone())), (0, None));
        script.push(0x40);
        script.extend(&REQUESTS[0][8..]);
        // A frame of an unknown type fills the eight bytes (RFC 9114 section 7.2.8).
        script.extend([0x21, 3, 0, 0, 0]);
        assert_eq!(exercise_http3(&with_writing(script)), (1, None));
    }

    #[test]
    fn excess_data_and_excess_resets_close_the_connection() {
        // The header of a 64 MB frame, then its data.
        let script: Vec<u8> = [&[0x11, 0x01, 0x84, 0, 0, 0, 0, 0, 0][..], &[0x60; 64]].concat();
        assert_eq!(exercise_http3(&script), (0, Some(0x107)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn no_script_violates_a_check(script in proptest::collection::vec(any::<u8>(), 0..400)) {
            exercise_http3(&script);
        }
    }
}
