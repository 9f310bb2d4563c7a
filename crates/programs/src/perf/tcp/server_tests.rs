//! The cost of a connection does not depend on the number of other connections.

use std::io::{Read as _, Write as _};

use serde_json::json;
use transport::quic::QuicSpec;

use super::*;
use crate::perf::{PerfTransport, Reporter};

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

/// A running server part with its output.
struct Served(TcpPerfListener, ReportOutput, Clock);

impl Served {
    fn turn(&mut self) {
        let Served(side, out, clock) = self;
        let span = side.poll_at().since(clock.now());
        side.sleep(span.min(Span::from_millis(1))).unwrap();
        side.poll_once(*clock).unwrap();
        side.report_changes(clock.now(), out).unwrap();
        side.report_scopes(false);
    }

    /// Returns the number of state queries of all connections except `but`.
    fn asked(&self, but: u64) -> u64 {
        let others = self.0.connections.iter().filter(|(number, _)| **number != but);
        others.map(|(_, entry)| entry.connection.query_count.get()).sum()
    }
}

fn served() -> Served {
    let plan = plan();
    let options = PerfTcpOptions::new(&plan.tcp, &plan.congestion).unwrap();
    let listener = options.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let (tls, _) = runtime::tls::server_config(None).unwrap();
    let side = TcpPerfListener::new(&plan, Arc::new(tls), options, listener).unwrap();
    let clock = Clock::start();
    let reporter = Reporter::new(&plan.report, Box::new(io::sink()), true).unwrap();
    let out =
        ReportOutput { reporter, frames: FrameWriter::new(None, clock).unwrap(), next_number: 0 };
    Served(side, out, clock)
}

#[test]
fn idle_connections_are_not_queried_while_one_is_active() {
    let mut served = served();
    let address = served.0.local_addr().unwrap();
    let mut clients = Vec::new();
    for _ in 0..=OTHERS {
        let mut client = TcpStream::connect(address).unwrap();
        // The first byte of a size: the client is connected and waits.
        client.write_all(&[0]).unwrap();
        clients.push(client);
        served.turn();
    }
    while served.0.measured().count() <= OTHERS {
        served.turn();
    }
    // All pending changes are reported.
    served.turn();
    let one = *served.0.connections.last_key_value().unwrap().0;
    let (before, mut moved) = (served.asked(one), 1);
    let client = clients.last_mut().unwrap();
    // A response of 0 bytes, and a request in pieces with one poll each.
    client.write_all(&[0; 7]).unwrap();
    for _ in 0..100 {
        client.write_all(&[1; 1000]).unwrap();
        moved += 1000;
        while served.0.connections[&one].connection.transferred_bytes() < moved {
            served.turn();
        }
    }
    assert!(served.0.connections[&one].connection.query_count.get() >= 100);
    assert_eq!(served.asked(one), before);
    // Only the end of this connection is reported.
    client.shutdown(std::net::Shutdown::Write).unwrap();
    while served.0.connections.contains_key(&one) {
        served.turn();
    }
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!((served.0.connections.len(), served.asked(one)), (OTHERS, before));
}

/// The kernel sends data long after the program has written it: the window grows without work of the program.
#[test]
fn a_sending_connection_is_queried_until_all_data_is_acknowledged() {
    const BYTES: usize = 20_000_000;
    let mut served = served();
    let mut client = TcpStream::connect(served.0.local_addr().unwrap()).unwrap();
    client.write_all(&(BYTES as u64).to_be_bytes()).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let sent = |served: &Served| {
        served.0.connections.get(&0).map_or(0, |entry| entry.connection.last_report().written_bytes)
    };
    let mut last = None;
    while last != Some(sent(&served)) || sent(&served) == 0 {
        last = Some(sent(&served));
        (0..50).for_each(|_| served.turn());
    }
    let asked = served.asked(u64::MAX);
    assert!(
        served.0.changed.is_empty() && served.0.unsampled.contains(&0),
        "its kernel waits for room"
    );
    served.0.report_scopes(false);
    assert!(served.asked(u64::MAX) > asked);
    let reads = std::thread::spawn(move || io::copy(&mut client, &mut io::sink()).unwrap());
    while !served.0.connections.is_empty() {
        served.turn();
    }
    assert_eq!(reads.join().unwrap(), BYTES as u64);
    served.0.report_scopes(false);
    assert!(served.0.unsampled.is_empty());
}
