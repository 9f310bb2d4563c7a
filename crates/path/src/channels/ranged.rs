//! A channel towards a satellite that comes and goes: a loss over time beside its own.

use units::Time;

use super::Quality;
use super::measured::Curve;
use crate::Channel;

/// `inner`, less the loss of the way.
pub(super) struct Ranged {
    loss: Curve,
    inner: Box<dyn Channel>,
}

impl Ranged {
    /// `loss` are instants in ns and dB, in order; linear between two of them.
    pub fn new(loss: &[(u64, f64)], inner: Box<dyn Channel>) -> Ranged {
        Ranged { loss: Curve::new(loss, crate::Interpolation::Linear, None), inner }
    }
}

impl Channel for Ranged {
    fn at(&mut self, user: u32, at: Time) -> Quality {
        let own = self.inner.at(user, at);
        Quality::of(own.es_n0 * libm::exp10(-self.loss.at(at.nanos()) / 10.0))
    }
}
