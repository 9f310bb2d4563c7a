//! How a transmitter spends air time, one file each.

mod rate;
mod trace;

pub use rate::RateService;
pub use trace::TraceService;
