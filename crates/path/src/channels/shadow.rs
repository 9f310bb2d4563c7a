//! Slow shadowing: a stationary Gauss-Markov process, `g <- r g + sqrt(1 - r^2) N(0, 1)` with `r = exp(-step / length)`.

use std::collections::VecDeque;
use std::sync::Arc;

use units::RandomStream;

use super::grid::{BLOCK, Steps};
use super::normal;

/// The process at the steps of a block between its ends, each from the one before: the coefficients of that one, of
/// the block's end and of chance. A Gauss-Markov process between two known values is one again, so that a block that
/// nobody asks for costs one number.
#[derive(Debug)]
pub(super) struct Bridge {
    /// `r` over a whole block, and the deviation that belongs to it.
    whole: (f64, f64),
    steps: [(f64, f64, f64); BLOCK - 1],
}

impl Bridge {
    /// For steps of `step_m` metres and a correlation length of `correlation_m`.
    pub fn new(step_m: f64, correlation_m: f64) -> Bridge {
        // r to the power of n, and 1 less its square.
        let power = |n: usize| libm::exp(-(n as f64) * step_m / correlation_m);
        let rest = |n: usize| -libm::expm1(-2.0 * n as f64 * step_m / correlation_m);
        let steps = std::array::from_fn(|step| {
            let left = BLOCK - step;
            let (known, free) = (rest(left), rest(left - 1));
            (
                power(1) * free / known,
                power(left - 1) * rest(1) / known,
                libm::sqrt(rest(1) * free / known),
            )
        });
        Bridge { whole: (power(BLOCK), libm::sqrt(rest(BLOCK))), steps }
    }
}

/// Bridges, each from a block on; the first from block 0.
pub(super) type Bridges = Arc<[(u64, Bridge)]>;

/// The shadowing of one user.
#[derive(Debug)]
pub(super) struct Shadow {
    bridges: Bridges,
    /// The process at the starts of blocks, from block `first` on.
    knots: VecDeque<f64>,
    first: u64,
    kept: u64,
    random: RandomStream,
    /// The key of the streams within blocks.
    key: u64,
}

impl Shadow {
    /// Answers for `kept` blocks before the latest one.
    pub fn new(bridges: Bridges, kept: u64, mut random: RandomStream) -> Shadow {
        let key = random.bits();
        let knots = VecDeque::from([normal::draw(&mut random)]);
        Shadow { bridges, knots, first: 0, kept, random, key }
    }

    fn bridge(&self, block: u64) -> &Bridge {
        let later = self.bridges.partition_point(|(first, _)| *first <= block);
        &self.bridges[later - 1].1
    }

    /// The process in a block.
    pub fn block(&mut self, block: u64) -> Steps {
        while self.first + self.knots.len() as u64 <= block + 1 {
            let (keep, deviation) = self.bridge(self.first + self.knots.len() as u64 - 1).whole;
            let last = self.knots[self.knots.len() - 1];
            self.knots.push_back(keep * last + deviation * normal::draw(&mut self.random));
            if self.knots.len() as u64 > self.kept + 2 {
                self.knots.pop_front();
                self.first += 1;
            }
        }
        let place = (block - self.first) as usize;
        let (mut value, end) = (self.knots[place], self.knots[place + 1]);
        let mut random = RandomStream::named(self.key ^ block, "shadowing", "steps");
        let mut values = [value; BLOCK];
        for (slot, (before, after, chance)) in values[1..].iter_mut().zip(&self.bridge(block).steps)
        {
            value = before * value + after * end + chance * normal::draw(&mut random);
            *slot = value;
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shadow(user: u64, step_m: f64, length_m: f64) -> Shadow {
        let random = RandomStream::named(user, "test", "shadow");
        Shadow::new(Arc::new([(0, Bridge::new(step_m, length_m))]), 10, random)
    }

    /// Variance 1 and an exponential autocorrelation, within blocks and across their ends. The users are independent,
    /// so the deviation over them gives the standard error.
    #[test]
    fn the_autocorrelation_is_exponential() {
        let (step, length, users) = (0.0085, 1.5, 2_000);
        for (from, lag) in [(0, 0), (5, 1), (127, 1), (3, 60), (100, 60), (120, 250), (90, 900)] {
            let products: Vec<f64> = (0..users)
                .map(|user| {
                    let mut shadow = shadow(user, step, length);
                    let mut at = |step: usize| shadow.block((step / BLOCK) as u64)[step % BLOCK];
                    at(from) * at(from + lag)
                })
                .collect();
            let n = users as f64;
            let mean = products.iter().sum::<f64>() / n;
            let variance = products.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
            let expected = libm::exp(-(lag as f64) * step / length);
            let error = (mean - expected).abs() / (variance / n).sqrt();
            assert!(error < 4.0, "{from} + {lag}: {mean}, expected {expected}, {error} errors");
        }
    }

    #[test]
    fn a_block_is_the_same_however_it_is_reached() {
        let mut forward = shadow(1, 0.01, 2.0);
        let blocks: Vec<Steps> = (0..40).map(|block| forward.block(block)).collect();
        let mut jump = shadow(1, 0.01, 2.0);
        assert_eq!(jump.block(39), blocks[39]);
        assert_eq!(jump.block(30), blocks[30]);
        assert_eq!(jump.block(29), blocks[29]);
    }

    #[test]
    fn an_hour_without_an_ask_is_one_number_a_block() {
        let mut shadow = shadow(1, 0.0085, 1.5);
        shadow.block(3_600 * 2_000 / BLOCK as u64);
        assert!(shadow.knots.len() <= 12);
    }
}
