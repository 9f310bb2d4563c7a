//! Calls over UDP and over QUIC datagrams: sent packets, received packets, delays.

use serde_json::{Value, json};
use sim::Measurements;
use spec::RunSpec;

use crate::common::{Case, number, quic};

const MS: u64 = 1_000_000;

fn voice(periods: &Value) -> Value {
    json!({"name": "g711", "rtp_type": 0, "payload_bytes": 172, "interval_ns": 20 * MS, "periods": periods})
}

fn call(up: &Value, down: &Value, seconds: u64) -> Value {
    json!({"kind": "datagrams", "up": up, "down": down, "duration_ns": seconds * 1000 * MS})
}

fn over_udp() -> Value {
    json!({"kind": "udp", "header_bytes": 28})
}

/// Returns a call over a path, with `stage` as the first uplink stage.
fn spec(transport: &Value, load: &Value, stage: Option<Value>, seconds: f64) -> RunSpec {
    let case = Case { duration_s: seconds, ..Case::default() };
    let mut spec = serde_json::to_value(case.spec()).unwrap();
    spec["flows"][0]["transport"] = transport.clone();
    spec["flows"][0]["load"] = load.clone();
    if let Some(stage) = stage {
        spec["graph"]["links"][0]["up"].as_array_mut().unwrap().insert(0, stage);
    }
    RunSpec::from_json(&spec.to_string()).unwrap()
}

fn run(spec: &RunSpec) -> Measurements {
    sim::run(spec, &mut |_, _| None).unwrap()
}

/// Returns the sum of a direction's column over all windows.
fn sum(run: &Measurements, table: &str, direction: &str, column: &str) -> f64 {
    let table = run.table(table);
    let rows = table.names("direction").into_iter().zip(table.numbers(column));
    rows.filter(|(name, _)| *name == direction).map(|(_, value)| value).sum()
}

#[test]
fn the_delay_of_a_call_is_that_of_the_path() {
    let spec = spec(&over_udp(), &call(&voice(&Value::Null), &voice(&Value::Null), 50), None, 60.0);
    let run = run(&spec);
    // 250 ms, and 200 bytes at 10 Mbit/s.
    let wanted = 250.16;
    for direction in ["up", "down"] {
        assert_eq!(sum(&run, "calls", direction, "sent_packets"), 2500.0);
        assert_eq!(sum(&run, "calls", direction, "received_packets"), 2500.0);
        assert_eq!(sum(&run, "calls", direction, "pending_packets"), 0.0);
        let mean = sum(&run, "calls", direction, "delay_sum_s") / 2500.0 * 1e3;
        assert!((mean - wanted).abs() < 1e-6, "{mean}");
        assert_eq!(sum(&run, "calls", direction, "jitter_sum_s"), 0.0);
        assert_eq!(sum(&run, "call_delays", direction, "packets"), 2500.0);
        assert_eq!(sum(&run, "call_delays", direction, "before_slower_packets"), 0.0);
    }
    assert!(run.table("call_delays").numbers("delay_ms").iter().all(|delay| *delay == 250.0));
    for (side, other) in [("client", "server"), ("server", "client")] {
        let of = |side, column| number(&run, "flow_summary", &[("side", side)], column);
        assert_eq!(of(side, "sent_packets"), 2500.0);
        assert_eq!(of(side, "sent_bytes"), 2500.0 * 200.0);
        assert_eq!(of(side, "written_bytes"), 2500.0 * 172.0);
        assert_eq!(of(side, "delivered_in_order_bytes"), of(other, "received_in_order_bytes"));
        assert_eq!(of(side, "delivered_bytes"), 2500.0 * 172.0);
    }
    assert_eq!(number(&run, "streams", &[("mode", "datagrams")], "up_bytes"), 2500.0 * 172.0);
    assert_eq!(
        number(&run, "flow_summary", &[("side", "client")], "end_s"),
        54.0,
        "4 s after the end"
    );
}

#[test]
fn lost_datagrams_are_counted_and_those_in_flight_are_not() {
    let loss = json!({"kind": "loss", "model": {"kind": "bernoulli", "probability": 0.05}});
    let load = call(&voice(&Value::Null), &Value::Null, 60);
    let run = run(&spec(&over_udp(), &load, Some(loss), 60.0));
    let of = |column| sum(&run, "calls", "up", column);
    assert_eq!(of("sent_packets"), 3000.0);
    // The last quarter of a second is in flight: 12 datagrams, and the one completed at the very end.
    assert!((12.0..=16.0).contains(&of("pending_packets")), "{}", of("pending_packets"));
    let lost = of("sent_packets") - of("received_packets") - of("pending_packets");
    let dropped = number(&run, "link_summary", &[("link", "link.up")], "dropped_loss_packets");
    let hidden = of("pending_packets") - 13.0;
    assert!((0.0..=hidden + 1.0).contains(&(dropped - lost)), "{dropped} {lost}");
    // Five standard errors of 3,000 draws.
    assert!((lost / 2987.0 - 0.05).abs() < 5.0 * (0.05f64 * 0.95 / 2987.0).sqrt(), "{lost}");
    // Bursts of independent losses have mean length 1 / (1 - p). Each loss starts a burst, except after another loss.
    let bursts = sum(&run, "call_delays", "up", "before_slower_packets")
        - sum(&run, "call_delays", "up", "after_quicker_packets");
    assert!((bursts / lost - 0.95).abs() < 0.1, "{bursts} {lost}");
    assert!(
        run.table("calls").names("direction").iter().all(|direction| *direction == "up"),
        "one way only"
    );
}

#[test]
fn a_permanent_outage_loses_all_datagrams() {
    let windows = json!([[30_000 * MS, 70_000 * MS]]);
    let outage =
        json!({"kind": "outage", "windows": windows, "repeat_ns": null, "buffer_packets": false});
    let load = call(&voice(&Value::Null), &Value::Null, 60);
    let run = run(&spec(&over_udp(), &load, Some(outage), 60.0));
    let of = |column| sum(&run, "calls", "up", column);
    // A datagram counts as lost after 4 s without arrival. The outcome of the last 4 s, ends included, is open.
    assert_eq!(of("pending_packets"), 201.0);
    let lost = 3000.0 - of("received_packets") - 201.0;
    assert!((lost - 1300.0).abs() < 2.0, "{lost}");
}

#[test]
fn quic_delivers_the_same_datagrams() {
    let load = call(&voice(&Value::Null), &voice(&Value::Null), 50);
    let run = run(&spec(&quic(&json!({})), &load, None, 60.0));
    for direction in ["up", "down"] {
        assert_eq!(sum(&run, "calls", direction, "sent_packets"), 2500.0, "{direction}");
        assert_eq!(sum(&run, "calls", direction, "received_packets"), 2500.0, "{direction}");
        let mean = sum(&run, "calls", direction, "delay_sum_s") / 2500.0 * 1e3;
        // QUIC's headers, tag and frame add 28 to 40 bytes, and some datagrams share a packet with an ACK.
        assert!((250.18..250.5).contains(&mean), "{direction} {mean}");
    }
    // The client starts after one round trip, the server half a round trip later.
    let first = run.table("streams").numbers("start_s");
    assert!((first[0] - 0.5).abs() < 0.01, "{first:?}");
    assert_eq!(number(&run, "flow_summary", &[("side", "client")], "completed_connections"), 1.0);
}

#[test]
fn speech_with_pauses_sends_the_expected_share() {
    let periods =
        json!({"on_ns": 1004 * MS, "off_ns": 1587 * MS, "distribution": {"kind": "exponential"}});
    let load = call(&voice(&periods), &voice(&periods), 2000);
    let run = run(&spec(&over_udp(), &load, None, 2010.0));
    let sent = ["up", "down"].map(|direction| sum(&run, "calls", direction, "sent_packets"));
    assert_ne!(sent[0], sent[1], "each side speaks for itself");
    for count in sent {
        // 772 pairs of periods. The standard error of the share is below sqrt(2 p^2 (1-p)^2 / 772) (delta method).
        let p = 1.004 / 2.591;
        let error = (2.0f64 * p * p * (1.0 - p) * (1.0 - p) / 772.0).sqrt();
        assert!((count / 100_000.0 - p).abs() < 5.0 * error, "{count}");
    }
}

#[test]
fn incompatible_loads_and_transports_are_refused() {
    let load = call(&voice(&Value::Null), &Value::Null, 50);
    let refused = |transport: Value, load: &Value| {
        sim::run(&spec(&transport, load, None, 1.0), &mut |_, _| None).unwrap_err()
    };
    let tcp = crate::common::tcp(&json!({}));
    assert_eq!(refused(tcp, &load), "flow main: TCP carries no datagrams");
    let bulk = crate::common::time_up(1.0);
    assert_eq!(refused(over_udp(), &bulk), "flow main: UDP carries only loads of datagrams");
    let periods =
        json!({"on_ns": 1, "off_ns": 1, "distribution": {"kind": "pareto", "shape": 1.0}});
    let error = refused(over_udp(), &call(&voice(&periods), &Value::Null, 1));
    assert_eq!(error, "flow main: a Pareto period of shape 1 has no mean; expected more than 1");
    let mut tiny = voice(&Value::Null);
    tiny["payload_bytes"] = json!(21);
    let error = refused(over_udp(), &call(&tiny, &Value::Null, 1));
    assert_eq!(error, "flow main: payload_bytes is 21, expected 22 to 65507");
    let error = refused(over_udp(), &call(&Value::Null, &Value::Null, 1));
    assert_eq!(error, "flow main: neither side sends datagrams");
}

#[test]
fn a_run_without_calls_has_no_tables_of_them() {
    let run = Case { duration_s: 1.0, ..Case::default() }.run();
    assert!(run.tables.iter().all(|table| !table.name.starts_with("call")));
}
