//! Clients that occupy all connections of a server without traffic. Others still connect, and active connections stay.

mod common;
#[path = "../examples/many_connections/load.rs"]
mod load;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use common::{Running, Screen, data, over, quic, run_client, server_plan, time};
use load::{QuicClient, Speaks};
use programs::http;
use programs::perf::{MeasuringClient, PerfPlan};
use serde_json::{Value, json};
use units::Span;

const MAX_CONNECTIONS: u64 = 16;

fn lasting(connections: u64) -> Running {
    let mut plan = server_plan();
    plan["once"] = json!(false);
    plan["limits"] = json!({"connections": connections, "handshakes": 64, "streams": 100});
    Running::start(plan)
}

/// Opens sockets and writes `words` on each.
fn wave(server: SocketAddr, count: u64, words: &[u8]) -> Vec<TcpStream> {
    let connect = |_| {
        let mut socket = TcpStream::connect(server).unwrap();
        let _ = socket.write_all(words);
        socket
    };
    (0..count).map(connect).collect()
}

/// QUIC connections that stay idle, and reconnect after an eviction, until the drop.
struct Squatters {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Squatters {
    fn new(server: SocketAddr, speaks: Speaks) -> Squatters {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopping, ready) = (stop.clone(), Arc::new(AtomicBool::new(false)));
        let all_connected = ready.clone();
        let thread = std::thread::spawn(move || {
            let mut client = QuicClient::new(server, speaks, false).unwrap();
            while !stopping.load(Ordering::Relaxed) {
                while (client.open() as u64) < MAX_CONNECTIONS {
                    client.dial().unwrap();
                }
                client.turn(Span::from_millis(10)).unwrap();
                all_connected
                    .fetch_or(client.connected() as u64 == MAX_CONNECTIONS, Ordering::Relaxed);
            }
        });
        while !ready.load(Ordering::Relaxed) {
            assert!(!thread.is_finished(), "the squatters are gone");
            std::thread::sleep(Duration::from_millis(5));
        }
        Squatters { stop, thread: Some(thread) }
    }
}

impl Drop for Squatters {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

fn asks_once(server: SocketAddr, speaks: Speaks) {
    let outcome = load::run(server, speaks, 1, 1).unwrap();
    assert_eq!(outcome.answered, 1, "{speaks:?}");
}

#[test]
fn slow_clients_do_not_block_the_perf_server() {
    let server = lasting(MAX_CONNECTIONS);
    let address = server.address;
    for words in [&[][..], &[0], &[22, 3, 1]] {
        // More than the connection limit, several times. The last ones send a byte periodically.
        let first = wave(address, 2 * MAX_CONNECTIONS, words);
        asks_once(address, Speaks::Tcp);
        let mut trickling = wave(address, 2 * MAX_CONNECTIONS, words);
        let over = Arc::new(AtomicBool::new(false));
        let stop = over.clone();
        let trickle = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                trickling.iter_mut().for_each(|socket| drop(socket.write_all(&[0])));
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        asks_once(address, Speaks::Tls);
        asks_once(address, Speaks::Tcp);
        over.store(true, Ordering::Relaxed);
        trickle.join().unwrap();
        drop(first);
    }
    let squatters = Squatters::new(address, Speaks::Quic);
    asks_once(address, Speaks::Quic);
    asks_once(address, Speaks::Quic);
    drop(squatters);
    let rows = server.end();
    let was_evicted =
        |row: &&Value| row["end"].as_str().unwrap().contains("replaced this slow one");
    let of = |transport: &str| {
        rows.iter().filter(|row| row["transport"] == transport).filter(was_evicted).count()
    };
    assert!(of("tcp") > 0 && of("quic") > 0, "{rows:?}");
}

#[test]
fn active_clients_are_not_evicted() {
    for transport in ["tcp", "quic"] {
        // Repeated with a longer time if the machine delayed the fourth client until others had ended.
        let mut each = [2500, 5000, 10_000, 20_000].into_iter();
        assert!(each.any(|millis| stay(transport, millis)), "{transport}: never four at once");
    }
}

/// Runs three active clients for `millis`, then a fourth. Returns whether the three outlasted the fourth.
fn stay(transport: &str, millis: u64) -> bool {
    let server = lasting(3);
    let port = server.address.port();
    let busy: Vec<_> = (0..3)
        .map(|_| {
            let mut plan = over(transport, port, json!([time(0, millis, "up")]));
            plan["report"]["interval_ns"] = json!(50_000_000);
            plan["report"]["json"] = json!(false);
            let PerfPlan::Client(plan) = serde_json::from_value(plan).unwrap() else {
                panic!("a client's plan")
            };
            let screen = Screen::default();
            let out = Box::new(screen.clone());
            let run = move || {
                MeasuringClient::start(plan)
                    .and_then(|client| client.run(&AtomicBool::new(false), out))
            };
            (screen, std::thread::spawn(run))
        })
        .collect();
    // A client prints from its connection on.
    while busy.iter().any(|(screen, thread)| screen.text().is_empty() && !thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(1200));
    let (_, fourth) = run_client(over(transport, port, json!([data(0, None, 10, 10)])));
    let there = busy.iter().all(|(_, thread)| !thread.is_finished());
    for (_, client) in busy {
        let done = client.join().unwrap();
        assert!(!done.unwrap(), "{transport}: all that is busy comes to its end");
    }
    server.end();
    if there {
        let message = fourth.unwrap_err().to_string();
        assert!(message.contains("connection limit"), "{message}");
    }
    there
}

/// A connection with much traffic long ago is evicted for the first new one, without an intermediate check.
#[test]
fn a_formerly_active_connection_is_evicted() {
    let server = lasting(3);
    let address = server.address;
    let once = wave(address, 3, &[0; 20_000]);
    std::thread::sleep(Duration::from_millis(2500));
    asks_once(address, Speaks::Tcp);
    drop(once);
    server.end();
}

/// A single client with `--once`: it is never evicted, even if it is slow.
#[test]
fn the_single_client_is_not_evicted() {
    let server = Running::start(server_plan());
    let mut slow = TcpStream::connect(server.address).unwrap();
    slow.write_all(&[0]).unwrap();
    std::thread::sleep(Duration::from_millis(700));
    drop(wave(server.address, 20, &[0]));
    slow.write_all(&[0, 0, 0, 0, 0, 0, 5]).unwrap();
    slow.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = Vec::new();
    slow.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 5);
    server.end();
}

#[test]
fn idle_connections_do_not_block_the_page_server() {
    let folder = std::env::temp_dir().join(format!("bentpipe-floods-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let plan = json!({
        "listen": ["127.0.0.1:0"], "content": {"root": folder}, "quic": quic(),
        "congestion": {"name": "cubic"}, "limits": {"connections": MAX_CONNECTIONS},
    });
    let server = http::HttpServer::bind(serde_json::from_value(plan).unwrap()).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    let thread = std::thread::spawn(move || server.run(&stopping, &mut Screen::default()));
    for words in [&[][..], &[22, 3, 1], b"GET / HTTP/1.1\r\n"] {
        for _ in 0..2 {
            let idle = wave(address, 2 * MAX_CONNECTIONS, words);
            asks_once(address, Speaks::Http1);
            asks_once(address, Speaks::Http2);
            drop(idle);
        }
    }
    let squatters = Squatters::new(address, Speaks::Http3);
    asks_once(address, Speaks::Http3);
    asks_once(address, Speaks::Http3);
    drop(squatters);
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
