//! How a transmitter spends air time, one file each.

mod arq;
mod design;
mod rate;
mod trace;

pub use arq::Arq;
pub use rate::RateService;
pub use trace::TraceService;
