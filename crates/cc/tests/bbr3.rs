//! BBRv3 compared with the expectation from draft-ietf-ccwg-bbr-06 under independent losses. Each test prints the
//! measured and the expected values.

#[path = "recurrence/bbr.rs"]
mod recurrence;

use cc::test_support::{BottleneckModel, ModelFlow, ModelLoss, ModelPath};
use cc::{ControllerConfig, build_controller};
use recurrence::PhaseDurations;
use serde_json::{Value, json};
use units::{RandomStream, Rate, Span, Time};

const MSS: u64 = 1200;
const RATE: u64 = 100_000_000;

/// Returns a single flow on a bottleneck with one BDP of queue and independent losses before it.
fn model(rate: u64, rtt_ms: u64, p: f64, options: &Value, seed: u64) -> BottleneckModel {
    let initial_rtt = Span::from_millis(333);
    let config =
        ControllerConfig { mss: MSS, initial_window: 10 * MSS, initial_rtt, seed, is_paced: true };
    let bdp = rate / 8 * rtt_ms / 1000;
    let path =
        ModelPath { loss: ModelLoss::Bernoulli(p), seed, ..ModelPath::bottleneck(Rate(rate), bdp) };
    let controller = build_controller("bbr3", options, &config).unwrap();
    BottleneckModel::new(path, vec![ModelFlow::new(controller, &config, Span::from_millis(rtt_ms))])
}

/// Returns the controller's state and its maximum bandwidth in bit/s.
fn state_and_max_bw(model: &BottleneckModel) -> (f64, f64) {
    let (mut state, mut bandwidth) = (0.0, 0.0);
    model.flows[0].controller.trace(&mut |name, value| match name {
        "state" => state = value,
        "max_bw_bit_s" => bandwidth = value,
        _ => {}
    });
    (state, bandwidth)
}

const STARTUP: f64 = 0.0;
const REFILL: f64 = 4.0;
const UP: f64 = 5.0;
const PROBE_RTT: f64 = 6.0;

/// Returns the goodput over `length` seconds after `warm`, as a share of the rate.
fn goodput(model: &mut BottleneckModel, warm: u64, length: u64) -> f64 {
    model.run_until(Time::ZERO + Span::from_secs(warm));
    let before = model.flows[0].delivered();
    model.run_until(Time::ZERO + Span::from_secs(warm + length));
    (model.flows[0].delivered() - before) as f64 * 8.0 / length as f64 / RATE as f64
}

/// Returns the goodput and the cycles of the same interval.
fn cycles(model: &mut BottleneckModel, warm: u64, length: u64) -> (f64, Vec<PhaseDurations>) {
    model.run_until(Time::ZERO + Span::from_secs(warm));
    let before = model.flows[0].delivered();
    let (mut cycles, mut last) = (vec![PhaseDurations::default()], UP);
    let tick = Span::from_millis(2);
    while model.now < Time::ZERO + Span::from_secs(warm + length) {
        model.run_until(model.now + tick);
        let state = state_and_max_bw(model).0;
        if state == REFILL && last != REFILL {
            cycles.push(PhaseDurations::default());
        }
        last = state;
        if let Some(cycle) = cycles.last_mut() {
            let phase = match state {
                REFILL => &mut cycle.refill,
                UP => &mut cycle.up,
                _ => &mut cycle.rest,
            };
            *phase += tick.seconds();
        }
    }
    let goodput = (model.flows[0].delivered() - before) as f64 * 8.0 / length as f64;
    (goodput / RATE as f64, cycles)
}

/// Section 5.3.1.3: 2 % of a few hundred packets are few packets. So random loss of 1 % ends some Startups far below
/// the rate. The test compares the frequency with the recurrence.
#[test]
fn random_loss_ends_startup_as_often_as_in_the_recurrence() {
    let (rate, rtt, runs) = (20_000_000, 500, 500);
    let bdp = rate / 8 * rtt / 1000 / MSS;
    for p in [0.01, 0.005] {
        let early = (0..runs).filter(|seed| {
            let mut model = model(rate, rtt, p, &json!({}), *seed);
            while [STARTUP, PROBE_RTT].contains(&state_and_max_bw(&model).0) {
                model.run_until(model.now + Span::from_millis(50));
            }
            // The estimate reflects all data in flight a round trip later.
            model.run_until(model.now + Span::from_millis(rtt));
            state_and_max_bw(&model).1 < 0.7 * rate as f64
        });
        let measured = early.count() as f64 / runs as f64;
        let mut random = RandomStream::named(5, "bbr", "startup");
        let trials = 20_000;
        let early = (0..trials).filter(|_| {
            let flight = recurrence::startup_ends_at(bdp, &mut |_| random.chance(p));
            flight.is_some_and(|flight| 2.0 * (flight as f64) < 0.7 * bdp as f64)
        });
        let expected = early.count() as f64 / trials as f64;
        let deviation = (expected * (1.0 - expected) / runs as f64).sqrt();
        println!("Startup early at {p}: expected {expected:.4}, measured {measured:.4}");
        assert!((measured - expected).abs() <= 3.0 * deviation + 0.5 / runs as f64);
    }
}

/// Loss outside probing multiplies the short-term bound by about (1 - p) per round. A probe removes the bound after 2
/// to 3 s: 25 rounds here. The mean over a cycle is (1 - (1-p)^25) / (25 p): 0.94 at 0.5 %, 0.89 at 1 %, each times the
/// pacing margin. Above LossThresh probes do not raise the long-term bound.
#[test]
fn the_knee_is_near_two_percent() {
    let rates = [0.0, 0.005, 0.01, 0.02, 0.05]
        .map(|p| goodput(&mut model(RATE, 100, p, &json!({}), 3), 10, 50));
    println!("utilisation at 0, 0.5, 1, 2, 5 %: {rates:.3?}");
    assert!(rates[0] >= 0.95 && rates[0] <= 1.0);
    assert!(rates[1] >= 0.86);
    assert!(rates[2] >= 0.83);
    assert!(rates[4] < 0.6 * rates[2]);
    assert!(rates.windows(2).all(|pair| pair[0] >= pair[1]));
}

/// Loss below LossThresh reduces the rate only by the short-term bounds between probes. Beta = 1 disables these bounds,
/// and the goodput then equals that without loss.
#[test]
fn without_the_short_term_bounds_loss_costs_little() {
    for (rtt, p, length, tolerance) in
        [(30, 0.005, 60, 0.01), (30, 0.01, 60, 0.04), (500, 0.01, 120, 0.01)]
    {
        let goodput = |p| goodput(&mut model(RATE, rtt, p, &json!({"beta": 1.0}), 2), 20, length);
        let (clean, lossy) = (goodput(0.0), goodput(p));
        println!("RTT {rtt} ms, Beta 1: {clean:.3} without loss, {lossy:.3} at {p}");
        assert!(clean > 0.9 && (lossy / clean - 1.0).abs() < tolerance);
    }
}

/// The reduction by the short-term bounds matches the recurrence (without ProbeRTT).
#[test]
fn the_cost_of_the_short_term_bounds_matches_the_recurrence() {
    let options = json!({"probe_rtt_interval_s": 1e6});
    for (rtt, p, length) in
        [(30, 0.001, 120), (30, 0.005, 120), (30, 0.01, 120), (500, 0.001, 300), (500, 0.01, 300)]
    {
        let path = (RATE as f64 / 8.0 / MSS as f64, rtt as f64 / 1e3);
        let (mut measured, mut expected) = (0.0, 0.0);
        for seed in [1, 2, 3] {
            let (goodput, cycles) = cycles(&mut model(RATE, rtt, p, &options, seed), 30, length);
            let mut random = RandomStream::named(seed, "bbr", "cycles");
            let chance = &mut |_| random.chance(p);
            measured += goodput / 3.0;
            expected += recurrence::share_of_rate(path, &cycles, 0.7, chance) / 3.0;
        }
        let error = measured / expected - 1.0;
        println!(
            "RTT {rtt} ms, p {p}: expected {expected:.3}, measured {measured:.3} ({:+.1} %)",
            100.0 * error
        );
        assert!(error.abs() < 0.03);
    }
}

/// Sections 5.3.4.1 and 5.3.4.3: ProbeRTT drains half a BDP, then halves the rate for a round trip, at least 200 ms. It
/// repeats 5 s after the end of the last. The cost is 2 % at 30 ms, but 8 % at 500 ms.
#[test]
fn probe_rtt_costs_a_bdp_of_a_long_path() {
    for (rtt, seconds) in [(30, 0.030), (500, 0.500)] {
        let goodput = |options| goodput(&mut model(RATE, rtt, 0.0, &options, 1), 30, 300);
        let (with, without) = (goodput(json!({})), goodput(json!({"probe_rtt_interval_s": 1e6})));
        let held = f64::max(seconds, 0.2);
        let expected = 1.0 - (seconds / 2.0 + held / 2.0) / (5.0 + seconds + held);
        println!(
            "RTT {rtt} ms: expected {expected:.3}, measured {:.3} ({with:.3} and {without:.3})",
            with / without
        );
        assert!((with / without / expected - 1.0).abs() < 0.01);
    }
}
