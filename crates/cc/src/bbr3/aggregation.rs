//! Room for ACKs that come in bursts (section 5.5.9).

use units::Time;

use crate::bbr_common::AckAggregationEpoch;
use crate::max_filter::WindowedMax;

/// BBR.ExtraAckedFilterLen, rounds; one until the pipe has been filled.
const EXTRA_ACKED_FILTER_LEN: u64 = 10;

/// How many more bytes the ACKs bring at once than the bandwidth explains.
#[derive(Clone, Debug, Default)]
pub(super) struct AckAggregation {
    epoch: AckAggregationEpoch,
    filter: WindowedMax,
    /// BBR.extra_acked, bytes.
    pub extra: u64,
}

impl AckAggregation {
    /// The interval counts from `now`.
    pub fn restart(&mut self, now: Time) {
        self.epoch.start = now;
    }

    /// UpdateACKAggregation: `acked` bytes in round `round`, `cwnd` the most that counts.
    pub fn update(
        &mut self,
        now: Time,
        (bw, acked, cwnd): (u64, u64, u64),
        round: u64,
        full: bool,
    ) {
        let extra = self.epoch.extra_acked(now, bw, acked).min(cwnd);
        let window = if full { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra = self.filter.update(round, window, extra);
    }
}
