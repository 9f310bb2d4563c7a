//! Controllers against what theory says of them, on paths where the theory holds.

use cc::conformance::model::{Flow, Loss, Model, Path};
use cc::{Config, build};
use serde_json::{Value, json};
use units::{Span, Time};

const MSS: u64 = 1200;

fn config() -> Config {
    Config { mss: MSS, initial_window: 10 * MSS, initial_rtt: Span::from_millis(333), seed: 1 }
}

fn flow(name: &str, options: Value, rtt_ms: u64) -> Flow {
    let controller = build(name, &options, &config()).unwrap();
    Flow::new(controller, &config(), Span::from_millis(rtt_ms))
}

/// Mean window in packets and losses counted, after a start-up of a tenth of the time, on a path
/// that only delays and loses.
fn mean_window(name: &str, options: Value, rtt_ms: u64, loss: Loss, seconds: u64) -> (f64, u64) {
    let mut model = Model::new(Path::lossy(loss, 7), vec![flow(name, options, rtt_ms)]);
    let warm = Time::ZERO + Span::from_secs(seconds / 10);
    let end = Time::ZERO + Span::from_secs(seconds);
    model.run_until(warm);
    let (delivered, lost) = (model.flows[0].delivered(), model.flows[0].estimator.lost());
    model.run_until(end);
    let sent = (model.flows[0].delivered() - delivered) as f64 / MSS as f64;
    let losses = (model.flows[0].estimator.lost() - lost) / MSS;
    (sent / end.since(warm).seconds() * rtt_ms as f64 / 1e3, losses)
}

fn check(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let error = measured / expected - 1.0;
    println!("{what}: measured {measured:.1}, expected {expected:.1} ({:+.1} %)", 100.0 * error);
    assert!(error.abs() <= tolerance, "{what}: measured {measured}, expected {expected}");
}

/// Mathis with independent losses: 1.31 / sqrt(p) (Ott, Kemperman, Mathis 1996).
#[test]
fn newreno_follows_the_square_root_law() {
    for (p, seconds) in [(1e-3, 5_000), (3e-4, 10_000)] {
        let (window, losses) = mean_window("newreno", json!({}), 100, Loss::Bernoulli(p), seconds);
        println!("{losses} losses");
        assert!(losses >= 2_000);
        check(&format!("NewReno p={p}"), window, 1.31 / p.sqrt(), 0.05);
    }
}

/// Periodic loss: sqrt(3/2) / sqrt(p).
#[test]
fn newreno_under_periodic_loss() {
    let (window, _) = mean_window("newreno", json!({}), 100, Loss::Every(1000), 2_000);
    check("NewReno periodic", window, 1.22 / 1e-3f64.sqrt(), 0.05);
}
#[test]
fn cubic_follows_the_table_of_its_rfc() {
    for (rtt, n, expected, seconds) in [
        (100, 100, 12.0, 2_000),
        (100, 1_000, 38.0, 2_000),
        (100, 10_000, 187.0, 2_000),
        (100, 100_000, 1054.0, 2_000),
        (10, 100, 12.0, 200),
        (10, 1_000, 38.0, 200),
        (10, 10_000, 120.0, 200),
    ] {
        let options = json!({"fast_convergence": false});
        let (window, losses) = mean_window("cubic", options, rtt, Loss::Every(n), seconds);
        println!("{losses} losses");
        check(&format!("CUBIC R={rtt} ms p=1/{n}"), window, expected, 1.10);
    }
}
#[test]
fn hybla_sends_at_one_rate_whatever_the_rtt() {
    for n in [1_000, 10_000] {
        for rtt in [25, 100, 600] {
            let (window, losses) =
                mean_window("hybla", json!({}), rtt, Loss::Bernoulli(1.0 / n as f64), 1_500);
            let rate = window / (rtt as f64 / 1e3);
            println!("{losses} losses {window}");
            check(&format!("Hybla R={rtt} ms n={n}"), rate, 1.31 / 0.025 * (n as f64).sqrt(), 1.10);
        }
    }
}
