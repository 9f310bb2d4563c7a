//! Support for tests of controllers: [`sample_ack`], and a small deterministic simulation. It contains senders with the
//! shared [`Estimator`](crate::Estimator) and [`Pacer`](crate::Pacer), one drop-tail bottleneck, and a receiver. There
//! is no transport protocol. Packets are numbers, and loss detection uses the packet threshold, time threshold and
//! probes of RFC 9002 section 6.
//!
//! The arrival time is known at the send time, so the loop needs no heap.
//!
//! [`recurrence`] has senders of whole packets that share no code with the controllers.

mod bottleneck_model;
mod model_flow;
mod model_path;
pub mod recurrence;

use units::Span;

use crate::AckEvent;

pub use bottleneck_model::BottleneckModel;
pub use model_flow::{EventRecord, ModelFlow};
pub use model_path::{ModelLoss, ModelPath, ModelPolicer, ModelReordering};

/// Returns an ACK without loss or marks, as a base for tests.
pub fn sample_ack() -> AckEvent {
    AckEvent {
        acked: 1200,
        acked_in_recovery: 0,
        lost: 0,
        has_new_ce_marks: false,
        is_congestion_event: false,
        is_persistent_congestion: false,
        is_in_rto_recovery: false,
        latest_rtt: Some(Span::from_millis(100)),
        smoothed_rtt: Span::from_millis(100),
        min_rtt: Span::from_millis(100),
        prior_in_flight: 12_000,
        in_flight: 10_800,
        delivered: 1200,
        total_lost: 0,
        rate_sample: None,
        loss_sample: None,
        is_round_start: false,
        round_count: 0,
        is_cwnd_limited: true,
        slow_start_limit: u64::MAX,
        growth_limit: u64::MAX,
    }
}
