//! The received bytes of a stream: total and in order, without the data.

use std::collections::BTreeMap;

/// Ranges received beyond the first gap, and the length before it. The cost of adding a range is logarithmic in the
/// number of gaps; a lost window makes thousands of gaps.
#[derive(Clone, Debug, Default)]
pub struct ReceivedRanges {
    in_order: u64,
    total: u64,
    /// End by start; disjoint, not adjacent, all beyond `in_order`.
    out_of_order: BTreeMap<u64, u64>,
}

impl ReceivedRanges {
    /// Returns the bytes before the first gap.
    pub fn in_order(&self) -> u64 {
        self.in_order
    }

    /// Returns the bytes received, each counted once.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds `start..end`.
    pub fn insert(&mut self, start: u64, end: u64) {
        let (mut low, mut high) = (start.max(self.in_order), end);
        if low >= high {
            return;
        }
        if self.out_of_order.is_empty() && low == self.in_order {
            self.total += high - low;
            self.in_order = high;
            return;
        }
        let mut known = 0;
        while let Some((&start, &end)) = self.out_of_order.range(..=high).next_back() {
            if end < low {
                break;
            }
            self.out_of_order.remove(&start);
            known += end - start;
            low = low.min(start);
            high = high.max(end);
        }
        self.total += (high - low) - known;
        if low == self.in_order {
            self.in_order = high;
        } else {
            self.out_of_order.insert(low, high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReceivedRanges;

    #[test]
    fn gaps_close_in_any_order() {
        let mut received = ReceivedRanges::default();
        for (start, end, in_order, total) in [
            (0, 10, 10, 10),
            (20, 30, 10, 20),
            (40, 50, 10, 30),
            (25, 45, 10, 40),
            (5, 8, 10, 40),
            (10, 15, 15, 45),
            (12, 22, 50, 50),
            (60, 70, 50, 60),
            (0, 100, 100, 100),
        ] {
            received.insert(start, end);
            assert_eq!((received.in_order(), received.total()), (in_order, total));
        }
    }
}
