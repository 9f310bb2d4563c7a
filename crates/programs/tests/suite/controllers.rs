//! The congestion controller of each side, and its report by both sides.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Running, data, over, run_client, server_plan, time};
use serde_json::{Value, json};

/// Runs a load. Returns the summaries of client and server, after a comparison with the frames and the CSV file.
fn both(server: Value, client: Value) -> [Value; 2] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("bentpipe-controllers-{}-{count}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let (mut server, mut client) = (server, client);
    let file = |side: &str| folder.join(format!("{side}.jsonl"));
    let csv = folder.join("client.csv");
    for (plan, side) in [(&mut server, "server"), (&mut client, "client")] {
        plan["report"]["frames"] = json!({"file": file(side), "interval_ns": 20_000_000});
    }
    client["report"]["csv"] = json!({"file": csv, "interval_ns": 100_000_000});
    let server = Running::start(server);
    client["port"] = server.address.port().into();
    let (screen, done) = run_client(client);
    assert!(!done.unwrap());
    let summaries = [screen.values().pop().unwrap(), server.wait().pop().unwrap()];
    let last = |side: &str| {
        let text = std::fs::read_to_string(file(side)).unwrap();
        let mut rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.rfind(|row| row["frame"] == "end_connection").unwrap()
    };
    let text = std::fs::read_to_string(&csv).unwrap();
    let total: Vec<&str> = text.lines().last().unwrap().split(',').collect();
    let known = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = total[total.len() - 2..].iter().map(|name| (*name).to_owned());
    let summary = &summaries[0];
    assert!(
        names.eq([known(&summary["congestion"]), known(&summary["peer_congestion"])]),
        "{text}"
    );
    assert_eq!(total[9].is_empty(), summary["cwnd_bytes"].is_null(), "{text}");
    let frames = [last("client"), last("server")];
    std::fs::remove_dir_all(&folder).unwrap();
    for (summary, frame) in
        summaries.iter().zip(&frames).filter(|_| summaries[0]["connections"] == 1)
    {
        for key in ["congestion", "peer_congestion", "cwnd_bytes"] {
            assert_eq!(summary[key], frame[key], "{key}");
        }
    }
    summaries
}

fn client(transport: &str, load: Value, request: Value) -> Value {
    let mut plan = over(transport, 0, load);
    plan["negotiates_controller"] = json!(true);
    plan["requested_controller"] = request;
    plan
}

#[test]
fn the_server_uses_the_requested_controller_and_both_report_it() {
    for (transport, request, sends) in
        [("quic", "bbr3", "bbr3"), ("tcp", "reno", "reno"), ("tls", "newreno", "reno")]
    {
        let load = json!([data(0, None, 8, 3_000_000)]);
        let [client, server] =
            both(server_plan(), client(transport, load, json!({"name": request})));
        let names = |one: &Value| [one["congestion"].clone(), one["peer_congestion"].clone()];
        assert_eq!(names(&client), [json!(null), json!(sends)], "{transport}");
        assert_eq!(names(&server), [json!(sends), json!(null)], "{transport}");
        assert_eq!(client["cwnd_max_bytes"], json!(null));
        assert!(server["cwnd_max_bytes"].as_u64().unwrap() > 0);
        assert_eq!(client["down_bytes"], 3_000_000, "the answer stands in the response");
        assert_eq!(
            (&server["up_bytes"], &server["down_bytes"]),
            (&client["down_bytes"], &client["up_bytes"])
        );
        assert!((9..300).contains(&client["up_bytes"].as_u64().unwrap()));
    }
}

/// A constant window of 5 packets, on all streams of a connection.
#[test]
fn the_reported_controller_is_used() {
    let mut server = server_plan();
    server["controller_policy"] = json!("any");
    let load = json!([data(0, None, 8, 400_000), data(4, None, 1000, 200_000)]);
    let request = json!({"name": "fixed", "options": {"window_bytes": 7260}});
    let [client, server] = both(server, client("quic", load, request));
    assert_eq!(client["peer_congestion"], "fixed");
    assert_eq!((&server["cwnd_bytes"], &server["cwnd_max_bytes"]), (&json!(7260), &json!(7260)));
    // The client sends 992 bytes in addition to its requests.
    assert_eq!(client["congestion"], "cubic");
    assert_eq!(client["down_bytes"], 600_000);
}

#[test]
fn without_a_request_each_side_uses_its_controller() {
    for transport in ["quic", "tcp"] {
        let mut plan = server_plan();
        plan["congestion"] = json!({"name": "newreno"});
        let load = json!([time(0, 300, "up"), time(4, 300, "down")]);
        let mut asks = client(transport, load.clone(), json!(null));
        let expected = if transport == "quic" { "newreno" } else { "reno" };
        let [client, _] = both(plan.clone(), asks.clone());
        assert_eq!(
            (&client["congestion"], &client["peer_congestion"]),
            (&json!("cubic"), &json!(expected))
        );
        assert!(client["cwnd_bytes"].as_u64().unwrap() > 0);
        // Only an upload: the server learns the controller of the client.
        asks["load"] = json!([time(0, 200, "up")]);
        let [client, server] = both(plan.clone(), asks.clone());
        assert_eq!(
            (&client["congestion"], &client["peer_congestion"]),
            (&json!("cubic"), &json!(null))
        );
        assert_eq!(
            (&server["congestion"], &server["peer_congestion"]),
            (&json!(null), &json!("cubic"))
        );
        assert_eq!(server["cwnd_bytes"], json!(null));
        // A client without negotiation, as in older versions, sends and receives the same bytes as before.
        asks["load"] = json!([data(0, None, 8, 100_000)]);
        asks["negotiates_controller"] = json!(false);
        let [client, _] = both(plan, asks);
        assert_eq!((&client["up_bytes"], &client["peer_congestion"]), (&json!(8), &json!(null)));
    }
}

#[test]
fn invalid_controller_requests_are_refused_with_a_reason() {
    let cases = [
        ("quic", "named", json!({"name": "cubik"}), "did you mean \"cubic\"?"),
        ("quic", "named", json!({"name": "fixed"}), "does not react to congestion"),
        ("quic", "named", json!({"name": "cubic", "options": {"beta": 0.9}}), "without options"),
        (
            "quic",
            "no",
            json!({"name": "cubic"}),
            "accepts no controller requests (--client-controllers no)",
        ),
        (
            "tcp",
            "no",
            json!({"name": "cubic"}),
            "accepts no controller requests (--client-controllers no)",
        ),
        (
            "tls",
            "named",
            json!({"name": "fast"}),
            "found \"fast\" (FAST TCP), which the kernel does not have for TCP",
        ),
        ("tcp", "any", json!({"name": "bbr3"}), "expected \"bbr1\""),
    ];
    for (transport, choose, request, reason) in cases {
        let mut plan = server_plan();
        plan["controller_policy"] = json!(choose);
        plan["once"] = json!(false);
        let server = Running::start(plan);
        let mut plan = client(transport, json!([data(0, None, 8, 100_000)]), request.clone());
        plan["port"] = server.address.port().into();
        let (screen, done) = run_client(plan);
        let message = done.unwrap_err().to_string();
        assert!(message.contains(reason), "{transport} {request}: {message}");
        assert!(message.contains("127.0.0.1 refuses to send with it"), "{message}");
        assert_eq!(screen.text(), "");
        server.end();
    }
}
