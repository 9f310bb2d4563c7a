//! How often a red block of N segments is sent where each is lost with a chance of p, and its reports are not: closed forms.
//!
//! Each segment is sent until it arrives, so that its transmissions are geometric: N / (1 - p) on average. A round ends with a
//! checkpoint that arrives; then those of the others are left that were lost, so that the rounds of n segments are
//! R(n) = 1 + sum of P(k of n - 1 are lost) R(k), R(0) = 0, and checkpoints are lost R(N) p / (1 - p) times. A block is whole
//! light after its last round, before which are light there and back each, and for a lost checkpoint a timer.

use std::collections::BTreeSet;

use bundle::Told;
use bundle::layers::ltp::{Body, LtpSpec, Segment};
use units::{RandomStream, Time};

use crate::ltp::side::{LIGHT, One, ROUND, small};

/// What came of one block.
struct Sent {
    segments: f64,
    rounds: f64,
    whole_s: f64,
}

fn carry(segments: usize, loss: f64, seed: u64) -> Sent {
    let spec = LtpSpec { most_times: 100, most_cycles: 100, ..small() };
    let (mut one, mut other) = (One::new(&spec, "ipn:1.0"), One::new(&spec, "ipn:2.0"));
    let mut random = RandomStream::named(seed, "ltp", "loss");
    // A little less than full segments of 1,000 bytes.
    one.send(1, 980 * segments);
    let (mut count, mut rounds) = (0, BTreeSet::new());
    let mut wire: Vec<(Time, bool, Segment)> = Vec::new();
    while one.accepted().is_empty() {
        assert!(one.refused().is_empty());
        for (at, segment) in one.out.drain(..) {
            let mut lost = false;
            if let Body::Data(data) = &segment.body {
                count += 1;
                rounds.extend(data.checkpoint.map(|checkpoint| checkpoint.serial));
                lost = random.uniform() < loss;
            }
            if !lost {
                wire.push((at + LIGHT, true, segment));
            }
        }
        wire.extend(other.out.drain(..).map(|(at, segment)| (at + LIGHT, false, segment)));
        let arrival = wire.iter().map(|(at, ..)| *at).min().unwrap_or(Time::MAX);
        let next = arrival.min(one.wake_at()).min(other.wake_at());
        one.until(next);
        other.until(next);
        let (come, rest) = wire.into_iter().partition(|(at, ..)| *at <= next);
        wire = rest;
        for (_, there, segment) in come {
            let side = if there { &mut other } else { &mut one };
            side.hear(segment.session, segment.body);
        }
        if let Some((_, id, ..)) = other.received().last() {
            other.tell(Told::Stored(*id));
        }
    }
    let whole_s = other.received()[0].0.seconds();
    Sent { segments: f64::from(count), rounds: rounds.len() as f64, whole_s }
}

fn choose(n: usize, k: usize) -> f64 {
    (0..k).map(|one| (n - one) as f64 / (k - one) as f64).product()
}

fn power(base: f64, times: usize) -> f64 {
    std::iter::repeat_n(base, times).product()
}

/// R(n).
fn rounds(segments: usize, loss: f64) -> f64 {
    let mut found = vec![0.0];
    for n in 1..=segments {
        let mut sum = 1.0;
        // Of n - 1 others all are left at most, so that R(n) is not in its own sum.
        for (k, known) in found.iter().enumerate() {
            sum += choose(n - 1, k) * power(loss, k) * power(1.0 - loss, n - 1 - k) * known;
        }
        found.push(sum);
    }
    found[segments]
}

/// The mean of the greatest of n geometric numbers: rounds in which every segment that is left goes again.
fn greatest(segments: usize, loss: f64) -> f64 {
    (0..1000).map(|k| 1.0 - power(1.0 - power(loss, k), segments)).sum()
}

#[test]
fn a_block_takes_as_many_transmissions_rounds_and_round_trips_as_losses_ask_for() {
    const SEEDS: u64 = 400;
    for (segments, loss) in [(1, 0.3), (10, 0.1), (50, 0.02), (50, 0.3), (100, 0.5)] {
        let found: Vec<Sent> = (0..SEEDS).map(|seed| carry(segments, loss, seed)).collect();
        let close = |name: &str, of: &dyn Fn(&Sent) -> f64, expected: f64, slack: f64| {
            let mean = found.iter().map(of).sum::<f64>() / SEEDS as f64;
            let spread = found.iter().map(|one| (of(one) - mean) * (of(one) - mean)).sum::<f64>();
            let error = (spread / (SEEDS * (SEEDS - 1)) as f64).sqrt();
            println!(
                "{segments} segments, {loss}: {name} {mean:.3} ± {error:.3}, expected {expected:.3}"
            );
            assert!((mean - expected).abs() < 4.0 * error + slack, "{name}");
        };
        let number = segments as f64;
        close("transmissions", &|one| one.segments, number / (1.0 - loss), 1e-9);
        let rounds = rounds(segments, loss);
        close("rounds", &|one| one.rounds, rounds, 1e-9);
        let repeated = rounds * loss / (1.0 - loss);
        let light = (2.0 * rounds - 1.0) * LIGHT.seconds();
        // Segments take some milliseconds in all.
        close("seconds", &|one| one.whole_s, light + repeated * ROUND.seconds(), 0.6);
        let bound = greatest(segments, loss);
        println!(
            "{segments} segments, {loss}: rounds and timers {:.3}, at least {bound:.3}",
            rounds + repeated
        );
        assert!(
            rounds + repeated > bound - 1e-9,
            "a checkpoint that waits for its timer holds up the others"
        );
    }
}

#[test]
fn without_loss_a_block_takes_one_light_time() {
    let sent = carry(50, 0.0, 1);
    assert_eq!((sent.segments, sent.rounds), (50.0, 1.0));
    let air = 50.0 * 1028.0 * 8.0 / 8e6;
    assert!((sent.whole_s - LIGHT.seconds()) < air && sent.whole_s > LIGHT.seconds());
}
