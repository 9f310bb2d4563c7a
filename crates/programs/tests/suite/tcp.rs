//! The perf protocol over the TCP of the kernel, with and without TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{
    Machine, Running, client_plan, data, measured, min_mbit_s, over, run_client, run_client_until,
    server_plan, time,
};
use serde_json::{Value, json};

/// Runs one client against a server. Returns the summaries of both.
fn pair(transport: &str, load: Value) -> (Value, Vec<Value>) {
    let server = Running::start(server_plan());
    let client = measured(over(transport, server.address.port(), load));
    (client, server.wait())
}

fn sum(values: &[Value], key: &str) -> u64 {
    values.iter().map(|value| value[key].as_u64().unwrap()).sum()
}

#[test]
fn streams_transfer_in_both_directions_in_the_requested_order() {
    for transport in ["tcp", "tls"] {
        let load = json!([
            data(0, None, 3_000_000, 0),
            data(4, None, 8, 2_000_000),
            data(8, Some(4), 100, 50_000),
            data(12, Some(0), 5, 0),
        ]);
        let (client, server) = pair(transport, load);
        assert_eq!(client["up_bytes"], 3_000_113, "{transport}");
        assert_eq!(client["down_bytes"], 2_050_000, "{transport}");
        // Each side received the bytes that the other sent, on one connection per stream.
        assert_eq!((server.len(), &client["connections"]), (4, &json!(4)));
        assert_eq!((sum(&server, "down_bytes"), sum(&server, "up_bytes")), (3_000_113, 2_050_000));
        assert_eq!((&client["end"], &client["transport"]), (&json!("closed"), &json!(transport)));
        assert!(server.iter().all(|one| one["end"] == "closed"), "{server:?}");
        let streams = client["streams"].as_array().unwrap();
        assert!(streams.iter().all(|stream| stream["done"] == true), "{streams:?}");
        for (index, (label, bytes)) in
            [(0, 0), (4, 2_000_000), (8, 50_000), (12, 0)].into_iter().enumerate()
        {
            let stream = &streams[index];
            assert_eq!((&stream["stream"], &stream["down_bytes"]), (&json!(label), &json!(bytes)));
        }
        let alpn = if transport == "tls" { "perf" } else { "" };
        assert_eq!((&client["alpn"], &client["mtu_bytes"]), (&json!(alpn), &Value::Null));
        assert!(client["mss_bytes"].as_u64().unwrap() > 1000);
        assert!(client["rtt_min_ms"].as_f64().unwrap() > 0.0, "{client}");
    }
}

/// Half a second in each direction, concurrently. The server treats the reset as the regular end.
#[test]
fn time_mode_ends_on_time() {
    for transport in ["tcp", "tls"] {
        let machine = Machine::watch();
        let (client, server) = pair(transport, json!([time(0, 500, "up"), time(4, 500, "down")]));
        let late = machine.late().as_secs_f64();
        let seconds = client["seconds"].as_f64().unwrap();
        assert!((0.5..0.8 + late).contains(&seconds), "{seconds} s, the machine {late} s late");
        for column in ["up_mbit_s", "down_mbit_s"] {
            assert!(client[column].as_f64().unwrap() > min_mbit_s(&client), "{client}");
        }
        assert!(server.iter().all(|one| one["end"] == "closed"), "{server:?}");
        let received_bytes = sum(&server, "down_bytes");
        assert_eq!(Some(received_bytes), client["up_bytes"].as_u64(), "all that was sent up came");
    }
}

#[test]
fn one_port_serves_all_transports_or_refuses_them() {
    let mut plan = server_plan();
    plan["once"] = json!(false);
    let server = Running::start(plan);
    let port = server.address.port();
    let load = json!([data(0, None, 100_000, 200_000)]);
    for transport in ["quic", "tcp", "tls"] {
        let summary = measured(over(transport, port, load.clone()));
        assert_eq!(
            (&summary["transport"], &summary["down_bytes"]),
            (&json!(transport), &json!(200_000))
        );
    }
    let rows = server.end();
    let spoken: Vec<&str> = rows.iter().map(|one| one["transport"].as_str().unwrap()).collect();
    assert_eq!(spoken, ["quic", "tcp", "tls"]);

    let mut plan = server_plan();
    plan["transport"] = json!("quic");
    let server = Running::start(plan);
    let (_, refused) = run_client(over("tcp", server.address.port(), load.clone()));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("connection refused (TCP port closed)"), "{message}");
    server.end();

    let mut plan = server_plan();
    plan["transport"] = json!("tls");
    plan["once"] = json!(false);
    let server = Running::start(plan);
    let (_, refused) = run_client(over("tcp", server.address.port(), load.clone()));
    assert!(refused.is_err(), "plain bytes are no TLS");
    let (_, refused) = run_client(client_plan(server.address.port(), load));
    assert!(refused.unwrap_err().to_string().contains("UDP port closed"));
    server.end();
}

#[test]
fn a_controller_without_kernel_twin_serves_only_quic() {
    let mut plan = server_plan();
    plan["congestion"] = json!({"name": "fast"});
    plan["report"]["json"] = json!(false);
    let server = Running::start(plan.clone());
    // A TCP client gets the reason in each direction, and the server accepts the next client.
    for transport in ["tcp", "tls"] {
        for load in [data(0, None, 9, 9), data(0, None, 1_000_000, 0), time(0, 60_000, "up")] {
            let (_, refused) = run_client(over(transport, server.address.port(), json!([load])));
            let message = refused.unwrap_err().to_string();
            let expected = "the server refuses TCP for its controller: found \"fast\" (FAST TCP)";
            assert!(message.contains(expected), "{transport}, {load}: {message}");
        }
    }
    assert_eq!(
        measured(client_plan(server.address.port(), json!([data(0, None, 9, 9)])))["down_bytes"],
        9
    );
    let screen = server.screen.clone();
    server.wait();
    let text = screen.text();
    assert!(
        text.contains("TCP is not available: --congestion: found \"fast\" (FAST TCP), which "),
        "{text}"
    );
    plan["transport"] = json!("tcp");
    let programs::perf::PerfPlan::Server(plan) = serde_json::from_value(plan).unwrap() else {
        panic!()
    };
    let message = programs::perf::MeasuringServer::bind(plan).err().unwrap().to_string();
    assert!(message.contains("expected one of newreno, cubic"), "{message}");
}

#[test]
fn only_the_pinned_certificate_is_accepted() {
    let mut plan = server_plan();
    plan["once"] = json!(false);
    let server = Running::start(plan);
    let mut plan = over("tls", server.address.port(), json!([data(0, None, 100, 100)]));
    plan["server_verification"] = json!({"fingerprint": "00".repeat(32)});
    let message = run_client(plan.clone()).1.unwrap_err().to_string();
    assert!(
        message.contains(&server.fingerprint) && message.contains("expected 0000"),
        "{message}"
    );
    plan["server_verification"] = json!({"fingerprint": server.fingerprint});
    assert_eq!(measured(plan.clone())["down_bytes"], 100);
    plan["alpn"] = json!("h3");
    let message = run_client(plan).1.unwrap_err().to_string();
    assert!(message.contains("does not support ALPN h3"), "{message}");
    server.end();
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
        run_client_until(over("tcp", port, json!([time(0, 60_000, "up")])), &stop);
    timer.join().unwrap();
    assert!(stopped.unwrap());
    let summary = screen.values().pop().unwrap();
    assert_eq!(summary["end"], "interrupted");
    assert!(summary["up_bytes"].as_u64().unwrap() > 0);
    assert_eq!(measured(over("tcp", port, json!([data(0, None, 10, 10)])))["down_bytes"], 10);
    let rows = server.end();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[0]["end"], "the client has reset the connection");
}

#[test]
fn frames_of_both_sides_agree() {
    let folder = std::env::temp_dir().join(format!("bentpipe-frames-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for transport in ["quic", "tcp", "tls"] {
        let mut plan = server_plan();
        let file = |side: &str| folder.join(format!("{transport}-{side}.jsonl"));
        let frames = |side: &str| json!({"file": file(side), "interval_ns": 50_000_000});
        plan["report"]["frames"] = frames("server");
        let machine = Machine::watch();
        let server = Running::start(plan);
        let load = json!([time(0, 400, "up"), data(4, None, 8, 300_000)]);
        let mut plan = over(transport, server.address.port(), load);
        plan["report"]["frames"] = frames("client");
        measured(plan);
        server.wait();
        let late = machine.late();
        let read = |side: &str| -> Vec<Value> {
            let text = std::fs::read_to_string(file(side)).unwrap();
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let (client, server) = (read("client"), read("server"));
        let of = |rows: &[Value], kind: &str| -> Vec<Value> {
            rows.iter().filter(|row| row["frame"] == kind).cloned().collect()
        };
        for rows in [&client, &server] {
            assert_eq!(rows[0]["frame"], "begin");
            assert_eq!(rows.last().unwrap()["frame"], "end");
            assert_eq!(rows.last().unwrap()["end"], "done");
            let times: Vec<u64> = rows.iter().map(|row| row["time_ns"].as_u64().unwrap()).collect();
            assert!(times.is_sorted(), "{transport}: {times:?}");
            // Samples are due at multiples of the interval. Missed ones are not written later.
            let samples = of(rows, "sample");
            let mut before = 0;
            for row in &samples {
                let due = row["due_ns"].as_u64().unwrap();
                assert_eq!(due % 50_000_000, 0);
                assert!(due <= row["time_ns"].as_u64().unwrap(), "{transport}: {row}");
                assert!(due >= before, "{transport}: {row}");
                before = due;
            }
            // A side has a window in its sample only if it sends more than a request.
            let request = if std::ptr::eq(rows, &client) { 8 } else { 0 };
            for row in samples {
                let sends = row["written_bytes"].as_u64().unwrap() > request;
                assert_eq!(
                    row["cwnd_bytes"].as_u64().is_some_and(|bytes| bytes > 0),
                    sends,
                    "{row}"
                );
            }
        }
        // A sample without a wake-up in time is omitted.
        let missed = late.as_nanos() / 50_000_000;
        let samples = of(&client, "sample").len();
        assert!(samples as u128 + missed >= 5, "{transport}: {missed} missed, {client:?}");
        let connections = if transport == "quic" { 1 } else { 2 };
        assert_eq!(of(&client, "connection").len(), connections);
        assert_eq!(of(&server, "end_connection").len(), connections);
        let ports: Vec<&str> = of(&client, "connection")
            .iter()
            .map(|row| row["local"].as_str().unwrap().rsplit(':').next().unwrap().to_owned())
            .map(String::leak)
            .map(|text| &*text)
            .collect();
        for row in of(&server, "connection") {
            let remote = row["remote"].as_str().unwrap();
            assert!(ports.iter().any(|port| remote.ends_with(&format!(":{port}"))), "{remote}");
        }
        let written: u64 = sum(&of(&client, "stream"), "written_bytes");
        assert_eq!(written, sum(&of(&server, "stream"), "received_bytes"), "{transport}");
        assert_eq!(written, sum(&of(&client, "end_connection"), "written_bytes"), "{transport}");
        // Both use the clock of the machine: the server sees a stream after the client has opened it.
        let first = |rows: &[Value]| {
            of(rows, "stream").iter().map(|row| row["opened_ns"].as_u64().unwrap()).min().unwrap()
        };
        let (opened_at, accepted_at) = (first(&client), first(&server));
        let max_gap_ns = 1_000_000_000 + late.as_nanos() as u64;
        assert!(
            accepted_at >= opened_at && accepted_at - opened_at < max_gap_ns,
            "{transport}: {accepted_at} {opened_at}"
        );
        if transport != "quic" {
            let end = &of(&client, "end_connection")[0];
            assert!(end["acked_bytes"].as_u64().unwrap() > 0);
            assert!(end["delivery_rate_bit_s"].as_u64().unwrap() > 0);
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
