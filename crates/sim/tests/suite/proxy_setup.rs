//! Setup times through proxies against the propagation delay of the chain's segments, and the startup of a split path.

use crate::common::{data, number, quic, time_up};
use crate::split::{CORE, Link, OUTER, SATELLITE, Split, arrival, proxy, proxy_with, socket, tcp};
use serde_json::{Value, json};
use sim::Measurements;

/// The round-trip times of the segments in ms.
const OUTER_RTT: f64 = 2.0 * OUTER.1;
const SATELLITE_RTT: f64 = 2.0 * SATELLITE.1;
const CORE_RTT: f64 = 2.0 * CORE.1;

fn joints(first: Option<Value>, second: Option<Value>, tcp: Value) -> Measurements {
    let mut case = Split::over_satellite(first, second, data(1000, 1000));
    (case.packets, case.tcp) = (true, tcp);
    case.run()
}

fn plain() -> Value {
    tcp(&json!({}))
}

/// Returns the milliseconds until the client is connected, and until the server has the first byte of data.
fn times(run: &Measurements) -> [f64; 2] {
    let connected = number(run, "flow_summary", &[("side", "client")], "connected_s") * 1e3;
    let first_byte = number(run, "flow_summary", &[("side", "server")], "first_byte_s") * 1e3;
    [connected, first_byte]
}

/// Compares times with the propagation delay plus a few transmissions, at most a millisecond at 10 Mbit/s each.
fn assert_times(what: &str, found: [f64; 2], expected: [f64; 2]) {
    println!("{what}: {found:.3?} ms, propagation {expected:?} ms");
    for (found, expected) in found.into_iter().zip(expected) {
        assert!((expected..expected + 5.0).contains(&found), "{what}: {found} against {expected}");
    }
}

#[test]
fn setup_times_equal_the_propagation_delays() {
    let all = OUTER_RTT + SATELLITE_RTT + CORE_RTT;
    let end_to_end = [all, 1.5 * all];
    assert_times("no proxy", times(&joints(None, None, plain())), end_to_end);
    let relayed = joints(Some(proxy("relayed")), Some(proxy("relayed")), plain());
    assert_times("relayed", times(&relayed), end_to_end);
    // The client's data waits at each proxy for the handshake of the next segment, which started when the SYN passed.
    // The handshakes overlap, except for half a round trip each.
    let early = joints(Some(proxy("early")), Some(proxy("early")), plain());
    let core_open = OUTER_RTT / 2.0 + SATELLITE_RTT / 2.0 + CORE_RTT;
    let satellite_open = OUTER_RTT / 2.0 + SATELLITE_RTT;
    let at_second = (1.5 * OUTER_RTT).max(satellite_open) + SATELLITE_RTT / 2.0;
    let early_data = at_second.max(core_open) + CORE_RTT / 2.0;
    assert_times("early", times(&early), [OUTER_RTT, early_data]);
    // No data waits for a handshake over the satellite. The next proxy connects when the opening message arrives, which
    // follows the arrival of the SYN.
    let pooled = joints(Some(proxy("pooled")), Some(proxy("early")), plain());
    let core_open = OUTER_RTT / 2.0 + SATELLITE_RTT / 2.0 + CORE_RTT;
    let at_second = 1.5 * OUTER_RTT + SATELLITE_RTT / 2.0;
    let pooled_data = at_second.max(core_open) + CORE_RTT / 2.0;
    assert_times("pooled", times(&pooled), [OUTER_RTT, pooled_data]);
    // The gain against end to end is one satellite round trip.
    assert!(end_to_end[1] - times(&pooled)[1] > SATELLITE_RTT - CORE_RTT);
}

#[test]
fn fast_open_carries_data_in_the_syn() {
    let fast = tcp(&json!({"fast_open": true}));
    let sockets = socket("cubic", &json!({"fast_open": true}));
    let with = |setup: &str| {
        Some(proxy_with(setup, &json!({"client_side": sockets, "server_side": sockets})))
    };
    let all = OUTER_RTT + SATELLITE_RTT + CORE_RTT;
    for setup in ["relayed", "early"] {
        let run = joints(with(setup), with(setup), fast.clone());
        let found = times(&run)[1];
        println!("{setup} with Fast Open: first byte at the server after {found:.3} ms");
        assert!((all / 2.0..all / 2.0 + 5.0).contains(&found), "{setup}: {found} ms");
    }
    // A proxy without Fast Open removes the option.
    let run = joints(Some(proxy("relayed")), None, fast);
    assert!(times(&run)[1] > all, "{:?}", times(&run));
}

#[test]
fn quic_passes_a_proxy_as_a_router() {
    let run = |joint: Option<Value>| {
        let case = Split::over_satellite(joint.clone(), joint, time_up(10.0));
        let mut spec = case.json();
        spec["flows"][0]["transport"] = quic(&json!({}));
        spec["duration_ns"] = json!(10_000_000_000u64);
        sim::run(&spec::RunSpec::from_json(&spec.to_string()).unwrap(), &mut |_, _| None)
            .unwrap()
            .encode("test")
    };
    assert!(run(Some(proxy("early"))) == run(None), "a proxy changed a QUIC run");
}

/// A split path starts up as slowly as its slowest segment, not as the whole path.
#[test]
fn the_longest_segment_limits_the_startup() {
    let amount = data(8, 3_000_000);
    let finished = |links: Vec<Link>, joints: Vec<Option<Value>>| {
        let mut case = Split::over_satellite(None, None, amount.clone());
        (case.links, case.joints) = (links, joints);
        let run = case.run();
        number(&run, "streams", &[], "down_fin_s")
            - number(&run, "streams", &[], "down_first_byte_s")
    };
    let terrestrial = Link("core", 100.0, 100_000_000, 0.0);
    let fast_satellite = Link("satellite", 250.0, 100_000_000, 0.0);
    let whole = finished(vec![OUTER, fast_satellite, terrestrial], vec![None, None]);
    let proxies = vec![Some(proxy("early")), Some(proxy("early"))];
    let split = finished(vec![OUTER, fast_satellite, terrestrial], proxies);
    let alone = finished(vec![fast_satellite], vec![]);
    println!(
        "3 MB: {whole:.3} s end to end, {split:.3} s split, {alone:.3} s over the satellite alone"
    );
    // The segments work in parallel. The shorter ones supply the satellite a little late.
    assert!(split < whole && (split - alone).abs() < 0.25 * alone, "{split} {alone} {whole}");
}

#[test]
fn invalid_proxies_are_refused() {
    let refused = |first: Option<Value>, second: Option<Value>, change: &dyn Fn(&mut Value)| {
        let mut spec = Split::over_satellite(first, second, data(1, 1)).json();
        change(&mut spec);
        let spec = spec::RunSpec::from_json(&spec.to_string()).unwrap();
        sim::run(&spec, &mut |_, _| None).map(|_| ()).unwrap_err()
    };
    let pooled = refused(Some(proxy("early")), Some(proxy("pooled")), &|_| {});
    assert!(pooled.contains("p2") && pooled.contains("no other proxy"), "{pooled}");
    let tiny = proxy_with("early", &json!({"buffer_bytes": 1000}));
    let tiny = refused(Some(tiny), None, &|_| {});
    assert!(tiny.contains("buffer_bytes") && tiny.contains("1460"), "{tiny}");
    let router = refused(Some(proxy("early")), None, &|spec| {
        spec["graph"]["nodes"][1]["kind"] = json!("router");
    });
    assert!(router.contains("not of kind proxy"), "{router}");
    let nowhere = refused(Some(proxy("early")), None, &|spec| {
        spec["proxies"][0]["node"] = json!("elsewhere");
    });
    assert!(nowhere.contains("unknown node"), "{nowhere}");
    let sockets = socket("cubik", &json!({}));
    let name = refused(Some(proxy_with("early", &json!({"client_side": sockets}))), None, &|_| {});
    assert!(name.contains("cubic"), "{name}");
}

#[test]
fn every_segment_of_the_chain_has_packets() {
    let run = joints(Some(proxy("early")), Some(proxy("early")), plain());
    // SYN and SYN-ACK on each segment, in this sequence.
    let syn: Vec<f64> =
        ["p1", "p2", "server"].iter().map(|node| arrival(&run, node, "SYN").unwrap()).collect();
    assert!(syn.is_sorted() && syn[2] > 0.265, "{syn:?}");
    let answer = arrival(&run, "client", "SYN-ACK").unwrap();
    assert!(answer < syn[1], "{answer}");
    assert!(arrival(&run, "p1", "FIN").is_some());
    let packets = run.table("packets");
    assert_eq!(packets.row_count() as u64, run.packets);
    let senders = packets.names("from_node");
    for node in ["client", "p1", "p2", "server"] {
        assert!(senders.contains(&node));
    }
    assert!(packets.names("transport").iter().all(|transport| *transport == "tcp"));
}
