//! A closed connection responds to late packets as the stack does. With packet capture, the stack itself responds:
//! packets and all measurements are equal.

use crate::common::{Case, time_up};
use crate::drawn::tries;
use proptest::prelude::*;
use serde_json::{Value, json};
use sim::Measurements;
use spec::{RunSpec, TraceSpec};

fn loads() -> impl Strategy<Value = Value> {
    let send = prop::sample::select(vec!["up", "down"]);
    prop_oneof![
        Just(time_up(4.0)),
        (send, 10_000_000u64..500_000_000, 1u64..100_000).prop_map(|(send, every, bytes)| {
            json!({"kind": "poisson", "mean_interarrival_ns": every, "direction": send,
                "size": {"kind": "exponential", "mean_bytes": bytes},
                "duration_ns": 4_000_000_000u64})
        }),
        Just(json!({"kind": "on_off", "on_ns": 300_000_000u64, "off_ns": 400_000_000u64,
            "exponential": true, "rate_bit_s": 2_000_000, "direction": "down",
            "duration_ns": 4_000_000_000u64})),
    ]
}

prop_compose! {
    fn specs()(
        rate_up in 500_000u64..60_000_000,
        rate_down in 500_000u64..60_000_000,
        rtt_ms in 2.0f64..1500.0,
        loss in prop_oneof![Just(0.0), 0.0f64..0.3],
        late in prop_oneof![Just(0.0), 0.0f64..0.3],
        load in loads(),
        early in any::<bool>(),
        ecn in any::<bool>(),
        seed in 0u64..1000,
    ) -> RunSpec {
        let quic = json!({"handshake": if early { "0-rtt" } else { "1-rtt" }, "ecn": ecn});
        let case = Case {
            rate_up, rate_down, rtt_ms, loss, load, seed, quic, duration_s: 15.0, ..Case::default()
        };
        with_late(&case, late)
    }
}

/// Returns `case` with equal loss in both directions, and packets delayed until after the connection's close.
fn with_late(case: &Case, probability: f64) -> RunSpec {
    let mut spec = serde_json::to_value(case.spec()).unwrap();
    let link = &mut spec["graph"]["links"][0];
    link["down"][0] = link["up"][0].clone();
    let hold = json!({"kind": "reorder", "probability": probability, "delay_ns": 700_000_000u64});
    for direction in ["up", "down"] {
        link[direction].as_array_mut().unwrap().push(hold.clone());
    }
    RunSpec::from_json(&spec.to_string()).unwrap()
}

/// Runs with the table of packets, with or without packet capture.
fn run(spec: &RunSpec, pcapng: bool) -> Measurements {
    let trace = TraceSpec { packets: true, pcapng, ..TraceSpec::default() };
    sim::run(&RunSpec { trace, ..spec.clone() }, &mut |_, _| None).unwrap()
}

fn compare(spec: &RunSpec) -> Result<(), TestCaseError> {
    let [brief, whole] = [false, true].map(|pcapng| run(spec, pcapng));
    for (brief, whole) in brief.tables.iter().zip(&whole.tables) {
        // NaN means: no value.
        prop_assert!(format!("{brief:?}") == format!("{whole:?}"), "table {}", brief.name);
    }
    prop_assert_eq!((brief.packets, brief.events), (whole.packets, whole.events));
    Ok(())
}

proptest! {
    // This test takes about five seconds when run alone and unoptimised.
    #![proptest_config(tries(48))]

    #[test]
    fn closed_connections_answer_as_the_stack_does(spec in specs()) {
        compare(&spec)?;
    }
}

/// Returns a load of random connections that send up, with means `mean_bytes` and `every_ns`.
fn poisson(every_ns: u64, mean_bytes: u64) -> Value {
    json!({"kind": "poisson", "mean_interarrival_ns": every_ns, "direction": "up",
        "size": {"kind": "exponential", "mean_bytes": mean_bytes}, "duration_ns": 4_000_000_000u64})
}

/// Some connections update their keys and discard the old ones before the last packets arrive.
#[test]
fn packets_of_discarded_keys_get_no_response() {
    let case = Case {
        rate_up: 1_080_953,
        rate_down: 18_561_794,
        rtt_ms: 18.409142,
        load: poisson(15_280_221, 90_559),
        duration_s: 15.0,
        seed: 202,
        quic: json!({"handshake": "0-rtt"}),
        ..Case::default()
    };
    compare(&with_late(&case, 0.137_671_564_672_352_53)).unwrap();
}

/// Some connections receive the peer's close while data is still outstanding.
#[test]
fn a_connection_that_received_the_close_sends_no_response() {
    let case = Case {
        rate_up: 5_423_166,
        rate_down: 38_696_269,
        rtt_ms: 2.0,
        load: poisson(11_013_231, 1_347),
        duration_s: 15.0,
        seed: 517,
        quic: json!({"handshake": "0-rtt", "ecn": true}),
        ..Case::default()
    };
    compare(&with_late(&case, 0.127_994_877_346_948)).unwrap();
}
