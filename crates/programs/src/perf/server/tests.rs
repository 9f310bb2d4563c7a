//! The cost of a connection does not depend on the number of other connections.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::json;
use transport::quic::QuicSpec;

use super::*;

const OTHERS: usize = 200;

/// An idle timeout that no test reaches.
fn plan() -> PerfServerPlan {
    let tcp = json!({"mss_bytes": null, "buffer_bytes": null, "idle_timeout_ns": 1_000_000_000_000_000_u64});
    let plan = json!({
        "listen": "127.0.0.1:0", "once": false, "certificate": null,
        "limits": {"connections": 2 * OTHERS, "handshakes": 4, "streams": 100},
        "transport": PerfTransport::Tcp.name(), "quic": QuicSpec::default(), "tcp": tcp,
        "congestion": {"name": "cubic"}, "report": {"interval_ns": null, "csv": null, "json": true},
    });
    serde_json::from_value(plan).unwrap()
}

/// A running server with its output.
struct Served(MeasuringServer, ReportOutput);

impl Served {
    fn start() -> Served {
        let server = MeasuringServer::bind(plan()).unwrap();
        let reporter = Reporter::new(&server.plan.report, Box::new(io::sink()), true).unwrap();
        let frames = FrameWriter::new(None, server.clock).unwrap();
        Served(server, ReportOutput { reporter, frames, next_number: 0 })
    }

    fn turn(&mut self) {
        let Served(server, out) = self;
        let soon = server.clock.now() + Span::from_millis(1);
        server.host.poll_once(soon).unwrap();
        server.report_changes(server.clock.now(), out).unwrap();
        self.sample();
    }

    fn sample(&mut self) {
        sample_reports(&mut self.0.host, &mut self.0.unsampled, false);
    }

    /// Returns the bytes that a connection has sent, and those that it has received.
    fn moved(&self, key: ConnectionKey) -> (u64, u64) {
        let report = self.0.host.report(key);
        report.map_or((0, 0), |it| (it.sender.written_bytes, it.sender.received_bytes))
    }

    /// Returns the number of queries of all connections except `but`.
    fn queries(&self, but: Option<ConnectionKey>) -> u64 {
        let others = self.0.host.connections().into_iter().filter(|key| Some(*key) != but);
        others.map(|key| self.0.host.query_count(key)).sum()
    }

    fn announced(&self) -> usize {
        self.0.connections.values().filter(|known| known.is_announced).count()
    }
}

#[test]
fn idle_connections_are_not_queried_while_one_is_active() {
    let mut served = Served::start();
    let address = served.0.local_addr().unwrap();
    let mut clients = Vec::new();
    for _ in 0..=OTHERS {
        let mut client = TcpStream::connect(address).unwrap();
        // The first byte of a size: the client is connected and waits.
        client.write_all(&[0]).unwrap();
        clients.push(client);
        served.turn();
    }
    while served.announced() <= OTHERS {
        served.turn();
    }
    // All pending changes are reported.
    served.turn();
    let one = *served.0.connections.last_key_value().unwrap().0;
    let (before, mut moved) = (served.queries(Some(one)), 1);
    let client = clients.last_mut().unwrap();
    // A response of 0 bytes, and a request in pieces with one poll each.
    client.write_all(&[0; 7]).unwrap();
    for _ in 0..100 {
        client.write_all(&[1; 1000]).unwrap();
        moved += 1000;
        while served.moved(one).1 < moved {
            served.turn();
        }
    }
    assert!(served.0.host.query_count(one) >= 100);
    assert_eq!(served.queries(Some(one)), before);
    // Only the end of this connection is reported.
    client.shutdown(std::net::Shutdown::Write).unwrap();
    while served.0.connections.contains_key(&one) {
        served.turn();
    }
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!((served.0.connections.len(), served.queries(Some(one))), (OTHERS, before));
}

/// The kernel sends data long after the program has written it: the window grows without work of the program.
#[test]
fn a_sending_connection_is_queried_until_all_data_is_acknowledged() {
    const BYTES: usize = 20_000_000;
    let mut served = Served::start();
    let mut client = TcpStream::connect(served.0.local_addr().unwrap()).unwrap();
    client.write_all(&(BYTES as u64).to_be_bytes()).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let key = ConnectionKey { interface: 0, connection: 0 };
    let mut last = None;
    while last != Some(served.moved(key).0) || served.moved(key).0 == 0 {
        last = Some(served.moved(key).0);
        (0..50).for_each(|_| served.turn());
    }
    let queries = served.queries(None);
    assert!(served.0.unsampled.contains(&key), "its kernel waits for room");
    assert!(served.0.host.take_changed().is_empty());
    served.sample();
    assert!(served.queries(None) > queries);
    let reads = std::thread::spawn(move || io::copy(&mut client, &mut io::sink()).unwrap());
    while !served.0.connections.is_empty() || served.announced() > 0 {
        served.turn();
    }
    assert_eq!(reads.join().unwrap(), BYTES as u64);
    served.sample();
    assert!(served.0.unsampled.is_empty());
}
