//! TLS records within a connection: those of rustls with the keys of a node, compared with the model of virtual time.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use runtime::tls::ServerVerification;
use rustls::pki_types::{IpAddr, ServerName};
use rustls::{ClientConnection, ServerConnection};
use transport::perf_load::StreamReport;
use transport::tls::StartTlsApp;
use transport::{App, AppEvent, ReadStatus, Streams};
use units::Time;

/// Type and total length of a record.
type Record = (u8, usize);

fn records(mut bytes: &[u8]) -> Vec<Record> {
    let mut found = Vec::new();
    while let [kind, _, _, high, low, ..] = *bytes {
        let length = 5 + usize::from(u16::from_be_bytes([high, low]));
        found.push((kind, length));
        bytes = &bytes[length..];
    }
    found
}

/// The writes of an application after the handshake.
const PIECES: [usize; 2] = [20_000, 100];

/// Returns the records of each flight, client first. The last client flight contains [`PIECES`] and the close alert.
fn by_rustls() -> Vec<Vec<Record>> {
    let (client, mut server) =
        runtime::peer_identity::build_tls_configs(None, None, ServerVerification::AcceptAny, false)
            .unwrap();
    server.send_tls13_tickets = 0;
    let name = ServerName::IpAddress(IpAddr::from(std::net::IpAddr::from([127, 0, 0, 1])));
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    let mut flights = Vec::new();
    for turn in 0..2 {
        let mut out = Vec::new();
        client.write_tls(&mut out).unwrap();
        if turn == 1 {
            for piece in PIECES {
                client.writer().write_all(&vec![0; piece]).unwrap();
            }
            client.send_close_notify();
        }
        while client.wants_write() {
            client.write_tls(&mut out).unwrap();
        }
        flights.push(records(&out));
        server.read_tls(&mut &out[..]).unwrap();
        server.process_new_packets().unwrap();
        let mut out = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut out).unwrap();
        }
        flights.push(records(&out));
        client.read_tls(&mut &out[..]).unwrap();
        client.process_new_packets().unwrap();
    }
    flights
}

/// Starts TLS at once, and writes [`PIECES`] when it is ready.
struct Asks {
    writes: bool,
}

impl App for Asks {
    fn on_event(&mut self, _now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            AppEvent::StreamOpened(_) => assert!(streams.start_tls()),
            AppEvent::Ready if self.writes => {
                for piece in PIECES {
                    assert_eq!(streams.write(0, vec![0; piece].into()), piece);
                }
                streams.finish(0);
            }
            _ => {}
        }
    }

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        false
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &[]
    }
}

/// The bytes of one direction.
#[derive(Default)]
struct Pipe {
    out: Vec<u8>,
    incoming: Vec<u8>,
}

impl Streams for Pipe {
    fn open(&mut self) -> Option<u64> {
        None
    }

    fn write(&mut self, _stream: u64, data: Bytes) -> usize {
        self.out.extend_from_slice(&data);
        data.len()
    }

    fn read(&mut self, _stream: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        take(0, &std::mem::take(&mut self.incoming));
        ReadStatus::Open
    }

    fn finish(&mut self, _stream: u64) {}

    fn reset(&mut self, _stream: u64) {}

    fn stop(&mut self, _stream: u64) {}

    fn write_budget(&self) -> usize {
        0
    }

    fn close(&mut self) {}
}

fn in_virtual_time() -> Vec<Vec<Record>> {
    let mut sides = [true, false].map(|client| {
        (StartTlsApp::new(Box::new(Asks { writes: client }), client), Pipe::default())
    });
    for (app, pipe) in &mut sides {
        app.on_event(Time(0), AppEvent::StreamOpened(0), pipe);
    }
    let mut flights = Vec::new();
    for turn in 0..4 {
        let out = std::mem::take(&mut sides[turn % 2].1.out);
        flights.push(records(&out));
        let (app, pipe) = &mut sides[1 - turn % 2];
        pipe.incoming = out;
        app.on_event(Time(0), AppEvent::Readable(0), pipe);
    }
    flights
}

#[test]
fn virtual_time_has_the_records_of_rustls() {
    let (real, modelled) = (by_rustls(), in_virtual_time());
    assert_eq!(real.iter().map(Vec::len).collect::<Vec<_>>(), [1, 3, 6, 0]);
    assert_eq!(modelled.len(), real.len());
    for (turn, (real, modelled)) in real.iter().zip(&modelled).enumerate() {
        assert_eq!(real.len(), modelled.len(), "turn {turn}: {real:?} {modelled:?}");
        for (index, (real, modelled)) in real.iter().zip(modelled).enumerate() {
            // Two ECDSA signatures in DER: 70 bytes each, give or take two.
            let signed = turn == 1 && index == 2;
            let apart = real.1.abs_diff(modelled.1);
            assert!(
                real.0 == modelled.0 && apart <= if signed { 6 } else { 0 },
                "{real:?} {modelled:?}"
            );
        }
    }
}
