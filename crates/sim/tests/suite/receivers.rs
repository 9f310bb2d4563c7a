//! A pure receiver sends only ACKs. It sends no probes and has no bytes in flight.

use crate::common::{Case, number, time_up};
use serde_json::json;
use sim::Measurements;

/// Runs an upload over a lossy path. Each hole makes the server's ACKs longer.
fn run(rtt_ms: f64, loss: f64, quic: serde_json::Value) -> Measurements {
    let congestion = json!({"name": "fixed", "options": {"window_bytes": 200_000}});
    let load = time_up(60.0);
    Case { rtt_ms, loss, quic, congestion, load, seed: 3, ..Case::default() }.run()
}

/// Returns the server's rows of `flows` by time.
fn server(run: &Measurements, column: &str) -> Vec<f64> {
    let flows = run.table("flows");
    let (sides, numbers) = (flows.names("side"), flows.numbers(column));
    (0..flows.row_count()).filter(|row| sides[*row] == "server").map(|row| numbers[row]).collect()
}

#[test]
fn a_pure_receiver_neither_probes_nor_has_anything_in_flight() {
    for (rtt_ms, loss) in [(30.0, 0.05), (500.0, 0.02), (500.0, 0.2)] {
        let run = run(rtt_ms, loss, json!({}));
        let acks = number(&run, "flow_summary", &[("side", "server")], "ack_packets");
        // All packets of the handshake are acknowledged by then.
        let settled = server(&run, "time_s").iter().position(|time| *time > 15.0).expect("a row");
        let ptos = server(&run, "ptos");
        assert_eq!(
            ptos[ptos.len() - 1],
            ptos[settled],
            "{rtt_ms} ms, {loss}: probes of a receiver"
        );
        let flight = server(&run, "in_flight_bytes");
        assert!(flight[settled..].iter().all(|bytes| *bytes == 0.0), "{rtt_ms} ms, {loss}");
        // Every packet except those of the handshake was an ACK.
        let sent = number(&run, "flow_summary", &[("side", "server")], "sent_packets");
        assert!(sent - acks < 30.0, "{sent} packets, {acks} ACKs");
    }
}

/// Window updates elicit ACKs. They are in flight for one round trip, with at most the updates of that time.
#[test]
fn window_updates_are_in_flight_until_they_are_acknowledged() {
    let window = json!({"receive_window_bytes": 100_000, "stream_receive_window_bytes": 100_000});
    let run = run(100.0, 0.2, window);
    let flight = server(&run, "in_flight_bytes");
    let max_flight = flight[150..].iter().copied().fold(0.0, f64::max);
    // One update per eighth of the window, in a packet with at most 64 bytes besides its ACK.
    assert!(max_flight > 0.0 && max_flight < 9.0 * 150.0, "{max_flight}");
}
