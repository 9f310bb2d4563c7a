//! Handover of a terminal: routes, delays and rates change at one instant, and flows continue.

use crate::common::{Case, number, time_up};
use serde_json::{Value, json};
use sim::Measurements;

const HANDOVER_S: f64 = 5.0;
const CUT_S: (f64, f64) = (10.0, 10.2);

/// A terminal sees two satellites with delays of 30 and 10 ms; each reaches the gateway in another 5 ms. At 5 s it
/// hands over from the first to the second, at half the rate. `policy` applies to packets in flight at the first.
/// At 10 s the terminal sees no satellite for 200 ms.
fn run(policy: &str, tcp: bool) -> Measurements {
    let case = Case {
        load: time_up(14.0),
        duration_s: 15.0,
        tcp: tcp.then(|| json!({})),
        ..Case::default()
    };
    let mut spec = serde_json::to_value(case.spec()).unwrap();
    let access = |name: &str, to: &str, delay_ns: u64| {
        let up = json!([
            {"kind": "transmit", "queue": {"kind": "drop_tail", "limit": {"packets": 50}},
             "service": {"kind": "rate", "rate_bit_s": 10_000_000}},
            {"kind": "delay", "delay_ns": delay_ns}]);
        json!({"name": name, "client_side": "client", "server_side": to, "up": up, "down": up})
    };
    let feeder = |name: &str, from: &str| {
        let stages = json!([{"kind": "delay", "delay_ns": 5_000_000}]);
        json!({"name": name, "client_side": from, "server_side": "server", "up": stages, "down": stages})
    };
    let kinds = [("client", "host"), ("far", "router"), ("near", "router"), ("server", "host")];
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    let in_use = |link: &str, is: bool| json!({"link": link, "enabled": is});
    let stage = |line: &str, stage: u32, change: Value| json!({"simplex_link": line, "stage": stage, "update": change});
    let in_flight = json!({"kind": "in_flight", "policy": policy});
    let halved = json!({"kind": "rate", "rate_bit_s": 5_000_000});
    spec["graph"] = json!({
        "nodes": kinds.map(|(name, kind)| json!({"name": name, "kind": kind})),
        "links": [access("one", "far", 30_000_000), access("two", "near", 10_000_000),
            feeder("three", "far"), feeder("four", "near")],
        "changes": [
            {"at_ns": 0, "links": [in_use("two", false)]},
            {"at_ns": ns(HANDOVER_S), "links": [in_use("one", false), in_use("two", true)], "stages": [
                stage("one.up", 1, in_flight.clone()), stage("one.down", 1, in_flight),
                stage("two.up", 0, halved.clone()), stage("two.down", 0, halved)]},
            {"at_ns": ns(CUT_S.0), "links": [in_use("two", false)]},
            {"at_ns": ns(CUT_S.1), "links": [in_use("two", true)]}]
    });
    spec["trace"] = json!({"packets": true});
    sim::run(&spec::RunSpec::from_json(&spec.to_string()).unwrap(), &mut |_, _| None)
        .expect("a valid run")
}

#[test]
fn a_flow_survives_a_handover_and_a_cut() {
    for tcp in [false, true] {
        let of = run("drop", tcp);
        assert!(of.encode("") == run("drop", tcp).encode(""), "the same bytes");
        let packets = of.table("packets");
        let (sent, received) = (packets.numbers("sent_s"), packets.numbers("received_s"));
        let (from, dropped) = (packets.names("from_node"), packets.names("dropped"));
        let count =
            |of: &dyn Fn(usize) -> bool| (0..sent.len()).filter(|row| of(*row)).count() as f64;
        let up = |row: usize| from[row] == "client";

        // Each link carries exactly the packets sent while routes used it.
        let arrived = |line| number(&of, "link_summary", &[("link", line)], "arrived_packets");
        let cut = |row: usize| sent[row] >= CUT_S.0 && sent[row] < CUT_S.1;
        assert_eq!(arrived("one.up"), count(&|row| up(row) && sent[row] < HANDOVER_S));
        let second = |row: usize| up(row) && sent[row] >= HANDOVER_S && !cut(row);
        assert_eq!(arrived("two.up"), count(&second));
        assert_eq!(arrived("three.down"), count(&|row| !up(row) && sent[row] < HANDOVER_S));
        assert!(count(&second) > 2000.0);

        // Only packets in flight to the satellite at that instant are lost, about 30 ms of 10 Mb/s.
        let lost = count(&|row| dropped[row] == "one.up: outage");
        assert!((24.0..=30.0).contains(&lost), "{lost}");
        let late = |row: usize| dropped[row].ends_with("outage") && sent[row] > HANDOVER_S;
        assert_eq!(count(&late), 0.0);

        // No node has a route during the cut: neither the hosts, nor the satellite for packets from the server.
        for side in ["client", "server"] {
            let here = |row: usize| from[row] == side && cut(row);
            let dropped_here = |row: usize| dropped[row] == format!("{side}: no_route");
            assert_eq!(count(&here), count(&dropped_here), "{side}");
        }
        assert!(count(&cut) > 0.0, "the client asks whether anybody is there");
        for (line, since) in [("three.down", HANDOVER_S), ("four.down", CUT_S.0)] {
            let stranded = |row: usize| dropped[row] == format!("{line}: no_route");
            let on_it = |row: usize| !up(row) && sent[row] < since && sent[row] + 0.005 >= since;
            assert_eq!(count(&stranded), count(&on_it), "{line}");
        }

        // The minimum path delay is 35 ms before and 15 ms after the handover, and the new path is used to the end.
        let min_delay = |of: &dyn Fn(usize) -> bool| {
            (0..sent.len())
                .filter(|row| of(*row))
                .map(|row| received[row] - sent[row])
                .fold(9.0, f64::min)
        };
        let before = min_delay(&|row| sent[row] < HANDOVER_S);
        let after = min_delay(&|row| sent[row] >= HANDOVER_S);
        assert!(
            (0.035..0.0352).contains(&before) && (0.015..0.0152).contains(&after),
            "{before} {after}"
        );
        let last = count(&|row| up(row) && sent[row] > 11.0 && received[row] < 14.0);
        let capacity = 3.0 * 5e6 / 8.0 / 1280.0;
        assert!((0.5 * capacity..capacity).contains(&last), "{last} packets of {capacity}");
    }
}

#[test]
fn packets_in_flight_on_the_old_path_arrive_in_order() {
    let of = run("in_order", false);
    let dropped = of.table("packets").names("dropped").join(" ");
    assert!(!dropped.contains("one.up: outage"));
    let lines = of.table("link_summary");
    for row in 0..2 {
        assert_eq!(lines.numbers("dropped_outage_packets")[row], 0.0);
        let drops = lines.numbers("dropped_overflow_packets")[row];
        assert_eq!(
            lines.numbers("arrived_packets")[row],
            lines.numbers("delivered_packets")[row] + drops
        );
    }
}
