//! Page loads against closed forms: bytes over the link rate, and connections that a browser reuses or opens in
//! advance.

use crate::common::{MTU, quic, tcp};
use serde_json::{Value, json};
use sim::Measurements;

pub const RTT_S: f64 = 0.6;

/// A page of `objects` on `hosts` over an ideal link, with `changes` to the browser.
pub struct Page {
    pub rate: u64,
    pub rtt_s: f64,
    /// The loss probability of each packet, both directions.
    pub loss: f64,
    pub seed: u64,
    pub window: u64,
    pub hosts: Value,
    pub objects: Value,
    pub tls: Value,
    pub changes: Value,
}

pub fn object(name: &str, host: u32, body: u64, after: &[u32]) -> Value {
    json!({"name": name, "host": host, "request_bytes": 400, "response_header_bytes": 300,
        "body_bytes": body, "after": after, "think_ns": 0})
}

pub fn merge(mut base: Value, changes: &Value) -> Value {
    for (key, value) in changes.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
    base
}

impl Default for Page {
    fn default() -> Page {
        Page {
            rate: 1_000_000_000,
            rtt_s: RTT_S,
            loss: 0.0,
            seed: 1,
            window: 10 * 1448,
            hosts: json!([{"name": "a.example", "open": false}]),
            objects: json!([object("main", 0, 1000, &[])]),
            tls: json!({}),
            changes: json!({}),
        }
    }
}

impl Page {
    pub fn run(&self) -> Measurements {
        self.try_run().expect("the run is valid")
    }

    pub fn try_run(&self) -> Result<Measurements, String> {
        let stages = json!([
            {"kind": "loss", "model": {"kind": "bernoulli", "probability": self.loss}},
            {"kind": "transmit",
             "queue": {"kind": "drop_tail", "limit": {"bytes": 100_000_000}},
             "service": {"kind": "rate", "rate_bit_s": self.rate}},
            {"kind": "delay", "delay_ns": (self.rtt_s * 5e8) as u64}
        ]);
        let tls = merge(
            json!({"version": "1.3", "resumption": false, "early_data": false,
                "certificate_bytes": 3000, "client_hello_bytes": 512}),
            &self.tls,
        );
        let load = merge(
            json!({"kind": "page", "page": {"name": "page", "hosts": self.hosts,
                "objects": self.objects}, "http": "2", "tls": tls, "loads": 1,
                "pause_ns": [1_000_000_000u64, 2_000_000_000u64], "timeout_ns": 20_000_000_000u64,
                "profile": "reused", "keep_connections": false, "udp_blocked": false,
                "quic_head_start_ns": 300_000_000, "connections_per_host": 6, "parse_ns": 0}),
            &self.changes,
        );
        let mut over_quic = quic(&json!({"initial_window_bytes": self.window}));
        let mut over_tcp = tcp(&json!({"initial_window_bytes": self.window, "delayed_ack": null}));
        for options in [&mut over_quic, &mut over_tcp] {
            options.as_object_mut().unwrap().remove("kind");
        }
        let congestion = json!({"name": "newreno"});
        let spec = json!({
            "seed": self.seed, "duration_ns": 100_000_000_000u64, "sample_interval_ns": 1_000_000_000u64,
            "graph": {
                "nodes": [{"name": "client", "kind": "host"}, {"name": "server", "kind": "host"}],
                "links": [{"name": "link", "client_side": "client", "server_side": "server",
                    "up": stages, "down": stages}]
            },
            "flows": [{"name": "main", "client": "client", "server": "server", "start_ns": 0,
                "start_jitter_ns": 0, "client_congestion": congestion,
                "server_congestion": congestion, "load": load,
                "transport": {"kind": "web", "quic": over_quic, "tcp": over_tcp}}]
        });
        let spec = spec::RunSpec::from_json(&spec.to_string()).expect("a valid specification");
        sim::run(&spec, &mut |_, _| None)
    }

    /// Returns a column of the loads.
    fn column(&self, name: &str) -> Vec<f64> {
        self.run().table("pages").numbers(name).to_vec()
    }
}

pub fn near(got: f64, expected: f64, tolerance: f64) -> bool {
    (got - expected).abs() <= tolerance
}

/// One object over HTTP/2, TLS 1.3 and a window that never fills: all bytes before the last, at the link rate.
#[test]
fn the_load_time_of_one_object_over_tcp_is_bytes_over_rate() {
    let (rate, body) = (1_000_000.0, 100_000u64);
    let objects = json!([object("main", 0, body, &[])]);
    let page = Page { rate: rate as u64, window: 1 << 20, objects, ..Page::default() };
    let plt = page.column("plt_s")[0];
    // 40 bytes of headers and 12 of timestamps per segment of 1448; a SYN has 20 of options.
    let on_wire = |bytes: f64| bytes + 52.0 * (bytes / 1448.0).ceil();
    // SYN and SYN-ACK; ClientHello; ServerHello to Finished; ChangeCipherSpec to Finished, then the browser's first
    // bytes and its request.
    let before = 60.0 + 60.0 + on_wire(517.0) + on_wire(127.0 + 6.0 + 37.0 + 3030.0 + 286.0 + 58.0);
    let request = 64.0 + (70.0 + 9.0 + 5.0 + 400.0 + 22.0);
    // Two tickets; SETTINGS and its acknowledgement; HEADERS; DATA; one record per 16,384 bytes.
    let frames = 27.0 + 9.0 + 309.0 + body as f64 + 9.0 * (body as f64 / 16_384.0).ceil();
    let response = 510.0 + frames + 22.0 * (frames / 16_384.0).ceil();
    let seconds = |bytes: f64| bytes * 8.0 / rate;
    let expected = 3.0 * RTT_S + seconds(before + on_wire(request) + on_wire(response));
    println!("PLT {plt:.6} s, by hand {expected:.6} s");
    // Partial segments and ACKs in between: about 500 bytes.
    assert!(near(plt, expected, seconds(500.0)), "{plt} {expected}");
}

#[test]
fn the_load_time_of_one_object_over_quic_is_bytes_over_rate() {
    let (rate, body) = (1_000_000.0, 100_000.0);
    let objects = json!([object("main", 0, body as u64, &[])]);
    let changes = json!({"http": "3"});
    let page = Page { rate: rate as u64, window: 1 << 20, objects, changes, ..Page::default() };
    let plt = page.column("plt_s")[0];
    // A datagram up and one of at least 1200 down precede the request. Each packet has at most 40 bytes of overhead,
    // and the UDP and IP headers.
    let packets = (body / (MTU as f64 - 40.0)).ceil();
    let bound = 2.0 * RTT_S + (2.0 * 1228.0 + 400.0 + body + packets * (28.0 + 20.0)) * 8.0 / rate;
    println!("PLT {plt:.6} s, at least {bound:.6} s");
    assert!(plt > bound && plt < bound + 0.05, "{plt} {bound}");
}

/// The main document, then two objects of a host with an open connection. They are small, because QUIC paces data
/// beyond its quantum of two packets.
#[test]
fn a_connection_opened_in_advance_saves_its_handshake() {
    for (http, handshake) in [("1.1", 2.0), ("2", 2.0), ("3", 1.0)] {
        let plt = |open: bool| {
            let page = Page {
                hosts: json!([{"name": "a.example", "open": false},
                    {"name": "b.example", "open": open}]),
                objects: json!([
                    object("main", 0, 900, &[]),
                    object("x", 1, 900, &[0]),
                    object("y", 1, 900, &[0])
                ]),
                changes: json!({"http": http}),
                ..Page::default()
            };
            page.column("plt_s")[0] / RTT_S
        };
        let (closed, open) = (plt(false), plt(true));
        // HTTP/1.1 has one open connection. The second object needs another connection or waits.
        let saved = if http == "1.1" { 1.0 } else { handshake };
        println!("http {http}: {closed:.3} round trips, {open:.3} with a connection open");
        assert!(near(closed, 2.0 * handshake + 2.0, 0.01), "{http}: {closed}");
        assert!(near(closed - open, saved, 0.01), "{http}: {closed} {open}");
    }
}

#[test]
fn reused_connections_take_one_round_trip_in_the_next_load() {
    for http in ["1.1", "2", "3"] {
        let changes = json!({"http": http, "loads": 2, "keep_connections": true});
        let page = Page { changes, ..Page::default() };
        let run = page.run();
        let pages = run.table("pages");
        assert_eq!(pages.numbers("connections")[1], 0.0, "{http}");
        let ttr = pages.numbers("ttr_s")[1] / RTT_S;
        assert!(near(ttr, 1.0, 0.01), "{http}: {ttr}");
    }
}

#[test]
fn a_fresh_profile_resumes_nothing() {
    for (http, full, resumed) in [("2", 3.0, 2.0), ("3", 2.0, 1.0)] {
        for (profile, second) in [("fresh", full), ("reused", resumed)] {
            let page = Page {
                tls: json!({"resumption": true, "early_data": true}),
                changes: json!({"http": http, "loads": 2, "profile": profile}),
                ..Page::default()
            };
            let ttr = page.column("ttr_s");
            assert!(near(ttr[0] / RTT_S, full, 0.01), "{http} {profile}: {ttr:?}");
            assert!(near(ttr[1] / RTT_S, second, 0.01), "{http} {profile}: {ttr:?}");
        }
    }
}

#[test]
fn parsing_and_thinking_add_to_the_load() {
    for http in ["1.1", "2", "3"] {
        let plt = |think: u64, parse: u64| {
            let mut second = object("b", 0, 1000, &[0]);
            second["think_ns"] = think.into();
            let page = Page {
                objects: json!([object("main", 0, 1000, &[]), second]),
                changes: json!({"http": http, "parse_ns": parse}),
                ..Page::default()
            };
            page.column("plt_s")[0]
        };
        let plain = plt(0, 0);
        assert!(near(plt(70_000_000, 0) - plain, 0.07, 1e-4), "{http}");
        assert!(near(plt(0, 50_000_000) - plain, 0.05, 1e-4), "{http}");
    }
}

/// RFC 6928: ten segments. A longer chain of certificates waits for the client's ACKs.
#[test]
fn a_chain_longer_than_the_first_window_takes_a_round_trip_more() {
    for (bytes, trips) in [(13_000, 3.0), (15_000, 4.0)] {
        let page = Page { tls: json!({"certificate_bytes": bytes}), ..Page::default() };
        let ttr = page.column("ttr_s")[0] / RTT_S;
        assert!(near(ttr, trips, 0.01), "{bytes}: {ttr}");
    }
}

/// The browser connects to a known HTTP/3 host before the load, and the path drops UDP.
#[test]
fn an_open_host_behind_a_udp_block_is_loaded_over_tcp() {
    let page = Page {
        hosts: json!([{"name": "a.example", "open": true}]),
        changes: json!({"http": "alt-svc", "loads": 3, "udp_blocked": true}),
        ..Page::default()
    };
    let run = page.run();
    let pages = run.table("pages");
    assert_eq!(pages.names("protocol"), ["h2", "h2", "h2"]);
    assert_eq!(pages.numbers("completed").to_vec(), [1.0, 1.0, 1.0]);
    for ttr in pages.numbers("ttr_s") {
        assert!(near(ttr / RTT_S, 1.0, 0.01), "{ttr}");
    }
}

/// Every object of every load arrives complete, once, and after its dependencies, regardless of losses.
#[test]
fn every_object_arrives_over_lossy_paths() {
    let mut objects = vec![object("main", 0, 30_000, &[])];
    for n in 1..25u32 {
        let body = [0, 1, 1447, 5000, 16_384, 70_000][n as usize % 6];
        let mut next = object(&format!("o{n}"), n % 3, body, &[n / 2]);
        next["think_ns"] = (1_000_000 * u64::from(n % 4)).into();
        objects.push(next);
    }
    let total: u64 = objects.iter().map(|object| object["body_bytes"].as_u64().unwrap()).sum();
    let hosts: Vec<Value> =
        (0..3).map(|n| json!({"name": format!("h{n}.example"), "open": n == 2})).collect();
    for (http, seed, keep) in ["1.1", "2", "3", "alt-svc"]
        .into_iter()
        .flat_map(|http| [(http, 1, true), (http, 2, false), (http, 3, true)])
    {
        let page = Page {
            rate: 20_000_000,
            rtt_s: 0.05,
            loss: 0.03,
            seed,
            hosts: hosts.clone().into(),
            objects: objects.clone().into(),
            tls: json!({"resumption": true, "early_data": true}),
            changes: json!({"http": http, "loads": 4, "keep_connections": keep,
                "timeout_ns": 20_000_000_000u64, "quic_head_start_ns": 20_000_000}),
            ..Page::default()
        };
        let run = page.run();
        let (pages, requests) = (run.table("pages"), run.table("requests"));
        assert_eq!(pages.numbers("completed").to_vec(), [1.0; 4], "{http} {seed}");
        assert_eq!(pages.numbers("bytes").to_vec(), [total as f64; 4], "{http} {seed}");
        assert_eq!(requests.row_count(), 4 * objects.len());
        let (queued, end) = (requests.numbers("queued_s"), requests.numbers("end_s"));
        let (load, name) = (requests.numbers("load"), requests.names("object"));
        let row_of = |of: f64, name_of: &str| {
            (0..requests.row_count()).find(|row| load[*row] == of && name[*row] == name_of).unwrap()
        };
        for of in 1..=4 {
            for object in &objects[1..] {
                let first = &objects[object["after"][0].as_u64().unwrap() as usize];
                let row = row_of(f64::from(of), object["name"].as_str().unwrap());
                let before = row_of(f64::from(of), first["name"].as_str().unwrap());
                assert!(queued[row] >= end[before], "{http} {seed} {of} {object}");
            }
        }
        println!("http {http} seed {seed}: {:?}", pages.numbers("plt_s"));
    }
}

/// Chromium's stream window of HTTP/2 is 6 MiB and is extended after more than half of it is used. It limits a long
/// fast path, where HTTP/1.1 has no limit. The update of the first half releases another half, and its first bytes are
/// the excess over one half. The result is one half per round trip.
#[test]
fn the_stream_window_of_http2_limits_a_long_fast_path() {
    let window = f64::from(6 << 20);
    let trips = |http: &str| {
        let page = Page {
            window: 1 << 26,
            objects: json!([object("main", 0, 5 * (6 << 20), &[])]),
            changes: json!({"http": http}),
            ..Page::default()
        };
        page.column("plt_s")[0]
    };
    let wire = |bytes: f64| bytes * 8.0 * (1500.0 / 1448.0) / 1e9;
    let handshake = 3.0 * RTT_S;
    let (http1, http2) = (trips("1.1"), trips("2"));
    println!("30 MiB over HTTP/1.1 {http1:.3} s, over HTTP/2 {http2:.3} s");
    assert!(near(http1, handshake + wire(5.0 * window), 0.01), "{http1}");
    // Ten halves, the first two at once.
    let expected = handshake + 8.0 * RTT_S + 2.0 * wire(window / 2.0);
    assert!(near(http2, expected, 0.02), "{http2} {expected}");
}

/// One object over HTTP/1.1 without TLS: all bytes in wire format.
#[test]
fn the_load_time_of_one_object_without_tls_is_bytes_over_rate() {
    let (rate, body) = (1_000_000.0, 100_000.0);
    for http in ["1.1", "2", "3"] {
        let page = Page {
            rate: rate as u64,
            window: 1 << 20,
            hosts: json!([{"name": "http://a.example", "open": false, "tls": false}]),
            objects: json!([object("main", 0, body as u64, &[])]),
            changes: json!({"http": http}),
            ..Page::default()
        };
        let plt = page.column("plt_s")[0];
        let on_wire = |bytes: f64| bytes + 52.0 * (bytes / 1448.0).ceil();
        let bytes = 60.0 + 60.0 + on_wire(400.0) + on_wire(300.0 + body);
        let expected = 2.0 * RTT_S + bytes * 8.0 / rate;
        println!("PLT {plt:.6} s, by hand {expected:.6} s");
        // A partial segment and an ACK.
        assert!(near(plt, expected, 300.0 * 8.0 / rate), "{http}: {plt} {expected}");
    }
}

/// Objects of a host without TLS use TCP on up to six connections, also in a page over HTTP/3. A connection opened in
/// advance saves its handshake.
#[test]
fn a_host_without_tls_uses_separate_tcp_connections() {
    let load = |open: bool, http: &str| {
        let mut objects = vec![object("main", 0, 1000, &[])];
        objects.extend((0..8).map(|n| object(&format!("o{n}"), 1, 1000, &[0])));
        let page = Page {
            hosts: json!([{"name": "a.example", "open": false},
                {"name": "http://b.example", "open": open, "tls": false}]),
            objects: json!(objects),
            changes: json!({"http": http}),
            ..Page::default()
        };
        let run = page.run();
        let requests = run.table("requests");
        let numbers = requests.numbers("connection");
        // QUIC and TCP: even and odd numbers.
        let odd = numbers[1..].iter().all(|number| number % 2.0 == 1.0);
        assert!(http != "3" || (odd && numbers[0] % 2.0 == 0.0), "{numbers:?}");
        let (plt, count) =
            (run.table("pages").numbers("plt_s"), run.table("pages").numbers("connections"));
        (plt[0] / RTT_S, count[0])
    };
    let close = |(trips, count): (f64, f64), expected: (f64, f64)| {
        assert!(near(trips, expected.0, 0.01) && near(count, expected.1, 0.1), "{trips} {count}");
    };
    // The document takes QUIC's handshake and a round trip. Two of the eight objects on six connections wait.
    close(load(false, "3"), (2.0 + 2.0 + 1.0, 7.0));
    close(load(false, "2"), (3.0 + 2.0 + 1.0, 7.0));
    // One object on the open connection while five others connect, six on all of them, and the last one.
    let (trips, _) = load(true, "2");
    assert!(near(trips, 3.0 + 3.0, 0.01), "{trips}");
}

/// A TCP connection closed by the browser sends FIN in both directions, so its flow ends with the last byte.
#[test]
fn a_closed_connection_has_its_fin() {
    let run = Page::default().run();
    let streams = run.table("streams");
    for column in ["up_fin_s", "down_fin_s"] {
        let end = streams.numbers(column);
        assert!(end.len() == 1 && end[0] < 10.0, "{column} {end:?}");
    }
}
