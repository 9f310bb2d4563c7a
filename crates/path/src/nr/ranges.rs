//! Which bytes of a packet are there.

/// Ranges of bytes, in order, apart from each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// The bytes `from..to` too.
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

    /// Whether `0..bytes` is there.
    pub fn are_all_of(&self, bytes: u32) -> bool {
        self.0.first() == Some(&(0, bytes))
    }

    /// Whether something is missing before the last byte that is there.
    pub fn have_a_gap(&self) -> bool {
        self.0.len() > 1 || self.first().is_some_and(|(from, _)| from > 0)
    }

    pub fn first(&self) -> Option<(u32, u32)> {
        self.0.first().copied()
    }

    /// Takes `bytes` away from the beginning of the first range, which has as many.
    pub fn take(&mut self, bytes: u32) {
        if let Some((from, to)) = self.0.first_mut() {
            *from += bytes;
            if *from >= *to {
                self.0.remove(0);
            }
        }
    }

    /// What is missing of `0..bytes`.
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
    fn ranges_join_and_tell_what_is_missing() {
        let mut ranges = Ranges::default();
        assert!(!ranges.have_a_gap() && ranges.missing(9).eq([(0, 9)]));
        ranges.add(0, 10);
        ranges.add(30, 40);
        ranges.add(20, 25);
        assert!(ranges.have_a_gap());
        assert!(ranges.missing(50).eq([(10, 20), (25, 30), (40, 50)]));
        ranges.add(25, 30);
        assert_eq!(ranges.0, [(0, 10), (20, 40)]);
        ranges.add(5, 60);
        assert!(ranges.are_all_of(60) && !ranges.have_a_gap());
        assert_eq!(ranges.missing(60).count(), 0);
        ranges.take(59);
        assert_eq!(ranges.first(), Some((59, 60)));
        assert!(ranges.have_a_gap());
        ranges.take(1);
        assert!(ranges.is_empty());
    }
}
