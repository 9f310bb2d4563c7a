//! Channel statistics. Users are independent, so the deviation over users gives the standard error.

use link::{
    Channel, ChannelSpec, LooSpec, LookAngle, RayleighSpec, ReferenceSnr, SemiMarkovCellSpec,
    SemiMarkovSpec, SemiMarkovStateSpec, TerminalMotion, ThreeStateSpec,
};
use units::Time;

/// 1/16 wavelength at 60 km/h and 2.2 GHz.
pub const STEP_NS: u64 = 511_009;

/// Returns the motion of a terminal at a speed for which `STEP_NS` is short enough.
pub fn motion(speed_km_h: f64) -> TerminalMotion {
    TerminalMotion {
        seed: None,
        step_ns: STEP_NS,
        carrier_hz: 2_200_000_000,
        speed_m_s: speed_km_h / 3.6,
    }
}

/// The three states of intermediate tree shadowing at 40 degrees in S band: mean, deviation and multipath in dB.
#[allow(clippy::approx_constant, reason = "a level in dB")]
pub const TREES: [(f64, f64, f64); 3] =
    [(-0.4, 1.5, -13.2), (-8.2, 3.9, -12.7), (-17.0, 3.14, -10.0)];

/// Returns intermediate tree shadowing. In line of sight Es/N0 is 0 dB, so that Es/N0 is the gain.
pub fn trees() -> ChannelSpec {
    let state =
        |(mean_db, deviation_db, multipath_db)| LooSpec { mean_db, deviation_db, multipath_db };
    ChannelSpec::ThreeState(ThreeStateSpec {
        reference: ReferenceSnr { snr_db: 0.0, error_db: 0.0 },
        motion: motion(60.0),
        look_angle: LookAngle { elevation_deg: 40.0, azimuth_deg: 0.0 },
        transitions: vec![
            vec![0.7193, 0.1865, 0.0942],
            vec![0.1848, 0.7269, 0.0883],
            vec![0.1771, 0.0971, 0.7258],
        ],
        states: TREES.map(state).to_vec(),
        frames_m: vec![6.3, 6.3, 4.5],
        transition_m: 2.6,
        correlation_m: 1.5,
    })
}

/// Returns a channel with a single, permanent state.
pub fn one_state(
    mean_db: f64,
    deviation_db: f64,
    multipath_db: f64,
    motion: TerminalMotion,
) -> ChannelSpec {
    ChannelSpec::ThreeState(ThreeStateSpec {
        reference: ReferenceSnr { snr_db: 0.0, error_db: 0.0 },
        motion,
        look_angle: LookAngle { elevation_deg: 40.0, azimuth_deg: 0.0 },
        transitions: vec![vec![1.0]],
        states: vec![LooSpec { mean_db, deviation_db, multipath_db }],
        frames_m: vec![5.0],
        transition_m: 1.0,
        correlation_m: 1.5,
    })
}

/// Returns ITU-R P.681, urban at 45 degrees in S band, with 0 dB in line of sight.
pub fn urban() -> ChannelSpec {
    ChannelSpec::SemiMarkov(SemiMarkovSpec {
        reference: ReferenceSnr { snr_db: 0.0, error_db: 0.0 },
        motion: motion(60.0),
        look_angle: LookAngle { elevation_deg: 45.0, azimuth_deg: 0.0 },
        cells: vec![SemiMarkovCellSpec {
            at_ns: 0,
            good: SemiMarkovStateSpec {
                ln_mean: 3.0639,
                ln_deviation: 1.6980,
                min_length_m: 10.0,
                mean_db: -1.8225,
                mean_deviation_db: 1.1317,
                quantiles: (0.0, 1.0),
                deviation_per_db: -0.4643,
                deviation_db: 0.3334,
                multipath_per_db: -0.0481,
                multipath_db: -14.7450,
            },
            bad: SemiMarkovStateSpec {
                ln_mean: 2.9108,
                ln_deviation: 1.2602,
                min_length_m: 6.0,
                mean_db: -15.4844,
                mean_deviation_db: 3.3245,
                quantiles: (0.1, 0.9),
                deviation_per_db: -0.0798,
                deviation_db: 2.8101,
                multipath_per_db: 0.9434,
                multipath_db: -1.7555,
            },
            correlation_m: 1.7910,
            transition_m_per_db: 0.0744,
            transition_offset_m: 2.1423,
        }],
    })
}

/// Returns multipath without line of sight, with mean power 1.
pub fn rayleigh() -> ChannelSpec {
    ChannelSpec::Rayleigh(RayleighSpec {
        reference: ReferenceSnr { snr_db: 0.0, error_db: 0.0 },
        motion: motion(60.0),
    })
}

/// Returns Es/N0 of `user` at `count` instants, `every_ns` apart.
pub fn gains(channel: &mut dyn Channel, user: u32, every_ns: u64, count: u64) -> Vec<f64> {
    (0..count).map(|k| channel.at(user, Time(k * every_ns)).es_n0).collect()
}

/// Returns the mean and its standard error.
pub fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    (mean, (square / n).sqrt())
}

/// Converts a ratio to dB.
pub fn db(ratio: f64) -> f64 {
    10.0 * libm::log10(ratio)
}
