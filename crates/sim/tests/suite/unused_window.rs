//! An unused window does not grow (RFC 9002 section 7.8, RFC 7661). The cause can be flow control, a send buffer, or a
//! source slower than the path.

use crate::common::{Case, MSS, MTU, number, time_up};
use serde_json::{Value, json};
use sim::Measurements;
use spec::RunSpec;

const RATE: u64 = 40_000_000;
const RTT_MS: f64 = 600.0;
const SECONDS: f64 = 60.0;
/// The limit of bytes in flight.
const LIMIT: u64 = 1_000_000;

/// Returns the limits of bytes in flight: name, transport options, load.
fn limits() -> Vec<(&'static str, Case)> {
    let quic = |options: Value| Case { quic: options, ..case() };
    let tcp = |options: Value| Case { tcp: Some(options), ..case() };
    // The rate of `LIMIT` bytes per round trip.
    let rate = LIMIT as f64 * 8.0 / (RTT_MS / 1e3);
    let slow = json!({"kind": "on_off", "on_ns": 3_600_000_000_000u64, "off_ns": 1, "exponential": false,
        "rate_bit_s": rate as u64, "direction": "up", "duration_ns": (SECONDS * 1e9) as u64});
    vec![
        ("receive window", quic(json!({"receive_window_bytes": LIMIT}))),
        ("stream receive window", quic(json!({"stream_receive_window_bytes": LIMIT}))),
        ("send window", quic(json!({"send_window_bytes": LIMIT}))),
        ("source over QUIC", Case { load: slow.clone(), ..case() }),
        ("receive buffer", tcp(json!({"server": {"receive_buffer_bytes": LIMIT}}))),
        ("send buffer", tcp(json!({"send_buffer_bytes": LIMIT}))),
        ("source over TCP", Case { load: slow, ..tcp(json!({})) }),
        ("paced source over TCP", tcp(json!({"send_buffer_bytes": LIMIT, "pacing": true}))),
    ]
}

fn case() -> Case {
    Case {
        rate_up: RATE,
        rate_down: RATE,
        rtt_ms: RTT_MS,
        load: time_up(SECONDS),
        duration_s: SECONDS,
        ..Case::default()
    }
}

/// Runs the case; the path drops the client's packets with these numbers.
fn run(case: &Case, lost: &[u64]) -> Measurements {
    let mut spec = serde_json::to_value(case.spec()).expect("JSON");
    spec["sample_interval_ns"] = json!(10_000_000);
    spec["graph"]["links"][0]["up"][0]["model"] = json!({"kind": "trace", "packets": lost});
    let spec = RunSpec::from_json(&spec.to_string()).expect("a specification");
    sim::run(&spec, &mut |_, _| None).expect("a valid run")
}

/// Returns the client's rows of `flows`: time, window, bytes in flight.
fn samples(run: &Measurements) -> Vec<(f64, f64, f64)> {
    let flows = run.table("flows");
    let (sides, times) = (flows.names("side"), flows.numbers("time_s"));
    let (windows, flights) = (flows.numbers("cwnd_bytes"), flows.numbers("in_flight_bytes"));
    let rows = (0..flows.row_count()).filter(|row| sides[*row] == "client");
    rows.map(|row| (times[row], windows[row], flights[row])).collect()
}

fn max_of(samples: &[(f64, f64, f64)], column: impl Fn(&(f64, f64, f64)) -> f64) -> f64 {
    samples.iter().map(column).fold(0.0, f64::max)
}

/// Slow start ends at twice the largest flight, and one loss multiplies the window by the controller's factor. Then the
/// window grows until the flight reaches it.
#[test]
fn an_unused_window_does_not_grow() {
    let none = json!({"slow_start_exit": "none"});
    for (limit, case) in limits() {
        for (name, factor) in [("newreno", 0.5), ("cubic", 0.7)] {
            let congestion = json!({"name": name, "options": none});
            let run = run(&Case { congestion, ..case.clone() }, &[30_000]);
            let samples = samples(&run);
            let events = run.table("events");
            let signals = events.names("kind").iter().filter(|kind| **kind == "congestion").count();
            assert_eq!(signals, 1, "{limit}, {name}");
            let loss = number(&run, "events", &[("kind", "congestion")], "time_s");
            let (before, after): (Vec<_>, Vec<_>) = samples.iter().partition(|row| row.0 < loss);
            // Samples are 10 ms apart, so the largest flight between them is slightly larger.
            let flight = max_of(&samples, |row| row.2);
            let largest = max_of(&before, |row| row.1);
            assert!(largest > flight, "{limit}, {name}: {largest} beside {flight}");
            assert!(largest <= 2.04 * flight, "{limit}, {name}: {largest} beside {flight}");
            let cut = after[0].1;
            let ratio = cut / before[before.len() - 1].1;
            assert!((ratio / factor - 1.0).abs() < 0.01, "{limit}, {name}: {ratio}");
            let grown = max_of(&after, |row| row.1);
            let bound = cut.max(1.02 * flight) + 2.0 * MTU as f64;
            assert!(grown <= bound, "{limit}, {name}: {grown} beside {flight}");
        }
    }
}

/// A sender limited by flow control measures the rate that flow control permits. The samples count as samples of the
/// path, so that BBR leaves Startup.
#[test]
fn bbr_measures_the_rate_of_one_window_per_round_trip() {
    for (name, trace) in [("bbr1", "bw_bit_s"), ("bbr3", "max_bw_bit_s")] {
        for (limit, case) in limits().into_iter().filter(|(limit, _)| !limit.contains("source")) {
            let run = run(&Case { congestion: json!({"name": name}), ..case }, &[]);
            let samples = samples(&run);
            let steady: Vec<_> = samples.into_iter().filter(|row| row.0 > 20.0).collect();
            let flight = max_of(&steady, |row| row.2);
            let internals = run.table("controller_state");
            let (names, sides) = (internals.names("name"), internals.names("side"));
            let values = internals.numbers("value");
            let last = |wanted: &str| {
                let row = (0..internals.row_count())
                    .rev()
                    .find(|row| names[*row] == wanted && sides[*row] == "client");
                values[row.expect("a row")]
            };
            let law = flight * 8.0 / last("min_rtt_s");
            let got = last(trace);
            println!("{name}, {limit}: {got} bit/s, law {law}");
            assert!((got / law - 1.0).abs() < 0.02, "{name}, {limit}: {got} beside {law}");
            let startup = number(&run, "controller_state", &[("name", state(name))], "value");
            let last = last(state(name));
            assert!(last != startup, "{name}, {limit}: it stays in Startup");
        }
    }
}

fn state(controller: &str) -> &'static str {
    if controller == "bbr1" { "mode" } else { "state" }
}

/// Bursts of ACKs in the frames of a return link leave the flight below the window for a part of each round. Every
/// acknowledged byte still counts: the window grows by one packet per window.
#[test]
fn every_acknowledged_byte_counts_over_return_frames() {
    let newreno = json!({"name": "newreno", "options": {"slow_start_exit": "none"}});
    for (transport, tcp) in
        [("QUIC", None), ("TCP", Some(json!({}))), ("paced TCP", Some(json!({"pacing": true})))]
    {
        for frame_ms in [0, 20, 100, 300] {
            let case = Case { congestion: newreno.clone(), tcp: tcp.clone(), ..case() };
            let mut spec = serde_json::to_value(case.spec()).expect("JSON");
            spec["sample_interval_ns"] = json!(10_000_000);
            let link = &mut spec["graph"]["links"][0];
            link["up"][0]["model"] = json!({"kind": "trace", "packets": [40]});
            if frame_ms > 0 {
                let frame = frame_ms * 1_000_000u64;
                link["down"][1]["service"] = json!({"kind": "trace",
                    "opportunities_ns": vec![frame; 1000], "opportunity_bytes": 1504, "repeat_ns": frame});
            }
            let spec = RunSpec::from_json(&spec.to_string()).expect("a specification");
            let run = sim::run(&spec, &mut |_, _| None).expect("a valid run");
            let flows = run.table("flows");
            let sides = flows.names("side");
            let column = |side: &str, name: &str| -> Vec<f64> {
                let values = flows.numbers(name);
                let rows = (0..flows.row_count()).filter(|row| sides[*row] == side);
                rows.map(|row| values[row]).skip(1_000).collect()
            };
            let windows = column("client", "cwnd_bytes");
            let received = column("server", "received_bytes");
            // The bytes of a packet that the window counts, and its stream bytes.
            let (packet, payload) = if tcp.is_none() { (MTU, MTU - 35) } else { (MSS, MSS) };
            // RFC 9002 section 7.3.3: one packet per window of packets.
            let packets = received.windows(2).map(|pair| (pair[1] - pair[0]) / payload as f64);
            let law: f64 = packets
                .zip(&windows)
                .map(|(packets, window)| packets * packet as f64 / window)
                .sum();
            let got = (windows[windows.len() - 1] - windows[0]) / packet as f64;
            println!("{transport}, {frame_ms} ms: {got} packets, law {law}");
            assert!((got / law - 1.0).abs() < 0.03, "{transport}, {frame_ms} ms: {got}, {law}");
        }
    }
}
