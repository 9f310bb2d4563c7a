//! Fading in one state compared with closed forms: Loo's distribution by integration, Rice's level-crossing rate and
//! average fade duration.

use std::f64::consts::PI;

use link::{ChannelSpec, TerminalMotion};

use crate::common::fading::{TREES, db, gains, mean, motion, one_state, rayleigh};

/// Returns exp(-x) I0(x): Abramowitz and Stegun 9.8.1 and 9.8.2, within 2e-7.
fn bessel_i0_scaled(x: f64) -> f64 {
    let horner = |list: &[f64], t: f64| list.iter().rev().fold(0.0, |sum, next| sum * t + next);
    if x < 3.75 {
        let t = (x / 3.75) * (x / 3.75);
        let list = [1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813];
        libm::exp(-x) * horner(&list, t)
    } else {
        let list = [
            0.39894228,
            0.01328592,
            0.00225319,
            -0.00157565,
            0.00916281,
            -0.02057706,
            0.02635537,
            -0.01647633,
            0.00392377,
        ];
        horner(&list, 3.75 / x) / x.sqrt()
    }
}

/// Integrates by the trapezoidal rule.
fn integral(from: f64, to: f64, steps: u32, f: impl Fn(f64) -> f64) -> f64 {
    let width = (to - from) / f64::from(steps);
    let inner: f64 = (1..steps).map(|step| f(from + f64::from(step) * width)).sum();
    width * (inner + (f(from) + f(to)) / 2.0)
}

/// Returns the probability that Rice's envelope with direct amplitude `a` and mean multipath power `power` is below
/// `level`.
fn rice_below(a: f64, power: f64, level: f64) -> f64 {
    integral(0.0, level, 200, |r| {
        let x = 2.0 * r * a / power;
        2.0 * r / power * libm::exp(-(r - a) * (r - a) / power) * bessel_i0_scaled(x)
    })
}

/// Returns the probability for Loo's envelope, with a log-normal direct path.
fn loo_below(mean_db: f64, deviation_db: f64, multipath_db: f64, level_db: f64) -> f64 {
    let amplitude = |level_db: f64| libm::exp10(level_db / 20.0);
    let power = libm::exp10(multipath_db / 10.0);
    integral(-6.0, 6.0, 120, |g| {
        let weight = libm::exp(-g * g / 2.0) / (2.0 * PI).sqrt();
        weight * rice_below(amplitude(mean_db + deviation_db * g), power, amplitude(level_db))
    })
}

#[test]
fn loo_distribution_matches_its_integral() {
    for (mean_db, deviation_db, multipath_db) in TREES {
        let spec = one_state(mean_db, deviation_db, multipath_db, motion(60.0));
        let mut channel = spec.build("test", 1).unwrap();
        let users: Vec<Vec<f64>> = (0..1_000)
            .map(|user| gains(&mut *channel, user, 20_000_000, 40).into_iter().map(db).collect())
            .collect();
        for level_db in [-25.0, -20.0, -15.0, -12.0, -9.0, -6.0, -3.0, -1.0, 1.0] {
            let expected = loo_below(mean_db, deviation_db, multipath_db, level_db);
            if !(0.002..0.998).contains(&expected) {
                continue;
            }
            let below = |user: &Vec<f64>| {
                user.iter().filter(|gain| **gain < level_db).count() as f64 / user.len() as f64
            };
            let (share, error) = mean(&users.iter().map(below).collect::<Vec<_>>());
            assert!(
                (share - expected).abs() < 4.0 * error,
                "{mean_db} dB below {level_db} dB: {share} +- {error}, expected {expected}"
            );
        }
    }
}

/// Returns crossings of each level and the share of time below it, over users, and the Doppler shift. The grid is eight
/// times finer than necessary, so that few fades fall between two steps.
fn crossings<const N: usize>(
    mean_db: f64,
    multipath_db: f64,
    levels: [f64; N],
) -> ([[(f64, f64); 2]; N], f64) {
    let step_ns = 511_009 / 8;
    let motion = TerminalMotion { step_ns, ..motion(60.0) };
    let mut spec = one_state(mean_db, 0.0, multipath_db, motion);
    if let ChannelSpec::ThreeState(spec) = &mut spec {
        // The direct path has no Doppler shift.
        spec.look_angle.azimuth_deg = 90.0;
    }
    let mut channel = spec.build("test", 1).unwrap();
    let (users, steps) = (300, 10_000);
    let mut of_users = levels.map(|_| (Vec::new(), Vec::new()));
    for user in 0..users {
        let gains = gains(&mut *channel, user, step_ns, steps);
        for (level, (rates, shares)) in levels.iter().zip(&mut of_users) {
            let down =
                gains.windows(2).filter(|pair| pair[0] >= *level && pair[1] < *level).count();
            let below = gains.iter().filter(|gain| *gain < level).count();
            rates.push(down as f64 / (steps - 1) as f64 / (step_ns as f64 * 1e-9));
            shares.push(below as f64 / steps as f64);
        }
    }
    let doppler = 60.0 / 3.6 * 2.2e9 / 299_792_458.0;
    (of_users.map(|(rates, shares)| [mean(&rates), mean(&shares)]), doppler)
}

/// Rice (Bell System Tech. J. 27, 1948): rho is the level over the root of the mean power, K the direct power over the
/// multipath power. `sqrt(2 pi (K + 1)) f_d rho exp(-K - (K + 1) rho^2) I0(2 rho sqrt(K (K + 1)))` crossings occur per
/// second. A fade lasts the share of time below over that. K = 0 is Rayleigh's `sqrt(2 pi) f_d rho exp(-rho^2)`.
#[test]
fn level_crossings_and_fades_match_rice() {
    for (k_db, direct_db) in [(-200.0, -200.0), (6.0, 0.0)] {
        let k = libm::exp10(k_db / 10.0);
        let multipath_db = if k < 1e-9 { 0.0 } else { direct_db - k_db };
        let power = libm::exp10(direct_db / 10.0) + libm::exp10(multipath_db / 10.0);
        let levels_db = [-10.0, -5.0, 0.0, 2.0];
        let levels = levels_db.map(|rho_db| libm::exp10(rho_db / 10.0) * power);
        let (found, doppler) = crossings(direct_db, multipath_db, levels);
        for (rho_db, [rate, share]) in levels_db.into_iter().zip(found) {
            let rho = libm::exp10(rho_db / 20.0);
            let x = 2.0 * rho * (k * (k + 1.0)).sqrt();
            let expected = (2.0 * PI * (k + 1.0)).sqrt()
                * doppler
                * rho
                * libm::exp(-k - (k + 1.0) * rho * rho + x)
                * bessel_i0_scaled(x);
            let close = |(found, error): (f64, f64), expected: f64, what: &str| {
                // The multipath consists of 32 sinusoids, which is not exactly Gaussian.
                assert!(
                    (found - expected).abs() < 4.0 * error + expected / 32.0,
                    "K = {k_db} dB, {rho_db} dB: {what} {found} +- {error}, expected {expected}"
                );
            };
            close(rate, expected, "crossings a second");
            let below = rice_below(
                libm::exp10(direct_db / 20.0),
                libm::exp10(multipath_db / 10.0),
                rho * power.sqrt(),
            );
            close(share, below, "share of time below");
            // The duration of a fade, with the relative errors of both.
            let relative = rate.1 / rate.0 + share.1 / share.0;
            let duration = share.0 / rate.0;
            close((duration, duration * relative), below / expected, "seconds of a fade");
        }
    }
}

/// The power of multipath without a direct path is exponential.
#[test]
fn rayleigh_power_is_exponential() {
    let mut channel = rayleigh().build("test", 1).unwrap();
    let users: Vec<Vec<f64>> =
        (0..4_000).map(|user| gains(&mut *channel, user, 20_000_000, 20)).collect();
    for level in [0.01, 0.1, 0.5, 1.0, 2.0, 4.0] {
        let below = |user: &Vec<f64>| {
            user.iter().filter(|gain| **gain < level).count() as f64 / user.len() as f64
        };
        let (share, error) = mean(&users.iter().map(below).collect::<Vec<_>>());
        let expected = -libm::expm1(-level);
        // The multipath consists of 32 sinusoids, which is not exactly Gaussian.
        assert!((share - expected).abs() < 4.0 * error + expected / 64.0, "{level}: {share}");
    }
}
