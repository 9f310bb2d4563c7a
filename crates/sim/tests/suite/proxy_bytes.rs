//! Bytes through one and two proxies: no loss and no duplication, in both directions and under packet loss. A full
//! buffer closes the window.

use crate::common::{data, number, streams, time_up};
use crate::drawn::tries;
use crate::split::{CORE, Link, OUTER, SATELLITE, Split, proxy, proxy_with, socket, tcp};
use proptest::prelude::*;
use serde_json::json;
use sim::Measurements;

fn stream(run: &Measurements, column: &str) -> Vec<f64> {
    run.table("streams").numbers(column)
}

#[test]
fn bytes_are_conserved() {
    let lossy = Link("satellite", 250.0, 10_000_000, 0.02);
    let noisy = Link("core", 10.0, 100_000_000, 0.01);
    for setup in ["relayed", "early"] {
        for joints in [
            vec![Some(proxy(setup)), None],
            vec![None, Some(proxy(setup))],
            vec![Some(proxy(setup)), Some(proxy("early"))],
            vec![Some(proxy("pooled")), Some(proxy(setup))],
        ] {
            let mut case = Split::over_satellite(None, None, data(300_000, 500_000));
            (case.links, case.joints) = (vec![OUTER, lossy, noisy], joints);
            let run = case.run();
            let (up, down) = (stream(&run, "up_bytes"), stream(&run, "down_bytes"));
            let sides = run.table("flow_summary").numbers("written_bytes");
            println!(
                "{setup} {:?}: {up:?} up, {down:?} down, written {sides:?}",
                case.joints.len()
            );
            assert!(up[0] >= 300_000.0 && down[0] >= 500_000.0, "{up:?} {down:?}");
            assert_eq!(up, stream(&run, "up_written_bytes"));
            assert_eq!(down, stream(&run, "down_written_bytes"));
            for column in ["up_fin_s", "down_fin_s"] {
                assert!(stream(&run, column)[0].is_finite(), "{column} through {setup}");
            }
            // The server's data follows the client's FIN by a long time: both proxies forward half-closed connections.
            assert!(stream(&run, "up_fin_s")[0] < stream(&run, "down_last_byte_s")[0]);
            assert_eq!(run.table("flow_summary").numbers("completed_connections"), [1.0, 1.0]);
            // The proxies are empty at the end.
            let proxies = run.table("proxies");
            let left = proxies.numbers("buffered_bytes");
            assert_eq!(left.last(), Some(&0.0));
        }
    }
}

/// A fast outer link feeds a slow satellite. The data waiting in the proxy is bounded, and so is the client's data that
/// has not crossed the satellite.
#[test]
fn a_full_buffer_closes_the_window() {
    let bound = 200_000u64;
    let small = json!({"receive_buffer_bytes": 300_000, "send_buffer_bytes": 400_000});
    let sockets = socket("cubic", &small);
    let first = proxy_with(
        "early",
        &json!({"buffer_bytes": bound, "client_side": sockets, "server_side": sockets}),
    );
    let mut case = Split::over_satellite(Some(first), None, time_up(40.0));
    case.links = vec![OUTER, Link("satellite", 50.0, 2_000_000, 0.0), CORE];
    case.duration_s = 40.0;
    let run = case.run();
    let proxies = run.table("proxies");
    let waiting = proxies.numbers("buffered_bytes");
    let max_buffered = waiting.iter().copied().fold(0.0, f64::max);
    assert!(
        max_buffered <= bound as f64 && max_buffered > 0.9 * bound as f64,
        "{max_buffered} bytes waited"
    );
    // The client sends at most the capacity of the buffers: one receive, one splice and one send buffer.
    let sent = number(&run, "flow_summary", &[("side", "client")], "written_bytes");
    let delivered = number(&run, "flow_summary", &[("side", "client")], "delivered_in_order_bytes");
    let client_buffer = case.tcp["send_buffer_bytes"].as_f64().unwrap_or(0.0);
    assert!(
        sent - delivered <= client_buffer + bound as f64 + 700_000.0 + 1460.0,
        "{sent} {delivered}"
    );
    // The client slows down without loss, and the satellite link is fully used.
    assert_eq!(
        number(&run, "link_summary", &[("link", "outer.up")], "dropped_overflow_packets"),
        0.0
    );
    let goodput = delivered * 8.0 / case.duration_s;
    assert!(goodput > 0.9 * 2e6 && goodput < 2e6, "{goodput} bit/s");
}

#[test]
fn several_connections_at_once() {
    let list: Vec<_> = (0..6)
        .map(|index| {
            let amount =
                json!({"mode": "data", "up_bytes": 50_000 * (index + 1), "down_bytes": 300_000});
            json!({"stream_id": 4 * index, "after": null, "amount": amount})
        })
        .collect();
    for setup in ["relayed", "early", "pooled"] {
        let joints = (Some(proxy(setup)), Some(proxy("early")));
        let run = Split::over_satellite(joints.0, joints.1, streams(json!(list))).run();
        assert_eq!(stream(&run, "up_bytes").len(), 6);
        assert_eq!(stream(&run, "up_bytes"), stream(&run, "up_written_bytes"));
        assert_eq!(stream(&run, "down_bytes"), stream(&run, "down_written_bytes"));
        assert!(stream(&run, "down_fin_s").iter().all(|time| time.is_finite()), "{setup}");
        let opened = run.table("proxies").numbers("connections");
        assert_eq!(opened[opened.len() - 4..], [6.0; 4], "{setup}");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let mut case = Split::over_satellite(
        Some(proxy("pooled")),
        Some(proxy("early")),
        json!({"kind": "poisson", "mean_interarrival_ns": 300_000_000u64,
            "size": {"kind": "exponential", "mean_bytes": 100_000}, "direction": "down",
            "duration_ns": 20_000_000_000u64}),
    );
    case.links[1] = Link("satellite", SATELLITE.1, SATELLITE.2, 0.01);
    case.packets = true;
    case.tcp = tcp(&json!({"fast_open": true}));
    assert_eq!(case.run().encode("test"), case.run().encode("test"));
}

/// Returns chains of lossy links with a proxy or a router at each joint.
fn chains() -> impl Strategy<Value = Split> {
    let link = |name: &'static str| {
        (1.0f64..300.0, 500_000u64..50_000_000, prop_oneof![Just(0.0), 0.0f64..0.05])
            .prop_map(move |(delay_ms, rate, loss)| Link(name, delay_ms, rate, loss))
    };
    let joint = prop::sample::select(vec!["none", "relayed", "early", "pooled"]);
    let loads = prop_oneof![
        Just(time_up(8.0)),
        (8u64..1_000_000, 0u64..1_000_000).prop_map(|(up, down)| data(up, down)),
    ];
    let links = (link("outer"), link("satellite"), link("core"));
    (links, [joint.clone(), joint], loads, 3_000u64..300_000, 0u64..1000).prop_map(
        |((outer, satellite, core), [first, second], load, queue_bytes, seed)| {
            let last = if second == "pooled" { "early" } else { second };
            let first = if first == "pooled" && last == "none" { "early" } else { first };
            let joint = |setup: &str| (setup != "none").then(|| proxy(setup));
            let mut case = Split::over_satellite(joint(first), joint(last), load);
            case.links = vec![outer, satellite, core];
            (case.queue_bytes, case.seed, case.duration_s, case.packets) =
                (queue_bytes, seed, 12.0, true);
            case
        },
    )
}

proptest! {
    // This test takes a few seconds when run alone and unoptimised.
    #![proptest_config(tries(32))]

    #[test]
    fn no_chain_breaks_a_bound(case in chains()) {
        let run = case.run();
        let links = run.table("link_summary");
        for (row, sent) in links.numbers("sent_bytes").iter().enumerate() {
            let rate = case.links[row / 2].2 as f64;
            prop_assert!(sent * 8.0 <= rate * case.duration_s * (1.0 + 1e-9));
        }
        let max_buffered = run.table("proxies").numbers("buffered_bytes").into_iter().fold(0.0, f64::max);
        prop_assert!(max_buffered <= (1 << 22) as f64);
        for direction in ["up", "down"] {
            let received = stream(&run, &format!("{direction}_bytes"));
            let written = stream(&run, &format!("{direction}_written_bytes"));
            for (received, written) in received.iter().zip(&written) {
                prop_assert!(received <= written, "{received} bytes of {written} came {direction}");
            }
        }
        // Every packet of every segment of the chain has one row, and none is faster than light.
        let packets = run.table("packets");
        prop_assert_eq!(packets.row_count() as u64, run.packets);
        let (sent, received) = (packets.numbers("sent_s"), packets.numbers("received_s"));
        let shortest = case.links.iter().map(|link| link.1).fold(f64::MAX, f64::min) / 1e3;
        for (sent, received) in sent.iter().zip(&received) {
            prop_assert!(received.is_nan() || received - sent >= shortest - 1e-9);
        }
        prop_assert_eq!(run.encode("test"), case.run().encode("test"));
    }
}
