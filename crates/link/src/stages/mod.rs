//! The stages, one file each.

mod delay;
mod delay_trace;
mod jitter;
mod loss;
mod netem;
mod outage;
mod reorder;
mod slot_delay;
mod transmit;

pub use delay::{Delay, DelayChange, DelaySpec};
pub use delay_trace::{DelayTrace, DelayTraceSpec};
pub use jitter::{Jitter, JitterModel, JitterSpec};
pub use loss::{Loss, LossChange, LossSpec};
pub use netem::{Netem, NetemSpec};
pub use outage::{Outage, OutageSpec};
pub use reorder::{Reorder, ReorderSpec};
pub use slot_delay::SlotDelay;
