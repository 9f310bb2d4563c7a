//! Media calls over real UDP on loopback.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use programs::media::{CallFlow, Callee, CalleePlan, CallerPlan, run_caller};
use serde::Deserialize;
use serde_json::{Value, json};
use transport::media::{DatagramsSpec, MediaSource};
use units::{RandomStream, Span, Time};

use crate::common::Machine;

/// Collects the output.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    page: Page,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(calls: usize) -> Running {
        Running::planned(json!({"listen": "127.0.0.1:0", "once": false, "calls": calls}))
    }

    fn planned(plan: Value) -> Running {
        let plan: CalleePlan = serde_json::from_value(plan).unwrap();
        let answering = Callee::bind(plan).unwrap();
        let address = answering.local_addr().unwrap();
        let (stop, page) = (Arc::new(AtomicBool::new(false)), Page::default());
        let (stop_flag, screen) = (stop.clone(), page.clone());
        let thread = thread::spawn(move || {
            assert!(answering.run(&stop_flag, Box::new(screen)).unwrap());
        });
        Running { address, stop, page, thread }
    }

    /// Stops it and returns its output.
    fn end(self) -> String {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.page.text()
    }
}

fn voice(payload: u32) -> Value {
    json!({"name": "g711", "rtp_type": 0, "payload_bytes": payload, "interval_ns": 20_000_000, "periods": null})
}

fn plan(address: SocketAddr, count: u32, up: &Value, down: &Value, ms: u64) -> CallerPlan {
    serde_json::from_value(json!({
        "host": address.ip().to_string(), "port": address.port(), "count": count, "seed": 1,
        "load": {"up": up, "down": down, "duration_ns": ms * 1_000_000}, "timeout_ns": 5_000_000_000u64,
    }))
    .unwrap()
}

fn made(plan: &CallerPlan) -> Result<Vec<Value>, String> {
    let page = Page::default();
    run_caller(plan, &AtomicBool::new(false), Box::new(page.clone()))
        .map_err(|error| error.to_string())?;
    Ok(page.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn sum(direction: &Value, key: &str) -> u64 {
    direction["windows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|window| window[key].as_u64().unwrap())
        .sum()
}

#[test]
fn both_sides_receive_all_datagrams() {
    let machine = Machine::watch();
    let server = Running::start(8);
    let results = made(&plan(server.address, 3, &voice(172), &voice(32), 1000)).unwrap();
    let late_ms = machine.late().as_secs_f64() * 1e3;
    assert_eq!(results.len(), 3);
    for (number, result) in (1..).zip(&results) {
        assert_eq!((&result["call"], &result["one_clock"]), (&json!(number), &json!(true)));
        for direction_name in ["up", "down"] {
            let direction = &result[direction_name];
            assert_eq!(sum(direction, "sent_packets"), 50, "{direction}");
            // Loopback loses no packet on an idle machine. A busy machine may lose one.
            assert_eq!(sum(direction, "received_packets"), 50, "{direction}");
            assert_eq!(sum(direction, "duplicate_packets"), 0);
            let window = &direction["windows"][0];
            let bins = window["delays"].as_array().unwrap();
            let packets: u64 = bins.iter().map(|bin| bin[1].as_u64().unwrap()).sum();
            assert_eq!(packets, 50);
            let min_ms = window["delay_min_ms"].as_f64().unwrap();
            assert!(min_ms < 100.0 + late_ms, "{window}, the machine {late_ms} ms late");
            assert!(window["delay_sum_s"].as_f64().unwrap() > 0.0, "{window}");
        }
    }
    let output = server.end();
    assert!(output.starts_with("listening at 127.0.0.1:"), "{output}");
    assert_eq!(output.matches("received 50 datagrams, sent 50").count(), 3, "{output}");
}

#[test]
fn a_call_can_have_a_single_direction() {
    let server = Running::start(8);
    let results = made(&plan(server.address, 1, &Value::Null, &voice(1328), 400)).unwrap();
    assert_eq!(results[0]["up"], Value::Null);
    assert_eq!(sum(&results[0]["down"], "received_packets"), 20);
    server.end();
}

#[test]
fn calls_beyond_the_limits_are_refused() {
    let server = Running::start(0);
    let error = made(&plan(server.address, 1, &voice(172), &Value::Null, 100)).unwrap_err();
    assert!(error.ends_with("refused: the server is at its limit of calls (--calls)"), "{error}");
    server.end();
    let server = Running::start(8);
    let long = plan(server.address, 1, &voice(172), &Value::Null, 3_600_001);
    assert!(made(&long).unwrap_err().contains("expected at most 3600 s"));
    let fast = json!({"name": "live", "rtp_type": 96, "payload_bytes": 60_000, "interval_ns": 10_000, "periods": null});
    assert!(
        made(&plan(server.address, 1, &fast, &Value::Null, 100)).unwrap_err().contains("bit/s")
    );
    let none = plan(server.address, 1, &Value::Null, &Value::Null, 100);
    assert_eq!(made(&none).unwrap_err(), "neither side sends datagrams");
    // A client with an invalid request, or without a request, has no effect on others.
    let mut stranger = TcpStream::connect(server.address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    drop(stranger);
    let results = made(&plan(server.address, 1, &voice(172), &Value::Null, 200)).unwrap();
    assert_eq!(sum(&results[0]["up"], "received_packets"), 10);
    let output = server.end();
    assert!(output.contains("refused: found"), "{output}");
}

/// A call of a run counts windows from the start of the run. It sends the datagrams of its flow to and from the
/// negotiated port. Datagrams due before the answer are neither sent nor counted.
#[test]
fn a_call_of_a_run_sends_the_datagrams_of_its_flow() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Running::planned(
        json!({"listen": "127.0.0.1:0", "once": false, "calls": 1, "media": free}),
    );
    let mut source = voice(172);
    source["periods"] = json!({"on_ns": 100_000_000, "off_ns": 50_000_000,
        "distribution": {"kind": "exponential"}});
    let mut plan = plan(server.address, 1, &source, &source, 1500);
    plan.flow = Some(CallFlow { name: "speech-3".to_owned(), since_ns: 9_500_000_000 });
    let result = made(&plan).unwrap().remove(0);
    let start = result["start_ns"].as_u64().unwrap();
    assert!((9_500_000_000..9_600_000_000).contains(&start), "{start}");
    let load = DatagramsSpec::deserialize(json!({"up": source, "down": source,
        "duration_ns": 1_500_000_000u64}))
    .unwrap();
    for (direction_name, side, spec) in [("up", "client", &load.up), ("down", "server", &load.down)]
    {
        let random = RandomStream::named(1, "speech-3", &format!("periods {side}"));
        let spec = spec.as_ref().unwrap();
        let mut drawn = MediaSource::new(spec, Time(start), Span(load.duration_ns), random);
        while drawn.next_datagram(Time(start) + Span(load.duration_ns)).is_some() {}
        let due = &drawn.stats().sent;
        let windows = result[direction_name]["windows"].as_array().unwrap();
        let second = windows.iter().find(|window| window["window"] == 1).unwrap();
        assert_eq!(second["sent_packets"].as_u64(), due.get(&1).copied(), "{direction_name}");
        // The datagrams of the first half second that were due during the negotiation are missing.
        let all: u64 = due.values().sum();
        let sent = sum(&result[direction_name], "sent_packets");
        assert!(all - 5 <= sent && sent <= all, "{direction_name}: {sent} of {all}");
        assert_eq!(sum(&result[direction_name], "received_packets"), sent, "{direction_name}");
    }
    for late in result["late_ns"].as_array().unwrap() {
        assert!(late.as_u64().is_some_and(|ns| ns > 0 && ns < 1_000_000_000), "{late}");
    }
    server.end();
}

/// The start of a call is limited to the recent past, because its source has to skip all datagrams since then.
#[test]
fn a_call_with_an_old_start_is_refused() {
    let server = Running::start(8);
    let mut plan = plan(server.address, 1, &voice(172), &Value::Null, 1000);
    plan.flow = Some(CallFlow { name: "f".to_owned(), since_ns: 0 });
    assert!(made(&plan).is_ok());
    let machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let ask = json!({"load": {"up": voice(172), "down": null, "duration_ns": 1_000_000}, "seed": 1,
        "port": 9, "machine": machine.trim(), "zero_ns": 0, "flow": ["f", 0]});
    let mut line = TcpStream::connect(server.address).unwrap();
    writeln!(line, "{ask}").unwrap();
    let mut answer = String::new();
    io::BufRead::read_line(&mut io::BufReader::new(line), &mut answer).unwrap();
    assert!(answer.contains("found a call that began at 0 ns, expected within 10 s"), "{answer}");
    server.end();
}
