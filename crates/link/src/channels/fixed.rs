//! White noise only: a constant state, equal for all users.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Time};

use super::terminal::SNR;
use super::{ChannelFactory, ChannelSpec, ChannelState};
use crate::Channel;
use crate::checks::{ValidationResult, in_range};

/// Additive white Gaussian noise only.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FixedChannelSpec {
    /// Es/N0 in dB.
    pub snr_db: f64,
}

impl FixedChannelSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "white-noise",
        spec_kind: "fixed",
        aliases: &[],
        title: "White noise only",
        reference: "",
        options: &[SNR.field("snr_db")],
        draws: false,
        live_name: "",
    };
}

impl ChannelFactory for FixedChannelSpec {
    fn validate(&self) -> ValidationResult {
        in_range("snr_db", self.snr_db, -100.0, 200.0)
    }

    fn build(&self, _: &str, _: u64) -> Box<dyn Channel> {
        Box::new(FixedChannel::new(self.snr_db))
    }

    fn with_estimate(&self) -> ChannelSpec {
        self.clone().into()
    }
}

/// A constant channel.
#[derive(Clone, Copy, Debug)]
pub struct FixedChannel(ChannelState);

impl FixedChannel {
    /// A channel without noise, the default of a [`crate::Transmitter`].
    pub const PERFECT: FixedChannel = FixedChannel(ChannelState::PERFECT);

    /// Creates a channel with white noise at this Es/N0.
    pub fn new(snr_db: f64) -> FixedChannel {
        FixedChannel(ChannelState::from_db(snr_db))
    }
}

impl Channel for FixedChannel {
    fn at(&mut self, _user: u32, _at: Time) -> ChannelState {
        self.0
    }

    fn rates(&mut self, _at: Time, _users: &[u32], rates: &mut [f64]) {
        rates.fill(self.0.information);
    }
}
