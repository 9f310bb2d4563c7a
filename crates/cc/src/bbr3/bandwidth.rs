//! The bandwidth model: the maximum of the last two probe cycles, and the short-term bound (sections 5.5.5, 5.5.6 and
//! 5.5.10).

use crate::RateSample;
use crate::max_filter::WindowedMax;

/// BBR.MaxBwFilterLen in probe cycles.
const MAX_BW_FILTER_LEN: u64 = 2;

/// The bandwidth model. Bandwidths are in bit/s.
#[derive(Clone, Debug, Default)]
pub(super) struct BandwidthModel {
    filter: WindowedMax,
    cycle_count: u64,
    /// BBR.max_bw.
    pub max_bw: u64,
    /// BBR.bw_shortterm. `None` means infinity.
    pub shortterm: Option<u64>,
    /// BBR.bw: the bandwidth in use.
    pub bw: u64,
}

impl BandwidthModel {
    /// UpdateMaxBw: an application-limited sample counts only if it is higher.
    pub fn update_max(&mut self, sample: &RateSample) {
        let rate = sample.rate.0;
        if rate > 0 && (rate >= self.max_bw || !sample.is_app_limited) {
            self.max_bw = self.filter.update(self.cycle_count, MAX_BW_FILTER_LEN, rate);
        }
    }

    /// AdvanceMaxBwFilter.
    pub fn advance_filter(&mut self) {
        self.cycle_count += 1;
    }

    /// BoundBWForModel. The bound does not apply while `probing`.
    pub fn bound(&mut self, probing: bool) {
        self.bw = match self.shortterm {
            Some(bound) if !probing => self.max_bw.min(bound),
            _ => self.max_bw,
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
            is_app_limited: app_limited,
        }
    }

    /// The maximum covers this cycle and the last. Application-limited samples can only raise it.
    #[test]
    fn the_maximum_lasts_for_two_cycles() {
        let mut bandwidth = BandwidthModel::default();
        for (rate, app_limited, max) in [(10, false, 10), (12, true, 12), (5, true, 12)] {
            bandwidth.update_max(&sample(rate, app_limited));
            assert_eq!(bandwidth.max_bw, max);
        }
        for max in [12, 8] {
            bandwidth.advance_filter();
            bandwidth.update_max(&sample(8, false));
            assert_eq!(bandwidth.max_bw, max);
        }
    }

    #[test]
    fn the_short_term_bound_holds_unless_probing() {
        let mut bandwidth =
            BandwidthModel { max_bw: 10, shortterm: Some(7), ..BandwidthModel::default() };
        for (probing, bw) in [(false, 7), (true, 10)] {
            bandwidth.bound(probing);
            assert_eq!(bandwidth.bw, bw);
        }
    }
}
