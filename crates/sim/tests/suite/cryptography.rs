//! Modelled cryptography against TLS 1.3: equal times and equal sizes.

use crate::common::{Case, data};
use serde_json::json;
use sim::Measurements;

fn run(crypto: &str, handshake: &str) -> Measurements {
    let quic = json!({"crypto": crypto, "handshake": handshake});
    Case { load: data(1000, 500_000), duration_s: 20.0, quic, ..Case::default() }.run()
}

fn fingerprint(run: &Measurements) -> Vec<(String, Vec<f64>)> {
    let mut prints = Vec::new();
    for (table, columns) in [
        ("streams", &["start_s", "up_fin_s", "down_first_byte_s", "down_fin_s"][..]),
        ("flow_summary", &["sent_packets", "sent_bytes", "ack_bytes", "lost_packets"][..]),
        ("events", &["time_s"][..]),
    ] {
        for column in columns {
            prints.push((format!("{table}.{column}"), run.table(table).numbers(column)));
        }
    }
    prints
}

fn compare(handshake: &str) {
    let (modelled, real) = (run("modelled", handshake), run("rustls", handshake));
    for (modelled, real) in fingerprint(&modelled).into_iter().zip(fingerprint(&real)) {
        println!("{} {:?} {:?}", modelled.0, modelled.1, real.1);
        assert_eq!(modelled, real, "{handshake}");
    }
}

#[test]
fn one_round_trip() {
    compare("1-rtt");
    let run = run("modelled", "1-rtt");
    let start = run.table("streams").numbers("start_s")[0];
    // One round trip and the transmission of a few packets.
    assert!((0.5..0.51).contains(&start), "{start}");
}

#[test]
fn no_round_trip() {
    compare("0-rtt");
    let run = run("modelled", "0-rtt");
    assert_eq!(run.table("streams").numbers("start_s")[0], 0.0);
    let answer = run.table("streams").numbers("down_first_byte_s")[0];
    assert!((0.5..0.51).contains(&answer), "{answer}");
}

/// Runs a transfer over a path that delays some packets by `hold_ms`.
fn overtaken(
    crypto: &str,
    rate_bit_s: u64,
    bytes: u64,
    probability: f64,
    hold_ms: u64,
) -> Measurements {
    let case = Case {
        rate_up: 40_000_000,
        rtt_ms: 10.0,
        congestion: json!({"name": "fixed", "options": {"rate_bit_s": rate_bit_s}}),
        load: data(bytes, 1000),
        duration_s: 20.0,
        quic: json!({"crypto": crypto, "initial_rtt_ns": 10_000_000u64}),
        ..Case::default()
    };
    let mut spec = serde_json::to_value(case.spec()).unwrap();
    let up = spec["graph"]["links"][0]["up"].as_array_mut().unwrap();
    up.push(
        json!({"kind": "reorder", "probability": probability, "delay_ns": hold_ms * 1_000_000}),
    );
    sim::run(&spec::RunSpec::from_json(&spec.to_string()).unwrap(), &mut |_, _| None).unwrap()
}

/// A packet can be overtaken by more packets than its truncated number distinguishes. The receiver then expands it to
/// another number. Under TLS the decryption fails, and the packet is lost.
#[test]
fn an_overtaken_packet_is_read_as_over_tls() {
    let [modelled, real] =
        ["modelled", "rustls"].map(|crypto| overtaken(crypto, 35_000_000, 15_000_000, 0.001, 50));
    assert_eq!(fingerprint(&modelled), fingerprint(&real));
    assert!(real.table("streams").numbers("up_fin_s")[0] > 3.0);
}

/// A packet that arrives after its keys were updated and discarded (RFC 9001 section 6.5) cannot be decrypted either.
/// It does not count as a forbidden update, which would end the connection (section 6.2).
#[test]
fn a_packet_of_discarded_keys_is_read_as_over_tls() {
    let [modelled, real] =
        ["modelled", "rustls"].map(|crypto| overtaken(crypto, 2_000_000, 1_500_000, 0.1, 400));
    assert_eq!(fingerprint(&modelled), fingerprint(&real));
    assert!(real.table("streams").numbers("up_fin_s")[0] > 6.0);
}
