//! The bounds of the flight: the long-term one, which probing finds, and the short-term one of the present
//! phase (sections 5.5.10 and 5.6.4.7).

use super::state::State;
use crate::bbr::Cwnd;

/// Bytes; an absent bound is the draft's Infinity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inflight {
    /// BBR.inflight_longterm.
    pub longterm: Option<u64>,
    /// BBR.inflight_shortterm.
    pub shortterm: Option<u64>,
}

impl Inflight {
    /// InflightWithHeadroom, section 5.3.3.9: room for others to enter.
    pub fn with_headroom(&self, headroom: f64, cwnd: &Cwnd) -> Option<u64> {
        self.longterm.map(|longterm| {
            let headroom = ((headroom * longterm as f64) as u64).max(cwnd.mss);
            longterm.saturating_sub(headroom).max(cwnd.least())
        })
    }

    /// BoundCwndForModel, section 5.6.4.7: the table's column "volume cap".
    pub fn cap(&self, state: State, headroom: f64, cwnd: &Cwnd) -> Option<u64> {
        let longterm = match state {
            State::Startup => return None,
            State::ProbeBwCruise | State::ProbeRtt => self.with_headroom(headroom, cwnd),
            _ => self.longterm,
        };
        let cap = [longterm, self.shortterm].into_iter().flatten().min();
        cap.map(|cap| cap.max(cwnd.least()))
    }
}

/// LossLowerBounds: a short-term bound falls by Beta, but not below what was delivered. Before
/// (InitLowerBounds) it is `initial`.
pub(super) fn lower(bound: Option<u64>, initial: u64, latest: u64, beta: f64) -> Option<u64> {
    Some(latest.max((beta * bound.unwrap_or(initial) as f64) as u64))
}

/// The higher of two bounds; an absent one is the highest.
pub(super) fn higher(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.zip(b).map(|(a, b)| a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_is_that_of_the_state() {
        let cwnd = Cwnd::new(1_000, 10_000);
        let inflight = Inflight { longterm: Some(100_000), shortterm: Some(90_000) };
        let cap = |state| inflight.cap(state, 0.15, &cwnd);
        assert_eq!(cap(State::Startup), None);
        assert_eq!(cap(State::ProbeBwCruise), Some(85_000));
        assert_eq!(cap(State::ProbeBwDown), Some(90_000));
        assert_eq!(Inflight::default().cap(State::ProbeBwUp, 0.15, &cwnd), None);
        let least = Inflight { shortterm: Some(1), ..Inflight::default() };
        assert_eq!(least.cap(State::Drain, 0.15, &cwnd), Some(4_000));
    }

    #[test]
    fn bounds_fall_to_what_was_delivered_and_rise_to_the_higher() {
        assert_eq!(lower(None, 1_000, 0, 0.7), Some(700));
        assert_eq!(lower(Some(700), 1_000, 600, 0.7), Some(600));
        assert_eq!((higher(Some(1), Some(2)), higher(Some(1), None)), (Some(2), None));
    }
}
