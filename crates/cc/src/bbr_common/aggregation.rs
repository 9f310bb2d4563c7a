//! ACK aggregation: bytes acknowledged beyond the estimated bandwidth. Section 5.5.9 of the draft,
//! `bbr_update_ack_aggregation` in Linux.

use units::Time;

use crate::max_filter::bytes_in;

/// An interval in which ACKs exceed the estimated bandwidth.
#[derive(Clone, Debug, Default)]
pub(crate) struct AckAggregationEpoch {
    /// BBR.extra_acked_interval_start.
    pub start: Time,
    /// BBR.extra_acked_delivered.
    acked: u64,
}

impl AckAggregationEpoch {
    /// Starts a new epoch.
    pub fn restart(&mut self, now: Time) {
        *self = AckAggregationEpoch { start: now, acked: 0 };
    }

    /// Records `acked` bytes and returns the surplus in bytes over a bandwidth of `bw` bit/s.
    pub fn extra_acked(&mut self, now: Time, bw: u64, acked: u64) -> u64 {
        let mut expected = bytes_in(bw, now.since(self.start).nanos());
        if self.acked <= expected {
            self.restart(now);
            expected = 0;
        }
        self.acked += acked;
        self.acked - expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 8 Mb/s equal 1,000 bytes per millisecond.
    #[test]
    fn a_burst_is_a_surplus_over_the_bandwidth() {
        let mut epoch = AckAggregationEpoch::default();
        let ms = |ms: u64| Time(ms * 1_000_000);
        assert_eq!(epoch.extra_acked(ms(10), 8_000_000, 5_000), 5_000);
        assert_eq!(epoch.extra_acked(ms(12), 8_000_000, 1_000), 4_000);
        assert_eq!(epoch.extra_acked(ms(16), 8_000_000, 700), 700);
    }
}
