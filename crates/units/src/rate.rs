//! Link rates and exact serialisation times.

use crate::{Span, Time};

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub u64);

impl Rate {
    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Bytes per second.
    pub fn bytes_per_second(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// Returns the time to send `bytes`, rounded up to the nanosecond.
    #[inline]
    pub fn time_for(self, bytes: u64) -> Span {
        let (nanos, rest) = divide(u128::from(bytes) * 8_000_000_000, self.0.max(1));
        Span((nanos + u128::from(rest > 0)).min(u128::from(u64::MAX)) as u64)
    }
}

/// Returns quotient and remainder. Uses a 64-bit division where the numerator allows it, because 128 bits cost more.
#[inline]
pub fn divide(numerator: u128, denominator: u64) -> (u128, u64) {
    match u64::try_from(numerator) {
        Ok(numerator) => (u128::from(numerator / denominator), numerator % denominator),
        Err(_) => {
            let denominator = u128::from(denominator);
            (numerator / denominator, (numerator % denominator) as u64)
        }
    }
}

/// Serialises packets at a rate and keeps fractions of a nanosecond. The remainder of a packet carries over to the next
/// one while the link is busy, so a busy period lasts exactly `bits / rate`.
#[derive(Clone, Debug)]
pub struct Serializer {
    rate: Rate,
    /// End of the last packet. `remainder` holds the fraction beyond it, in units of `1 / rate` ns.
    free: Time,
    remainder: u64,
}

impl Serializer {
    /// Creates an idle [`Serializer`].
    pub fn new(rate: Rate) -> Serializer {
        Serializer { rate, free: Time::ZERO, remainder: 0 }
    }

    /// Returns the current rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Changes the rate from the next packet on.
    pub fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
        self.remainder = 0;
    }

    /// Begins a packet of `bytes` at `now`, or at the end of the last packet if that is later. Returns the instant at
    /// which its last bit leaves.
    #[inline]
    pub fn begin(&mut self, now: Time, bytes: u32) -> Time {
        self.begin_bits(now, u64::from(bytes) * 8)
    }

    /// Begins a packet of `bits`, as [`Serializer::begin`] does.
    #[inline]
    pub fn begin_bits(&mut self, now: Time, bits: u64) -> Time {
        let rate = self.rate.0.max(1);
        let (start, carried) = if now > self.free { (now, 0) } else { (self.free, self.remainder) };
        let bit_nanos = u128::from(bits) * 1_000_000_000 + u128::from(carried);
        let (nanos, remainder) = divide(bit_nanos, rate);
        self.remainder = remainder;
        self.free = start + Span(nanos as u64);
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_period_lasts_bits_over_rate() {
        // 1,000 packets of 1,228 bytes at 7 Mb/s: 9,824,000 bits last 1.403428571... s.
        let mut link = Serializer::new(Rate(7_000_000));
        let mut end = Time::ZERO;
        for _ in 0..1000 {
            end = link.begin(end, 1228);
        }
        assert_eq!(end, Time(1_403_428_571));
    }

    #[test]
    fn words_and_longer_numbers_divide_alike() {
        assert_eq!(divide(7, 2), (3, 1));
        assert_eq!(divide(1 << 64, 1 << 63), (2, 0));
        assert_eq!(divide((5 << 64) + 3, u64::MAX), (5, 8));
    }

    #[test]
    fn an_idle_link_starts_afresh() {
        let mut link = Serializer::new(Rate(3));
        assert_eq!(link.begin(Time(0), 1), Time(2_666_666_666));
        assert_eq!(link.begin(Time(10_000_000_000), 1), Time(12_666_666_666));
    }
}
