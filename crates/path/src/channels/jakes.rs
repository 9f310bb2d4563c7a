//! Multipath without a direct path: the complex envelope of many echoes from all around, each with the Doppler shift
//! of its own direction.

use std::f64::consts::TAU;

use units::RandomStream;

use super::grid::{BLOCK, Steps};

/// How many sinusoids stand for all echoes. The fourth moment of the envelope is that of Rayleigh's less one part in
/// twice their number, and levels near the mean are crossed more often by about as much again.
const SINUSOIDS: usize = 32;

/// Steps that are turned at a time, which is what the compiler makes vectors of.
const LANES: usize = 4;

/// Waves that are turned side by side: one, two and four were measured.
const TOGETHER: usize = 4;

/// A sum of sinusoids of unit mean power with Clarke's autocorrelation `J0(2 pi f_d t)`: angles of arrival
/// `(2 pi n + theta_n) / N` with random theta_n and phases (Xiao, Zheng, Beaulieu, IEEE Trans. Wireless Commun. 5(12),
/// 2006). It is a function of the step alone.
#[derive(Debug)]
pub(super) struct Jakes {
    waves: Vec<Wave>,
}

#[derive(Debug)]
struct Wave {
    /// Doppler shift, in cycles per step.
    shift: f64,
    /// Phase at step 0, in cycles.
    phase: f64,
    /// The turn of 0 to `LANES` steps.
    turns: [(f64, f64); LANES + 1],
}

impl Wave {
    fn new(shift: f64, phase: f64) -> Wave {
        Wave { shift, phase, turns: std::array::from_fn(|steps| turn(shift * steps as f64)) }
    }

    /// Where it is in the first steps from `first` on, with `amplitude`. Its phase is exact at `first`.
    fn at(&self, first: u64, amplitude: f64) -> ([f64; LANES], [f64; LANES]) {
        let cycles = self.shift * first as f64 + self.phase;
        let start = turn(cycles - libm::floor(cycles));
        let (mut x, mut y) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            let (c, s) = self.turns[lane];
            x[lane] = amplitude * (start.0 * c - start.1 * s);
            y[lane] = amplitude * (start.0 * s + start.1 * c);
        }
        (x, y)
    }
}

/// Adds these waves, each with `amplitude` and in their order, to the steps from `first` on. One wave's next steps wait
/// for its last; those of several do not wait for each other.
#[inline(always)]
fn add<const N: usize>(waves: &[Wave; N], first: u64, amplitude: f64, sums: &mut (Steps, Steps)) {
    let mut at: [_; N] = std::array::from_fn(|wave| waves[wave].at(first, amplitude));
    let (re, im) = (sums.0.as_chunks_mut::<LANES>().0, sums.1.as_chunks_mut::<LANES>().0);
    for (re, im) in re.iter_mut().zip(im) {
        for (wave, (x, y)) in waves.iter().zip(&mut at) {
            let (c, s) = wave.turns[LANES];
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

/// Cosine and sine of `cycles`.
fn turn(cycles: f64) -> (f64, f64) {
    let (sin, cos) = libm::sincos(TAU * cycles);
    (cos, sin)
}

impl Jakes {
    /// The echoes towards a terminal that moves `wavelengths` a step.
    pub fn new(wavelengths: f64, random: &mut RandomStream) -> Jakes {
        let waves = (0..SINUSOIDS)
            .map(|n| {
                let angle = (n as f64 + random.between(-0.5, 0.5)) / SINUSOIDS as f64;
                Wave::new(wavelengths * turn(angle).0, random.uniform())
            })
            .collect();
        Jakes { waves }
    }

    /// The envelope of a block, real and imaginary part. Wide registers, where the processor has them, hold twice as many
    /// steps; each is rounded as elsewhere, because nothing is fused.
    pub fn block(&self, block: u64) -> (Steps, Steps) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            #[allow(unsafe_code, reason = "the processor has what it is compiled for")]
            return unsafe { self.sum_in_wide_registers(block) };
        }
        self.sum(block)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn sum_in_wide_registers(&self, block: u64) -> (Steps, Steps) {
        self.sum(block)
    }

    #[inline(always)]
    fn sum(&self, block: u64) -> (Steps, Steps) {
        let mut sums = ([0.0; BLOCK], [0.0; BLOCK]);
        let amplitude = 1.0 / libm::sqrt(self.waves.len() as f64);
        let (pairs, rest) = self.waves.as_chunks::<TOGETHER>();
        for pair in pairs {
            add(pair, block * BLOCK as u64, amplitude, &mut sums);
        }
        for wave in rest {
            add(std::array::from_ref(wave), block * BLOCK as u64, amplitude, &mut sums);
        }
        sums
    }
}

/// A direct path of unit power: one sinusoid.
#[derive(Debug)]
pub(super) struct Direct(Wave);

impl Direct {
    /// A path that becomes shorter by `wavelengths` a step.
    pub fn new(wavelengths: f64) -> Direct {
        Direct(Wave::new(wavelengths, 0.0))
    }

    /// The envelope of a block, real and imaginary part.
    pub fn block(&self, block: u64) -> (Steps, Steps) {
        let mut sums = ([0.0; BLOCK], [0.0; BLOCK]);
        add(std::array::from_ref(&self.0), block * BLOCK as u64, 1.0, &mut sums);
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
        // Of each lag: sums and sums of squares of the two parts.
        let mut sums = [[(0.0, 0.0); 2]; LAGS.len()];
        for user in 0..users {
            let jakes = Jakes::new(per_step, &mut RandomStream::named(user, "test", "jakes"));
            let blocks: [(Steps, Steps); (FROM + 200) / BLOCK + 1] =
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

    /// The same bits, whatever registers there are.
    #[test]
    fn wide_registers_change_nothing() {
        for user in 0..50 {
            let jakes = Jakes::new(0.0612, &mut RandomStream::named(user, "test", "jakes"));
            for block in [0, 1, 77, 3_600 * 2_000] {
                assert_eq!(jakes.block(block), jakes.sum(block));
            }
        }
    }

    /// Turning a phase step by step is as good as working it out anew.
    #[test]
    fn the_recursion_stays_exact() {
        let wave = Wave::new(0.0612, 0.3);
        let first = 3_600 * 24 * 2_000;
        let mut sums = ([0.0; BLOCK], [0.0; BLOCK]);
        add(std::array::from_ref(&wave), first, 1.0, &mut sums);
        let (re, im) = sums;
        let start = wave.shift * first as f64 + wave.phase;
        for step in 0..BLOCK {
            let (cos, sin) = turn((start - libm::floor(start)) + wave.shift * step as f64);
            assert!((re[step] - cos).abs() < 1e-13 && (im[step] - sin).abs() < 1e-13);
        }
    }
}
