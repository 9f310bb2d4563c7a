//! Service processes: how a transmitter uses airtime.

mod acm;
mod arq;
mod harq_code_design;
mod rate;
mod schemes;
mod trace;

pub use acm::Acm;
pub use arq::Arq;
pub use rate::{RateService, SlotRate};
pub use schemes::LINK_LAYERS;
pub use trace::TraceService;

use units::Descriptor;

use crate::{AcmSpec, NrSpec, ReorderingSpec};

/// The descriptors of services and buffers with a key of their own in a direction, in the order of the manual.
pub const SERVICES: &[&Descriptor] =
    &[&NrSpec::DESCRIPTOR, &AcmSpec::DESCRIPTOR, &ReorderingSpec::DESCRIPTOR];
