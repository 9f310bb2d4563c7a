//! A channel to a satellite at varying distance: an additional path loss over time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Span, Time};

use super::attenuation::{AttenuationSeries, check_series};
use super::{ChannelFactory, ChannelSpec, ChannelState};
use crate::Channel;
use crate::checks::ValidationResult;

/// A channel to a satellite at varying distance.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RangeLossSpec {
    /// Times in ns and excess path loss over the reference distance of Es/N0 in dB, in order; linear in between.
    pub loss: Vec<(u64, f64)>,
    /// The channel at the reference distance.
    pub channel: Box<ChannelSpec>,
}

impl RangeLossSpec {
    /// The descriptor of the member. The option `snr_range` of other members makes it.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "",
        spec_kind: "range_loss",
        aliases: &[],
        title: "A channel to a satellite at varying distance",
        reference: "",
        options: &[],
        draws: false,
        live_name: "",
    };
}

impl ChannelFactory for RangeLossSpec {
    fn validate(&self) -> ValidationResult {
        check_series("loss", &self.loss)?;
        self.channel.factory().validate()
    }

    fn build(&self, name: &str, seed: u64) -> Box<dyn Channel> {
        Box::new(RangeLoss::new(&self.loss, self.channel.factory().build(name, seed)))
    }

    fn with_estimate(&self) -> ChannelSpec {
        self.channel.factory().with_estimate()
    }

    fn estimate_error_db(&self) -> f64 {
        self.channel.factory().estimate_error_db()
    }

    fn time_step(&self) -> Option<Span> {
        self.channel.factory().time_step()
    }
}

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
