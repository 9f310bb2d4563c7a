//! The state variables of every window-based controller (RFC 5681 section 3.1). The operations here are independent of
//! the growth and decrease functions: undo, repeated timeouts, restart after idle and a new segment size.

use crate::{ControlOutput, ControllerConfig};

/// cwnd and ssthresh, in bytes (`u64`) or, for CUBIC and Hybla, in segments (`f64`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CongestionWindow<N> {
    /// SMSS in bytes.
    pub mss: u64,
    /// The congestion window.
    pub cwnd: N,
    /// The slow-start threshold. `None` means arbitrarily high.
    pub ssthresh: Option<N>,
    /// Window and threshold before the last reduction, for the undo.
    saved: Option<(N, Option<N>)>,
    /// Whether the timer has expired without a later acknowledgement.
    has_timed_out: bool,
}

impl<N: Copy + PartialOrd> CongestionWindow<N> {
    fn new(mss: u64, cwnd: N) -> CongestionWindow<N> {
        CongestionWindow { mss, cwnd, ssthresh: None, saved: None, has_timed_out: false }
    }

    /// Returns whether cwnd < ssthresh (RFC 5681 section 3.1).
    pub fn is_in_slow_start(&self) -> bool {
        self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh)
    }

    /// Saves the state that [`CongestionWindow::undo`] restores.
    pub fn save(&mut self) {
        self.saved = Some((self.cwnd, self.ssthresh));
    }

    /// Restores both variables. RFC 4015 section 3.4 restores the threshold, and the window follows by slow start. A
    /// paced sender can restore both at once. A larger current window remains.
    pub fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.saved.take() {
            if cwnd > self.cwnd {
                self.cwnd = cwnd;
            }
            self.ssthresh = ssthresh;
        }
    }

    /// Undoes the reduction and returns true if the window is still below its saved value (RFC 9438 section 4.9).
    pub fn undo_if_below(&mut self) -> bool {
        let below = self.saved.is_some_and(|(cwnd, _)| self.cwnd < cwnd);
        if below {
            self.undo();
        }
        self.saved = None;
        below
    }

    /// Records that `bytes` were acknowledged.
    pub fn on_acknowledged(&mut self, bytes: u64) {
        self.has_timed_out &= bytes == 0;
    }

    /// Records an expiry of the retransmission timer. Returns false for a repeated expiry for the same data, which must
    /// not lower the threshold (RFC 5681 section 3.1).
    pub fn on_timeout(&mut self) -> bool {
        !std::mem::replace(&mut self.has_timed_out, true)
    }
}

/// The window in bytes.
impl CongestionWindow<u64> {
    /// Returns the initial window.
    pub fn new_in_bytes(config: &ControllerConfig) -> CongestionWindow<u64> {
        CongestionWindow::new(config.mss, config.initial_window)
    }

    /// Reduces the threshold, to two segments at least (RFC 5681 equation 4), and returns it.
    pub fn reduce(&mut self, ssthresh: u64) -> u64 {
        self.save();
        *self.ssthresh.insert(ssthresh.max(2 * self.mss))
    }

    /// Limits the window to the restart window after idle (RFC 5681 section 4.1).
    pub fn apply_restart_window(&mut self, restart_window: u64) {
        self.cwnd = self.cwnd.min(restart_window);
    }

    /// Sets the segment size. The variables in bytes do not change.
    pub fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
    }

    /// Returns the output for the transport.
    pub fn control(&self) -> ControlOutput {
        ControlOutput::from_window(self.cwnd)
    }
}

/// The window in segments. The output converts it to bytes.
impl CongestionWindow<f64> {
    /// Returns the initial window.
    pub fn new_in_segments(config: &ControllerConfig) -> CongestionWindow<f64> {
        CongestionWindow::new(config.mss, config.initial_window as f64 / config.mss as f64)
    }

    /// Reduces the threshold, to two segments at least (RFC 5681 equation 4), and returns it.
    pub fn reduce(&mut self, ssthresh: f64) -> f64 {
        self.save();
        *self.ssthresh.insert(ssthresh.max(2.0))
    }

    /// Limits the window to the restart window in bytes after idle (RFC 5681 section 4.1).
    pub fn apply_restart_window(&mut self, restart_window: u64) {
        self.cwnd = self.cwnd.min(self.in_segments(restart_window));
    }

    /// Sets the segment size, preserves the window in bytes, and returns the factor of the segment count. An earlier
    /// reduction can no longer be undone.
    pub fn set_mss(&mut self, mss: u64) -> f64 {
        let factor = self.mss as f64 / mss as f64;
        self.mss = mss;
        self.cwnd *= factor;
        self.ssthresh = self.ssthresh.map(|ssthresh| ssthresh * factor);
        self.saved = None;
        factor
    }

    /// Converts `bytes` to segments.
    pub fn in_segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mss as f64
    }

    /// Returns the window in bytes.
    pub fn in_bytes(&self) -> u64 {
        (self.cwnd * self.mss as f64) as u64
    }

    /// Returns the threshold in bytes.
    pub fn ssthresh_in_bytes(&self) -> Option<u64> {
        self.ssthresh.map(|ssthresh| (ssthresh * self.mss as f64) as u64)
    }

    /// Returns the output for the transport.
    pub fn control(&self) -> ControlOutput {
        ControlOutput::from_window(self.in_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    const MSS: u64 = 1000;

    fn config() -> ControllerConfig {
        let initial_rtt = Span::from_millis(333);
        ControllerConfig {
            mss: MSS,
            initial_window: 20 * MSS,
            initial_rtt,
            seed: 1,
            is_paced: true,
        }
    }

    #[test]
    fn a_reduction_is_undone_once() {
        let mut window = CongestionWindow::new_in_bytes(&config());
        window.cwnd = window.reduce(10 * MSS);
        assert_eq!((window.cwnd, window.is_in_slow_start()), (10 * MSS, false));
        window.undo();
        assert_eq!((window.cwnd, window.ssthresh), (20 * MSS, None));
        window.ssthresh = Some(5 * MSS);
        window.undo();
        assert_eq!(window.ssthresh, Some(5 * MSS));
        assert_eq!(window.reduce(0), 2 * MSS);
    }

    /// The undo does not reduce a larger window. RFC 9438 also preserves the threshold in this case.
    #[test]
    fn an_undo_does_not_reduce_a_larger_window() {
        let mut window = CongestionWindow::new_in_segments(&config());
        window.cwnd = window.reduce(10.0);
        window.cwnd = 30.0;
        let mut strict = window;
        window.undo();
        assert_eq!((window.cwnd, window.ssthresh), (30.0, None));
        assert!(!strict.undo_if_below());
        strict.undo();
        assert_eq!((strict.cwnd, strict.ssthresh), (30.0, Some(10.0)));
    }

    #[test]
    fn a_timeout_after_an_acknowledgement_is_a_first_one() {
        let mut window = CongestionWindow::new_in_bytes(&config());
        assert!(window.on_timeout());
        window.on_acknowledged(0);
        assert!(!window.on_timeout());
        window.on_acknowledged(1);
        assert!(window.on_timeout());
    }

    #[test]
    fn a_new_segment_size_preserves_the_bytes() {
        let mut window = CongestionWindow::new_in_segments(&config());
        window.cwnd = window.reduce(10.0);
        assert_eq!(window.set_mss(500), 2.0);
        assert_eq!((window.in_bytes(), window.ssthresh_in_bytes()), (10 * MSS, Some(10 * MSS)));
        window.apply_restart_window(4 * MSS);
        assert_eq!(window.cwnd, 8.0);
        window.undo();
        assert_eq!(window.cwnd, 8.0);
    }
}
