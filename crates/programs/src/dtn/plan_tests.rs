//! Tests of plan.

use serde_json::json;

use super::*;

/// A delay of 10 s, 20 Mbit/s, and a gap of 100 s: all Internet timers would be too short.
fn plan(by_plan: bool) -> BundleNodePlan {
    let contact = |start: u64, stop: u64, from: &str, to: &str| {
        json!({"from": from, "to": to, "start_ns": start * 1_000_000_000, "stop_ns": stop * 1_000_000_000,
               "rate_bit_s": 20_000_000, "declared_at": format!("{start} {from}")})
    };
    let range = json!({"from": "1", "to": "2", "start_ns": 0, "stop_ns": 400_000_000_000_u64,
                       "owlt_ns": 10_000_000_000_u64, "implies_reverse": true, "declared_at": "range"});
    let both = [(0, 100), (200, 300)]
        .into_iter()
        .flat_map(|(start, stop)| [contact(start, stop, "1", "2"), contact(start, stop, "2", "1")]);
    let plan = json!({
        "name": "1",
        "dtn": {
            "epoch_ms": 0, "links": [],
            "nodes": [{"name": "1", "eid": "ipn:1.0"}, {"name": "2", "eid": "ipn:2.0"}],
            "plan": {"contacts": both.collect::<Vec<_>>(), "ranges": [range]},
        },
        "neighbours": [{
            "neighbour": "2", "cla": {"kind": "tcpcl"}, "listen": "127.0.0.1:0", "peer": null,
            "can_send": true, "opens_with_contact": false, "closes_after_contact": false, "quic": QuicSpec { receive_window_bytes: 1 << 20, ..QuicSpec::default() },
            "congestion": {"name": "cubic"}, "idle_timeout_ns": 30_000_000_000_u64, "adapts_to_plan": by_plan,
        }],
    });
    serde_json::from_value(plan).unwrap()
}

#[test]
fn timers_and_windows_follow_the_contacts() {
    let second = 1_000_000_000_u64;
    let node_plan = plan(true);
    let neighbour = node_plan.neighbours[0].with_link_properties(&node_plan);
    assert_eq!(neighbour.quic.initial_rtt_ns, 20 * second);
    assert_eq!(neighbour.idle_timeout_ns, Some((100 + 9 * 20) * second));
    assert_eq!(neighbour.quic.idle_timeout_ns, neighbour.idle_timeout_ns);
    // Two round trips.
    let window = 2 * 20 * 20_000_000 / 8;
    assert_eq!(neighbour.quic.receive_window_bytes, window);
    let ClaSpec::Tcpcl(spec) = &neighbour.cla else { panic!("{:?}", neighbour.cla) };
    assert_eq!(spec.response_timeout_ns, (100 + 4 * 20) * second);
    let HostSocketConfig::Tcp(end) = neighbour.build_socket_config(None).unwrap() else {
        panic!("TCP")
    };
    assert_eq!(end.timeouts.idle, Some(Span::from_secs(280)));
}

#[test]
fn timers_and_windows_are_unchanged_without_adaptation() {
    let node_plan = plan(false);
    let neighbour = node_plan.neighbours[0].with_link_properties(&node_plan);
    assert_eq!(neighbour.idle_timeout_ns, Some(30_000_000_000));
    assert_eq!(neighbour.cla, node_plan.neighbours[0].cla);
    assert_eq!(neighbour.quic.initial_rtt_ns, QuicSpec::default().initial_rtt_ns);
}
