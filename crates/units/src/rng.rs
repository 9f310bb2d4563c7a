//! Named random streams: the same (seed, entity, purpose) gives the same numbers on every machine.

use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Span;

/// A stream of random numbers keyed by a fixed hash of (seed, entity name, purpose).
///
/// Sweep values never enter the key. All cells of a sweep draw the same numbers, so their runs can be compared in pairs.
/// Transcendental functions come from `libm`, because the platform's functions differ with FMA.
#[derive(Clone, Debug)]
pub struct RandomStream(Xoshiro256PlusPlus);

impl RandomStream {
    /// Creates the stream of `purpose` (for example `"loss"`) for the entity `name` in run `seed`.
    pub fn named(seed: u64, name: &str, purpose: &str) -> RandomStream {
        // FNV-1a, 64 bits, with a separator that no name contains.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let parts = [name.as_bytes(), &[0xff], purpose.as_bytes()];
        for byte in seed.to_le_bytes().iter().chain(parts.into_iter().flatten()) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        RandomStream(Xoshiro256PlusPlus::seed_from_u64(hash))
    }

    /// Draws 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Draws uniformly from [0, 1), with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draws uniformly from [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Draws uniformly from 0..n; returns 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Returns true with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }

    /// Draws from an exponential distribution with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.uniform())
    }

    /// Draws from the standard normal distribution (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }

    /// Draws from a Pareto distribution with the given shape and minimum.
    pub fn pareto(&mut self, shape: f64, minimum: f64) -> f64 {
        minimum / libm::pow(1.0 - self.uniform(), 1.0 / shape)
    }

    /// Draws a span uniformly from [0, max).
    pub fn span_below(&mut self, max: Span) -> Span {
        Span(self.below(max.0))
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_its_name() {
        let draw = |seed, name, purpose| RandomStream::named(seed, name, purpose).bits();
        assert_eq!(draw(1, "satellite", "loss"), draw(1, "satellite", "loss"));
        assert_ne!(draw(1, "satellite", "loss"), draw(2, "satellite", "loss"));
        assert_ne!(draw(1, "satellite", "loss"), draw(1, "satellite", "jitter"));
        assert_ne!(draw(1, "ab", "c"), draw(1, "a", "bc"));
    }

    #[test]
    fn moments_are_right() {
        let mut random = RandomStream::named(7, "test", "moments");
        let n = 200_000;
        let (mut uniform, mut exponential, mut normal, mut square) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..n {
            uniform += random.uniform();
            exponential += random.exponential(3.0);
            let z = random.normal();
            normal += z;
            square += z * z;
        }
        let n = f64::from(n);
        // Five standard errors each.
        assert!((uniform / n - 0.5).abs() < 5.0 * 0.2887 / n.sqrt());
        assert!((exponential / n - 3.0).abs() < 5.0 * 3.0 / n.sqrt());
        assert!((normal / n).abs() < 5.0 / n.sqrt());
        assert!((square / n - 1.0).abs() < 5.0 * 2f64.sqrt() / n.sqrt());
    }
}
