//! Lengths of the flights, compared with sums that are independent of the code: docs/explanation/web.md.

use bytes::Bytes;
use units::Time;

use super::TlsApp;
use crate::web::{ConnectRequest, HttpConnection, Protocol, TlsSpec, TlsVersion};
use crate::{App, AppEvent, AppNotification, ReadStatus, Streams};

/// HTTP without data.
struct Mute;

impl HttpConnection for Mute {
    fn start(&mut self, _: Time) {}
    fn receive(&mut self, _: Time, _: &[u8], _: &mut Vec<AppNotification>) {}
    fn send(&mut self, _: Time, _: usize, _: &mut Vec<u8>, _: &mut Vec<AppNotification>) {}
    fn has_data(&self) -> bool {
        false
    }
    fn poll_at(&self) -> Time {
        Time::MAX
    }
}

/// A stream that records written data and returns prepared data.
#[derive(Default)]
struct Pipe {
    incoming: Vec<u8>,
    read: u64,
    outgoing: Vec<u8>,
    notifications: Vec<AppNotification>,
}

impl Streams for Pipe {
    fn open(&mut self) -> Option<u64> {
        None
    }
    fn write(&mut self, _: u64, data: Bytes) -> usize {
        self.outgoing.extend_from_slice(&data);
        data.len()
    }
    fn read(&mut self, _: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        take(self.read, &self.incoming);
        self.read += self.incoming.len() as u64;
        self.incoming.clear();
        ReadStatus::Open
    }
    fn finish(&mut self, _: u64) {}
    fn reset(&mut self, _: u64) {}
    fn stop(&mut self, _: u64) {}
    fn notify(&mut self, notice: AppNotification) {
        self.notifications.push(notice);
    }
    fn write_budget(&self) -> usize {
        0
    }
    fn close(&mut self) {}
}

const HELLO: usize = 512;
const CHAIN: usize = 3000;

/// Returns the lengths of the flights, the client's first, and the number of flights that the client had sent or
/// received when requests were allowed.
fn flights(version: TlsVersion, resume: bool, early: bool) -> (Vec<usize>, usize) {
    let options = TlsSpec {
        version,
        resumption: resume,
        early_data: early,
        certificate_bytes: CHAIN as u32,
        client_hello_bytes: HELLO as u32,
    };
    let at = Time::ZERO;
    let protocol = Protocol::Http2;
    let dial = ConnectRequest {
        number: 0,
        host: 0,
        protocol,
        resume,
        early_data: early,
        profile: 0,
        opened_at: at,
    };
    let mut sides = [
        TlsApp::client(options, dial, Box::new(Mute)),
        TlsApp::server(options, Box::new(Mute), Box::new(Mute)),
    ];
    let mut pipes = [Pipe::default(), Pipe::default()];
    let (mut lengths, mut ready) = (Vec::new(), None);
    sides[0].on_event(at, AppEvent::Ready, &mut pipes[0]);
    sides[1].on_event(at, AppEvent::Ready, &mut pipes[1]);
    for turn in 0..8 {
        let (from, to) = (turn % 2, 1 - turn % 2);
        if pipes[0].notifications.contains(&AppNotification::Ready) {
            ready.get_or_insert(turn);
        }
        let flight = std::mem::take(&mut pipes[from].outgoing);
        if !flight.is_empty() {
            lengths.push(flight.len());
        }
        // In pieces: the result must not depend on the segmentation.
        for piece in flight.chunks(100) {
            pipes[to].incoming.extend_from_slice(piece);
            sides[to].on_event(at, AppEvent::Readable(0), &mut pipes[to]);
        }
    }
    (lengths, ready.unwrap_or(usize::MAX))
}

#[test]
fn flights_have_the_lengths_of_the_model() {
    let client = HELLO + 5;
    let server12 = 79 + (7 + CHAIN + 5) + 305 + 9;
    let server13 = 127 + 6 + 37 + (8 + CHAIN + 22) + 286 + 58;
    let full12 = vec![client, server12, 42 + 6 + 45, 191 + 6 + 45];
    let psk = 47 + 208;
    // Requests go before flight 0 is sent, with flight 2, or after flight 3.
    assert_eq!(flights(TlsVersion::Tls12, false, false), (full12.clone(), 4));
    assert_eq!(flights(TlsVersion::Tls12FalseStart, false, false), (full12, 2));
    let resumed12 = vec![client, 99 + 6 + 45, 6 + 45];
    assert_eq!(flights(TlsVersion::Tls12, true, false), (resumed12.clone(), 2));
    assert_eq!(flights(TlsVersion::Tls12FalseStart, true, false), (resumed12, 2));
    let full13 = vec![client, server13, 6 + 58, 2 * 255];
    assert_eq!(flights(TlsVersion::Tls13, false, false), (full13, 2));
    let resumed13 = vec![client + psk, 133 + 6 + 37 + 58, 6 + 58, 255];
    assert_eq!(flights(TlsVersion::Tls13, true, false), (resumed13, 2));
    let early = vec![client + psk + 4 + 6, 133 + 6 + 37 + 4 + 58, 26 + 58, 255];
    assert_eq!(flights(TlsVersion::Tls13, true, true), (early, 0));
}
