//! The window, and the one that comes back after recovery or ProbeRTT: sections 5.6.4.4 and 5.6.4.6 of the
//! draft, `bbr_save_cwnd` and `bbr_set_cwnd` in Linux.

/// BBR.MinPipeCwnd, in Linux bbr_cwnd_min_target: packets.
const MIN_PIPE_CWND_PACKETS: u64 = 4;

/// C.cwnd, bytes.
#[derive(Clone, Debug)]
pub(crate) struct Cwnd {
    /// SMSS, bytes.
    pub mss: u64,
    /// C.InitialCwnd.
    pub initial_cwnd: u64,
    /// The window now.
    pub bytes: u64,
    /// BBR.prior_cwnd: the window to restore.
    pub prior_cwnd: u64,
}

impl Cwnd {
    /// The initial window.
    pub fn new(mss: u64, initial: u64) -> Cwnd {
        Cwnd { mss, initial_cwnd: initial, bytes: initial, prior_cwnd: 0 }
    }

    /// The least window, bytes.
    pub fn min_pipe_cwnd(&self) -> u64 {
        MIN_PIPE_CWND_PACKETS * self.mss
    }

    /// SaveCwnd; `low`: in recovery or ProbeRTT, where the window may be less than the path's.
    pub fn save(&mut self, low: bool) {
        self.prior_cwnd = if low { self.prior_cwnd.max(self.bytes) } else { self.bytes };
    }

    /// RestoreCwnd.
    pub fn restore(&mut self) {
        self.bytes = self.bytes.max(self.prior_cwnd);
    }

    /// SetCwnd: grows by what is acknowledged, and is cut to `most` only once the pipe has been filled.
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
    fn the_larger_window_comes_back() {
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
    fn only_a_filled_pipe_cuts_the_window() {
        let mut cwnd = Cwnd::new(1000, 10_000);
        cwnd.grow(1_000, 5_000, false, 9_000);
        assert_eq!(cwnd.bytes, 11_000);
        cwnd.grow(1_000, 5_000, false, 10_000);
        assert_eq!(cwnd.bytes, 11_000);
        cwnd.grow(1_000, 5_000, true, 10_000);
        assert_eq!(cwnd.bytes, 5_000);
    }
}
