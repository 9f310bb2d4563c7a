//! Shared scenarios of the tests, in the form that a planner writes.
#![allow(dead_code, reason = "every test file uses a different part")]

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};
use sim::Measurements;
use spec::RunSpec;
use transport::quic::QuicSpec;
use transport::tcp::TcpSpec;

pub const MTU: u64 = 1252;
pub const HEADER: u64 = 28;
/// The payload of a full TCP segment with timestamps.
pub const MSS: u64 = 1448;

/// A path and one flow over it. Tests vary the fields.
#[derive(Clone, Debug)]
pub struct Case {
    pub rate_up: u64,
    pub rate_down: u64,
    pub rtt_ms: f64,
    pub loss: f64,
    pub queue_bdp: f64,
    pub congestion: Value,
    pub load: Value,
    pub duration_s: f64,
    pub seed: u64,
    pub quic: Value,
    /// Changes to the options of TCP. Without them the flow uses QUIC.
    pub tcp: Option<Value>,
}

impl Default for Case {
    fn default() -> Case {
        Case {
            rate_up: 10_000_000,
            rate_down: 10_000_000,
            rtt_ms: 500.0,
            loss: 0.0,
            queue_bdp: 1.0,
            congestion: json!({"name": "cubic"}),
            load: time_up(60.0),
            duration_s: 60.0,
            seed: 1,
            quic: json!({}),
            tcp: None,
        }
    }
}

pub fn time_up(seconds: f64) -> Value {
    streams(json!([{"stream_id": 0, "after": null,
        "amount": {"mode": "time", "duration_ns": (seconds * 1e9) as u64, "direction": "up"}}]))
}

pub fn streams(list: Value) -> Value {
    json!({"kind": "perf", "streams": list})
}

pub fn data(up: u64, down: u64) -> Value {
    streams(json!([{"stream_id": 0, "after": null,
        "amount": {"mode": "data", "up_bytes": up, "down_bytes": down}}]))
}

pub fn quic(changes: &Value) -> Value {
    let plain = QuicSpec {
        mtu_bytes: MTU as u16,
        header_bytes: HEADER as u16,
        initial_window_bytes: 10 * MTU,
        ..QuicSpec::default()
    };
    let mut quic = serde_json::to_value(plain).unwrap();
    quic["kind"] = json!("quic");
    for (key, value) in changes.as_object().into_iter().flatten() {
        quic[key] = value.clone();
    }
    quic
}

/// Returns the TCP options of a current Linux at both endpoints. `changes` apply to both, or under `client` and
/// `server` to one.
pub fn tcp(changes: &Value) -> Value {
    let linux = TcpSpec { initial_window_bytes: 10 * MSS, ..TcpSpec::default() };
    let side = serde_json::to_value(linux).unwrap();
    let mut tcp = json!({"kind": "tcp", "client": side, "server": side});
    for (key, value) in changes.as_object().into_iter().flatten() {
        if key == "client" || key == "server" {
            for (inner, value) in value.as_object().into_iter().flatten() {
                tcp[key][inner] = value.clone();
            }
        } else {
            tcp["client"][key] = value.clone();
            tcp["server"][key] = value.clone();
        }
    }
    tcp
}

impl Case {
    pub fn direction(&self, rate: u64, loss: f64) -> Value {
        let bytes = (rate as f64 * self.rtt_ms / 8000.0 * self.queue_bdp) as u64;
        json!([
            {"kind": "loss", "model": {"kind": "bernoulli", "probability": loss}},
            {"kind": "transmit",
             "queue": {"kind": "drop_tail", "limit": {"bytes": bytes.max(3000)}},
             "service": {"kind": "rate", "rate_bit_s": rate}},
            {"kind": "delay", "delay_ns": (self.rtt_ms * 5e5) as u64}
        ])
    }

    pub fn spec(&self) -> RunSpec {
        let transport = self.tcp.as_ref().map_or_else(|| quic(&self.quic), tcp);
        let flow = json!({
            "name": "main", "client": "client", "server": "server", "start_ns": 0,
            "start_jitter_ns": 0, "client_congestion": self.congestion,
            "server_congestion": self.congestion, "transport": transport, "load": self.load
        });
        RunSpec::from_json(&json!({
            "seed": self.seed, "duration_ns": (self.duration_s * 1e9) as u64,
            "sample_interval_ns": 100_000_000u64,
            "graph": {
                "nodes": [{"name": "client", "kind": "host"}, {"name": "server", "kind": "host"}],
                "links": [{"name": "link", "client_side": "client", "server_side": "server",
                    "up": self.direction(self.rate_up, self.loss),
                    "down": self.direction(self.rate_down, 0.0)}]
            },
            "flows": [flow]
        }).to_string())
        .expect("a valid specification")
    }

    pub fn run(&self) -> Measurements {
        sim::run(&self.spec(), &mut |_, _| None).expect("the run is valid")
    }
}

/// Returns one number from the row of `table` with the given values in the named columns.
pub fn number(run: &Measurements, table: &str, keys: &[(&str, &str)], column: &str) -> f64 {
    let table = run.table(table);
    let row = (0..table.row_count())
        .find(|row| keys.iter().all(|(key, value)| table.names(key).get(*row) == Some(value)));
    table.numbers(column)[row.expect("such a row")]
}

/// Returns the in-order goodput at the server in bit/s, over `seconds`.
pub fn goodput_up(run: &Measurements, seconds: f64) -> f64 {
    number(run, "flow_summary", &[("side", "client")], "delivered_in_order_bytes") * 8.0 / seconds
}

pub fn goodput_down(run: &Measurements, seconds: f64) -> f64 {
    number(run, "flow_summary", &[("side", "server")], "delivered_in_order_bytes") * 8.0 / seconds
}

/// Returns a run with many connections: random arrivals, 10 kB each, over a path of 2 s. About `live` are open at any
/// time, and `connections` in total. The ratio of samples to packets does not depend on `live`.
pub fn many_connections(live: u64, connections: u64, over_tcp: bool) -> RunSpec {
    // Handshake, slow start and the last ACK take 3 round trips over QUIC, 2 over TCP.
    let every = if over_tcp { 4_000_000_000 } else { 6_000_000_000 } / live;
    let case = Case {
        rate_up: 1_000_000_000,
        rate_down: 1_000_000_000,
        rtt_ms: 2000.0,
        load: json!({"kind": "poisson", "mean_interarrival_ns": every, "direction": "up",
            "size": {"kind": "fixed", "bytes": 10_000}, "duration_ns": every * connections}),
        duration_s: (every * connections) as f64 / 1e9 + 60.0,
        tcp: over_tcp.then(|| json!({})),
        ..Case::default()
    };
    RunSpec { sample_interval_ns: 50 * every, ..case.spec() }
}

/// Returns the maximum number of client connections that were open at the same time.
pub fn max_open_connections(run: &Measurements) -> u64 {
    let events = run.table("events");
    let (sides, kinds) = (events.names("side"), events.names("kind"));
    let (mut open, mut max_open) = (0u64, 0);
    for (side, kind) in sides.iter().zip(&kinds) {
        match (*side, *kind) {
            ("client", "start") => open += 1,
            ("client", "closed" | "lost") => open -= 1,
            _ => {}
        }
        max_open = max_open.max(open);
    }
    max_open
}

/// Returns a digest of all measurements. Equal digests of two builds mean equal behaviour.
pub fn digest(run: &Measurements) -> String {
    let mut digest = DefaultHasher::new();
    run.encode("").hash(&mut digest);
    format!("{:016x}", digest.finish())
}

/// Returns the CPU time of this thread. Linux reports it in nanoseconds in the first field.
pub fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel that tells");
    let nanos = text.split_whitespace().next().and_then(|field| field.parse::<f64>().ok());
    nanos.expect("nanoseconds") / 1e9
}
