//! The congestion window, and its restoration after recovery or ProbeRTT: sections 5.6.4.4 and 5.6.4.6 of the draft,
//! `bbr_save_cwnd` and `bbr_set_cwnd` in Linux.

/// BBR.MinPipeCwnd in packets (Linux: bbr_cwnd_min_target).
const MIN_PIPE_CWND_PACKETS: u64 = 4;

/// The congestion window C.cwnd.
#[derive(Clone, Debug)]
pub(crate) struct Cwnd {
    /// SMSS in bytes.
    pub mss: u64,
    /// C.InitialCwnd in bytes.
    pub initial_cwnd: u64,
    /// C.cwnd in bytes.
    pub bytes: u64,
    /// BBR.prior_cwnd: the window to restore, in bytes.
    pub prior_cwnd: u64,
}

impl Cwnd {
    /// Returns the initial window.
    pub fn new(mss: u64, initial: u64) -> Cwnd {
        Cwnd { mss, initial_cwnd: initial, bytes: initial, prior_cwnd: 0 }
    }

    /// Returns the minimum window in bytes.
    pub fn min_pipe_cwnd(&self) -> u64 {
        MIN_PIPE_CWND_PACKETS * self.mss
    }

    /// SaveCwnd. `low` states that recovery or ProbeRTT may have reduced the window below the path's capacity.
    pub fn save(&mut self, low: bool) {
        self.prior_cwnd = if low { self.prior_cwnd.max(self.bytes) } else { self.bytes };
    }

    /// RestoreCwnd.
    pub fn restore(&mut self) {
        self.bytes = self.bytes.max(self.prior_cwnd);
    }

    /// SetCwnd: grows by the acknowledged bytes. The limit `most` applies only once the pipe has been filled.
    pub fn grow(&mut self, acked: u64, most: u64, full_bw_reached: bool, delivered: u64) {
        if full_bw_reached {
            self.bytes = (self.bytes + acked).min(most);
        } else if self.bytes < most || delivered < self.initial_cwnd {
            self.bytes += acked;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restore_uses_the_larger_window() {
        let mut cwnd = Cwnd::new(1000, 10_000);
        cwnd.save(false);
        cwnd.bytes = 5_000;
        cwnd.save(true);
        cwnd.restore();
        assert_eq!(cwnd.bytes, 10_000);
        cwnd.bytes = 5_000;
        cwnd.save(false);
        cwnd.restore();
        assert_eq!(cwnd.bytes, 5_000);
    }

    #[test]
    fn the_window_is_limited_only_after_a_full_pipe() {
        let mut cwnd = Cwnd::new(1000, 10_000);
        cwnd.grow(1_000, 5_000, false, 9_000);
        assert_eq!(cwnd.bytes, 11_000);
        cwnd.grow(1_000, 5_000, false, 10_000);
        assert_eq!(cwnd.bytes, 11_000);
        cwnd.grow(1_000, 5_000, true, 10_000);
        assert_eq!(cwnd.bytes, 5_000);
    }
}
