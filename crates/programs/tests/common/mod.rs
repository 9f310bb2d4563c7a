//! A server and a client, each in a thread, and their output.

#![allow(dead_code, reason = "no test program uses all items")]

pub mod carry;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use programs::ProgramError;
use programs::perf::{MeasuringClient, MeasuringServer, PerfPlan};
use serde_json::{Value, json};
use transport::quic::{Crypto, QuicSpec};

/// An output stream that tests can read.
#[derive(Clone, Default)]
pub struct Screen(Arc<Mutex<Vec<u8>>>);

impl Screen {
    pub fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Discards the output.
    pub fn clear(&self) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *text = Vec::new();
    }

    /// Returns the JSON values printed so far.
    pub fn values(&self) -> Vec<Value> {
        let text = self.text();
        serde_json::Deserializer::from_str(&text).into_iter().filter_map(Result::ok).collect()
    }
}

impl Write for Screen {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn quic() -> Value {
    let spec = QuicSpec {
        crypto: Crypto::Rustls,
        header_bytes: 48,
        receive_window_bytes: 16 << 20,
        stream_receive_window_bytes: 16 << 20,
        send_window_bytes: 16 << 20,
        idle_timeout_ns: Some(30_000_000_000),
        ..QuicSpec::default()
    };
    serde_json::to_value(spec).unwrap()
}

pub fn tcp() -> Value {
    json!({"mss_bytes": null, "buffer_bytes": null, "idle_timeout_ns": 30_000_000_000_u64})
}

pub fn server_plan() -> Value {
    json!({
        "role": "server", "listen": "127.0.0.1:0", "once": true, "certificate": null,
        "limits": {"connections": 8, "handshakes": 4, "streams": 100},
        "transport": "all", "quic": quic(), "tcp": tcp(), "congestion": {"name": "cubic"},
        "report": {"interval_ns": null, "csv": null, "json": true},
    })
}

pub fn client_plan(port: u16, load: Value) -> Value {
    json!({
        "role": "client", "host": "127.0.0.1", "port": port, "load": load, "alpn": "perf",
        "server_verification": "private", "timeout_ns": 5_000_000_000_u64,
        "transport": "quic", "quic": quic(), "tcp": tcp(), "congestion": {"name": "cubic"},
        "report": {"interval_ns": null, "csv": null, "json": true},
    })
}

/// Returns the client plan for TCP or TLS.
pub fn over(transport: &str, port: u16, load: Value) -> Value {
    let mut plan = client_plan(port, load);
    plan["transport"] = transport.into();
    plan
}

pub fn data(stream: u64, after: Option<u64>, up: u64, down: u64) -> Value {
    let amount = json!({"mode": "data", "up_bytes": up, "down_bytes": down});
    json!({"stream_id": stream, "after": after, "amount": amount})
}

pub fn time(stream: u64, millis: u64, send: &str) -> Value {
    let amount = json!({"mode": "time", "duration_ns": millis * 1_000_000, "direction": send});
    json!({"stream_id": stream, "after": null, "amount": amount})
}

/// A server that runs until a stop request or its regular end.
pub struct Running {
    pub address: SocketAddr,
    pub fingerprint: String,
    pub screen: Screen,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<bool, ProgramError>>,
}

impl Running {
    pub fn start(plan: Value) -> Running {
        let PerfPlan::Server(plan) = serde_json::from_value(plan).expect("a plan") else {
            panic!("a server's plan")
        };
        let server = MeasuringServer::bind(plan).expect("bound");
        let (address, fingerprint) =
            (server.local_addr().unwrap(), server.fingerprint().to_string());
        let (screen, stop) = (Screen::default(), Arc::new(AtomicBool::new(false)));
        let (out, ended) = (screen.clone(), stop.clone());
        let thread = std::thread::spawn(move || server.run(&ended, Box::new(out)));
        Running { address, fingerprint, screen, stop, thread }
    }

    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its regular end.
    pub fn wait(self) -> Vec<Value> {
        for _ in 0..1000 {
            if self.thread.is_finished() {
                assert!(!self.thread.join().unwrap().unwrap(), "it was stopped");
                return self.screen.values();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server did not end by itself");
    }

    /// Stops it.
    pub fn end(self) -> Vec<Value> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap().unwrap();
        self.screen.values()
    }
}

/// Measures how late the machine runs threads, with a thread that wakes every 5 ms. A test adds this lateness to its
/// time limits, so that it judges the program and not the machine.
pub struct Machine {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Machine {
    const EVERY: Duration = Duration::from_millis(5);

    #[allow(clippy::disallowed_methods, reason = "it measures the machine's clock")]
    pub fn watch() -> Machine {
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let thread = std::thread::spawn(move || {
            let mut late = Duration::ZERO;
            while !ended.load(Ordering::Relaxed) {
                let begin = Instant::now();
                std::thread::sleep(Machine::EVERY);
                late += begin.elapsed().saturating_sub(Machine::EVERY);
            }
            late
        });
        Machine { over, thread }
    }

    /// Returns the sum of the lateness of all wake-ups.
    pub fn late(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Returns the minimum rate in Mbit/s of each direction of loopback in half a second, for any load of the machine. It
/// is a quarter of the data of slow start from ten packets (RFC 6928; RFC 9002, section 7.2), but at most 10. The
/// round-trip time is the duration of the handshake.
pub fn min_mbit_s(client: &Value) -> f64 {
    let round_trips = 500.0 / client["handshake_ms"].as_f64().unwrap().max(1.0);
    let bytes = 12_000.0 * (f64::from(1u32 << round_trips.min(30.0) as u32) - 1.0);
    (bytes * 8e-6 / 0.5 / 4.0).min(10.0)
}

/// Runs a client to its end. Returns its output and its result.
pub fn run_client(plan: Value) -> (Screen, Result<bool, ProgramError>) {
    run_client_until(plan, &AtomicBool::new(false))
}

pub fn run_client_until(plan: Value, stop: &AtomicBool) -> (Screen, Result<bool, ProgramError>) {
    let PerfPlan::Client(plan) = serde_json::from_value(plan).expect("a plan") else {
        panic!("a client's plan")
    };
    let screen = Screen::default();
    let result =
        MeasuringClient::start(plan).and_then(|client| client.run(stop, Box::new(screen.clone())));
    (screen, result)
}

/// Returns the summary of the client.
pub fn measured(plan: Value) -> Value {
    let (screen, result) = run_client(plan);
    assert!(!result.expect("it ends well"));
    screen.values().pop().expect("a summary")
}
