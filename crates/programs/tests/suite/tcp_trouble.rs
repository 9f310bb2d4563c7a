//! External errors over TCP: each has one clear message, and a server survives it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

use crate::common::{Running, data, measured, over, run_client, server_plan, time};
use programs::perf::{MeasuringServer, PerfPlan};
use serde_json::{Value, json};
use units::{RandomStream, Span, Time};

fn lasting(limits: Value) -> Running {
    let mut plan = server_plan();
    plan["once"] = json!(false);
    plan["limits"] = limits;
    Running::start(plan)
}

fn small(port: u16) -> u64 {
    measured(over("tcp", port, json!([data(0, None, 1000, 2000)])))["down_bytes"].as_u64().unwrap()
}

/// Reads the remaining data of a connection that the server may have reset.
fn rest(mut socket: TcpStream) -> Vec<u8> {
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut all = Vec::new();
    let _ = socket.read_to_end(&mut all);
    all
}

#[test]
fn a_server_survives_hostile_bytes() {
    let server = lasting(json!({"connections": 64, "handshakes": 4, "streams": 100}));
    let port = server.address.port();
    let mut random = RandomStream::named(1, "hostile", "bytes");
    let hello = [22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3];
    for round in 0..120 {
        let mut socket = TcpStream::connect(server.address).unwrap();
        let mut noise = vec![0; [0, 1, 7, 8, 9, 300, 5000][round % 7]];
        random.fill(&mut noise);
        match round % 4 {
            // A ClientHello that continues as noise.
            0 => noise.splice(0..0, hello).for_each(drop),
            // A record above the maximum length (RFC 8446 section 5.2).
            1 => noise.splice(0..0, [22, 3, 3, 255, 255]).for_each(drop),
            // A request size.
            2 if !noise.is_empty() => noise[0] = 0,
            _ => {}
        }
        let _ = socket.write_all(&noise);
        match round % 3 {
            0 => drop(socket),
            1 => {
                let _ = socket.shutdown(Shutdown::Write);
                drop(socket);
            }
            _ => {
                // A reset: unread data and a close.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    assert_eq!(small(port), 2000);
    server.end();
}

/// A request of unlimited size costs the server only the bytes that the client reads.
#[test]
fn an_announced_size_is_not_allocated() {
    let server = lasting(json!({"connections": 8, "handshakes": 4, "streams": 100}));
    let memory = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let before = memory();
    let mut held = Vec::new();
    for _ in 0..6 {
        let mut socket = TcpStream::connect(server.address).unwrap();
        socket.write_all(&(u64::MAX >> 1).to_be_bytes()).unwrap();
        socket.shutdown(Shutdown::Write).unwrap();
        // The client does not read.
        held.push(socket);
    }
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(small(server.address.port()), 2000);
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    drop(held);
    server.end();
}

/// A client that sends an incomplete request, and a client that never reads: both connections end by the idle timeout.
#[test]
fn half_open_connections_end() {
    let mut plan = server_plan();
    plan["once"] = json!(false);
    plan["tcp"]["idle_timeout_ns"] = json!(400_000_000);
    let server = Running::start(plan);
    let mut socket = TcpStream::connect(server.address).unwrap();
    socket.write_all(&[0; 8]).unwrap();
    assert!(rest(socket).is_empty());
    let mut asked = TcpStream::connect(server.address).unwrap();
    asked.write_all(&(1_u64 << 40).to_be_bytes()).unwrap();
    asked.shutdown(Shutdown::Write).unwrap();
    // With full buffers the connection makes no progress.
    std::thread::sleep(Duration::from_millis(2500));
    let rows = server.end();
    let ends: Vec<&Value> = rows.iter().map(|one| &one["end"]).collect();
    assert_eq!(ends, ["timed out", "timed out"]);
    drop(asked);
}

#[test]
fn a_silent_server_is_detected() {
    // The server listens and never accepts: the kernel completes the TCP handshake, the TLS handshake gets no reply.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut plan = over("tls", port, json!([data(0, None, 10, 10)]));
    plan["timeout_ns"] = json!(300_000_000);
    let clock = runtime::Clock::start();
    let message = run_client(plan).1.unwrap_err().to_string();
    assert!(message.contains("no answer within 0.3 s; the port is open"), "{message}");
    // Without TLS the load makes no progress.
    for load in [json!([data(0, None, 10, 10)]), json!([time(0, 20_000, "up")])] {
        let mut plan = over("tcp", port, load);
        plan["tcp"]["idle_timeout_ns"] = json!(500_000_000);
        let message = run_client(plan).1.unwrap_err().to_string();
        assert!(message.contains("0.5 s without progress"), "{message}");
    }
    assert!(clock.now() < Time::ZERO + Span::from_secs(12));
}

#[test]
fn a_stopped_server_is_detected() {
    let server = lasting(json!({"connections": 8, "handshakes": 4, "streams": 100}));
    let port = server.address.port();
    let client =
        std::thread::spawn(move || run_client(over("tcp", port, json!([time(0, 30_000, "up")]))));
    std::thread::sleep(Duration::from_millis(300));
    let rows = server.end();
    assert_eq!(rows[0]["end"], "interrupted");
    let message = client.join().unwrap().1.unwrap_err().to_string();
    assert!(message.contains("has reset the connection"), "{message}");
}

/// A server that answers a wrong number of bytes: the client ends with the received bytes.
#[test]
fn a_wrong_answer_length_is_reported() {
    let liar = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = liar.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        for answer in [0, 3, 5000] {
            let (mut socket, _) = liar.accept().unwrap();
            let mut asked = [0; 8];
            socket.read_exact(&mut asked).unwrap();
            socket.write_all(&vec![1; answer]).unwrap();
        }
    });
    for answer in [0, 3, 5000] {
        let (screen, result) = run_client(over("tcp", port, json!([data(0, None, 8, 1000)])));
        let message = result.unwrap_err().to_string();
        assert!(
            message.contains(&format!("the server sent {answer} bytes, expected 1000")),
            "{message}"
        );
        assert_eq!(screen.values().pop().unwrap()["down_bytes"], answer);
    }
    thread.join().unwrap();
}

#[test]
fn a_port_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = server_plan();
    plan["listen"] = json!(taken.local_addr().unwrap().to_string());
    let PerfPlan::Server(plan) = serde_json::from_value(plan).unwrap() else { panic!() };
    let message = MeasuringServer::bind(plan).err().unwrap().to_string();
    let port = taken.local_addr().unwrap().port();
    assert!(message.contains(&format!("TCP port {port} is in use")), "{message}");
}

#[test]
fn sizes_that_look_like_tls_are_rejected() {
    let load = json!([data(0, None, 8, 22 << 56)]);
    let message = run_client(over("tcp", 4433, load)).1.unwrap_err().to_string();
    assert!(message.contains("expected less than 1.5e18"), "{message}");
}
