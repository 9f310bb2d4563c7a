//! Modelled cryptography against TLS 1.3: the same times and the same sizes.

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
        ("summary", &["sent_packets", "sent_bytes", "ack_bytes", "lost_packets"][..]),
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
    // One round trip and the serialisation of a few packets.
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
