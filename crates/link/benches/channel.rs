//! Steps of a mobile channel per second of processor time: with every step queried, then with sparser queries. Prints
//! the median of seven.

use std::hint::black_box;
use std::time::Duration;

use link::{ChannelSpec, LooSpec, LookAngle, ReferenceSnr, TerminalMotion, ThreeStateSpec};
use units::Time;

const STEPS: u64 = 2_000_000;
const REPEATS: usize = 7;
const STEP_NS: u64 = 511_009;

#[allow(clippy::approx_constant, reason = "a level in dB")]
fn shadowed_by_trees() -> ChannelSpec {
    let state =
        |mean_db, deviation_db, multipath_db| LooSpec { mean_db, deviation_db, multipath_db };
    ChannelSpec::ThreeState(ThreeStateSpec {
        reference: ReferenceSnr { snr_db: 10.0, error_db: 0.0 },
        motion: TerminalMotion {
            seed: None,
            step_ns: STEP_NS,
            carrier_hz: 2_200_000_000,
            speed_m_s: 60.0 / 3.6,
        },
        look_angle: LookAngle { elevation_deg: 40.0, azimuth_deg: 0.0 },
        transitions: vec![
            vec![0.7193, 0.1865, 0.0942],
            vec![0.1848, 0.7269, 0.0883],
            vec![0.1771, 0.0971, 0.7258],
        ],
        states: vec![state(-0.4, 1.5, -13.2), state(-8.2, 3.9, -12.7), state(-17.0, 3.14, -10.0)],
        frames_m: vec![6.3, 6.3, 4.5],
        transition_m: 2.6,
        correlation_m: 1.5,
    })
}

/// Returns the processor time of this process.
fn processor() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux says it here");
    let ns = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(ns.expect("the first number is in ns"))
}

/// Returns the steps per second when one in `every` is queried.
fn steps_per_second(every: u64) -> f64 {
    let mut channel = shadowed_by_trees().build("bench", 1).expect("a good specification");
    let start = processor();
    for step in (0..STEPS).step_by(every as usize) {
        black_box(channel.at(0, Time(step * STEP_NS)));
    }
    STEPS as f64 / (processor() - start).as_secs_f64()
}

/// Returns the milliseconds until the first result after ten hours without a query.
fn silence_ms() -> f64 {
    let mut channel = shadowed_by_trees().build("bench", 1).expect("a good specification");
    let start = processor();
    black_box(channel.at(0, Time(36_000_000_000_000)));
    (processor() - start).as_secs_f64() * 1e3
}

fn main() {
    for every in [1, 4, 128] {
        let mut rates: Vec<f64> = (0..REPEATS).map(|_| steps_per_second(every)).collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "one step in {every} asked for: {:.1} million steps a second",
            rates[REPEATS / 2] / 1e6
        );
    }
    println!("ten hours without an ask: {:.1} ms", silence_ms());
}
