//! Losses of listed packets.

use crate::checks::{ValidationResult, in_order};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, RandomStream, Time};

use super::{LossFactory, LossProcess};

/// The listed packets are lost, counted from 0 in order of arrival.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TraceLossSpec {
    /// Indexes in increasing order.
    pub packets: Vec<u64>,
}

impl TraceLossSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "trace",
        spec_kind: "trace",
        aliases: &[],
        title: "The packets that a file lists, or a loss probability over time",
        reference: "",
        options: &[Opt::hook(
            "trace",
            "packets",
            "loss_trace",
            "packet numbers from 0, one a line, or a CSV file of time_s,loss",
        )
        .required()],
        draws: false,
        live_name: "loss_trace",
    };
}

impl LossFactory for TraceLossSpec {
    fn validate(&self) -> ValidationResult {
        in_order("packets", self.packets.iter().copied())
    }

    fn build(&self, _: &str, _: u64, _: &mut RandomStream) -> Box<dyn LossProcess> {
        Box::new(TraceLoss { packets: self.packets.clone(), cursor: 0, seen: 0 })
    }
}

#[derive(Debug)]
struct TraceLoss {
    packets: Vec<u64>,
    cursor: usize,
    seen: u64,
}

impl LossProcess for TraceLoss {
    fn is_lost(&mut self, _at: Time, _random: &mut RandomStream) -> bool {
        let is_lost = self.packets.get(self.cursor) == Some(&self.seen);
        self.cursor += usize::from(is_lost);
        self.seen += 1;
        is_lost
    }
}
