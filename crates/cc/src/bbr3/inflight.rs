//! The bounds of the flight: the long-term bound, which probing determines, and the short-term bound (sections 5.5.10
//! and 5.6.4.7).

use super::state::BbrState;
use crate::bbr_common::Cwnd;

/// The bounds of the flight in bytes. `None` represents the draft's Infinity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InflightBounds {
    /// BBR.inflight_longterm.
    pub longterm: Option<u64>,
    /// BBR.inflight_shortterm.
    pub shortterm: Option<u64>,
}

impl InflightBounds {
    /// InflightWithHeadroom, section 5.3.3.9: leaves headroom for new flows.
    pub fn with_headroom(&self, headroom: f64, cwnd: &Cwnd) -> Option<u64> {
        self.longterm.map(|longterm| {
            let headroom = ((headroom * longterm as f64) as u64).max(cwnd.mss);
            longterm.saturating_sub(headroom).max(cwnd.min_pipe_cwnd())
        })
    }

    /// BoundCwndForModel, section 5.6.4.7: the column "volume cap" of the table.
    pub fn cap(&self, state: BbrState, headroom: f64, cwnd: &Cwnd) -> Option<u64> {
        let longterm = match state {
            BbrState::Startup => return None,
            BbrState::ProbeBwCruise | BbrState::ProbeRtt => self.with_headroom(headroom, cwnd),
            _ => self.longterm,
        };
        let cap = [longterm, self.shortterm].into_iter().flatten().min();
        cap.map(|cap| cap.max(cwnd.min_pipe_cwnd()))
    }
}

/// LossLowerBounds: reduces a short-term bound by Beta, but not below the latest delivery. An absent bound starts at
/// `initial` (InitLowerBounds).
pub(super) fn lowered_bound(
    bound: Option<u64>,
    initial: u64,
    latest: u64,
    beta: f64,
) -> Option<u64> {
    Some(latest.max((beta * bound.unwrap_or(initial) as f64) as u64))
}

/// Returns the higher of two bounds. An absent bound is the highest.
pub(super) fn higher_bound(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.zip(b).map(|(a, b)| a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_depends_on_the_state() {
        let cwnd = Cwnd::new(1_000, 10_000);
        let inflight = InflightBounds { longterm: Some(100_000), shortterm: Some(90_000) };
        let cap = |state| inflight.cap(state, 0.15, &cwnd);
        assert_eq!(cap(BbrState::Startup), None);
        assert_eq!(cap(BbrState::ProbeBwCruise), Some(85_000));
        assert_eq!(cap(BbrState::ProbeBwDown), Some(90_000));
        assert_eq!(InflightBounds::default().cap(BbrState::ProbeBwUp, 0.15, &cwnd), None);
        let least = InflightBounds { shortterm: Some(1), ..InflightBounds::default() };
        assert_eq!(least.cap(BbrState::Drain, 0.15, &cwnd), Some(4_000));
    }

    #[test]
    fn bounds_fall_to_the_delivered_bytes_and_rise_to_the_higher_one() {
        assert_eq!(lowered_bound(None, 1_000, 0, 0.7), Some(700));
        assert_eq!(lowered_bound(Some(700), 1_000, 600, 0.7), Some(600));
        assert_eq!((higher_bound(Some(1), Some(2)), higher_bound(Some(1), None)), (Some(2), None));
    }
}
