//! A channel to a satellite at varying distance: an additional path loss over time.

use units::Time;

use super::ChannelState;
use super::attenuation::AttenuationSeries;
use crate::Channel;

/// The channel `inner` with additional path loss.
pub(super) struct RangeLoss {
    loss: AttenuationSeries,
    inner: Box<dyn Channel>,
}

impl RangeLoss {
    /// Creates the channel; `loss` lists times in ns and dB, in order, with linear interpolation.
    pub fn new(loss: &[(u64, f64)], inner: Box<dyn Channel>) -> RangeLoss {
        RangeLoss { loss: AttenuationSeries::new(loss, crate::Interpolation::Linear, None), inner }
    }
}

impl Channel for RangeLoss {
    fn at(&mut self, user: u32, at: Time) -> ChannelState {
        let state = self.inner.at(user, at);
        ChannelState::from_es_n0(state.es_n0 * libm::exp10(-self.loss.at(at.nanos()) / 10.0))
    }
}
