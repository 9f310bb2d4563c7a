//! The transmissions of a red block of N segments with segment loss probability p and lossless reports: closed forms.
//!
//! Each segment is sent until it arrives: N / (1 - p) transmissions on average (geometric). A round ends with the
//! arrival of its checkpoint; lost segments remain. The rounds of n segments are R(n) = 1 + sum of P(k of n - 1 are
//! lost) R(k), R(0) = 0. Checkpoints are lost R(N) p / (1 - p) times. A block is complete one light time after its last
//! round. Each earlier round lasts a round trip, and each lost checkpoint a timer.

use std::collections::BTreeSet;

use bundle::SessionCommand;
use bundle::cla::ltp::{LtpSegment, LtpSpec, SegmentBody};
use units::{RandomStream, Time};

use crate::ltp::side::{LIGHT, ROUND, TestEngine, small};

/// The results of one block.
struct Sent {
    segments: f64,
    rounds: f64,
    whole_s: f64,
}

fn carry(segments: usize, loss: f64, seed: u64) -> Sent {
    let spec = LtpSpec { max_retransmissions: 100, max_retransmission_cycles: 100, ..small() };
    let (mut one, mut other) =
        (TestEngine::new(&spec, "ipn:1.0"), TestEngine::new(&spec, "ipn:2.0"));
    let mut random = RandomStream::named(seed, "ltp", "loss");
    // Slightly less than full segments of 1,000 bytes.
    one.send(1, 980 * segments);
    let (mut count, mut rounds) = (0, BTreeSet::new());
    let mut wire: Vec<(Time, bool, LtpSegment)> = Vec::new();
    while one.accepted().is_empty() {
        assert!(one.refused().is_empty());
        for (at, segment) in one.sent.drain(..) {
            let mut lost = false;
            if let SegmentBody::Data(data) = &segment.body {
                count += 1;
                rounds.extend(data.checkpoint.map(|checkpoint| checkpoint.serial));
                lost = random.uniform() < loss;
            }
            if !lost {
                wire.push((at + LIGHT, true, segment));
            }
        }
        wire.extend(other.sent.drain(..).map(|(at, segment)| (at + LIGHT, false, segment)));
        let arrival = wire.iter().map(|(at, ..)| *at).min().unwrap_or(Time::MAX);
        let next = arrival.min(one.poll_at()).min(other.poll_at());
        one.run_until(next);
        other.run_until(next);
        let (come, rest) = wire.into_iter().partition(|(at, ..)| *at <= next);
        wire = rest;
        for (_, there, segment) in come {
            let side = if there { &mut other } else { &mut one };
            side.receive(segment.session, segment.body);
        }
        if let Some((_, id, ..)) = other.received().last() {
            other.send_command(SessionCommand::ConfirmStored(*id));
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

/// Returns R(n).
fn rounds(segments: usize, loss: f64) -> f64 {
    let mut found = vec![0.0];
    for n in 1..=segments {
        let mut sum = 1.0;
        // At most all n - 1 others are lost, so R(n) is not in its sum.
        for (k, known) in found.iter().enumerate() {
            sum += choose(n - 1, k) * power(loss, k) * power(1.0 - loss, n - 1 - k) * known;
        }
        found.push(sum);
    }
    found[segments]
}

/// Returns the mean of the maximum of n geometric numbers: the rounds if each one repeats all lost segments.
fn greatest(segments: usize, loss: f64) -> f64 {
    (0..1000).map(|k| 1.0 - power(1.0 - power(loss, k), segments)).sum()
}

#[test]
fn transmissions_rounds_and_round_trips_match_the_closed_forms() {
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
        // The transmission times are some milliseconds in total.
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
