//! The serialisable specification of a simplex link: its stages. Numbers are integers and carry their unit in their
//! name. No field has a hidden default, because the plan contains every field.

mod acm;
mod interpolation;
mod nr;
mod radio;
mod slot;
mod transmit;

pub use acm::*;
pub use interpolation::*;
pub use nr::*;
pub use radio::*;
pub use slot::*;
pub use transmit::*;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stage_factory::StageFactory;
use crate::{
    DelaySpec, DelayTraceSpec, JitterSpec, LossSpec, NetemSpec, OutageSpec, ReorderSpec,
    StageUpdate,
};

/// One stage. The specification type of each kind documents its fields.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StageSpec {
    /// A constant delay.
    Delay(DelaySpec),
    /// A delay that follows a trace. The first value also applies before the first point.
    DelayTrace(DelayTraceSpec),
    /// A random delay, drawn per time slot.
    ReconfigurationDelay(ReconfigurationDelaySpec),
    /// A queue before a transmitter.
    Transmit(TransmitSpec),
    /// A queue before a radio link.
    Radio(Box<RadioSpec>),
    /// A queue before a 5G link.
    Nr(Box<NrSpec>),
    /// A queue before a link with adaptive coding and modulation.
    Acm(Box<AcmSpec>),
    /// Linux netem with `rate`, `delay` and `limit` in one stage: the limit includes the packets in the delay line.
    Netem(NetemSpec),
    /// Packet loss.
    Loss(LossSpec),
    /// A random additional delay per packet.
    Jitter(JitterSpec),
    /// A fixed additional delay for some packets, so that later ones overtake them.
    Reorder(ReorderSpec),
    /// Outage periods, in which no packet passes.
    Outage(OutageSpec),
}

impl StageSpec {
    /// Returns the specification of the stage as a factory.
    pub(crate) fn factory(&self) -> &dyn StageFactory {
        match self {
            StageSpec::Delay(spec) => spec,
            StageSpec::DelayTrace(spec) => spec,
            StageSpec::ReconfigurationDelay(spec) => spec,
            StageSpec::Transmit(spec) => spec,
            StageSpec::Radio(spec) => &**spec,
            StageSpec::Nr(spec) => &**spec,
            StageSpec::Acm(spec) => &**spec,
            StageSpec::Netem(spec) => spec,
            StageSpec::Loss(spec) => spec,
            StageSpec::Jitter(spec) => spec,
            StageSpec::Reorder(spec) => spec,
            StageSpec::Outage(spec) => spec,
        }
    }

    /// Returns the name of the kind.
    pub fn kind(&self) -> &'static str {
        self.factory().kind()
    }

    /// Returns whether a stage of this specification supports `update`.
    pub fn supports(&self, update: &StageUpdate) -> bool {
        self.factory().supports(update)
    }
}
