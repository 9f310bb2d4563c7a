//! Round trips to the first byte through splitting proxies: the table of docs/explanation/web.md.

use crate::common::{number, quic};
use crate::split::{Link, Split, proxy, tcp};
use serde_json::{Value, json};

/// The round trips of KA-SAT's access in ms: terminal to client, satellite, gateway to server.
const LAN: f64 = 1.0;
const SATELLITE: f64 = 719.0;
const INTERNET: f64 = 30.0;
const E: f64 = LAN + SATELLITE + INTERNET;

const RATE: u64 = 1_000_000_000;

fn joints(setup: &str) -> [Option<Value>; 2] {
    match setup {
        "none" => [None, None],
        // The gateway has no pool towards the server.
        "pooled" => [Some(proxy("pooled")), Some(proxy("early"))],
        setup => [Some(proxy(setup)), Some(proxy(setup))],
    }
}

/// Returns the TTR of load number `load`, from 1, in ms.
fn ttr(setup: &str, http: &str, tls: &Value, fast_open: bool, load: u32) -> f64 {
    let host = json!({"name": "a.example", "open": false});
    ttr_of(&host, setup, http, tls, fast_open, load)
}

/// Returns the same for a page on this host.
fn ttr_of(host: &Value, setup: &str, http: &str, tls: &Value, fast_open: bool, load: u32) -> f64 {
    let objects = json!([{"name": "main", "host": 0, "request_bytes": 400,
        "response_header_bytes": 300, "body_bytes": 500, "after": [], "think_ns": 0}]);
    let mut options = json!({"version": "1.3", "resumption": false, "early_data": false,
        "certificate_bytes": 3000, "client_hello_bytes": 512});
    for (key, value) in tls.as_object().into_iter().flatten() {
        options[key] = value.clone();
    }
    let page = json!({
        "kind": "page", "page": {"name": "page", "objects": objects,
            "hosts": [host]},
        "http": http, "tls": options, "loads": load, "pause_ns": [5_000_000_000u64, 5_000_000_000u64],
        "timeout_ns": 20_000_000_000u64, "profile": "reused", "keep_connections": false,
        "udp_blocked": false, "quic_head_start_ns": 300_000_000, "connections_per_host": 6,
        "parse_ns": 0
    });
    let mut case = Split::over_satellite(None, None, page);
    case.links = vec![
        Link("lan", LAN / 2.0, RATE, 0.0),
        Link("satellite", SATELLITE / 2.0, RATE, 0.0),
        Link("internet", INTERNET / 2.0, RATE, 0.0),
    ];
    case.joints = joints(setup).to_vec();
    let side = tcp(&json!({"fast_open": fast_open}));
    let mut spec = case.json();
    let mut over_quic = quic(&json!({}));
    over_quic.as_object_mut().unwrap().remove("kind");
    spec["flows"][0]["transport"] =
        json!({"kind": "web", "quic": over_quic, "tcp": {"client": side, "server": side}});
    let spec = spec::RunSpec::from_json(&spec.to_string()).expect("a valid specification");
    let run = sim::run(&spec, &mut |_, _| None).expect("the run is valid");
    assert_eq!(number(&run, "pages", &[], "completed"), 1.0);
    run.table("pages").numbers("ttr_s")[load as usize - 1] * 1e3
}

#[test]
fn round_trips_through_proxies_equal_the_table() {
    let tls = |version: &str| json!({"version": version});
    let resumed = |version: &str| json!({"version": version, "resumption": true});
    let early = json!({"resumption": true, "early_data": true});
    // Further round trips after those of the transport; HTTP, TLS, load.
    let cases = [
        (2.0, "2", tls("1.2"), 1),
        (1.0, "2", tls("1.2-false-start"), 1),
        (1.0, "1.1", tls("1.2-false-start"), 1),
        (1.0, "2", resumed("1.2"), 2),
        (1.0, "2", tls("1.3"), 1),
        (1.0, "2", resumed("1.3"), 2),
        (0.0, "2", early.clone(), 2),
    ];
    let near = |what: &str, found: f64, expected: f64| {
        println!("{what}: {found:.2} ms, by the table {expected:.0} ms");
        // A few transmissions.
        assert!((expected - 0.01..expected + 2.0).contains(&found), "{what}: {found} {expected}");
    };
    for (more, http, tls, load) in &cases {
        let what = |setup: &str| format!("{setup} {http} {tls} load {load}");
        for (setup, expected) in [
            ("none", 2.0 * E + more * E),
            ("relayed", 2.0 * E + more * E),
            ("early", SATELLITE + E + more * E),
            ("pooled", E + INTERNET + more * E),
        ] {
            near(&what(setup), ttr(setup, http, tls, false, *load), expected);
        }
        near(&what("Fast Open"), ttr("none", http, tls, true, *load), E + more * E);
    }
    for setup in ["none", "early", "pooled"] {
        near(setup, ttr(setup, "3", &json!({}), false, 1), 2.0 * E);
        near(setup, ttr(setup, "3", &early, false, 2), E);
    }
}

/// The table's row of HTTP without TLS. The page has other versions for other hosts: the server distinguishes these
/// connections also behind proxies.
#[test]
fn round_trips_without_tls_equal_the_table() {
    let host = json!({"name": "http://a.example", "open": false, "tls": false});
    for http in ["1.1", "2", "3", "alt-svc"] {
        for (setup, expected) in [
            ("none", 2.0 * E),
            ("relayed", 2.0 * E),
            ("early", SATELLITE + E),
            ("pooled", E + INTERNET),
        ] {
            let found = ttr_of(&host, setup, http, &json!({}), false, 1);
            println!("{setup} {http}: {found:.2} ms, by the table {expected:.0} ms");
            assert!((expected - 0.01..expected + 2.0).contains(&found), "{setup} {http}: {found}");
        }
        // The browser sends a request only on an open connection, so no SYN carries one.
        let found = ttr_of(&host, "none", http, &json!({}), true, 2);
        assert!((2.0 * E - 0.01..2.0 * E + 2.0).contains(&found), "Fast Open {http}: {found}");
    }
}

/// A current ClientHello does not fit into a SYN. The rest follows with the ACK of the SYN-ACK, so Fast Open saves no
/// time.
#[test]
fn fast_open_saves_no_time_if_the_client_hello_does_not_fit() {
    let tls = json!({"client_hello_bytes": 2014});
    let found = ttr("none", "2", &tls, true, 1);
    assert!((3.0 * E..3.0 * E + 2.0).contains(&found), "{found}");
}
