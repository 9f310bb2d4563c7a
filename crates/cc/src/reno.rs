//! Window growth of Reno (RFC 5681 section 3.1, restated for bytes by RFC 9002 section 7.3). NewReno and Westwood+
//! share it. Each controller implements its decrease.

use units::Time;

use crate::slow_start::{SlowStart, SlowStartDecision, SlowStartExit};
use crate::window::CongestionWindow;
use crate::{AckEvent, ControllerConfig};

/// A window with Reno growth.
#[derive(Clone, Debug)]
pub(crate) struct RenoGrowth {
    /// cwnd and ssthresh in bytes.
    pub window: CongestionWindow<u64>,
    slow_start: SlowStart,
    /// Bytes acknowledged in congestion avoidance since the window last grew (RFC 3465 section 2.1).
    credit: u64,
}

impl RenoGrowth {
    /// Returns the initial window in slow start with the exit algorithm `exit`.
    pub fn new(exit: SlowStartExit, config: &ControllerConfig) -> RenoGrowth {
        let slow_start = SlowStart::new(exit, config);
        RenoGrowth { window: CongestionWindow::new_in_bytes(config), slow_start, credit: 0 }
    }

    /// Grows the window after an ACK without loss. `limit` is the upper limit in bytes in slow start.
    pub fn grow(&mut self, now: Time, ack: &AckEvent, limit: u64) {
        let window = &mut self.window;
        if window.is_in_slow_start() {
            // RFC 9002 section 7.3.1: the window grows by the bytes acknowledged.
            let verdict = self.slow_start.on_ack(now, ack, window.cwnd);
            window.cwnd +=
                SlowStartDecision { limit: verdict.limit.min(limit), ..verdict }.growth(ack);
            if verdict.is_finished {
                window.ssthresh = Some(window.cwnd);
            }
        } else {
            // RFC 9002 section 7.3.3: at most one packet per window acknowledged. RFC 5681
            // section 3.1 recommends counting bytes, which loses no fraction.
            self.credit += ack.credited();
            while self.credit >= window.cwnd {
                self.credit -= window.cwnd;
                window.cwnd += window.mss;
            }
        }
    }

    /// Reduces threshold and window to `ssthresh`.
    pub fn reduce(&mut self, now: Time, ssthresh: u64) {
        self.window.cwnd = self.window.reduce(ssthresh);
        self.credit = 0;
        self.slow_start.on_reduction(now, false);
    }

    /// Restarts slow start from `cwnd`.
    pub fn restart(&mut self, now: Time, cwnd: u64) {
        self.window.cwnd = cwnd;
        self.slow_start.on_reduction(now, true);
    }
}
