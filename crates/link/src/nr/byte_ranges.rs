//! Ranges of received or missing bytes of a packet.

/// Disjoint ranges of bytes, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct ByteRanges(Vec<(u32, u32)>);

impl ByteRanges {
    /// Adds the bytes `from..to`.
    pub fn add(&mut self, mut from: u32, mut to: u32) {
        if from >= to {
            return;
        }
        let first = self.0.partition_point(|(_, end)| *end < from);
        let after = self.0.partition_point(|(begin, _)| *begin <= to);
        if first < after {
            (from, to) = (from.min(self.0[first].0), to.max(self.0[after - 1].1));
        }
        self.0.splice(first..after, [(from, to)]);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether `0..bytes` is complete.
    pub fn covers(&self, bytes: u32) -> bool {
        self.0.first() == Some(&(0, bytes))
    }

    /// Returns whether bytes are missing before the last byte.
    pub fn has_gap(&self) -> bool {
        self.0.len() > 1 || self.first_range().is_some_and(|(from, _)| from > 0)
    }

    pub fn first_range(&self) -> Option<(u32, u32)> {
        self.0.first().copied()
    }

    /// Removes `bytes` from the beginning of the first range, which has at least that size.
    pub fn consume(&mut self, bytes: u32) {
        if let Some((from, to)) = self.0.first_mut() {
            *from += bytes;
            if *from >= *to {
                self.0.remove(0);
            }
        }
    }

    /// Returns the missing ranges of `0..bytes`.
    pub fn missing(&self, bytes: u32) -> impl Iterator<Item = (u32, u32)> {
        let begins = std::iter::once(0).chain(self.0.iter().map(|(_, to)| *to));
        let ends = self.0.iter().map(|(from, _)| *from).chain(std::iter::once(bytes));
        begins.zip(ends).filter(|(from, to)| from < to)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_list_gaps() {
        let mut ranges = ByteRanges::default();
        assert!(!ranges.has_gap() && ranges.missing(9).eq([(0, 9)]));
        ranges.add(0, 10);
        ranges.add(30, 40);
        ranges.add(20, 25);
        assert!(ranges.has_gap());
        assert!(ranges.missing(50).eq([(10, 20), (25, 30), (40, 50)]));
        ranges.add(25, 30);
        assert_eq!(ranges.0, [(0, 10), (20, 40)]);
        ranges.add(5, 60);
        assert!(ranges.covers(60) && !ranges.has_gap());
        assert_eq!(ranges.missing(60).count(), 0);
        ranges.consume(59);
        assert_eq!(ranges.first_range(), Some((59, 60)));
        assert!(ranges.has_gap());
        ranges.consume(1);
        assert!(ranges.is_empty());
    }
}
