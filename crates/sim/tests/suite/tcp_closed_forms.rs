//! TCP's throughput against closed forms, over a path that is never the bottleneck where the form
//! knows none. Tolerances: the forms leave out timeouts and the recovery itself.

use crate::common::{Case, MSS, goodput_up, number, time_up};
use crate::{recurrence, recurrence_tcp};
use serde_json::{Value, json};

/// Mean window in segments over `seconds` and ten seeds: delivered segments a round trip.
fn mean_window(name: &str, changes: &Value, loss: f64, rtt_ms: f64, seconds: f64) -> f64 {
    let congestion = json!({"name": name, "options": {"slow_start_exit": "none"}});
    mean_window_of(&congestion, changes, loss, rtt_ms, [0.0, seconds], 10)
}

/// The same of any controller, after `warm` seconds, over so many seeds.
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
        let came: Vec<(f64, f64)> = (0..times.len())
            .filter(|row| sides[*row] == "server")
            .map(|row| (times[row], bytes[row]))
            .collect();
        let before = came.iter().rev().find(|(time, _)| *time <= warm).copied().unwrap_or_default();
        let after = came.last().expect("samples");
        sum += (after.1 - before.1) / MSS as f64 * rtt_ms / 1e3 / (after.0 - before.0);
    }
    sum / seeds as f64
}

/// Mathis et al. 1997 give C / sqrt(p) with C = sqrt(3 / 2b) = 1.22 for periodic losses, with b
/// segments an ACK when ACKs are counted. For independent losses C is 1.31 / sqrt(b) (Ott, Kemperman
/// and Mathis 1996): the window is skewed.
#[test]
fn newreno_follows_the_square_root() {
    let every = json!({"delayed_ack": null, "ack_counting": {"kind": "per_ack"}});
    let second = json!({"delayed_ack": {"timeout_ns": 40_000_000u64, "every": 2, "quick": 0},
        "ack_counting": {"kind": "per_ack"}});
    let bytes = json!({"delayed_ack": {"timeout_ns": 40_000_000u64, "every": 2, "quick": 0}});
    for (p, changes, constant, losses) in [
        (1e-3, &every, 1.31, 750.0),
        (3e-3, &every, 1.31, 750.0),
        (1e-3, &second, 1.31 / std::f64::consts::SQRT_2, 750.0),
        // Bytes are counted: delayed ACKs cost nothing.
        (1e-3, &bytes, 1.31, 750.0),
    ] {
        let expected = constant / f64::sqrt(p);
        let seconds = losses / 10.0 / p / expected * 0.1;
        let window = mean_window("newreno", changes, p, 100.0, seconds);
        println!("p {p}: window {window:.2}, form {expected:.2}, ratio {:.3}", window / expected);
        assert!((window / expected - 1.0).abs() < 0.08, "{p} {changes}: {window} not {expected}");
    }
}

/// Westwood+'s two laws against a recurrence that knows nothing of controllers. A bandwidth that is
/// measured wrongly while losses are repaired would show at once, since the window is nothing but it:
/// what duplicate ACKs and then a cumulative one acknowledge counts once. The paper's comes to its
/// window in a thousand losses. With PRR, which the recurrence does not have, the paper's has up to 5 % less
/// and Linux's 20 % more.
#[test]
fn westwood_follows_its_laws_over_tcp() {
    // Of each run, `warm` losses are left out. As many losses are measured in few runs as in many, which come to
    // the window each anew.
    for (law, p, rtt_ms, [warm, losses], seeds) in [
        ("paper", 1e-2, 30.0, [1000.0, 6000.0], 2),
        ("paper", 3e-3, 100.0, [1000.0, 6000.0], 2),
        ("linux", 1e-2, 30.0, [250.0, 1500.0], 2),
        ("linux", 3e-3, 100.0, [250.0, 1500.0], 2),
    ] {
        let rtt = rtt_ms / 1e3;
        let mut exact = match law {
            "paper" => recurrence::Westwood::paper(rtt),
            _ => recurrence::Westwood::linux(rtt),
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

/// RFC 9438 section 5.2 for periodic losses; independent losses give about 1.2 times as much
/// (simulated from the RFC's equations alone, without fast convergence).
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

/// One NewReno flow over a tail-drop queue of Q < D: 0.75 (D + Q)^2 / (D^2 + D Q + Q^2) of the link.
#[test]
fn tail_drop_costs_what_the_sawtooth_says() {
    // 20 Mb/s and 100 ms: D = 166.7 packets of 1,500 bytes. The first slow start is left out by a
    // long run.
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

/// Chiu and Jain 1989: two equal flows come to share alike, though one begins 20 s later.
#[test]
fn two_newreno_flows_share() {
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
                "summary",
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
