//! Who has closed a connection answers late packets as the stack does, which does it itself where packets are captured: the
//! packets are the same, and all that is measured.

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
            json!({"kind": "poisson", "mean_interarrival_ns": every, "send": send,
                "size": {"kind": "exponential", "mean_bytes": bytes},
                "duration_ns": 4_000_000_000u64})
        }),
        Just(json!({"kind": "on_off", "on_ns": 300_000_000u64, "off_ns": 400_000_000u64,
            "exponential": true, "rate_bit_s": 2_000_000, "send": "down",
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

/// `case` with the same loss both ways, and packets that are held for long: they come to who has closed.
fn with_late(case: &Case, probability: f64) -> RunSpec {
    let mut spec = serde_json::to_value(case.spec()).unwrap();
    let link = &mut spec["graph"]["links"][0];
    link["down"][0] = link["up"][0].clone();
    let hold = json!({"kind": "reorder", "probability": probability, "hold_ns": 700_000_000u64});
    for way in ["up", "down"] {
        link[way].as_array_mut().unwrap().push(hold.clone());
    }
    RunSpec::from_json(&spec.to_string()).unwrap()
}

/// What is measured, and what is known of every packet, with packets captured or not.
fn run(spec: &RunSpec, pcapng: bool) -> Measurements {
    let trace = TraceSpec { packets: true, pcapng, ..TraceSpec::default() };
    sim::run(&RunSpec { trace, ..spec.clone() }, &mut |_, _| None).unwrap()
}

fn compare(spec: &RunSpec) -> Result<(), TestCaseError> {
    let [brief, whole] = [false, true].map(|pcapng| run(spec, pcapng));
    for (brief, whole) in brief.tables.iter().zip(&whole.tables) {
        // NaN stands for what there is none of.
        prop_assert!(format!("{brief:?}") == format!("{whole:?}"), "table {}", brief.name);
    }
    prop_assert_eq!((brief.packets, brief.events), (whole.packets, whole.events));
    Ok(())
}

proptest! {
    // by itself, unoptimised: about five seconds
    #![proptest_config(tries(48))]

    #[test]
    fn closed_connections_answer_as_the_stack_does(spec in specs()) {
        compare(&spec)?;
    }
}

/// Connections of `mean_bytes` up every `every_ns`, both drawn.
fn poisson(every_ns: u64, mean_bytes: u64) -> Value {
    json!({"kind": "poisson", "mean_interarrival_ns": every_ns, "send": "up",
        "size": {"kind": "exponential", "mean_bytes": mean_bytes}, "duration_ns": 4_000_000_000u64})
}

/// Of some connections the keys are updated, and discarded before the last packets come.
#[test]
fn packets_of_keys_that_are_gone_are_not_answered() {
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

/// Some connections hear that the peer has closed them too when something of theirs is still waited for.
#[test]
fn who_has_heard_before_it_leaves_is_silent() {
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
