//! Proportional rate reduction (RFC 9937): during recovery data leaves at the rate at which it
//! arrives, times the reduction, so that the flight ends at ssthresh.

/// State of one recovery. Bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    ssthresh: u64,
    /// RecoverFS: the flight when recovery began, before the ACK that began it.
    recover_flight: u64,
    delivered: u64,
    out: u64,
    /// SndCnt: what may leave until the next ACK.
    count: u64,
}

impl Prr {
    /// Section 6.1: recovery begins.
    pub(super) fn begin(ssthresh: u64, flight: u64) -> Prr {
        Prr { ssthresh, recover_flight: flight.max(1), ..Prr::default() }
    }

    /// Section 6.2: an ACK delivered `delivered` bytes and left `in_flight`; `safe` says that it
    /// advanced SND.UNA and brought no new loss.
    pub(super) fn on_ack(&mut self, delivered: u64, in_flight: u64, safe: bool, mss: u64) {
        self.delivered += delivered;
        self.count = if in_flight > self.ssthresh {
            let share = u128::from(self.delivered) * u128::from(self.ssthresh);
            let share = share.div_ceil(u128::from(self.recover_flight)) as u64;
            share.saturating_sub(self.out)
        } else {
            let mut count = self.delivered.saturating_sub(self.out).max(delivered);
            if safe {
                count += mss;
            }
            count.min(self.ssthresh - in_flight)
        };
        if self.out == 0 {
            // The fast retransmit leaves in any case.
            self.count = self.count.max(mss);
        }
    }

    /// Bytes that may leave now.
    pub(super) fn allowance(&self) -> u64 {
        self.count
    }

    /// `bytes` left.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
        self.count = self.count.saturating_sub(bytes);
    }
}
