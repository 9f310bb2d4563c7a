//! Bounds that hold for every run, over random paths, transports and loads. A failure prints the command that replays
//! it. Runs with other queues, several hops and proxies are compared with a second implementation
//! (tests/python/test_trace_check_drawn.py).

use crate::common::{Case, HEADER, MSS, MTU, data, time_up};
use crate::drawn::{run_twice, tries};
use proptest::prelude::*;
use serde_json::{Value, json};
use sim::Measurements;

fn controllers() -> impl Strategy<Value = &'static str> {
    let names = cc::ENTRIES.iter().map(|entry| entry.name());
    prop::sample::select(names.filter(|name| *name != "fixed").collect::<Vec<_>>())
}

fn loads() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(time_up(8.0)),
        (8u64..2_000_000, 0u64..2_000_000).prop_map(|(up, down)| data(up, down)),
        Just(json!({"kind": "poisson", "mean_interarrival_ns": 500_000_000u64,
            "size": {"kind": "exponential", "mean_bytes": 50_000}, "direction": "down",
            "duration_ns": 6_000_000_000u64})),
        Just(json!({"kind": "on_off", "on_ns": 500_000_000u64, "off_ns": 700_000_000u64,
            "exponential": true, "rate_bit_s": 2_000_000, "direction": "up",
            "duration_ns": 6_000_000_000u64})),
    ]
}

prop_compose! {
    fn cases()(
        rate_up in 500_000u64..60_000_000,
        rate_down in 500_000u64..60_000_000,
        rtt_ms in 2.0f64..700.0,
        loss in prop_oneof![Just(0.0), 0.0f64..0.2],
        queue_bdp in 0.1f64..4.0,
        congestion in controllers(),
        load in loads(),
        tcp in prop::option::of((any::<bool>(), any::<bool>())),
        seed in 0u64..1000,
    ) -> Case {
        let tcp = tcp.map(|(sack, timestamps)| json!({"sack": sack, "timestamps": timestamps}));
        Case {
            rate_up, rate_down, rtt_ms, loss, queue_bdp, load, seed, tcp,
            congestion: json!({"name": congestion}), duration_s: 10.0, ..Case::default()
        }
    }
}

fn check(case: &Case, run: &Measurements) {
    let links = run.table("link_summary");
    let flows = run.table("flow_summary");
    for (row, rate) in [case.rate_up, case.rate_down].into_iter().enumerate() {
        // The transmission of the sent bytes took its time.
        let sent = links.numbers("sent_bytes")[row] * 8.0;
        assert!(
            sent <= rate as f64 * case.duration_s * (1.0 + 1e-9),
            "{sent} bit over {rate} bit/s"
        );
        // Packets are conserved: undelivered packets were dropped or are inside the link.
        let drops: f64 = ["loss", "overflow", "aqm", "outage", "retry_limit"]
            .iter()
            .map(|cause| links.numbers(&format!("dropped_{cause}_packets"))[row])
            .sum();
        let arrived = links.numbers("arrived_packets")[row];
        let delivered = links.numbers("delivered_packets")[row];
        let inside = arrived - delivered - drops;
        assert!(inside >= 0.0, "{arrived} packets arrived, {delivered} delivered, {drops} dropped");
        // The bytes on the link equal the sent bytes of the host.
        assert_eq!(flows.numbers("sent_packets")[row], arrived);
        assert_eq!(flows.numbers("sent_bytes")[row], links.numbers("arrived_bytes")[row]);
        // Goodput is below the rate minus the headers.
        let goodput = flows.numbers("delivered_bytes")[row] * 8.0 / case.duration_s;
        let share = match case.tcp {
            None => MTU as f64 / (MTU + HEADER) as f64,
            // A segment without timestamps carries twelve more bytes of payload.
            Some(_) => (MSS + 12) as f64 / 1500.0,
        };
        let bound = rate as f64 * share;
        assert!(goodput <= bound, "{goodput} above {bound}");
        assert!(
            flows.numbers("delivered_in_order_bytes")[row] <= flows.numbers("delivered_bytes")[row]
        );
    }
    // TCP's timestamps tick in milliseconds (RFC 7323 section 4.1).
    let tick = if case.tcp.is_some() { 1.0 } else { 1e-6 };
    for rtt in ["min_rtt_ms", "latest_rtt_ms"] {
        for value in run.table("flows").numbers(rtt) {
            assert!(
                value.is_nan() || value >= case.rtt_ms - tick,
                "{rtt} {value} below {}",
                case.rtt_ms
            );
        }
    }
}

proptest! {
    // This test takes about ten seconds when run alone and unoptimised.
    #![proptest_config(tries(48))]

    #[test]
    fn no_run_breaks_a_bound(case in cases()) {
        check(&case, &run_twice(&case.spec()));
    }
}
