//! Service processes: how a transmitter uses airtime, one file each.

mod acm;
mod adaptive_harq;
mod arq;
mod rate;
mod slot_rate;
mod trace;

pub use acm::Acm;
pub use arq::Arq;
pub(crate) use arq::coded_bits;
pub use rate::RateService;
pub use slot_rate::SlotRate;
pub use trace::TraceService;
