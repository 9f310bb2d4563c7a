//! The mobile channel of Perez-Fontan compared with published values, and as a function of seed, user and time.

use link::{ChannelSpec, ChannelState, RangeLossSpec, ReferenceSnr};
use proptest::prelude::*;
use units::{Span, Time};

use crate::common::fading::{STEP_NS, db, gains, mean, motion, one_state, rayleigh, trees, urban};

const SECOND: u64 = 1_000_000_000;

/// Quantiles of attenuation from another implementation over 4,000 s. The number of samples here is equal, so that both
/// have the same error.
#[test]
fn attenuation_has_the_published_quantiles() {
    let mut channel = trees().build("test", 1).unwrap();
    let users: Vec<Vec<f64>> = (0..120)
        .map(|user| {
            let gains = gains(&mut *channel, user, 2 * STEP_NS, 20 * SECOND / (2 * STEP_NS));
            gains.into_iter().map(db).collect()
        })
        .collect();
    for (quantile, published) in [(0.05, -16.7), (0.25, -9.0), (0.5, -4.3), (0.75, -0.65)] {
        let below = |user: &Vec<f64>| {
            user.iter().filter(|gain| **gain < published).count() as f64 / user.len() as f64
        };
        let (share, error) = mean(&users.iter().map(below).collect::<Vec<_>>());
        let errors = (share - quantile).abs() / (error * std::f64::consts::SQRT_2);
        assert!(errors < 3.0, "{published} dB: {share}, published {quantile}: {errors} errors");
    }
    let deepest = users.iter().flatten().copied().fold(0.0, f64::min);
    // The other implementation has -64 dB.
    assert!((-84.0..-55.0).contains(&deepest), "{deepest} dB");
}

/// With one length for all states the shares of time are the stationary vector, and the median is lower.
#[test]
fn one_frame_length_for_all_states_shifts_the_median() {
    let mut spec = trees();
    if let ChannelSpec::ThreeState(spec) = &mut spec {
        spec.frames_m = vec![6.3; 3];
    }
    let mut channel = spec.build("test", 1).unwrap();
    let below: Vec<f64> = (0..120)
        .map(|user| {
            let gains = gains(&mut *channel, user, 4 * STEP_NS, 20 * SECOND / (4 * STEP_NS));
            gains.iter().filter(|gain| db(**gain) < -4.9).count() as f64 / gains.len() as f64
        })
        .collect();
    let (share, error) = mean(&below);
    assert!((share - 0.5).abs() < 3.0 * std::f64::consts::SQRT_2 * error, "{share} +- {error}");
}

/// The values for a seed are part of the results.
#[test]
fn the_same_seed_gives_the_same_bytes() {
    let hash_of = |spec: &ChannelSpec, seed: u64, name: &str, user: u32| {
        let mut channel = spec.build(name, seed).unwrap();
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for step in 0..20_000 {
            let ChannelState { es_n0, information } = channel.at(user, Time(step * STEP_NS));
            for bits in [es_n0.to_bits(), information.to_bits()] {
                hash = (hash ^ bits).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        hash
    };
    let hash = |seed, name, user| hash_of(&trees(), seed, name, user);
    assert_eq!(hash(1, "satellite.down", 0), GOLDEN);
    assert_eq!(hash_of(&urban(), 1, "satellite.down", 0), GOLDEN_URBAN);
    assert_eq!(hash_of(&rayleigh(), 1, "satellite.down", 0), GOLDEN_RAYLEIGH);
    assert_ne!(hash(2, "satellite.down", 0), GOLDEN);
    assert_ne!(hash(1, "satellite.up", 0), GOLDEN);
    assert_ne!(hash(1, "satellite.down", 1), GOLDEN);
}

const GOLDEN_URBAN: u64 = 0x312b_59b5_c297_b917;
const GOLDEN_RAYLEIGH: u64 = 0xaf41_6154_4618_a98a;
const GOLDEN: u64 = 0x8cf3_4377_2d7b_210c;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Rare, late, frequent or backward queries (up to one second) give the same values.
    #[test]
    fn the_query_pattern_changes_nothing(
        seed in 0..u64::MAX,
        asks in prop::collection::vec((0..2u32, 0..3 * SECOND, 0..SECOND), 1..60),
        jump in 0..60 * SECOND,
        spec in prop::sample::select(&[trees, urban, rayleigh][..]),
    ) {
        let mut often = spec().build("test", seed).unwrap();
        let mut seldom = spec().build("test", seed).unwrap();
        let mut now = [jump, 0];
        for (user, later, back) in asks {
            let now = &mut now[user as usize];
            for step in *now / STEP_NS..(*now + later) / STEP_NS {
                if step % 7 == 0 {
                    often.at(user, Time(step * STEP_NS));
                }
            }
            *now += later;
            let at = Time(now.saturating_sub(back));
            prop_assert_eq!(often.at(user, Time(*now)), seldom.at(user, Time(*now)));
            prop_assert_eq!(often.at(user, at), seldom.at(user, at));
        }
    }
}

/// Steps without queries cost no memory and no time: ten hours pass at once, with equal values for both patterns.
#[test]
fn hours_without_a_query() {
    let (mut idle, mut hourly) = (trees().build("t", 3).unwrap(), trees().build("t", 3).unwrap());
    for hour in 0..10 {
        hourly.at(0, Time(hour * 3_600 * SECOND));
    }
    let late = Time(36_000 * SECOND);
    assert_eq!(idle.at(0, late), hourly.at(0, late));
    let past = Time(late.nanos() - SECOND);
    assert_eq!(idle.at(0, past), hourly.at(0, past));
}

/// A seed of the channel gives the same values in every run.
#[test]
fn a_channel_uses_its_configured_seed() {
    let mut spec = trees();
    if let ChannelSpec::ThreeState(spec) = &mut spec {
        spec.motion.seed = Some(1);
    }
    let at = |spec: &ChannelSpec, seed| spec.build("test", seed).unwrap().at(0, Time(SECOND));
    assert_eq!(at(&spec, 1), at(&trees(), 1));
    assert_eq!(at(&spec, 2), at(&trees(), 1));
}

/// A satellite that approaches: the same fading plus the range loss at all times. Code designs use the distance at
/// which Es/N0 is specified.
#[test]
fn range_loss_adds_to_the_fading() {
    let ranged = || {
        let loss = vec![(0, 6.0), (10 * SECOND, 1.0)];
        ChannelSpec::RangeLoss(RangeLossSpec { loss, channel: Box::new(trees()) })
    };
    let (mut with, mut without) =
        (ranged().build("test", 1).unwrap(), trees().build("test", 1).unwrap());
    for (at_s, loss_db) in [(0.0, 6.0), (2.0, 5.0), (5.0, 3.5), (12.0, 1.0)] {
        let at = Time((at_s * 1e9) as u64);
        let (near, far) = (without.at(0, at), with.at(0, at));
        assert!((db(near.es_n0) - db(far.es_n0) - loss_db).abs() < 1e-9, "{at_s} s");
        assert_eq!(far, ChannelState::from_es_n0(far.es_n0));
    }
    let long_run =
        |spec: ChannelSpec| spec.design_samples(Span(20_000_000)).take(100).collect::<Vec<_>>();
    assert_eq!(long_run(ranged()), long_run(trees()));
    let empty =
        ChannelSpec::RangeLoss(RangeLossSpec { loss: Vec::new(), channel: Box::new(trees()) });
    assert!(empty.build("test", 1).is_err());
}

#[test]
fn the_channel_is_constant_between_steps() {
    let mut channel = trees().build("test", 1).unwrap();
    let at_step = channel.at(0, Time(100 * STEP_NS));
    assert_eq!(channel.at(0, Time(101 * STEP_NS - 1)), at_step);
    assert_ne!(channel.at(0, Time(101 * STEP_NS)), at_step);
}

/// The code design assumes a channel 3 dB better than the real one. The fading is the same.
#[test]
fn design_samples_use_the_estimated_reference() {
    let with = |error_db| {
        let mut spec = trees();
        if let ChannelSpec::ThreeState(spec) = &mut spec {
            spec.reference = ReferenceSnr { snr_db: 7.0, error_db };
        }
        spec
    };
    let long_run = |error_db| with(error_db).design_samples(Span(20_000_000)).take(1_000);
    for (right, wrong) in long_run(0.0).zip(long_run(3.0)) {
        assert!((db(wrong.es_n0) - db(right.es_n0) - 3.0).abs() < 1e-9);
    }
    let at = |error_db| with(error_db).build("test", 1).unwrap().at(0, Time(SECOND));
    assert_eq!(at(0.0), at(3.0));
}

#[test]
fn bad_specifications_are_refused() {
    let refused = |change: &dyn Fn(&mut ChannelSpec)| {
        let mut spec = trees();
        change(&mut spec);
        spec.build("satellite.down", 1).map(|_| ()).unwrap_err().to_string()
    };
    let message = refused(&|spec| {
        if let ChannelSpec::ThreeState(spec) = spec {
            spec.motion.speed_m_s = 20.0;
        }
    });
    assert_eq!(message, "satellite.down channel: step_ns = 511009 exceeds 1 ms or 1/16 wavelength");
    let message = refused(&|spec| {
        if let ChannelSpec::ThreeState(spec) = spec {
            spec.transitions[0] = vec![0.7, 0.2, 0.2];
        }
    });
    assert!(message.contains("expected 3 probabilities with the sum 1"), "{message}");
    let message = refused(&|spec| {
        if let ChannelSpec::ThreeState(spec) = spec {
            spec.transitions[2] = vec![0.0, 0.0, 1.0];
        }
    });
    assert!(message.contains("no transition path from state 2 to state 0"), "{message}");
    let message = refused(&|spec| {
        if let ChannelSpec::ThreeState(spec) = spec {
            spec.frames_m[1] = 0.0;
        }
    });
    assert!(message.contains("frames_m = 0 is not between"), "{message}");
    assert!(one_state(f64::NAN, 0.0, 0.0, motion(60.0)).build("test", 1).is_err());
}
