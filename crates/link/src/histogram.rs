//! A histogram of times with a relative error below 1 %, in fixed memory.

use units::Span;

/// Sub-buckets per power of two: 64 give a relative width of 1/64 and an error below 0.8 % at the
/// middle of a bucket.
const SUB_BITS: u32 = 6;

/// Counts of spans in logarithmic buckets.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Empty before the first span: most links of a constellation never carry a packet.
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts one span.
    pub fn record(&mut self, span: Span) {
        let bucket = Self::bucket(span.nanos());
        match self.counts.get_mut(bucket) {
            Some(count) => *count += 1,
            None => self.allocate(bucket),
        }
        self.total += 1;
    }

    #[cold]
    fn allocate(&mut self, bucket: usize) {
        self.counts = vec![0; ((64 - SUB_BITS as usize) + 1) << SUB_BITS];
        self.counts[bucket] = 1;
    }

    /// Returns the number of spans.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// Returns the number of spans of at most `span`, to within a bucket.
    pub fn at_most(&self, span: Span) -> u64 {
        self.counts.iter().take(Self::bucket(span.nanos()) + 1).sum()
    }

    /// Returns the `q`-quantile (0 to 1), at the middle of its bucket; `None` if the histogram is empty.
    pub fn quantile(&self, q: f64) -> Option<Span> {
        let rank = ((q * self.total as f64).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return Some(Self::middle(index));
            }
        }
        None
    }

    /// Returns the mean, within 0.8 %; `None` if the histogram is empty.
    pub fn mean(&self) -> Option<Span> {
        let counted = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let sum: u128 = counted
            .map(|(index, count)| u128::from(Self::middle(index).nanos()) * u128::from(*count))
            .sum();
        (self.total > 0).then(|| Span((sum / u128::from(self.total)) as u64))
    }

    fn bucket(value: u64) -> usize {
        if value < 1 << SUB_BITS {
            return value as usize;
        }
        let exponent = 63 - value.leading_zeros() - SUB_BITS;
        ((u64::from(exponent) << SUB_BITS) + (value >> exponent)) as usize
    }

    fn middle(index: usize) -> Span {
        let index = index as u64;
        if index < 1 << (SUB_BITS + 1) {
            return Span(index);
        }
        let exponent = (index >> SUB_BITS) - 1;
        let mantissa = index - (exponent << SUB_BITS);
        Span((mantissa << exponent) + (1 << exponent) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut histogram = Histogram::default();
        for value in 1..=100_000u64 {
            histogram.record(Span(value * 1000));
        }
        for q in [0.01, 0.5, 0.95, 0.99, 1.0] {
            let exact = q * 1e8;
            let got = histogram.quantile(q).unwrap().nanos() as f64;
            assert!((got / exact - 1.0).abs() < 0.01, "q {q}: {got} against {exact}");
        }
        let mean = histogram.mean().unwrap().nanos() as f64;
        assert!((mean / 50_000_500.0 - 1.0).abs() < 0.008, "{mean}");
        let empty = Histogram::default();
        assert_eq!(
            (empty.quantile(0.5), empty.mean(), empty.at_most(Span(u64::MAX))),
            (None, None, 0)
        );
        let half = histogram.at_most(Span(50_000_000)) as f64;
        assert!((half / 50_000.0 - 1.0).abs() < 0.02, "{half}");
    }

    #[test]
    fn the_largest_value_has_a_bucket() {
        let mut histogram = Histogram::default();
        histogram.record(Span(u64::MAX));
        histogram.record(Span(u64::MAX));
        assert!(histogram.quantile(1.0).unwrap().nanos() > u64::MAX / 2);
        assert_eq!(histogram.mean(), histogram.quantile(1.0));
    }
}
