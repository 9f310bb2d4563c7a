//! Service processes: how a transmitter uses airtime.

mod acm;
mod arq;
mod harq_code_design;
mod rate;
mod trace;

pub use acm::Acm;
pub use arq::Arq;
pub use rate::{RateService, SlotRate};
pub use trace::TraceService;
