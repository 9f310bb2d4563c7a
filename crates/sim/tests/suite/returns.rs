//! Actions at the start of a contact: the time until delivery of a bundle that was lost during the outage.

use serde_json::{Value, json};
use sim::Measurements;

use crate::bundle_nodes::{Case, conserved, contact, hop, perf, range, rows, times};

const RATE: u64 = 100_000_000;

/// A bundle of one packet is sent half a second before the contact's end at 10 s. The outage starts at 9 s: the plan is
/// wrong by a second. The link and the next contact start at `back`.
fn case(link: &Value, owlt_ms: u64, back: f64) -> Case {
    let mut only = hop("1", "2", RATE, owlt_ms);
    only.dark = vec![(9.0, back)];
    let mut contacts = Vec::new();
    for (from, to) in [("1", "2"), ("2", "1")] {
        contacts.push(contact(from, to, 0.0, 10.0, RATE));
        contacts.push(contact(from, to, back, back + 1000.0, RATE));
    }
    let mut link = link.clone();
    for (key, value) in
        [("shared", true), ("opens_with_contact", true), ("closes_after_contact", false)]
    {
        link[key] = json!(value);
    }
    let client = perf(
        "1",
        "2",
        json!({"start_ns": 9_500_000_000u64, "amount": {"kind": "data", "bytes": 600},
        "payload_bytes": 600, "lifetime_ns": 3_600_000_000_000u64}),
    );
    Case {
        hops: vec![only],
        contacts,
        ranges: vec![range("1", "2", owlt_ms)],
        routes: std::collections::BTreeMap::new(),
        perf: vec![client],
        seconds: back + 500.0,
        link,
        ..Case::default()
    }
}

/// Returns the seconds from the start of the link to the bundle's delivery.
fn waited(run: &Measurements, back: f64) -> f64 {
    conserved(run);
    let [(_, at)] = times(run, "delivered", "2")[..] else { panic!("one bundle is delivered") };
    at - back
}

/// Returns the probe times of the client's connection.
fn probes(run: &Measurements) -> Vec<f64> {
    rows(run, "events")
        .iter()
        .filter(|row| row["kind"] == "pto" && row["side"] == "client")
        .map(|row| row["time_s"].parse().unwrap())
        .collect()
}

const OUTAGES: [(u64, f64); 4] = [(62, 20.0), (62, 110.0), (1000, 20.0), (1000, 110.0)];

fn link_options(layer: &str, on_return: &str) -> Value {
    json!({"cla": {"kind": layer}, "on_contact_start": on_return})
}

#[test]
fn an_open_connection_waits_for_the_backed_off_timeout() {
    for (owlt_ms, back) in OUTAGES {
        for layer in ["quiccl", "qubicle"] {
            let run = case(&link_options(layer, "keep"), owlt_ms, back).run();
            let waited = waited(&run, back);
            let probes = probes(&run);
            println!("{layer} {owlt_ms} ms, {back} s: {waited:.3} s, {probes:?}");
            // The bundle is sent at 9.5 s. The n-th probe follows after 2^n - 1 timeouts (RFC 9002 section 6.2.1).
            let timeout = probes[0] - 9.5;
            let round = owlt_ms as f64 * 2e-3;
            assert!(timeout > round && timeout < 3.0 * round + 0.03, "{timeout}");
            let due = |n: i32| 9.5 + timeout * (f64::from(1 << n) - 1.0);
            for (n, at) in probes.iter().enumerate() {
                assert!((at - due(n as i32 + 1)).abs() < 1e-3, "{n}: {at} {}", due(n as i32 + 1));
            }
            let n = (1..30).find(|n| due(*n) >= back).unwrap();
            // The stack's probe is a PING, and its ACK causes the retransmission of the bundle.
            let expected = due(n) - back + 1.5 * round;
            assert!((waited - expected).abs() < 2e-3, "{waited} {expected}");
        }
    }
}

/// The number of light times from the start of the link to the delivery.
#[test]
fn other_contact_start_actions_take_only_light_times() {
    for (layer, on_return, lights) in [
        // Bundle.
        ("quiccl", "resume", 1.0),
        // PING, its ACK, the retransmitted bundle.
        ("quiccl", "link_up", 3.0),
        ("qubicle", "link_up", 3.0),
        // A handshake and the bundle.
        ("qubicle", "reopen", 3.0),
        // A handshake, both SESS_INIT messages, the bundle.
        ("quiccl", "reopen", 5.0),
        // SYN, contact headers, SESS_INIT, the bundle.
        ("tcpcl", "reopen", 7.0),
    ] {
        for (owlt_ms, back) in OUTAGES {
            let run = case(&link_options(layer, on_return), owlt_ms, back).run();
            let waited = waited(&run, back);
            let expected = lights * owlt_ms as f64 * 1e-3;
            println!("{layer} {on_return} {owlt_ms} ms, {back} s: {waited:.4} s of {expected}");
            assert!(waited > expected && waited < expected + 3e-3, "{waited} {expected}");
        }
    }
}

#[test]
fn a_link_up_probe_before_the_link_is_repeated() {
    // The planned contact starts two seconds before the link. PINGs repeat after three round trips and back off.
    let (back, round) = (20.0, 0.124);
    let mut case = case(&link_options("quiccl", "link_up"), 62, back);
    case.hops[0].dark = vec![(9.0, back + 2.0)];
    let waited = waited(&case.run(), back);
    let ping =
        (0..9).map(|n| 3.0 * round * (f64::from(1 << n) - 1.0)).find(|at| *at > 2.0).unwrap();
    let expected = ping + 1.5 * round;
    assert!((waited - expected).abs() < 0.02, "{waited} {expected}");
}

#[test]
fn early_bundles_wait_for_sess_init() {
    // The packet after ClientHello, with SESS_INIT, is lost. The rest of the bundle arrives before its repetition.
    let (back, round) = (20.0, 0.124);
    let mut case = case(&link_options("quiccl", "resume"), 62, back);
    case.hops[0].dark.push((back + 0.00015, back + 0.00025));
    for (key, value) in
        [("amount", json!({"kind": "data", "bytes": 100_000})), ("payload_bytes", json!(100_000))]
    {
        case.perf[0][key] = value;
    }
    let run = case.run();
    let waited = waited(&run, back);
    assert!(waited > 1.4 * round && waited < 2.2 * round, "{waited}");
    let opened = rows(&run, "events");
    let opened = opened.iter().filter(|row| row["kind"] == "start" && row["side"] == "client");
    assert_eq!(opened.count(), 2, "the session goes on");
}
