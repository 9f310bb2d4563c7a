//! What the tests of this room share.

use super::{AckCounting, DelayedAck, LossDetection, TcpSpec};

/// The options of a current Linux.
pub(super) fn spec() -> TcpSpec {
    TcpSpec {
        mss_bytes: 1460,
        header_bytes: 40,
        initial_window_bytes: 10 * 1448,
        initial_rto_ns: 1_000_000_000,
        min_rto_ns: 200_000_000,
        max_rto_ns: 120_000_000_000,
        loss_detection: LossDetection::RackTlp,
        sack: true,
        dsack: true,
        adapt_reordering: true,
        limited_transmit: true,
        prr: true,
        frto: true,
        timestamps: true,
        window_scaling: true,
        delayed_ack: Some(DelayedAck { timeout_ns: 40_000_000, every: 2, quick: 16 }),
        ack_counting: AckCounting::Unlimited,
        ecn: false,
        fast_open: false,
        pacing: false,
        restart_after_idle: false,
        receive_buffer_bytes: 64 << 20,
        send_buffer_bytes: 64 << 20,
    }
}
