//! Every option of a QUIC flow has its effect.

use crate::common::{Case, MTU, goodput_up, number, time_up};
use serde_json::{Value, json};
use sim::Measurements;
use spec::RunSpec;

fn case(quic: Value) -> Case {
    Case { rtt_ms: 100.0, load: time_up(20.0), duration_s: 20.0, quic, ..Case::default() }
}

fn client(run: &Measurements, column: &str) -> f64 {
    number(run, "flow_summary", &[("side", "client")], column)
}

fn server(run: &Measurements, column: &str) -> f64 {
    number(run, "flow_summary", &[("side", "server")], column)
}

#[test]
fn the_ack_frequency_option_reduces_acks() {
    let ratio = |threshold: Value| {
        let run = case(json!({"ack_eliciting_threshold": threshold})).run();
        client(&run, "sent_packets") / server(&run, "ack_packets")
    };
    let (every_second, every_tenth) = (ratio(Value::Null), ratio(json!(9)));
    // RFC 9000 section 13.2.2; with a threshold of 9 every tenth packet, at most 25 ms late.
    assert!((1.9..2.2).contains(&every_second), "{every_second}");
    assert!((7.0..11.0).contains(&every_tenth), "{every_tenth}");
}

#[test]
fn flow_control_bounds_the_rate() {
    let window = 50_000.0;
    let run =
        case(json!({"receive_window_bytes": 50_000, "stream_receive_window_bytes": 50_000})).run();
    let goodput = goodput_up(&run, 20.0);
    let bound = window * 8.0 / 0.1;
    assert!(goodput <= bound, "{goodput} above a window a round trip, {bound}");
    assert!(goodput > 0.6 * bound, "{goodput} against {bound}");
}

#[test]
fn the_idle_timeout_ends_a_connection_that_an_outage_cuts() {
    let with_outage = |timeout: Value| {
        let mut spec: Value =
            serde_json::to_value(case(json!({"idle_timeout_ns": timeout})).spec()).expect("JSON");
        let outage = json!({"kind": "outage", "windows": [[5_000_000_000u64, 12_000_000_000u64]],
            "repeat_ns": null, "buffer_packets": false});
        for direction in ["up", "down"] {
            let stages = spec["graph"]["links"][0][direction].as_array_mut().expect("stages");
            stages.insert(0, outage.clone());
        }
        let spec = RunSpec::from_json(&spec.to_string()).expect("a specification");
        sim::run(&spec, &mut |_, _| None).expect("a valid run")
    };
    let cut = with_outage(json!(3_000_000_000u64));
    assert!(cut.table("events").names("kind").contains(&"lost"));
    let end = client(&cut, "end_s");
    assert!((7.9..12.0).contains(&end), "{end}");
    let patient = with_outage(Value::Null);
    assert!(!patient.table("events").names("kind").contains(&"lost"));
    // Probes back off to 1.6, 3.2 and 6.4 s from about 0.2 s. One of them follows within 7 s of the end.
    let last = number(&patient, "streams", &[], "up_last_byte_s");
    assert!(last > 19.0, "the flow goes on after the outage, until {last}");
    assert!(client(&patient, "ptos") >= 3.0);
}

#[test]
fn ecn_signals_congestion_without_loss() {
    let run = |ecn: bool| {
        let mut spec: Value = serde_json::to_value(case(json!({"ecn": ecn})).spec()).expect("JSON");
        spec["graph"]["links"][0]["up"][1]["queue"] = json!({"kind": "codel",
            "limit": {"bytes": 1_000_000}, "target_ns": 5_000_000, "interval_ns": 100_000_000,
            "ecn": true});
        let spec = RunSpec::from_json(&spec.to_string()).expect("a specification");
        sim::run(&spec, &mut |_, _| None).expect("a valid run")
    };
    let link =
        |run: &Measurements, column| number(run, "link_summary", &[("link", "link.up")], column);
    let (marked, dropped) = (run(true), run(false));
    assert!(link(&marked, "marked_packets") > 0.0 && link(&marked, "dropped_aqm_packets") == 0.0);
    assert!(link(&dropped, "marked_packets") == 0.0 && link(&dropped, "dropped_aqm_packets") > 0.0);
    assert_eq!(client(&marked, "lost_packets"), 0.0);
    assert!(client(&marked, "congestion_events") > 0.0);
    assert!(client(&dropped, "lost_packets") > 0.0);
}

#[test]
fn packets_have_the_configured_size() {
    for mtu in [1200u64, 1452] {
        let run = case(json!({"mtu_bytes": mtu, "header_bytes": 48})).run();
        let (bytes, packets) = (client(&run, "sent_bytes"), client(&run, "sent_packets"));
        let mean = bytes / packets;
        assert!(
            mean <= (mtu + 48) as f64 && mean > 0.99 * (mtu + 48) as f64,
            "{mean} of {}",
            mtu + 48
        );
    }
}

#[test]
fn a_larger_initial_window_delivers_sooner() {
    let done = |packets: u64| {
        let quic = json!({"initial_window_bytes": packets * MTU});
        let case = Case { load: crate::common::data(200_000, 0), ..case(quic) };
        number(&case.run(), "streams", &[], "up_fin_s")
    };
    let (ten, hundred) = (done(10), done(100));
    assert!(hundred + 0.2 < ten, "{hundred} s against {ten} s");
}

#[test]
fn the_minimum_rtt_equals_that_of_the_path() {
    let case = case(json!({}));
    let run = case.run();
    let min_rtt = run.table("flows").numbers("min_rtt_ms").into_iter().fold(f64::NAN, f64::min);
    // The propagation delay of 100 ms and the transmission of one packet per direction.
    assert!((100.0..101.5).contains(&min_rtt), "{min_rtt}");
}
