//! The stages, one file each.

mod delay;
mod delay_trace;
mod jitter;
mod loss;
mod netem;
mod outage;
mod reorder;
mod slot_delay;

pub use delay::Delay;
pub use delay_trace::DelayTrace;
pub use jitter::Jitter;
pub use loss::{Loss, LossSpec};
pub use netem::Netem;
pub use outage::Outage;
pub use reorder::Reorder;
pub use slot_delay::SlotDelay;
