//! Time slots: the random values of a slot are a function of (seed, link, slot), independent of the traffic.

use link::{
    DropReason, DropTailSpec, LinkOutput, LossModel, LossSpec, QueueSpec, ReconfigurationDelaySpec,
    ReconfigurationLossSpec, ReconfigurationSpec, ServiceSpec, SimplexLink, StageSpec,
    TransmitSpec,
};
use units::{RandomStream, Time};

use crate::common::packet;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const STARLINK: ReconfigurationSpec =
    ReconfigurationSpec { interval_ns: 15 * S, phase_ns: 12 * S, jitter_ns: 0 };

fn delay(delay_ns: &[u64], jitter_ns: &[u64], correlation: f64) -> StageSpec {
    StageSpec::ReconfigurationDelay(ReconfigurationDelaySpec {
        reconfiguration: STARLINK,
        delay_ns: delay_ns.to_vec(),
        jitter_ns: jitter_ns.to_vec(),
        step_ns: 10 * MS,
        correlation,
    })
}

/// Returns the delay of a small packet at each of `at`, or `None` if it is lost.
fn probe(
    stage: &StageSpec,
    name: &str,
    seed: u64,
    at: impl Iterator<Item = u64>,
) -> Vec<Option<u64>> {
    let mut line = SimplexLink::build(std::slice::from_ref(stage), name, seed).unwrap();
    let (mut out, mut born) = (LinkOutput::default(), Vec::new());
    for (number, at) in at.enumerate() {
        line.push(Time(at), packet(number as u32, 100), &mut out);
        born.push(at);
    }
    line.poll(Time::MAX, &mut out);
    let mut found = vec![None; born.len()];
    for (due, packet) in &out.delivered {
        found[packet.handle as usize] = Some(due.nanos() - born[packet.handle as usize]);
    }
    found
}

/// Returns the middle of each of the first `slots` slots.
fn middles(slots: u64) -> impl Iterator<Item = u64> {
    (0..slots).map(|number| number * 15 * S + 6 * S)
}

#[test]
fn slot_values_do_not_depend_on_the_traffic() {
    let stage = delay(&[20 * MS, 40 * MS, 90 * MS], &[0, MS, 9 * MS], 0.8);
    let rarely: Vec<u64> = (0..400).map(|n| n * 500 * MS).collect();
    // A driver with additional traffic and other polling times. No packet delays another: they are 200 ms apart.
    let mut random = RandomStream::named(1, "test", "arrivals");
    let mut often: Vec<u64> =
        rarely.iter().flat_map(|at| [*at, at + 200 * MS + random.below(50 * MS)]).collect();
    often.sort_unstable();
    let one = probe(&stage, "dish.up", 7, rarely.iter().copied());
    let other = probe(&stage, "dish.up", 7, often.iter().copied());
    let same: Vec<_> =
        often.iter().zip(other).filter(|(at, _)| *at % (500 * MS) == 0).map(|(_, d)| d).collect();
    assert_eq!(one, same);
    assert_ne!(one, probe(&stage, "dish.up", 8, rarely.iter().copied()));
}

#[test]
fn a_slot_has_one_delay_with_equal_rank_in_both_directions() {
    let quantiles = [20 * MS, 30 * MS, 90 * MS];
    let up = probe(&delay(&quantiles, &[], 0.0), "dish.up", 1, middles(4000));
    let half: Vec<u64> = quantiles.iter().map(|ns| ns / 2).collect();
    let down = probe(&delay(&half, &[], 0.0), "dish.down", 1, middles(4000));
    assert!(up.iter().zip(&down).all(|(up, down)| up.unwrap().abs_diff(2 * down.unwrap()) <= 2));
    let mut sorted: Vec<u64> = up.iter().map(|delay| delay.unwrap()).collect();
    sorted.sort_unstable();
    // Kolmogorov's distance is below 1.63 / sqrt(n) in 99 of 100 samples.
    for (rank, expected) in [(0.25, 25 * MS), (0.5, 30 * MS), (0.75, 60 * MS)] {
        let below = sorted.partition_point(|delay| *delay < expected) as f64 / 4000.0;
        assert!((below - rank).abs() < 1.63 / 4000f64.sqrt(), "{rank} {below}");
    }
    let within = probe(&delay(&quantiles, &[], 0.0), "dish.up", 1, (12..27).map(|s| s * S));
    assert!(within.windows(2).all(|pair| pair[0] == pair[1]));
    // Slots are independent: the correlation of neighbours is below 3 / sqrt(n).
    let mean = up.iter().map(|d| d.unwrap() as f64).sum::<f64>() / 4000.0;
    let off: Vec<f64> = up.iter().map(|d| d.unwrap() as f64 - mean).collect();
    let product: f64 = off.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let square: f64 = off.iter().map(|off| off * off).sum();
    assert!((product / square).abs() < 3.0 / 4000f64.sqrt());
}

#[test]
fn the_jitter_keeps_its_distribution_and_its_correlation() {
    let stage = delay(&[0], &[0, 10 * MS], 0.9);
    let at = || (0..600_000u64).map(|n| n * 10 * MS);
    // Delays of up to 10 ms on steps of 10 ms: no packet waits for the previous one.
    let found: Vec<f64> = probe(&stage, "dish.up", 3, at())
        .iter()
        .map(|d| d.unwrap() as f64 / (10.0 * MS as f64))
        .collect();
    let n = found.len() as f64;
    let mean = found.iter().sum::<f64>() / n;
    let square = found.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    // Uniform; an effective sample is (1 + r) / (1 - r) = 19 steps.
    assert!((mean - 0.5).abs() < 5.0 * (19.0 / 12.0 / n).sqrt(), "{mean}");
    assert!((square - 1.0 / 12.0).abs() < 0.002, "{square}");
    // Uniform ranks of a Gaussian pair (Spearman): 6 / pi asin(r / 2), except one pair in 1500 across a boundary.
    let product = found.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / n;
    let expected = 6.0 / std::f64::consts::PI * libm::asin(0.45) * 1499.0 / 1500.0;
    assert!((product / square - expected).abs() < 0.005, "{} {expected}", product / square);
}

#[test]
fn a_slot_has_one_rate_per_direction() {
    let service = ServiceSpec::Reconfiguration {
        reconfiguration: STARLINK,
        rate_bit_s: vec![8_000_000, 80_000_000],
    };
    let stage = StageSpec::Transmit(TransmitSpec {
        queue: QueueSpec::DropTail(DropTailSpec { limit: None }),
        service,
    });
    let of = |name| -> Vec<f64> {
        probe(&stage, name, 1, middles(2000))
            .iter()
            .map(|d| 800.0 * 1e9 / d.unwrap() as f64)
            .collect()
    };
    let (up, down) = (of("dish.up"), of("dish.down"));
    for rates in [&up, &down] {
        assert!(rates.iter().all(|rate| (7_999_000.0..80_100_000.0).contains(rate)));
        let mean = rates.iter().sum::<f64>() / 2000.0;
        assert!((mean - 44e6).abs() < 5.0 * 72e6 / (12.0 * 2000f64).sqrt(), "{mean}");
    }
    let product: f64 = up.iter().zip(&down).map(|(up, down)| (up - 44e6) * (down - 44e6)).sum();
    assert!((product / 2000.0 / (72e6 * 72e6 / 12.0)).abs() < 4.0 / 2000f64.sqrt());
}

#[test]
fn bursts_occur_at_boundaries_and_single_losses_between_them() {
    let spec = ReconfigurationLossSpec {
        reconfiguration: STARLINK,
        probability: vec![0.0, 0.02],
        burst_probability: 0.4,
        burst_ns: vec![100 * MS, 500 * MS],
    };
    let stage =
        StageSpec::Loss(LossSpec { model: LossModel::Reconfiguration(spec), changes: Vec::new() });
    let at = || (0..1_500_000u64).map(|n| n * 20 * MS); // 2,000 slots, 750 probes in each
    let (up, down) = (probe(&stage, "dish.up", 1, at()), probe(&stage, "dish.down", 1, at()));
    let slot = |n: usize| (n as u64 * 20 * MS + 3 * S) / (15 * S);
    let into = |n: usize| (n as u64 * 20 * MS + 3 * S) % (15 * S);
    let mut bursts = 0;
    for number in 1..2000u64 {
        let first = ((number * 15 - 3) * S / (20 * MS)) as usize;
        assert_eq!((slot(first), into(first)), (number, 0));
        // Four independent losses in sequence occur once in 6 million.
        let burst = up[first..first + 5].iter().all(Option::is_none);
        assert_eq!(burst, down[first..first + 5].iter().all(Option::is_none), "both directions");
        bursts += u32::from(burst);
    }
    assert!((f64::from(bursts) / 1999.0 - 0.4).abs() < 5.0 * (0.24f64 / 1999.0).sqrt(), "{bursts}");
    // After the longest burst the loss is 1 % on average.
    let rest: Vec<bool> =
        (0..up.len()).filter(|n| into(*n) >= 500 * MS).map(|n| up[n].is_none()).collect();
    let share = rest.iter().filter(|lost| **lost).count() as f64 / rest.len() as f64;
    assert!((share - 0.01).abs() < 0.0007, "{share}");
    let mut line = SimplexLink::build(std::slice::from_ref(&stage), "dish.up", 1).unwrap();
    let mut out = LinkOutput::default();
    (0..1000).for_each(|n| line.push(Time(n * S), packet(n as u32, 100), &mut out));
    assert!(
        !out.dropped.is_empty()
            && out.dropped.iter().all(|(_, _, cause)| *cause == DropReason::Loss)
    );
}

#[test]
fn invalid_slots_are_refused() {
    let refused = |json: &str| {
        let stage: StageSpec = serde_json::from_str(json).unwrap();
        SimplexLink::build(&[stage], "dish.up", 1).err().unwrap().to_string()
    };
    let with = |slots: &str, delay: &str, correlation: f64| {
        refused(&format!(
            r#"{{"kind":"reconfiguration_delay","reconfiguration":{slots},"delay_ns":{delay},"jitter_ns":[],"step_ns":1,"correlation":{correlation}}}"#
        ))
    };
    let sound = r#"{"interval_ns":10,"phase_ns":9,"jitter_ns":4}"#;
    assert!(
        with(r#"{"interval_ns":10,"phase_ns":10,"jitter_ns":0}"#, "[1]", 0.0).contains("phase_ns")
    );
    assert!(
        with(r#"{"interval_ns":10,"phase_ns":0,"jitter_ns":5}"#, "[1]", 0.0)
            .contains("half a slot")
    );
    assert!(
        with(r#"{"interval_ns":0,"phase_ns":0,"jitter_ns":0}"#, "[1]", 0.0).contains("interval_ns")
    );
    assert!(with(sound, "[2,1]", 0.0).contains("expected numbers in ascending order"));
    assert!(with(sound, "[]", 0.0).contains("empty"));
    assert!(with(sound, "[1]", 1.0).contains("correlation"));
}
