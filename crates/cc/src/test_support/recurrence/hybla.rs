//! Hybla (Caini and Firrincieli 2004) in packets on a path with a constant RTT, with the cap of growth that the
//! controller documents.

use super::WindowAlgorithm;

/// RTT0 in seconds.
const RTT0: f64 = 0.025;
/// The factor by which the window may grow in a round trip.
const GROWTH_CAP: f64 = 3.0;

/// The window of Hybla.
pub struct HyblaRecurrence {
    rho: f64,
}

impl HyblaRecurrence {
    /// Returns Hybla at an RTT of `rtt` seconds.
    pub fn new(rtt: f64) -> HyblaRecurrence {
        HyblaRecurrence { rho: (rtt / RTT0).max(1.0) }
    }
}

impl WindowAlgorithm for HyblaRecurrence {
    fn on_acked(&mut self, _now: f64, window: f64) -> f64 {
        window + (self.rho * self.rho / window).min(GROWTH_CAP - 1.0)
    }

    fn on_cut(&mut self, _now: f64, window: f64) -> f64 {
        window / 2.0
    }

    fn on_first_sample(&mut self, window: f64) -> f64 {
        window * self.rho
    }

    fn on_acked_in_slow_start(&mut self, window: f64) -> f64 {
        window + (libm::exp2(self.rho) - 1.0).min(GROWTH_CAP - 1.0)
    }
}
