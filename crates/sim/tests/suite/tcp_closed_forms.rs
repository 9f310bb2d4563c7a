//! TCP's throughput against closed forms. The path is no bottleneck unless the form contains one. Tolerances: the forms
//! ignore timeouts and the recovery phase.

use crate::common::{Case, MSS, goodput_up, number, time_up};
use crate::recurrence_tcp;
use cc::test_support::recurrence;
use serde_json::{Value, json};

/// Returns the mean window in segments over `seconds` and ten seeds, that is, delivered segments per round trip.
fn mean_window(name: &str, changes: &Value, loss: f64, rtt_ms: f64, seconds: f64) -> f64 {
    let congestion = json!({"name": name, "options": {"slow_start_exit": "none"}});
    mean_window_of(&congestion, changes, loss, rtt_ms, [0.0, seconds], 10)
}

/// Returns the same for any controller, after `warm` seconds, over `seeds` seeds.
fn mean_window_of(
    congestion: &Value,
    changes: &Value,
    loss: f64,
    rtt_ms: f64,
    [warm, seconds]: [f64; 2],
    seeds: u64,
) -> f64 {
    let mut sum = 0.0;
    for seed in 1..=seeds {
        let case = Case {
            rate_up: 10_000_000_000,
            rate_down: 10_000_000_000,
            rtt_ms,
            loss,
            congestion: congestion.clone(),
            load: time_up(seconds),
            duration_s: seconds,
            seed,
            tcp: Some(changes.clone()),
            ..Case::default()
        };
        let run = case.run();
        let flows = run.table("flows");
        let (times, bytes) = (flows.numbers("time_s"), flows.numbers("received_in_order_bytes"));
        let sides = flows.names("side");
        let received: Vec<(f64, f64)> = (0..times.len())
            .filter(|row| sides[*row] == "server")
            .map(|row| (times[row], bytes[row]))
            .collect();
        let before =
            received.iter().rev().find(|(time, _)| *time <= warm).copied().unwrap_or_default();
        let after = received.last().expect("samples");
        sum += (after.1 - before.1) / MSS as f64 * rtt_ms / 1e3 / (after.0 - before.0);
    }
    sum / seeds as f64
}

/// Mathis et al. 1997 give C / sqrt(p) for periodic losses, with C = sqrt(3 / 2b) = 1.22 and b segments per ACK when
/// ACKs are counted. For independent losses C is 1.31 / sqrt(b) (Ott, Kemperman and Mathis 1996), because the window
/// distribution is skewed.
#[test]
fn newreno_follows_the_square_root() {
    let every = json!({"delayed_ack": null, "ack_counting": {"kind": "per_ack"}});
    let second = json!({"delayed_ack": {"timeout_ns": 40_000_000u64, "segments_per_ack": 2, "quick_acks": 0},
        "ack_counting": {"kind": "per_ack"}});
    let bytes = json!({"delayed_ack": {"timeout_ns": 40_000_000u64, "segments_per_ack": 2, "quick_acks": 0}});
    for (p, changes, constant, losses) in [
        (1e-3, &every, 1.31, 750.0),
        (3e-3, &every, 1.31, 750.0),
        (1e-3, &second, 1.31 / std::f64::consts::SQRT_2, 750.0),
        // The controller counts bytes, so delayed ACKs have no effect.
        (1e-3, &bytes, 1.31, 750.0),
    ] {
        let expected = constant / f64::sqrt(p);
        let seconds = losses / 10.0 / p / expected * 0.1;
        let window = mean_window("newreno", changes, p, 100.0, seconds);
        println!("p {p}: window {window:.2}, form {expected:.2}, ratio {:.3}", window / expected);
        assert!((window / expected - 1.0).abs() < 0.08, "{p} {changes}: {window} not {expected}");
    }
}

/// Both laws of Westwood+ against an independent recurrence. A wrong bandwidth during loss recovery would be visible at
/// once, because the window depends on it alone. Bytes acknowledged by duplicate ACKs and then by a cumulative ACK
/// count once. The paper's law reaches its window after a thousand losses. PRR, which the recurrence lacks, lowers the
/// paper's window by up to 5 % and raises Linux's by 20 %.
#[test]
fn westwood_follows_its_laws_over_tcp() {
    // Each run excludes `warm` losses. The total of measured losses does not depend on the number of runs, but each run
    // converges anew.
    for (law, p, rtt_ms, [warm, losses], seeds) in [
        ("paper", 1e-2, 30.0, [1000.0, 6000.0], 2),
        ("paper", 3e-3, 100.0, [1000.0, 6000.0], 2),
        ("linux", 1e-2, 30.0, [250.0, 1500.0], 2),
        ("linux", 3e-3, 100.0, [250.0, 1500.0], 2),
    ] {
        let rtt = rtt_ms / 1e3;
        let mut exact = match law {
            "paper" => recurrence::WestwoodRecurrence::paper(rtt),
            _ => recurrence::WestwoodRecurrence::linux(rtt),
        };
        let mut chance = recurrence::independent(p);
        let expected = recurrence_tcp::window(&mut exact, rtt, (1e4 / p) as u64, &mut chance);
        let span = [warm, losses].map(|losses| losses / p / expected * rtt);
        let congestion = json!({"name": "westwood", "options": {"law": law}});
        let changes = json!({"delayed_ack": null, "prr": false});
        let window = mean_window_of(&congestion, &changes, p, rtt_ms, span, seeds);
        let ratio = window / expected;
        println!("{law}, p {p}: window {window:.2}, recurrence {expected:.2}, ratio {ratio:.3}");
        assert!((ratio - 1.0).abs() < 0.05, "{law}, {p}: {window} not {expected}");
    }
}

/// RFC 9438 section 5.2 for periodic losses. Independent losses give about 1.2 times that value (simulated from the
/// RFC's equations alone, without fast convergence).
#[test]
fn cubic_follows_its_response_function() {
    let (p, rtt_ms, losses) = (1e-3, 600.0f64, 2000.0);
    let root = f64::sqrt(rtt_ms / 1e3 / p);
    let periodic = 1.054 * root * root.sqrt();
    let expected = 1.2 * periodic;
    let seconds = losses / 10.0 / p / expected * rtt_ms / 1e3;
    let changes = json!({"delayed_ack": null});
    let mut sum = 0.0;
    for seed in 1..=10 {
        let case = Case {
            rate_up: 10_000_000_000,
            rate_down: 10_000_000_000,
            rtt_ms,
            loss: p,
            congestion: json!({"name": "cubic",
                "options": {"slow_start_exit": "none", "fast_convergence": false}}),
            load: time_up(seconds),
            duration_s: seconds,
            seed,
            tcp: Some(changes.clone()),
            ..Case::default()
        };
        sum += goodput_up(&case.run(), seconds) / 8.0 / MSS as f64 * rtt_ms / 1e3;
    }
    let window = sum / 10.0;
    println!("p {p}: window {window:.1}, form {expected:.1}, ratio {:.3}", window / expected);
    assert!((window / expected - 1.0).abs() < 0.12, "{p}: {window} not {expected}");
}

/// One NewReno flow over a drop-tail queue of Q < D: 0.75 (D + Q)^2 / (D^2 + D Q + Q^2) of the link.
#[test]
fn tail_drop_utilisation_follows_the_sawtooth_form() {
    // 20 Mb/s and 100 ms: D = 166.7 packets of 1,500 bytes. A long run makes the first slow start negligible.
    for share in [0.1f64, 0.3, 0.6] {
        let seconds = 300.0;
        let case = Case {
            rate_up: 20_000_000,
            rate_down: 20_000_000,
            rtt_ms: 100.0,
            queue_bdp: share,
            congestion: json!({"name": "newreno"}),
            load: time_up(seconds),
            duration_s: seconds,
            tcp: Some(json!({"delayed_ack": null})),
            ..Case::default()
        };
        let used = goodput_up(&case.run(), seconds) / 20e6 * 1500.0 / MSS as f64;
        let form = 0.75 * (1.0 + share) * (1.0 + share) / (1.0 + share + share * share);
        println!("Q = {share} D: {used:.4}, form {form:.4}");
        assert!((used / form - 1.0).abs() < 0.03, "Q = {share} D: {used} not {form}");
    }
}

/// Chiu and Jain 1989: two equal flows converge to equal shares, though one starts 20 s later.
#[test]
fn two_newreno_flows_converge_to_equal_shares() {
    let seconds = 400.0;
    let case = Case {
        rate_up: 10_000_000,
        rate_down: 10_000_000,
        rtt_ms: 50.0,
        congestion: json!({"name": "newreno"}),
        load: time_up(seconds),
        duration_s: seconds,
        tcp: Some(json!({})),
        ..Case::default()
    };
    let mut spec = case.spec();
    let mut late = spec.flows[0].clone();
    late.name = "late".to_owned();
    late.start_ns = 20_000_000_000;
    late.start_jitter_ns = 50_000_000;
    spec.flows.push(late);
    let mut delivered = |end: f64| {
        spec.duration_ns = (end * 1e9) as u64;
        let run = sim::run(&spec, &mut |_, _| None).expect("the run is valid");
        ["main", "late"].map(|name| {
            number(
                &run,
                "flow_summary",
                &[("flow", name), ("side", "client")],
                "delivered_in_order_bytes",
            )
        })
    };
    let (before, after) = (delivered(100.0), delivered(seconds));
    let (a, b) = (after[0] - before[0], after[1] - before[1]);
    let jain = (a + b) * (a + b) / (2.0 * (a * a + b * b));
    println!("shares {a} {b}, Jain {jain:.4}");
    assert!(jain > 0.95, "{a} {b}: {jain}");
}
