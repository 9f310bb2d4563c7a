//! Loads: sequence, dependencies, fairness between streams, sources of many connections.

use crate::common::{Case, data, number, streams};
use serde_json::{Value, json};

fn case(load: Value) -> Case {
    Case { rtt_ms: 60.0, load, duration_s: 30.0, ..Case::default() }
}

fn time(id: u64, after: Value, seconds: f64) -> Value {
    json!({"stream_id": id, "after": after,
        "amount": {"mode": "time", "duration_ns": (seconds * 1e9) as u64, "direction": "up"}})
}

#[test]
fn a_chained_stream_waits_for_the_previous_one() {
    // T:*2:0:-:5s;D:*1:8:0:100000:200000
    let last = json!({"stream_id": 8, "after": 0,
        "amount": {"mode": "data", "up_bytes": 100_000, "down_bytes": 200_000}});
    let run =
        case(streams(json!([time(0, Value::Null, 5.0), time(4, Value::Null, 5.0), last]))).run();
    let table = run.table("streams");
    assert_eq!(table.numbers("stream_id"), [0.0, 4.0, 8.0]);
    let start = table.numbers("start_s");
    assert_eq!(start[0], start[1]);
    // The last stream waits for the server's FIN on stream 0, which follows the client's FIN.
    assert!(start[2] >= table.numbers("up_fin_s")[0] + 0.03, "{start:?}");
    assert_eq!(table.numbers("up_bytes")[2], 100_000.0);
    assert_eq!(table.numbers("down_bytes")[2], 200_000.0);
    assert!(table.numbers("up_fin_s")[2] < table.numbers("down_first_byte_s")[2], "client first");
    // Streams of equal priority are served round robin.
    let up = table.numbers("up_bytes");
    assert!((up[0] / up[1] - 1.0).abs() < 0.02, "{up:?}");
    assert_eq!(number(&run, "flow_summary", &[("side", "client")], "completed_connections"), 1.0);
}

#[test]
fn time_mode_sends_for_its_time() {
    let run = case(streams(json!([time(0, Value::Null, 7.0)]))).run();
    let table = run.table("streams");
    let lasted = table.numbers("up_fin_s")[0] - table.numbers("start_s")[0];
    // 30 ms of one-way delay, the queue (1 BDP, 60 ms), and the data written before.
    assert!((7.03..7.3).contains(&lasted), "{lasted}");
    let written = table.numbers("up_written_bytes")[0];
    assert_eq!(written, table.numbers("up_bytes")[0], "all that was written arrives");
}

#[test]
fn time_mode_downwards_stops_the_server() {
    let run = case(streams(json!([{"stream_id": 0, "after": null, "amount":
        {"mode": "time", "duration_ns": 7_000_000_000u64, "direction": "down"}}])))
    .run();
    let table = run.table("streams");
    assert_eq!(table.numbers("up_bytes")[0], 8.0);
    let lasted = table.numbers("down_last_byte_s")[0] - table.numbers("start_s")[0];
    assert!((6.9..7.01).contains(&lasted), "{lasted}");
    assert!(table.numbers("down_bytes")[0] * 8.0 / 7.0 > 7e6);
    assert_eq!(number(&run, "flow_summary", &[("side", "client")], "completed_connections"), 1.0);
}

#[test]
fn fewer_than_eight_bytes_request_no_data() {
    let run = case(data(5, 1000)).run();
    let table = run.table("streams");
    assert_eq!(table.numbers("up_bytes")[0], 5.0);
    assert_eq!(table.numbers("down_bytes")[0], 0.0);
    assert!(table.numbers("down_fin_s")[0] > 0.0, "the server still ends its side");
}

#[test]
fn every_poisson_arrival_opens_a_connection() {
    let run = case(json!({"kind": "poisson", "mean_interarrival_ns": 100_000_000u64,
        "size": {"kind": "fixed", "bytes": 20_000}, "direction": "down",
        "duration_ns": 25_000_000_000u64}))
    .run();
    let table = run.table("streams");
    let count = table.row_count() as f64;
    // 250 expected; five standard deviations.
    assert!((count - 250.0).abs() < 5.0 * 250f64.sqrt(), "{count}");
    assert!(table.numbers("down_bytes").iter().all(|bytes| *bytes == 20_000.0));
    assert_eq!(number(&run, "flow_summary", &[("side", "client")], "completed_connections"), count);
}

#[test]
fn an_on_off_source_keeps_its_rate_and_its_duty() {
    for send in ["up", "down"] {
        let run = case(json!({"kind": "on_off", "on_ns": 1_000_000_000u64,
            "off_ns": 1_000_000_000u64, "exponential": false, "rate_bit_s": 2_000_000,
            "direction": send, "duration_ns": 20_000_000_000u64}))
        .run();
        let side = if send == "up" { "client" } else { "server" };
        let bytes = number(&run, "flow_summary", &[("side", side)], "delivered_in_order_bytes");
        // Half of 20 s at 2 Mbit/s, except for the last tick of each period.
        assert!((bytes / 2_500_000.0 - 1.0).abs() < 0.03, "{send}: {bytes}");
    }
}
