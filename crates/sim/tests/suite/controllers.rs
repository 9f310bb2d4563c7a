//! Controllers in the complete stack against theoretical results.

use crate::common::{Case, goodput_up, time_up};
use serde_json::json;

/// Returns the mean goodput over seeds in bit/s, for the whole run.
fn goodput(case: &Case, seeds: u64) -> f64 {
    (1..=seeds)
        .map(|seed| goodput_up(&Case { seed, ..case.clone() }.run(), case.duration_s))
        .sum::<f64>()
        / seeds as f64
}

fn alone(name: &str, rtt_ms: f64, loss: f64, rate: u64, seconds: f64) -> Case {
    Case {
        rate_up: rate,
        rate_down: rate,
        rtt_ms,
        loss,
        congestion: json!({"name": name}),
        load: time_up(seconds),
        duration_s: seconds,
        ..Case::default()
    }
}

/// Ott, Kemperman and Mathis: a window of 1.31 / sqrt(p) packets under independent losses.
#[test]
fn newreno_follows_the_square_root_law() {
    let (rtt, loss, seconds) = (0.1, 1e-3, 400.0);
    let got = goodput(&alone("newreno", rtt * 1e3, loss, 100_000_000, seconds), 4);
    let payload = (crate::common::MTU - 35) as f64 * 8.0;
    let law = 1.31 / loss.sqrt() * payload / rtt;
    println!("{got} against {law}");
    assert!((got / law - 1.0).abs() < 0.12, "{got} bit/s against {law}");
}

/// Caini and Firrincieli 2004: the rate under random loss does not depend on the RTT.
#[test]
fn hybla_is_equal_at_25_100_and_600_ms() {
    let rates: Vec<f64> = [25.0, 100.0, 600.0]
        .into_iter()
        .map(|rtt_ms| goodput(&alone("hybla", rtt_ms, 1e-3, 100_000_000, 100.0), 2))
        .collect();
    println!("{rates:?}");
    for rate in &rates {
        assert!((rate / rates[0] - 1.0).abs() < 0.25, "{rates:?}");
    }
}

/// CACM 2016: BBRv1 does not react to loss; draft-ietf-ccwg-bbr-06: BBRv3 does above 2 %.
#[test]
fn bbr1_holds_a_plateau_and_bbr3_has_a_knee() {
    let share = |name: &str, loss: f64| {
        let case = alone(name, 100.0, loss, 20_000_000, 60.0);
        goodput(&case, 1) / (20e6 * (1.0 - loss))
    };
    let plateau: Vec<f64> = [0.01, 0.05, 0.1, 0.15].into_iter().map(|p| share("bbr1", p)).collect();
    println!("bbr1 {plateau:?}");
    assert!(plateau.iter().all(|share| *share > 0.7), "{plateau:?}");
    let (below, above) = (share("bbr3", 0.005), share("bbr3", 0.05));
    println!("bbr3 {below} {above}");
    assert!(below > 0.75, "{below}");
    assert!(above < 0.4 * below, "{above} {below}");
}
