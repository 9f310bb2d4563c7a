//! Loss: a generator of all models for the property tests, and random loss compared with closed forms, within five
//! standard errors.

use link::{
    BernoulliLossSpec, BurstLossSpec, GilbertElliottSpec, LinkOutput, LossChange, LossModel,
    LossSpec, ReconfigurationLossSpec, SimplexLink, StageSpec, TraceLossSpec,
};
use proptest::prelude::*;
use units::Time;

use crate::common::packet;
use crate::properties::{quantiles, slots};

const N: u32 = 400_000;
const MS: u64 = 1_000_000;

/// Generates a loss stage of any model.
pub fn any_loss() -> impl Strategy<Value = StageSpec> {
    let models = prop_oneof![
        (0.0..1.0).prop_map(|probability| LossModel::Bernoulli(BernoulliLossSpec { probability })),
        (0.0..1.0, 0.0..1.0, 0.0..1.0, 0.0..1.0).prop_map(
            |(good_to_bad, bad_to_good, loss_good, loss_bad)| LossModel::GilbertElliott(
                GilbertElliottSpec { good_to_bad, bad_to_good, loss_good, loss_bad }
            )
        ),
        (10 * MS..50 * MS, 0..10 * MS, 0..50 * MS).prop_map(
            |(interval_ns, duration_ns, offset_ns)| {
                LossModel::Burst(BurstLossSpec { interval_ns, duration_ns, offset_ns })
            }
        ),
        prop::collection::btree_set(0u64..200, 0..20).prop_map(|packets| LossModel::Trace(
            TraceLossSpec { packets: packets.into_iter().collect() }
        )),
        (slots(), prop::collection::vec(0.0..1.0, 1..4), 0.0..1.0, quantiles(0, 20 * MS)).prop_map(
            |(reconfiguration, mut probability, burst_probability, burst_ns)| {
                probability.sort_by(f64::total_cmp);
                LossModel::Reconfiguration(ReconfigurationLossSpec {
                    reconfiguration,
                    probability,
                    burst_probability,
                    burst_ns,
                })
            },
        ),
    ];
    (models, prop::option::of((0..100 * MS, 0.0..1.0))).prop_map(|(model, change)| {
        let change = change.map(|(at_ns, probability)| LossChange { at_ns, probability });
        StageSpec::Loss(LossSpec { model, changes: change.into_iter().collect() })
    })
}

/// Returns for each of `N` packets whether it is lost.
fn losses(model: LossModel, seed: u64) -> Vec<bool> {
    let stage = StageSpec::Loss(LossSpec { model, changes: Vec::new() });
    let mut line = SimplexLink::build(&[stage], "test.up", seed).unwrap();
    let mut out = LinkOutput::default();
    for number in 0..N {
        line.push(Time(u64::from(number)), packet(number, 1), &mut out);
    }
    let mut lost = vec![false; N as usize];
    out.dropped.iter().for_each(|(_, packet, _)| lost[packet.handle as usize] = true);
    lost
}

fn mean(lost: &[bool]) -> f64 {
    lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
}

fn close(got: f64, expected: f64, error: f64) {
    assert!((got - expected).abs() < 5.0 * error, "{got}, not {expected} +- {error}");
}

#[test]
fn bernoulli_mean() {
    for probability in [0.0001, 0.01, 0.3] {
        let got = mean(&losses(LossModel::Bernoulli(BernoulliLossSpec { probability }), 11));
        let error = (probability * (1.0 - probability) / f64::from(N)).sqrt();
        close(got, probability, error);
    }
    assert_eq!(mean(&losses(LossModel::Bernoulli(BernoulliLossSpec { probability: 0.0 }), 1)), 0.0);
    assert_eq!(mean(&losses(LossModel::Bernoulli(BernoulliLossSpec { probability: 1.0 }), 1)), 1.0);
}

#[test]
fn a_larger_probability_loses_the_same_packets_and_more() {
    let few = losses(LossModel::Bernoulli(BernoulliLossSpec { probability: 0.01 }), 5);
    let many = losses(LossModel::Bernoulli(BernoulliLossSpec { probability: 0.02 }), 5);
    assert!(few.iter().zip(&many).all(|(few, many)| !few || *many));
}

#[test]
fn gilbert_elliott_mean_and_bursts() {
    for (p, r, loss_good, loss_bad) in
        [(0.01, 0.2, 0.0, 1.0), (0.002, 0.05, 0.001, 0.5), (0.3, 0.4, 0.1, 0.9)]
    {
        let model = LossModel::GilbertElliott(GilbertElliottSpec {
            good_to_bad: p,
            bad_to_good: r,
            loss_good,
            loss_bad,
        });
        let lost = losses(model, 23);
        let (good, bad) = (r / (p + r), p / (p + r));
        let expected = good * loss_good + bad * loss_bad;
        // Variance of the mean of a stationary two-state chain: the covariance at distance k is
        // good bad (loss_bad - loss_good)^2 (1 - p - r)^k.
        let memory = 1.0 - p - r;
        let step = loss_bad - loss_good;
        let covariances = good * bad * step * step * memory / (1.0 - memory);
        let variance = (expected * (1.0 - expected) + 2.0 * covariances) / f64::from(N);
        close(mean(&lost), expected, variance.sqrt());
        if loss_good == 0.0 && loss_bad == 1.0 {
            let bursts = lost.windows(2).filter(|pair| pair[0] && !pair[1]).count() as f64;
            let packets = mean(&lost) * f64::from(N);
            // Burst lengths are geometric with mean 1 / r.
            close(packets / bursts, 1.0 / r, ((1.0 - r) / (r * r) / bursts).sqrt());
        }
    }
}
