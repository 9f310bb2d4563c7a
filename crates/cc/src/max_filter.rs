//! An exact windowed maximum: the largest value in the last `window` ticks of a counter.

use std::collections::VecDeque;

/// The values that can still become the maximum, largest first.
#[derive(Clone, Debug, Default)]
pub struct WindowedMax {
    candidates: VecDeque<(u64, u64)>,
}

impl WindowedMax {
    /// Adds `value` at `tick`, removes values that are `window` ticks or more older, and returns the maximum.
    pub fn update(&mut self, tick: u64, window: u64, value: u64) -> u64 {
        while self.candidates.back().is_some_and(|(_, candidate)| *candidate <= value) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((tick, value));
        self.advance(tick, window)
    }

    /// Removes values that are `window` ticks or more older than `tick` and returns the maximum.
    pub fn advance(&mut self, tick: u64, window: u64) -> u64 {
        while self.candidates.len() > 1
            && self.candidates.front().is_some_and(|(at, _)| at + window <= tick)
        {
            self.candidates.pop_front();
        }
        self.max()
    }

    /// Returns the maximum; 0 before the first value.
    pub fn max(&self) -> u64 {
        self.candidates.front().map_or(0, |(_, value)| *value)
    }
}

/// Returns the bytes that `rate` bit/s carries in `nanos`.
pub fn bytes_in(rate: u64, nanos: u64) -> u64 {
    (u128::from(rate) * u128::from(nanos) / 8_000_000_000).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn matches_the_maximum_of_all_values(
            values in prop::collection::vec((0u64..4, 0u64..100), 1..100),
            window in 1u64..8,
        ) {
            let mut filter = WindowedMax::default();
            let mut all: Vec<(u64, u64)> = Vec::new();
            let mut tick = 0;
            for (step, value) in values {
                tick += step;
                all.push((tick, value));
                let fresh = all.iter().filter(|(at, _)| at + window > tick);
                let expected = fresh.map(|(_, value)| *value).max().unwrap();
                prop_assert_eq!(filter.update(tick, window, value), expected);
            }
        }
    }
}
