//! Page loads: round trips to the first byte in closed form, and the browser's state from load to load.

use crate::common::{HEADER, MTU, quic};
use serde_json::{Value, json};
use sim::Measurements;
use spec::RunSpec;
use transport::tcp::TcpSpec;

const MSS: u64 = 1460;

/// A page, a path and a browser. Tests vary the fields.
struct Web {
    rate: u64,
    rtt_ms: f64,
    objects: Value,
    hosts: Value,
    changes: Value,
    tls: Value,
    tcp: Value,
    /// The loss probability of the downlink.
    loss_down: f64,
    seed: u64,
    duration_s: u64,
}

fn object(name: &str, body: u64, after: &[u32]) -> Value {
    json!({"name": name, "host": 0, "request_bytes": 400, "response_header_bytes": 300,
        "body_bytes": body, "after": after, "think_ns": 0})
}

impl Default for Web {
    fn default() -> Web {
        Web {
            rate: 1_000_000_000,
            rtt_ms: 500.0,
            objects: json!([object("main", 1000, &[])]),
            hosts: json!([{"name": "a.example", "open": false}]),
            changes: json!({"http": "2"}),
            tls: json!({}),
            tcp: json!({}),
            loss_down: 0.0,
            seed: 1,
            duration_s: 120,
        }
    }
}

fn merge(mut base: Value, changes: &Value) -> Value {
    for (key, value) in changes.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
    base
}

impl Web {
    fn run(&self) -> Measurements {
        sim::run(&self.spec().unwrap(), &mut |_, _| None).expect("the run is valid")
    }

    fn spec(&self) -> Result<RunSpec, serde_json::Error> {
        let tcp = merge(
            serde_json::to_value(TcpSpec {
                mss_bytes: MSS as u16,
                initial_window_bytes: 10 * MSS,
                limited_transmit: false,
                delayed_ack: None,
                ..TcpSpec::default()
            })
            .unwrap(),
            &self.tcp,
        );
        let tls = merge(
            json!({"version": "1.3", "resumption": false, "early_data": false,
                "certificate_bytes": 3000, "client_hello_bytes": 512}),
            &self.tls,
        );
        let web = merge(
            json!({
                "kind": "page", "page": {"name": "page", "hosts": self.hosts, "objects": self.objects},
                "http": "2", "tls": tls, "loads": 1, "pause_ns": [1_000_000_000u64, 2_000_000_000u64],
                "timeout_ns": 20_000_000_000u64, "profile": "reused", "keep_connections": false,
                "udp_blocked": false, "quic_head_start_ns": 300_000_000, "connections_per_host": 6,
                "parse_ns": 0
            }),
            &self.changes,
        );
        let stages = |loss: f64| {
            json!([
                {"kind": "loss", "model": {"kind": "bernoulli", "probability": loss}},
                {"kind": "transmit", "queue": {"kind": "drop_tail", "limit": {"bytes": 100_000_000}},
                 "service": {"kind": "rate", "rate_bit_s": self.rate}},
                {"kind": "delay", "delay_ns": (self.rtt_ms * 5e5) as u64}
            ])
        };
        let mut quic = quic(&json!({"header_bytes": HEADER, "mtu_bytes": MTU}));
        quic.as_object_mut().unwrap().remove("kind");
        let congestion = json!({"name": "newreno", "options": {"slow_start_exit": "none"}});
        RunSpec::from_json(&json!({
            "seed": self.seed, "duration_ns": self.duration_s * 1_000_000_000,
            "sample_interval_ns": 1_000_000_000u64,
            "graph": {
                "nodes": [{"name": "client", "kind": "host"}, {"name": "server", "kind": "host"}],
                "links": [{"name": "link", "client_side": "client", "server_side": "server",
                    "up": stages(0.0), "down": stages(self.loss_down)}]
            },
            "flows": [{
                "name": "main", "client": "client", "server": "server", "start_ns": 0,
                "start_jitter_ns": 0, "client_congestion": congestion,
                "server_congestion": congestion,
                "transport": {"kind": "web", "quic": quic, "tcp": {"client": tcp, "server": tcp}},
                "load": web
            }]
        }).to_string())
    }
}

/// Returns the TTR of load number `load` (from 0), in round trips.
fn ttr(web: &Web, load: usize) -> f64 {
    let run = web.run();
    run.table("pages").numbers("ttr_s")[load] * 1e3 / web.rtt_ms
}

/// The table of docs/explanation/web.md: round trips to the first byte of a response.
#[test]
fn round_trips_to_the_first_byte() {
    let tls = |version: &str, resume: bool, early: bool| json!({"version": version, "resumption": resume, "early_data": early});
    let no = json!({});
    let cases = [
        ("2", tls("1.2", false, false), false, 0, 4.0),
        ("1.1", tls("1.2", false, false), false, 0, 4.0),
        ("2", tls("1.2", false, false), true, 0, 3.0),
        ("2", tls("1.2-false-start", false, false), false, 0, 3.0),
        ("2", tls("1.2-false-start", false, false), true, 0, 2.0),
        ("2", tls("1.2", true, false), false, 0, 4.0),
        ("2", tls("1.2", true, false), false, 1, 3.0),
        ("2", tls("1.3", false, false), false, 0, 3.0),
        ("1.1", tls("1.3", false, false), false, 0, 3.0),
        ("2", tls("1.3", true, false), false, 1, 3.0),
        ("2", tls("1.3", false, false), true, 0, 2.0),
        ("2", tls("1.3", true, true), false, 0, 3.0),
        ("2", tls("1.3", true, true), false, 1, 2.0),
        ("2", tls("1.3", true, true), true, 1, 1.0),
        ("3", no.clone(), false, 0, 2.0),
        ("3", no, false, 1, 2.0),
        ("3", tls("1.3", true, true), false, 0, 2.0),
        ("3", tls("1.3", true, true), false, 1, 1.0),
    ];
    for (http, tls, fast_open, load, expected) in cases {
        let web = Web {
            changes: json!({"http": http, "loads": 2}),
            tcp: json!({"fast_open": fast_open}),
            tls: tls.clone(),
            ..Web::default()
        };
        let got = ttr(&web, load);
        println!("http {http} tls {tls} fast open {fast_open} load {}: {got:.4}", load + 1);
        assert!((got - expected).abs() < 0.01, "{http} {tls} {fast_open} {load}: {got}");
    }
}

#[test]
fn alt_svc_is_used_from_the_second_load_on() {
    let web = Web {
        objects: json!([object("main", 1000, &[]), object("next", 1000, &[0])]),
        changes: json!({"http": "alt-svc", "loads": 3}),
        ..Web::default()
    };
    let run = web.run();
    let pages = run.table("pages");
    // Connections that are open when HTTP/3 becomes known stay in use.
    assert_eq!(run.table("requests").names("protocol"), ["h2", "h2", "h3", "h3", "h3", "h3"]);
    assert_eq!(pages.names("protocol"), ["h2", "h3", "h3"]);
    let ttr: Vec<f64> = pages.numbers("ttr_s").to_vec();
    assert!((ttr[0] - 1.5).abs() < 0.01 && (ttr[1] - 1.0).abs() < 0.01, "{ttr:?}");
    // The head start of 300 ms ends before QUIC responds: TCP joins the race and loses it.
    assert_eq!(pages.numbers("connections").to_vec(), [1.0, 2.0, 2.0]);
    let fresh = Web { changes: json!({"http": "alt-svc", "loads": 3, "profile": "fresh"}), ..web };
    assert_eq!(fresh.run().table("pages").names("protocol"), ["h2", "h2", "h2"]);
}

#[test]
fn blocked_udp_costs_alt_svc_the_head_start_once() {
    let changes = json!({"http": "alt-svc", "loads": 3, "udp_blocked": true,
        "profile": "reused"});
    let web = Web { changes, ..Web::default() };
    let run = web.run();
    let pages = run.table("pages");
    // A server behind a firewall that advertises HTTP/3.
    assert_eq!(pages.names("protocol"), ["h2", "h2", "h2"]);
    assert_eq!(pages.numbers("connections").to_vec(), [1.0, 2.0, 1.0]);
    let late: Vec<f64> = pages
        .numbers("load_event_end_s")
        .iter()
        .zip(pages.numbers("start_s"))
        .map(|(end, start)| end - start)
        .collect();
    assert!((late[1] - late[0] - 0.3).abs() < 0.001, "{late:?}");
    assert!((late[2] - late[0]).abs() < 0.001, "{late:?}");
    let forced = Web { changes: json!({"http": "3", "udp_blocked": true}), ..web };
    let run = forced.run();
    assert_eq!(run.table("pages").numbers("completed").to_vec(), [0.0]);
    assert_eq!(run.table("pages").numbers("bytes").to_vec(), [0.0]);
}

#[test]
fn each_dependency_costs_one_round_trip() {
    for http in ["1.1", "2", "3"] {
        let plt = |count: u32| {
            let chain: Vec<Value> = (0..count)
                .map(|n| {
                    object(
                        &format!("o{n}"),
                        1000,
                        if n == 0 { vec![] } else { vec![n - 1] }.as_slice(),
                    )
                })
                .collect();
            let objects = Value::from(chain);
            let changes = json!({"http": http});
            let run = Web { objects, changes, ..Web::default() }.run();
            run.table("pages").numbers("plt_s")[0] / 0.5
        };
        let (one, four) = (plt(1), plt(4));
        assert!((four - one - 3.0).abs() < 0.01, "{http}: {one} {four}");
    }
}

#[test]
fn http1_opens_six_connections_with_one_request_each() {
    let mut objects = vec![object("main", 1000, &[])];
    objects.extend((0..12).map(|n| object(&format!("image{n}"), 700, &[0])));
    let web = Web { objects: objects.into(), changes: json!({"http": "1.1"}), ..Web::default() };
    let run = web.run();
    let pages = run.table("pages");
    assert_eq!(pages.numbers("connections").to_vec(), [6.0]);
    // The document takes 3 round trips. Its connection fetches an image in each further one. The five others are ready
    // after 2 more and fetch five: 3 + 5 in the sixth, the rest in the seventh.
    let plt = pages.numbers("plt_s")[0] / 0.5;
    assert!((plt - 7.0).abs() < 0.02, "{plt}");
    let http2 = Web { changes: json!({"http": "2"}), ..web };
    let run = http2.run();
    assert_eq!(run.table("pages").numbers("connections").to_vec(), [1.0]);
    let plt = run.table("pages").numbers("plt_s")[0] / 0.5;
    // All twelve fit into one initial window.
    assert!((plt - 4.0).abs() < 0.02, "{plt}");
}

#[test]
fn the_same_seed_gives_the_same_tables() {
    let run = |seed| {
        let changes = json!({"http": "alt-svc", "loads": 3});
        let web = Web {
            changes,
            loss_down: 0.003,
            rate: 5_000_000,
            seed,
            objects: json!([object("main", 300_000, &[]), object("b", 50_000, &[0])]),
            ..Web::default()
        };
        let run = web.run();
        (
            run.table("pages").numbers("load_event_end_s").to_vec(),
            run.table("requests").numbers("end_s").to_vec(),
        )
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn invalid_pages_are_refused_with_a_message() {
    for (objects, tls, word) in [
        (json!([]), json!({}), "no objects"),
        (
            json!([object("a", 1, &[]), object("b", 1, &[2]), object("c", 1, &[1])]),
            json!({}),
            "waits for itself",
        ),
        (json!([object("a", 1, &[])]), json!({"early_data": true}), "needs resumption"),
    ] {
        let spec = Web { objects, tls, ..Web::default() }.spec().unwrap();
        let error = sim::run(&spec, &mut |_, _| None).unwrap_err();
        assert!(error.contains(word), "{error}");
    }
}
