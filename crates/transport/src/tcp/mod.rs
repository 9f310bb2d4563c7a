//! TCP, sans-IO (RFC 9293), with the controllers, the estimator and the pacer that QUIC has.
//!
//! Reading order: `spec` (the options), `segment`.

mod segment;
mod spec;

pub use segment::{Flags, SackBlocks, Segment, SynOptions};
pub use spec::{AckCounting, DelayedAck, LossDetection, TcpSpec};
