//! Proportional rate reduction (RFC 9937): during recovery the send rate is the delivery rate times the reduction, so
//! that the flight ends at ssthresh.

/// State of one recovery, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    ssthresh: u64,
    /// RecoverFS: the flight before the ACK that started recovery.
    recover_flight: u64,
    delivered: u64,
    sent: u64,
    /// SndCnt: bytes that may be sent before the next ACK.
    allowance: u64,
}

impl Prr {
    /// Starts recovery (section 6.1).
    pub(super) fn begin(ssthresh: u64, flight: u64) -> Prr {
        Prr { ssthresh, recover_flight: flight.max(1), ..Prr::default() }
    }

    /// Handles an ACK (section 6.2) that delivered `delivered` bytes and left `in_flight`. `safe`: it advanced SND.UNA
    /// without a new loss.
    pub(super) fn on_ack(&mut self, delivered: u64, in_flight: u64, safe: bool, mss: u64) {
        self.delivered += delivered;
        self.allowance = if in_flight > self.ssthresh {
            let share = u128::from(self.delivered) * u128::from(self.ssthresh);
            let share = share.div_ceil(u128::from(self.recover_flight)) as u64;
            share.saturating_sub(self.sent)
        } else {
            let mut count = self.delivered.saturating_sub(self.sent).max(delivered);
            if safe {
                count += mss;
            }
            count.min(self.ssthresh - in_flight)
        };
        if self.sent == 0 {
            // The fast retransmit is always sent.
            self.allowance = self.allowance.max(mss);
        }
    }

    /// Returns the bytes that may be sent now.
    pub(super) fn allowance(&self) -> u64 {
        self.allowance
    }

    /// Records `bytes` as sent.
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.allowance = self.allowance.saturating_sub(bytes);
    }
}
