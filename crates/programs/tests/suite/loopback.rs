//! Transfers over the loopback interface: all bytes arrive and both sides count them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{
    Machine, Running, client_plan, data, measured, min_mbit_s, run_client, run_client_until,
    server_plan, time,
};
use serde_json::{Value, json};

fn pair(load: Value) -> (Value, Value) {
    let server = Running::start(server_plan());
    let client = measured(client_plan(server.address.port(), load));
    let mut server = server.wait();
    assert_eq!(server.len(), 1, "one connection, one summary");
    (client, server.pop().unwrap())
}

#[test]
fn streams_transfer_in_both_directions_in_the_requested_order() {
    let load = json!([
        data(0, None, 3_000_000, 0),
        data(4, None, 8, 2_000_000),
        data(8, Some(4), 100, 50_000),
        data(12, Some(0), 5, 0),
    ]);
    let (client, server) = pair(load);
    assert_eq!(client["up_bytes"], 3_000_113);
    assert_eq!(client["down_bytes"], 2_050_000);
    // Each side received the bytes that the other sent.
    assert_eq!(server["down_bytes"], client["up_bytes"]);
    assert_eq!(server["up_bytes"], client["down_bytes"]);
    assert_eq!(client["end"], "closed");
    assert_eq!(client["alpn"], "perf");
    let streams = client["streams"].as_array().unwrap();
    assert!(streams.iter().all(|stream| stream["done"] == true), "{streams:?}");
    let down: Vec<u64> =
        streams.iter().map(|stream| stream["down_bytes"].as_u64().unwrap()).collect();
    let labels: Vec<u64> =
        streams.iter().map(|stream| stream["stream"].as_u64().unwrap()).collect();
    for (label, bytes) in [(0, 0), (4, 2_000_000), (8, 50_000), (12, 0)] {
        let index = labels.iter().position(|found| *found == label).unwrap();
        assert_eq!(down[index], bytes, "stream {label}");
    }
    // Packets of 1452 bytes carry the data with an overhead of at most a tenth.
    let sent = server["sent_packets"].as_u64().unwrap();
    assert!((2_050_000 / 1452..5_050_000 / 1452).contains(&sent), "{sent}");
}

#[test]
fn many_streams_at_once() {
    let load: Vec<Value> = (0..60).map(|n| data(4 * n, None, 20_000, 30_000)).collect();
    let (client, server) = pair(json!(load));
    assert_eq!(
        (client["up_bytes"].as_u64(), client["down_bytes"].as_u64()),
        (Some(1_200_000), Some(1_800_000))
    );
    assert_eq!(server["streams"].as_array().unwrap().len(), 60);
}

/// Half a second in each direction, concurrently.
#[test]
fn time_mode_ends_on_time() {
    let machine = Machine::watch();
    let (client, _) = pair(json!([time(0, 500, "up"), time(4, 500, "down")]));
    let late = machine.late().as_secs_f64();
    let seconds = client["seconds"].as_f64().unwrap();
    assert!((0.5..0.8 + late).contains(&seconds), "{seconds} s, the machine {late} s late");
    for column in ["up_mbit_s", "down_mbit_s"] {
        assert!(client[column].as_f64().unwrap() > min_mbit_s(&client), "{client}");
    }
}

#[test]
fn pico_perf_is_accepted_and_other_protocols_are_refused() {
    let server = Running::start(server_plan());
    let mut plan = client_plan(server.address.port(), json!([data(0, None, 100, 100)]));
    plan["alpn"] = json!("h3");
    let (_, refused) = run_client(plan.clone());
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("does not support ALPN h3"), "{message}");
    plan["alpn"] = json!("pico-perf");
    assert_eq!(measured(plan)["alpn"], "pico-perf");
    assert_eq!(server.wait().len(), 1, "a failed handshake is not the one connection");
}

#[test]
fn only_the_pinned_certificate_is_accepted() {
    let server = Running::start(server_plan());
    let mut plan = client_plan(server.address.port(), json!([data(0, None, 100, 100)]));
    plan["server_verification"] = json!({"fingerprint": "00".repeat(32)});
    let (_, refused) = run_client(plan.clone());
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains(&server.fingerprint) && message.contains("expected 0000"),
        "{message}"
    );
    plan["server_verification"] = json!({"fingerprint": server.fingerprint});
    assert_eq!(measured(plan)["down_bytes"], 100);
    server.wait();
}

#[test]
fn a_stopped_client_reports_and_the_server_continues() {
    let mut plan = server_plan();
    plan["once"] = json!(false);
    let server = Running::start(plan);
    let port = server.address.port();
    let stop = Arc::new(AtomicBool::new(false));
    let setter = stop.clone();
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        setter.store(true, Ordering::Relaxed);
    });
    let (screen, stopped) =
        run_client_until(client_plan(port, json!([time(0, 60_000, "up")])), &stop);
    timer.join().unwrap();
    assert!(stopped.unwrap());
    let summary = screen.values().pop().unwrap();
    assert_eq!(summary["end"], "interrupted");
    assert!(summary["up_bytes"].as_u64().unwrap() > 0);
    assert_eq!(measured(client_plan(port, json!([data(0, None, 10, 10)])))["down_bytes"], 10);
    let rows = server.end();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[0]["down_bytes"].as_u64().unwrap() > 0);
}

#[test]
fn one_connection_at_a_time_with_once() {
    let server = Running::start(server_plan());
    let port = server.address.port();
    // The first client runs until the server has refused the second, even on a busy machine.
    let stop = Arc::new(AtomicBool::new(false));
    let until = stop.clone();
    let first = std::thread::spawn(move || {
        run_client_until(client_plan(port, json!([time(0, 60_000, "up")])), &until)
    });
    std::thread::sleep(Duration::from_millis(200));
    let (_, second) = run_client(client_plan(port, json!([data(0, None, 10, 10)])));
    stop.store(true, Ordering::Relaxed);
    let (screen, stopped) = first.join().unwrap();
    let message = second.unwrap_err().to_string();
    assert!(message.contains("is at its connection limit"), "{message}");
    assert!(stopped.unwrap());
    assert!(screen.values().pop().unwrap()["up_bytes"].as_u64().unwrap() > 0);
    server.wait();
}

#[test]
fn csv_rows_are_written_at_the_interval() {
    let folder = std::env::temp_dir().join(format!("bentpipe-lines-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("client.csv");
    let server = Running::start(server_plan());
    let mut plan =
        client_plan(server.address.port(), json!([time(0, 500, "up"), data(4, None, 8, 100_000)]));
    plan["report"] = json!({"interval_ns": 200_000_000, "csv": {"file": file, "interval_ns": 100_000_000}, "json": false});
    let (screen, result) = run_client(plan);
    assert!(!result.unwrap());
    server.wait();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][..4], ["time_s", "connection", "stream", "event"]);
    let of = |event: &str| rows.iter().filter(|row| row[3] == event).count();
    assert_eq!((of("fin"), of("total")), (2, 1), "{text}");
    let total = rows.last().unwrap();
    // At most one row per 0.1 s, written at a wake-up; missed times have no row. Each time has a row for all streams,
    // and one for the long stream until its end.
    let at = |stream: &str, event: &str| -> Vec<f64> {
        let these = rows.iter().filter(|row| (row[2], row[3]) == (stream, event));
        these.map(|row| row[0].parse().unwrap()).collect()
    };
    let (all, long) = (at("all", "interval"), at("0", "interval"));
    let over: f64 = total[0].parse().unwrap();
    assert!(all.len() as f64 <= over / 0.1, "{text}");
    assert!(all.is_sorted_by(|a, b| a < b), "{text}");
    assert!(all.iter().zip(all.iter().skip(2)).all(|(a, b)| b - a > 0.1), "{text}");
    let ended = at("0", "fin")[0];
    // Times have millisecond resolution, so a row at the end can fall on either side.
    let sure = all.iter().filter(|time| **time < ended - 0.001).count();
    assert!(long.len() >= sure && long.iter().all(|time| *time <= ended + 0.001), "{text}");
    assert_eq!(long, all[..long.len()], "{text}");
    let slept = std::iter::once(0.0).chain(all.iter().copied());
    let longest = slept.zip(all.iter().chain([&over])).map(|(a, b)| b - a).fold(0.0, f64::max);
    // Five times in 0.5 s, unless there was a gap.
    assert!(longest > 0.15 || all.len() >= 4, "{text}");
    assert_eq!((total[2], total[6]), ("all", "100000"));
    let up: f64 = total[4].parse().unwrap();
    let rate: f64 = total[5].parse().unwrap();
    // Averages since the opening of the first stream, some ms after the start.
    assert!((rate / (up * 8e-6 / over) - 1.0).abs() < 0.2, "{text}");
    let screen = screen.text();
    assert_eq!(screen.matches("  FIN").count(), 2, "{screen}");
    for words in ["UP Mbit/s", "  total", "goodput: UP", "CPU:", "not verified, fingerprint"] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
}
