//! A server holds no memory of closed connections.

mod common;
#[path = "../../bundle/tests/memory/counting.rs"]
mod counting;
#[path = "../examples/many_connections/load.rs"]
mod load;

use std::alloc::System;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Running, Screen, quic, server_plan};
use counting::{Counting, used};
use load::Speaks;
use programs::http;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

const AT_ONCE: u64 = 4;

/// Number of measured connections.
const COUNT: u64 = 1000;

/// Tolerated bytes per connection, for the last growth of a table. An entry and an event per connection exceed it.
const MAX_BYTES: f64 = 40.0;

/// Returns the allocated bytes after the closing connections have expired (RFC 9000 section 10.2).
fn held() -> i64 {
    let mut min_used = i64::MAX;
    for _ in 0..8 {
        std::thread::sleep(Duration::from_millis(100));
        min_used = min_used.min(used() as i64);
    }
    min_used
}

/// Returns the bytes that `server` holds per closed connection.
fn grows(server: SocketAddr, speaks: Speaks, warm_up: u64, screen: &Screen) -> f64 {
    let round = |count: u64| {
        let outcome = load::run(server, speaks, count, AT_ONCE).unwrap();
        assert_eq!(outcome.answered, count, "{speaks:?}: {outcome:?}");
        screen.clear();
    };
    // Fills the session caches.
    round(warm_up);
    let mut before = held();
    // The growth of a table occurs in one round; memory per connection grows in each round.
    let mut min_bytes = f64::INFINITY;
    for _ in 0..3 {
        round(COUNT);
        let after = held();
        min_bytes = min_bytes.min((after - before) as f64 / COUNT as f64);
        if min_bytes < MAX_BYTES {
            break;
        }
        before = after;
    }
    min_bytes
}

/// A single test, because the allocator counts the memory of the whole process.
#[test]
fn servers_release_closed_connections() {
    let mut plan = server_plan();
    plan["once"] = json!(false);
    plan["limits"]["connections"] = json!(64);
    plan["report"]["json"] = json!(false);
    let server = Running::start(plan);
    let screen = server.screen.clone();
    for speaks in [Speaks::Quic, Speaks::Tcp, Speaks::Tls] {
        let bytes = grows(server.address, speaks, 300, &screen);
        println!("{speaks:?}: {bytes} bytes a connection");
        assert!(bytes < MAX_BYTES, "{speaks:?}: {bytes} bytes a connection");
    }
    server.end();

    let folder = std::env::temp_dir().join(format!("bentpipe-memory-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let plan = json!({
        "listen": ["127.0.0.1:0"], "content": {"root": folder}, "quic": quic(),
        "congestion": {"name": "cubic"},
    });
    let server = http::HttpServer::bind(serde_json::from_value(plan).unwrap()).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let stop = Arc::new(AtomicBool::new(false));
    let stopping = stop.clone();
    let thread = std::thread::spawn(move || server.run(&stopping, &mut Screen::default()));
    // The first two share a cache.
    for (speaks, warm_up) in [(Speaks::Http1, 4200), (Speaks::Http2, 100), (Speaks::Http3, 4200)] {
        let bytes = grows(address, speaks, warm_up, &Screen::default());
        println!("{speaks:?}: {bytes} bytes a connection");
        assert!(bytes < MAX_BYTES, "{speaks:?}: {bytes} bytes a connection");
    }
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}
