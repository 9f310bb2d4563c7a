//! Rayleigh fading: multipath without a direct path. The complex envelope consists of many components from all directions,
//! each with the Doppler shift of its direction.

use std::f64::consts::TAU;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, RandomStream, Span};

use super::channel_factory::user_streams;
use super::fading_grid::{BLOCK, BlockSteps, Fading, FadingGrid};
use super::terminal::{FREQUENCY, SEED, SNR, SNR_ERROR, SPEED, STEP};
use super::{ChannelFactory, ChannelSpec, ReferenceSnr, TerminalMotion};
use crate::Channel;
use crate::checks::ValidationResult;

/// Multipath without a direct path.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RayleighSpec {
    /// Mean Es/N0.
    pub reference: ReferenceSnr,
    /// The terminal and its time grid.
    pub motion: TerminalMotion,
}

impl RayleighSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "rayleigh",
        spec_kind: "rayleigh",
        aliases: &[],
        title: "Multipath without a direct path",
        reference: "Clarke 1968; Xiao, Zheng and Beaulieu 2006",
        options: &[SNR, SNR_ERROR, SPEED, FREQUENCY, STEP, SEED],
        draws: true,
        live_name: "",
    };
}

impl ChannelFactory for RayleighSpec {
    fn validate(&self) -> ValidationResult {
        self.reference.validate()?;
        self.motion.validate()
    }

    fn build(&self, name: &str, seed: u64) -> Box<dyn Channel> {
        let wavelengths = self.motion.step_wavelengths();
        let stream = user_streams(&self.motion, name, seed);
        Box::new(FadingGrid::new(self.motion.step_ns, self.reference.snr_db, move |user| {
            Box::new(Rayleigh::new(wavelengths, &mut stream(user, "multipath")))
        }))
    }

    fn with_estimate(&self) -> ChannelSpec {
        Self { reference: self.reference.estimate(), ..self.clone() }.into()
    }

    fn estimate_error_db(&self) -> f64 {
        self.reference.error_db
    }

    fn time_step(&self) -> Option<Span> {
        Some(Span(self.motion.step_ns))
    }
}

/// The fading of one user, with mean power 1.
pub(super) struct Rayleigh(Jakes);

impl Rayleigh {
    /// Creates the fading of a terminal that moves `wavelengths` per step.
    pub fn new(wavelengths: f64, random: &mut RandomStream) -> Rayleigh {
        Rayleigh(Jakes::new(wavelengths, random))
    }
}

impl Fading for Rayleigh {
    fn fill(&mut self, block: u64, gains: &mut BlockSteps) {
        let (re, im) = self.0.block(block);
        for (gain, (re, im)) in gains.iter_mut().zip(re.iter().zip(&im)) {
            *gain = re * re + im * im;
        }
    }
}

/// Number of sinusoids. The fourth moment of the envelope is that of Rayleigh fading, reduced by one part in twice this
/// number. The level crossing rate near the mean is larger by about the same share.
const SINUSOIDS: usize = 32;

/// Steps computed per iteration, for vectorisation by the compiler.
const LANES: usize = 4;

/// Waves computed together: one, two and four were measured.
const WAVES_PER_PASS: usize = 4;

/// A sum of sinusoids of unit mean power with Clarke's autocorrelation `J0(2 pi f_d t)`. The angles of arrival are
/// `(2 pi n + theta_n) / N` with random theta_n and phases (Xiao, Zheng, Beaulieu, IEEE Trans. Wireless Commun. 5(12),
/// 2006). It is a function of the step only.
#[derive(Debug)]
pub(super) struct Jakes {
    waves: Vec<Sinusoid>,
}

#[derive(Debug)]
struct Sinusoid {
    /// Doppler shift, in cycles per step.
    doppler: f64,
    /// Phase at step 0, in cycles.
    phase: f64,
    /// The rotations of 0 to `LANES` steps.
    rotations: [(f64, f64); LANES + 1],
}

impl Sinusoid {
    fn new(shift: f64, phase: f64) -> Sinusoid {
        Sinusoid {
            doppler: shift,
            phase,
            rotations: std::array::from_fn(|steps| rotation(shift * steps as f64)),
        }
    }

    /// Returns the values in the first steps from `first`, with `amplitude`. The phase is exact at `first`.
    fn at(&self, first: u64, amplitude: f64) -> ([f64; LANES], [f64; LANES]) {
        let cycles = self.doppler * first as f64 + self.phase;
        let start = rotation(cycles - libm::floor(cycles));
        let (mut x, mut y) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            let (c, s) = self.rotations[lane];
            x[lane] = amplitude * (start.0 * c - start.1 * s);
            y[lane] = amplitude * (start.0 * s + start.1 * c);
        }
        (x, y)
    }
}

/// Adds these waves, each with `amplitude` and in sequence, to the steps from `first`. The steps of one wave depend on
/// each other; those of several waves are independent.
#[inline(always)]
fn add_waves<const N: usize>(
    waves: &[Sinusoid; N],
    first: u64,
    amplitude: f64,
    sums: &mut (BlockSteps, BlockSteps),
) {
    let mut at: [_; N] = std::array::from_fn(|wave| waves[wave].at(first, amplitude));
    let (re, im) = (sums.0.as_chunks_mut::<LANES>().0, sums.1.as_chunks_mut::<LANES>().0);
    for (re, im) in re.iter_mut().zip(im) {
        for (wave, (x, y)) in waves.iter().zip(&mut at) {
            let (c, s) = wave.rotations[LANES];
            let (before, other) = (*x, *y);
            for lane in 0..LANES {
                re[lane] += before[lane];
            }
            for lane in 0..LANES {
                im[lane] += other[lane];
            }
            for lane in 0..LANES {
                x[lane] = before[lane] * c - other[lane] * s;
            }
            for lane in 0..LANES {
                y[lane] = before[lane] * s + other[lane] * c;
            }
        }
    }
}

/// Returns cosine and sine of `cycles`.
fn rotation(cycles: f64) -> (f64, f64) {
    let (sin, cos) = libm::sincos(TAU * cycles);
    (cos, sin)
}

impl Jakes {
    /// Creates the multipath of a terminal that moves `wavelengths` per step.
    pub fn new(wavelengths: f64, random: &mut RandomStream) -> Jakes {
        let waves = (0..SINUSOIDS)
            .map(|n| {
                let angle = (n as f64 + random.between(-0.5, 0.5)) / SINUSOIDS as f64;
                Sinusoid::new(wavelengths * rotation(angle).0, random.uniform())
            })
            .collect();
        Jakes { waves }
    }

    /// Returns the envelope of a block, real and imaginary part. Wide registers, if present, process twice the number
    /// of steps; the rounding is identical, because no operations are fused.
    pub fn block(&self, block: u64) -> (BlockSteps, BlockSteps) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            #[allow(unsafe_code, reason = "the processor supports the compiled instructions")]
            return unsafe { self.sum_in_wide_registers(block) };
        }
        self.sum(block)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn sum_in_wide_registers(&self, block: u64) -> (BlockSteps, BlockSteps) {
        self.sum(block)
    }

    #[inline(always)]
    fn sum(&self, block: u64) -> (BlockSteps, BlockSteps) {
        let mut sums = ([0.0; BLOCK], [0.0; BLOCK]);
        let amplitude = 1.0 / libm::sqrt(self.waves.len() as f64);
        let (pairs, rest) = self.waves.as_chunks::<WAVES_PER_PASS>();
        for pair in pairs {
            add_waves(pair, block * BLOCK as u64, amplitude, &mut sums);
        }
        for wave in rest {
            add_waves(std::array::from_ref(wave), block * BLOCK as u64, amplitude, &mut sums);
        }
        sums
    }
}

/// A direct path of unit power: one sinusoid.
#[derive(Debug)]
pub(super) struct LineOfSight(Sinusoid);

impl LineOfSight {
    /// Creates a path that becomes shorter by `wavelengths` per step.
    pub fn new(wavelengths: f64) -> LineOfSight {
        LineOfSight(Sinusoid::new(wavelengths, 0.0))
    }

    /// Returns the envelope of a block, real and imaginary part.
    pub fn block(&self, block: u64) -> (BlockSteps, BlockSteps) {
        let mut sums = ([0.0; BLOCK], [0.0; BLOCK]);
        add_waves(std::array::from_ref(&self.0), block * BLOCK as u64, 1.0, &mut sums);
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clarke's autocorrelation over users, at lags within a block and across its end, and no correlation between the
    /// parts of the envelope.
    #[test]
    fn the_autocorrelation_is_bessel() {
        const FROM: usize = 100;
        const LAGS: [usize; 10] = [0, 1, 2, 4, 6, 10, 16, 40, 127, 200];
        let (per_step, users) = (1.0 / 16.0, 20_000);
        // Per lag, sums and sums of squares of the two parts.
        let mut sums = [[(0.0, 0.0); 2]; LAGS.len()];
        for user in 0..users {
            let jakes = Jakes::new(per_step, &mut RandomStream::named(user, "test", "jakes"));
            let blocks: [(BlockSteps, BlockSteps); (FROM + 200) / BLOCK + 1] =
                std::array::from_fn(|block| jakes.block(block as u64));
            let at = |step: usize| {
                let (re, im) = &blocks[step / BLOCK];
                (re[step % BLOCK], im[step % BLOCK])
            };
            let (a, b) = at(FROM);
            for (lag, [re, im]) in LAGS.iter().zip(&mut sums) {
                let (c, d) = at(FROM + lag);
                for (sum, part) in [(re, a * c + b * d), (im, b * c - a * d)] {
                    *sum = (sum.0 + part, sum.1 + part * part);
                }
            }
        }
        let n = users as f64;
        for (lag, [re, im]) in LAGS.iter().zip(sums) {
            for ((sum, square), expected) in
                [(re, libm::j0(TAU * per_step * *lag as f64)), (im, 0.0)]
            {
                let mean: f64 = sum / n;
                let error = ((square / n - mean * mean) / n).sqrt();
                assert!((mean - expected).abs() < 4.0 * error + 1e-12, "{lag}: {mean} +- {error}");
            }
        }
    }

    /// The result is bit-identical for all register widths.
    #[test]
    fn wide_registers_change_nothing() {
        for user in 0..50 {
            let jakes = Jakes::new(0.0612, &mut RandomStream::named(user, "test", "jakes"));
            for block in [0, 1, 77, 3_600 * 2_000] {
                assert_eq!(jakes.block(block), jakes.sum(block));
            }
        }
    }

    /// The step-by-step rotation is as exact as a direct computation.
    #[test]
    fn the_recursion_stays_exact() {
        let wave = Sinusoid::new(0.0612, 0.3);
        let first = 3_600 * 24 * 2_000;
        let mut sums = ([0.0; BLOCK], [0.0; BLOCK]);
        add_waves(std::array::from_ref(&wave), first, 1.0, &mut sums);
        let (re, im) = sums;
        let start = wave.doppler * first as f64 + wave.phase;
        for step in 0..BLOCK {
            let (cos, sin) = rotation((start - libm::floor(start)) + wave.doppler * step as f64);
            assert!((re[step] - cos).abs() < 1e-13 && (im[step] - sin).abs() < 1e-13);
        }
    }
}
