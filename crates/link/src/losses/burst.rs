//! Periodic bursts of losses.

use crate::checks::{ValidationResult, above_zero};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, RandomStream, Time};

use super::{LossFactory, LossProcess};

/// All packets are lost during `duration_ns` at the start of every `interval_ns`, from `offset_ns` onwards.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct BurstLossSpec {
    /// Time between the starts of two bursts.
    pub interval_ns: u64,
    /// Length of a burst.
    pub duration_ns: u64,
    /// Start of the first burst.
    pub offset_ns: u64,
}

impl BurstLossSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "burst",
        spec_kind: "burst",
        aliases: &[],
        title: "All packets are lost for a time, periodically",
        reference: "",
        options: &[
            Opt::duration("interval", "interval_ns", "time between the starts of two bursts")
                .min(1.0)
                .required(),
            Opt::duration("duration", "duration_ns", "duration of a burst, shorter than interval")
                .min(1.0)
                .required(),
            Opt::duration("offset", "offset_ns", "start of the first burst").default_integer(0),
        ],
        draws: false,
        live_name: "burst_loss",
    };
}

impl LossFactory for BurstLossSpec {
    fn validate(&self) -> ValidationResult {
        let BurstLossSpec { interval_ns, duration_ns, .. } = self;
        above_zero("interval_ns", *interval_ns)?;
        if duration_ns > interval_ns {
            return Err(format!("duration_ns = {duration_ns} exceeds interval_ns = {interval_ns}"));
        }
        Ok(())
    }

    fn build(&self, _: &str, _: u64, _: &mut RandomStream) -> Box<dyn LossProcess> {
        Box::new(BurstLoss(self.clone()))
    }
}

#[derive(Debug)]
struct BurstLoss(BurstLossSpec);

impl LossProcess for BurstLoss {
    fn is_lost(&mut self, at: Time, _random: &mut RandomStream) -> bool {
        let BurstLossSpec { interval_ns, duration_ns, offset_ns } = self.0;
        at.nanos() >= offset_ns && (at.nanos() - offset_ns) % interval_ns < duration_ns
    }
}
