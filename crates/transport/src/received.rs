//! Which bytes of a stream have arrived: total and in order, without keeping them.

use std::collections::BTreeMap;

/// Ranges received beyond the first gap, and the length before it. Adding a range costs the
/// logarithm of the number of gaps, which a lost window makes thousands.
#[derive(Clone, Debug, Default)]
pub struct Received {
    in_order: u64,
    total: u64,
    /// End by start; disjoint, not adjacent, all beyond `in_order`.
    beyond: BTreeMap<u64, u64>,
}

impl Received {
    /// Bytes before the first gap.
    pub fn in_order(&self) -> u64 {
        self.in_order
    }

    /// Bytes received, each counted once.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Adds `start..end`.
    pub fn insert(&mut self, start: u64, end: u64) {
        let (mut low, mut high) = (start.max(self.in_order), end);
        if low >= high {
            return;
        }
        if self.beyond.is_empty() && low == self.in_order {
            self.total += high - low;
            self.in_order = high;
            return;
        }
        let mut known = 0;
        while let Some((&start, &end)) = self.beyond.range(..=high).next_back() {
            if end < low {
                break;
            }
            self.beyond.remove(&start);
            known += end - start;
            low = low.min(start);
            high = high.max(end);
        }
        self.total += (high - low) - known;
        if low == self.in_order {
            self.in_order = high;
        } else {
            self.beyond.insert(low, high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Received;

    #[test]
    fn gaps_close_in_any_order() {
        let mut received = Received::default();
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
