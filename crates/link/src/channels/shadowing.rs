//! Slow shadowing: stationary Gauss-Markov process `g <- r g + sqrt(1 - r^2) N(0, 1)` with `r = exp(-step / length)`.

use std::collections::VecDeque;
use std::sync::Arc;

use units::RandomStream;

use super::fading_grid::{BLOCK, BlockSteps};
use super::gaussian;

/// The process at the steps of a block between its ends, each from the previous one. Coefficients: the previous value,
/// the block's end, the random number. A Gauss-Markov process between two known values is again one, so an unused block
/// costs one number.
#[derive(Debug)]
pub(super) struct GaussMarkovBridge {
    /// `r` over a whole block, and its standard deviation.
    block: (f64, f64),
    steps: [(f64, f64, f64); BLOCK - 1],
}

impl GaussMarkovBridge {
    /// Creates the bridge for steps of `step_m` metres and a correlation length of `correlation_m`.
    pub fn new(step_m: f64, correlation_m: f64) -> GaussMarkovBridge {
        // r to the power of n, and 1 minus its square.
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
        GaussMarkovBridge { block: (power(BLOCK), libm::sqrt(rest(BLOCK))), steps }
    }
}

/// Bridges with the block from which they apply; the first from block 0.
pub(super) type BridgeSchedule = Arc<[(u64, GaussMarkovBridge)]>;

/// The shadowing of one user.
#[derive(Debug)]
pub(super) struct Shadowing {
    bridges: BridgeSchedule,
    /// The process at the starts of blocks, from block `first_block`.
    knots: VecDeque<f64>,
    first_block: u64,
    history_blocks: u64,
    random: RandomStream,
    /// The key of the streams within blocks.
    key: u64,
}

impl Shadowing {
    /// Creates the process with `history_blocks` before the latest block.
    pub fn new(
        bridges: BridgeSchedule,
        history_blocks: u64,
        mut random: RandomStream,
    ) -> Shadowing {
        let key = random.bits();
        let knots = VecDeque::from([gaussian::draw(&mut random)]);
        Shadowing { bridges, knots, first_block: 0, history_blocks, random, key }
    }

    fn bridge(&self, block: u64) -> &GaussMarkovBridge {
        let later = self.bridges.partition_point(|(first, _)| *first <= block);
        &self.bridges[later - 1].1
    }

    /// Returns the process in a block.
    pub fn block(&mut self, block: u64) -> BlockSteps {
        while self.first_block + self.knots.len() as u64 <= block + 1 {
            let (keep, deviation) =
                self.bridge(self.first_block + self.knots.len() as u64 - 1).block;
            let last = self.knots[self.knots.len() - 1];
            self.knots.push_back(keep * last + deviation * gaussian::draw(&mut self.random));
            if self.knots.len() as u64 > self.history_blocks + 2 {
                self.knots.pop_front();
                self.first_block += 1;
            }
        }
        let offset = (block - self.first_block) as usize;
        let (mut value, end) = (self.knots[offset], self.knots[offset + 1]);
        let mut random = RandomStream::named(self.key ^ block, "shadowing", "steps");
        let mut values = [value; BLOCK];
        for (step_value, (before, after, chance)) in
            values[1..].iter_mut().zip(&self.bridge(block).steps)
        {
            value = before * value + after * end + chance * gaussian::draw(&mut random);
            *step_value = value;
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shadow(user: u64, step_m: f64, length_m: f64) -> Shadowing {
        let random = RandomStream::named(user, "test", "shadow");
        Shadowing::new(Arc::new([(0, GaussMarkovBridge::new(step_m, length_m))]), 10, random)
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
    fn a_block_is_independent_of_the_access_order() {
        let mut forward = shadow(1, 0.01, 2.0);
        let blocks: Vec<BlockSteps> = (0..40).map(|block| forward.block(block)).collect();
        let mut jump = shadow(1, 0.01, 2.0);
        assert_eq!(jump.block(39), blocks[39]);
        assert_eq!(jump.block(30), blocks[30]);
        assert_eq!(jump.block(29), blocks[29]);
    }

    #[test]
    fn an_unused_hour_stores_one_value_per_block() {
        let mut shadow = shadow(1, 0.0085, 1.5);
        shadow.block(3_600 * 2_000 / BLOCK as u64);
        assert!(shadow.knots.len() <= 12);
    }
}
