//! What a connection costs does not depend on how many others live.

use std::io::{Read as _, Write as _};

use serde_json::json;
use transport::quic::QuicSpec;

use super::*;
use crate::perf::{Reporter, Transport};

const OTHERS: usize = 200;

/// Silence is not looked at for so long that no test sees it.
fn plan() -> ServerPlan {
    let tcp = json!({"mss_bytes": null, "buffer_bytes": null, "idle_timeout_ns": 1_000_000_000_000_000_u64});
    let plan = json!({
        "listen": "127.0.0.1:0", "once": false, "certificate": null,
        "limits": {"connections": 2 * OTHERS, "handshakes": 4, "streams": 100},
        "transport": Transport::Tcp.name(), "quic": QuicSpec::default(), "tcp": tcp,
        "congestion": {"name": "cubic"}, "report": {"interval_ns": null, "csv": null, "json": true},
    });
    serde_json::from_value(plan).unwrap()
}

/// A server's side at work, and where its results go.
struct Served(Side, Out, Clock);

impl Served {
    fn turn(&mut self) {
        let Served(side, out, clock) = self;
        let span = side.wake_at().since(clock.now());
        side.sleep(span.min(Span::from_millis(1))).unwrap();
        side.turn(*clock).unwrap();
        side.settle(clock.now(), out).unwrap();
        side.look(false);
    }

    /// How often all but `but` were asked for their state.
    fn asked(&self, but: u64) -> u64 {
        let others = self.0.live.iter().filter(|(number, _)| **number != but);
        others.map(|(_, entry)| entry.connection.asked.get()).sum()
    }
}

fn served() -> Served {
    let plan = plan();
    let options = Options::new(&plan.tcp, &plan.congestion).unwrap();
    let listener = options.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let (tls, _) = crate::tls::server(None).unwrap();
    let side = Side::new(&plan, Arc::new(tls), options, listener).unwrap();
    let clock = Clock::start();
    let reporter = Reporter::new(&plan.report, Box::new(io::sink()), true).unwrap();
    let out = Out { reporter, frames: Frames::new(None, clock).unwrap(), next: 0 };
    Served(side, out, clock)
}

#[test]
fn others_are_not_looked_at_while_one_works() {
    let mut served = served();
    let address = served.0.local().unwrap();
    let mut clients = Vec::new();
    for _ in 0..=OTHERS {
        let mut client = TcpStream::connect(address).unwrap();
        // The first byte of a size: it is connected, and waits.
        client.write_all(&[0]).unwrap();
        clients.push(client);
        served.turn();
    }
    while served.0.measured().count() <= OTHERS {
        served.turn();
    }
    // What they have told of themselves is settled.
    served.turn();
    let one = *served.0.live.last_key_value().unwrap().0;
    let (before, mut moved) = (served.asked(one), 1);
    let client = clients.last_mut().unwrap();
    // A response of no bytes, and a request in pieces, each of which takes a turn.
    client.write_all(&[0; 7]).unwrap();
    for _ in 0..100 {
        client.write_all(&[1; 1000]).unwrap();
        moved += 1000;
        while served.0.live[&one].connection.moved() < moved {
            served.turn();
        }
    }
    assert!(served.0.live[&one].connection.asked.get() >= 100);
    assert_eq!(served.asked(one), before);
    // Its end is told, and of no other.
    client.shutdown(std::net::Shutdown::Write).unwrap();
    while served.0.live.contains_key(&one) {
        served.turn();
    }
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!((served.0.live.len(), served.asked(one)), (OTHERS, before));
}

/// The kernel sends what a program has written long before: its window grows though the program does nothing.
#[test]
fn who_sends_is_looked_at_until_all_is_acknowledged() {
    const BYTES: usize = 20_000_000;
    let mut served = served();
    let mut client = TcpStream::connect(served.0.local().unwrap()).unwrap();
    client.write_all(&(BYTES as u64).to_be_bytes()).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let sent = |served: &Served| {
        served.0.live.get(&0).map_or(0, |entry| entry.connection.last().written_bytes)
    };
    let mut last = None;
    while last != Some(sent(&served)) || sent(&served) == 0 {
        last = Some(sent(&served));
        (0..50).for_each(|_| served.turn());
    }
    let asked = served.asked(u64::MAX);
    assert!(served.0.worked.is_empty() && served.0.moved.contains(&0), "its kernel waits for room");
    served.0.look(false);
    assert!(served.asked(u64::MAX) > asked);
    let reads = std::thread::spawn(move || io::copy(&mut client, &mut io::sink()).unwrap());
    while !served.0.live.is_empty() {
        served.turn();
    }
    assert_eq!(reads.join().unwrap(), BYTES as u64);
    served.0.look(false);
    assert!(served.0.moved.is_empty());
}
