//! The bandwidth model: the most that the last two probe cycles have shown, and the bound of the
//! present phase (sections 5.5.5, 5.5.6 and 5.5.10).

use crate::RateSample;
use crate::filter::WindowedMax;

/// BBR.MaxBwFilterLen, probe cycles.
const MAX_BW_FILTER_LEN: u64 = 2;

/// Bandwidths in bit/s.
#[derive(Clone, Debug, Default)]
pub(super) struct Bandwidth {
    filter: WindowedMax,
    cycle_count: u64,
    /// BBR.max_bw.
    pub max: u64,
    /// BBR.bw_shortterm; none: infinity.
    pub shortterm: Option<u64>,
    /// BBR.bw: what the sender goes by.
    pub bw: u64,
}

impl Bandwidth {
    /// UpdateMaxBw: an application-limited sample counts only if it is higher.
    pub fn update_max(&mut self, sample: &RateSample) {
        let rate = sample.rate.0;
        if rate > 0 && (rate >= self.max || !sample.app_limited) {
            self.max = self.filter.update(self.cycle_count, MAX_BW_FILTER_LEN, rate);
        }
    }

    /// AdvanceMaxBwFilter.
    pub fn advance_filter(&mut self) {
        self.cycle_count += 1;
    }

    /// BoundBWForModel; a state that is `probing` is not bound.
    pub fn bound(&mut self, probing: bool) {
        self.bw = match self.shortterm {
            Some(bound) if !probing => self.max.min(bound),
            _ => self.max,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Rate, Span};

    fn sample(rate: u64, app_limited: bool) -> RateSample {
        RateSample {
            delivered: 0,
            interval: Span::ZERO,
            rate: Rate(rate),
            prior_delivered: 0,
            tx_in_flight: 0,
            lost: 0,
            app_limited,
        }
    }

    /// The maximum of this cycle and the last; what the application limited only raises it.
    #[test]
    fn the_maximum_lasts_for_two_cycles() {
        let mut bandwidth = Bandwidth::default();
        for (rate, app_limited, max) in [(10, false, 10), (12, true, 12), (5, true, 12)] {
            bandwidth.update_max(&sample(rate, app_limited));
            assert_eq!(bandwidth.max, max);
        }
        for max in [12, 8] {
            bandwidth.advance_filter();
            bandwidth.update_max(&sample(8, false));
            assert_eq!(bandwidth.max, max);
        }
    }

    #[test]
    fn the_short_term_bound_holds_unless_probing() {
        let mut bandwidth = Bandwidth { max: 10, shortterm: Some(7), ..Bandwidth::default() };
        for (probing, bw) in [(false, 7), (true, 10)] {
            bandwidth.bound(probing);
            assert_eq!(bandwidth.bw, bw);
        }
    }
}
