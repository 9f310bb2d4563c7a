//! Which bytes of a stream have arrived: total and in order, without keeping them.

/// Ranges received beyond the first gap, and the length before it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    in_order: u64,
    total: u64,
    /// Disjoint, not adjacent, in increasing order; all beyond `in_order`.
    beyond: Vec<(u64, u64)>,
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
        let start = start.max(self.in_order);
        if start >= end {
            return;
        }
        if start == self.in_order && self.beyond.is_empty() {
            self.total += end - start;
            self.in_order = end;
            return;
        }
        // The ranges that touch start..end are first..last.
        let first = self.beyond.partition_point(|range| range.1 < start);
        let last = first + self.beyond[first..].partition_point(|range| range.0 <= end);
        let (mut low, mut high, mut known) = (start, end, 0);
        for range in &self.beyond[first..last] {
            low = low.min(range.0);
            high = high.max(range.1);
            known += range.1 - range.0;
        }
        self.total += (high - low) - known;
        if low == self.in_order {
            self.in_order = high;
            self.beyond.drain(first..last);
        } else {
            self.beyond.splice(first..last, [(low, high)]);
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
