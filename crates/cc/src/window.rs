//! The variables that every window-based controller holds (RFC 5681 section 3.1), and what happens to
//! them whatever its law of growth and decrease: a reduction that proves spurious is taken back, a
//! timer that expires again lowers no threshold, idleness and a new segment size change the window.

use crate::{ControlOutput, ControllerConfig};

/// cwnd and ssthresh, in bytes (`u64`) or, as CUBIC and Hybla reckon, in segments (`f64`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CongestionWindow<N> {
    /// SMSS, bytes.
    pub mss: u64,
    /// The congestion window.
    pub cwnd: N,
    /// The slow-start threshold; none: arbitrarily high.
    pub ssthresh: Option<N>,
    /// Both before the last reduction, should it prove spurious.
    saved: Option<(N, Option<N>)>,
    /// The timer has expired and nothing has been acknowledged since.
    has_timed_out: bool,
}

impl<N: Copy + PartialOrd> CongestionWindow<N> {
    fn new(mss: u64, cwnd: N) -> CongestionWindow<N> {
        CongestionWindow { mss, cwnd, ssthresh: None, saved: None, has_timed_out: false }
    }

    /// RFC 5681 section 3.1: slow start is used while cwnd < ssthresh.
    pub fn is_in_slow_start(&self) -> bool {
        self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh)
    }

    /// Keeps what [`Window::undo`] brings back.
    pub fn save(&mut self) {
        self.saved = Some((self.cwnd, self.ssthresh));
    }

    /// RFC 4015 section 3.4 brings the threshold back and lets the window slow-start to it; a paced
    /// sender can have both at once, unless growth has overtaken them.
    pub fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.saved.take() {
            if cwnd > self.cwnd {
                self.cwnd = cwnd;
            }
            self.ssthresh = ssthresh;
        }
    }

    /// RFC 9438 section 4.9: the same, but only if the window is still below what it was. True: it was.
    pub fn undo_if_below(&mut self) -> bool {
        let below = self.saved.is_some_and(|(cwnd, _)| self.cwnd < cwnd);
        if below {
            self.undo();
        }
        self.saved = None;
        below
    }

    /// `bytes` were acknowledged.
    pub fn on_acknowledged(&mut self, bytes: u64) {
        self.has_timed_out &= bytes == 0;
    }

    /// The retransmission timer has expired. False: again for the same data, which leaves the
    /// threshold alone (RFC 5681 section 3.1).
    pub fn on_timeout(&mut self) -> bool {
        !std::mem::replace(&mut self.has_timed_out, true)
    }
}

/// In bytes.
impl CongestionWindow<u64> {
    /// The initial window.
    pub fn new_in_bytes(config: &ControllerConfig) -> CongestionWindow<u64> {
        CongestionWindow::new(config.mss, config.initial_window)
    }

    /// The threshold falls, to two segments at the least (RFC 5681 equation 4); returns it.
    pub fn reduce(&mut self, ssthresh: u64) -> u64 {
        self.save();
        *self.ssthresh.insert(ssthresh.max(2 * self.mss))
    }

    /// RFC 5681 section 4.1: after idleness no more than the restart window.
    pub fn apply_restart_window(&mut self, restart_window: u64) {
        self.cwnd = self.cwnd.min(restart_window);
    }

    /// Segments have another size; bytes remain bytes.
    pub fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
    }

    /// What the transport is told.
    pub fn control(&self) -> ControlOutput {
        ControlOutput::from_window(self.cwnd)
    }
}

/// In segments, which become bytes at the boundary.
impl CongestionWindow<f64> {
    /// The initial window.
    pub fn new_in_segments(config: &ControllerConfig) -> CongestionWindow<f64> {
        CongestionWindow::new(config.mss, config.initial_window as f64 / config.mss as f64)
    }

    /// The threshold falls, to two segments at the least (RFC 5681 equation 4); returns it.
    pub fn reduce(&mut self, ssthresh: f64) -> f64 {
        self.save();
        *self.ssthresh.insert(ssthresh.max(2.0))
    }

    /// RFC 5681 section 4.1: after idleness no more than the restart window, bytes.
    pub fn apply_restart_window(&mut self, restart_window: u64) {
        self.cwnd = self.cwnd.min(self.in_segments(restart_window));
    }

    /// The same bytes in segments of another size; returns the factor of their number. A reduction
    /// of before can no longer be taken back.
    pub fn set_mss(&mut self, mss: u64) -> f64 {
        let factor = self.mss as f64 / mss as f64;
        self.mss = mss;
        self.cwnd *= factor;
        self.ssthresh = self.ssthresh.map(|ssthresh| ssthresh * factor);
        self.saved = None;
        factor
    }

    /// `bytes` as segments.
    pub fn in_segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mss as f64
    }

    /// The window, bytes.
    pub fn in_bytes(&self) -> u64 {
        (self.cwnd * self.mss as f64) as u64
    }

    /// The threshold, bytes.
    pub fn ssthresh_in_bytes(&self) -> Option<u64> {
        self.ssthresh.map(|ssthresh| (ssthresh * self.mss as f64) as u64)
    }

    /// What the transport is told.
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
    fn a_reduction_is_taken_back_once() {
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

    /// What has grown since is kept; RFC 9438 then keeps the threshold, too.
    #[test]
    fn growth_that_has_overtaken_a_reduction_stays() {
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
    fn a_timer_expires_anew_after_an_acknowledgement() {
        let mut window = CongestionWindow::new_in_bytes(&config());
        assert!(window.on_timeout());
        window.on_acknowledged(0);
        assert!(!window.on_timeout());
        window.on_acknowledged(1);
        assert!(window.on_timeout());
    }

    #[test]
    fn another_segment_size_leaves_the_bytes() {
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
