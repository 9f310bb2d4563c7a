//! External errors: each has one clear message, and a server survives it.

use std::net::UdpSocket;
use std::time::Duration;

use crate::common::{Running, client_plan, data, measured, quic, run_client, server_plan, time};
use programs::perf::{MeasuringServer, PerfPlan};
use serde_json::json;
use units::{RandomStream, Span, Time};

/// Returns the resident memory of this process in bytes (proc(5)).
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Builds a long-header Initial packet of QUIC version 1 without valid encryption.
fn initial(random: &mut RandomStream, length: usize) -> Vec<u8> {
    let mut packet = vec![0; length.max(64)];
    random.fill(&mut packet);
    packet[0] = 0xc0 | (packet[0] & 0x03);
    packet[1..5].copy_from_slice(&1_u32.to_be_bytes());
    packet[5] = 8;
    packet[14] = 8;
    packet[23] = 0;
    let rest = (packet.len() - 26) as u16;
    packet[24..26].copy_from_slice(&(0x4000 | rest).to_be_bytes());
    packet.truncate(length);
    packet
}

#[test]
fn a_server_survives_hostile_datagrams() {
    let mut plan = server_plan();
    plan["once"] = json!(false);
    let server = Running::start(plan);
    let before = memory();
    let mut random = RandomStream::named(1, "hostile", "datagrams");
    for round in 0..200 {
        // A new source port per round, so each round is a new peer.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        for length in [0, 1, 20, 21, 64, 300, 1199, 1200, 1452, 9000] {
            let mut noise = vec![0; length];
            random.fill(&mut noise);
            socket.send_to(&noise, server.address).unwrap();
            socket.send_to(&initial(&mut random, length), server.address).unwrap();
            let mut other_version = initial(&mut random, length);
            if let Some(byte) = other_version.get_mut(4) {
                *byte = 0x7f;
            }
            socket.send_to(&other_version, server.address).unwrap();
        }
        if round % 20 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let summary = measured(client_plan(server.address.port(), json!([data(0, None, 1000, 1000)])));
    assert_eq!(summary["down_bytes"], 1000);
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    assert_eq!(server.end().len(), 1, "noise is no connection");
}

/// Real Initial packets of clients that never reply. Beyond a number of handshakes the server requests address
/// validation (Retry), which real clients complete.
#[test]
fn silent_clients_do_not_block_others() {
    let mut plan = server_plan();
    plan["once"] = json!(false);
    plan["limits"] = json!({"connections": 8, "handshakes": 2, "streams": 100});
    let server = Running::start(plan);
    // A captured Initial packet.
    let trap = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = trap.local_addr().unwrap().port();
    let mut first = Vec::new();
    for _ in 0..12 {
        let mut plan = client_plan(port, json!([data(0, None, 10, 10)]));
        plan["timeout_ns"] = json!(20_000_000);
        let (_, lost) = run_client(plan);
        assert!(lost.unwrap_err().to_string().contains("no answer within 0.02 s"));
        let mut packet = vec![0; 2000];
        let (length, _) = trap.recv_from(&mut packet).unwrap();
        packet.truncate(length);
        first.push(packet);
        while trap.set_nonblocking(true).is_ok() && trap.recv_from(&mut [0; 2000]).is_ok() {}
        trap.set_nonblocking(false).unwrap();
    }
    let mut retries = 0;
    for packet in &first {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket.send_to(packet, server.address).unwrap();
        let mut answer = [0; 2000];
        let length = socket.recv(&mut answer).unwrap();
        assert!(length > 20);
        // Long header, type Retry (RFC 9000 section 17.2.5).
        retries += usize::from(answer[0] & 0xf0 == 0xf0);
    }
    assert_eq!(retries, first.len() - 2);
    let summary = measured(client_plan(server.address.port(), json!([data(0, None, 10, 10)])));
    assert_eq!(summary["down_bytes"], 10);
    server.end();
}

#[test]
fn an_absent_server_is_reported() {
    // Bound and silent: the handshake times out.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut plan = client_plan(silent.local_addr().unwrap().port(), json!([data(0, None, 10, 10)]));
    plan["timeout_ns"] = json!(300_000_000);
    let clock = runtime::Clock::start();
    let (_, lost) = run_client(plan);
    let message = lost.unwrap_err().to_string();
    assert!(message.contains("no answer within 0.3 s"), "{message}");
    assert!(clock.now() < Time::ZERO + Span::from_secs(2));
    // Closed: the kernel reports it at once.
    let port = silent.local_addr().unwrap().port();
    drop(silent);
    let (_, closed) = run_client(client_plan(port, json!([data(0, None, 10, 10)])));
    let message = closed.unwrap_err().to_string();
    assert!(message.contains("connection refused"), "{message}");
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut plan = server_plan();
    plan["listen"] = json!(taken.local_addr().unwrap().to_string());
    let PerfPlan::Server(plan) = serde_json::from_value(plan).unwrap() else { panic!() };
    let message = MeasuringServer::bind(plan).err().unwrap().to_string();
    let port = taken.local_addr().unwrap().port();
    assert!(message.contains(&format!("UDP port {port} is in use")), "{message}");
}

#[test]
fn a_stopped_server_is_detected() {
    let mut plan = server_plan();
    plan["once"] = json!(false);
    let server = Running::start(plan);
    let port = server.address.port();
    let client =
        std::thread::spawn(move || run_client(client_plan(port, json!([time(0, 30_000, "up")]))));
    std::thread::sleep(Duration::from_millis(300));
    let rows = server.end();
    assert_eq!(rows[0]["end"], "interrupted");
    assert!(rows[0]["down_bytes"].as_u64().unwrap() > 0);
    let (_, result) = client.join().unwrap();
    let message = result.unwrap_err().to_string();
    assert!(message.contains("closed the connection before the end of the load"), "{message}");
}

#[test]
fn names_are_checked() {
    let mut plan = client_plan(4433, json!([data(0, None, 10, 10)]));
    plan["congestion"] = json!({"name": "cubik"});
    let message = run_client(plan).1.unwrap_err().to_string();
    assert!(message.contains("did you mean \"cubic\"?"), "{message}");
    let mut plan = client_plan(4433, json!([data(0, None, 10, 10)]));
    plan["host"] = json!("192.0.2.1");
    let message = run_client(plan).1.unwrap_err().to_string();
    assert!(message.contains("--fingerprint"), "{message}");
}

/// A client that opens more streams than allowed gets responses on the allowed ones.
#[test]
fn streams_beyond_the_limit_are_refused() {
    let mut plan = server_plan();
    plan["limits"]["streams"] = json!(3);
    plan["quic"] = quic();
    let server = Running::start(plan);
    let load: Vec<_> = (0..6).map(|n| data(4 * n, None, 100, 100)).collect();
    let summary = measured(client_plan(server.address.port(), json!(load)));
    assert_eq!(summary["down_bytes"], 300);
    assert_eq!(server.wait()[0]["streams"].as_array().unwrap().len(), 3);
}
