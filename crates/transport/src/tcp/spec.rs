//! Options of a TCP connection in a resolved run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of one end of a TCP connection. The SYN negotiates SACK, timestamps, window scaling and ECN as in reality:
/// an end without an option disables it for both.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// Largest segment: payload and TCP options together (the MSS option of RFC 9293 section 3.7.1). Options reduce the
    /// payload. 1460 over IPv4 and Ethernet, 1440 over IPv6.
    pub mss_bytes: u16,
    /// IP and TCP headers without TCP options, bytes: 40 over IPv4, 60 over IPv6.
    pub header_bytes: u16,
    /// Initial congestion window, bytes (RFC 6928).
    pub initial_window_bytes: u64,
    /// Retransmission timeout before the first RTT sample (RFC 6298 section 2: 1 s).
    pub initial_rto_ns: u64,
    /// Minimum retransmission timeout (RFC 6298: 1 s; Linux: 200 ms).
    pub min_rto_ns: u64,
    /// Maximum retransmission timeout (RFC 6298: at least 60 s; Linux: 120 s).
    pub max_rto_ns: u64,
    /// Estimator of the retransmission timeout.
    #[serde(default, skip_serializing_if = "RtoEstimate::is_linux")]
    pub rto_estimate: RtoEstimate,
    /// Loss detection.
    pub loss_detection: LossDetection,
    /// Selective acknowledgements (RFC 2018, RFC 6675).
    pub sack: bool,
    /// The receiver reports duplicates (RFC 2883). The sender undoes reductions that prove entirely spurious (RFC 3708,
    /// Linux's undo).
    pub dsack: bool,
    /// The duplicate threshold, or RACK's reordering window, adapts to the reordering seen (RFC
    /// 8985 section 6.2; Linux's `tcp_reordering`).
    pub adapt_reordering: bool,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Proportional rate reduction (RFC 9937). Without it the window drops at once, and recovery is RFC 6675's pipe
    /// (with SACK) or RFC 6582's inflation (without).
    pub prr: bool,
    /// Forward RTO recovery (RFC 5682).
    pub frto: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Window scaling (RFC 7323); without it a window is at most 65,535 bytes.
    pub window_scaling: bool,
    /// Delayed acknowledgements; `None`: every segment is acknowledged at once.
    pub delayed_ack: Option<DelayedAck>,
    /// Growth of the window for an ACK.
    pub ack_counting: AckCounting,
    /// ECN (RFC 3168).
    pub ecn: bool,
    /// Fast Open with a cookie from an earlier connection (RFC 7413): data in the SYN.
    pub fast_open: bool,
    /// Segments are paced; otherwise they are sent as the window opens. A controller with a pacing rate is always
    /// paced.
    pub pacing: bool,
    /// Slow start after an idle period of one RTO (RFC 5681 section 4.1).
    pub restart_after_idle: bool,
    /// Receive buffer, bytes: the largest window advertised.
    pub receive_buffer_bytes: u64,
    /// Send buffer, bytes: unsent and unacknowledged data.
    pub send_buffer_bytes: u64,
}

/// Default options: an end of a current Linux, without limits by buffers, for programs and tests. A plan writes every
/// field.
impl Default for TcpSpec {
    fn default() -> TcpSpec {
        TcpSpec {
            mss_bytes: 1460,
            header_bytes: 40,
            initial_window_bytes: 14_600,
            initial_rto_ns: 1_000_000_000,
            min_rto_ns: 200_000_000,
            max_rto_ns: 120_000_000_000,
            rto_estimate: RtoEstimate::Linux,
            loss_detection: LossDetection::RackTlp,
            sack: true,
            dsack: true,
            adapt_reordering: true,
            limited_transmit: true,
            prr: true,
            frto: true,
            timestamps: true,
            window_scaling: true,
            delayed_ack: Some(DelayedAck {
                timeout_ns: 40_000_000,
                segments_per_ack: 2,
                quick_acks: 16,
            }),
            ack_counting: AckCounting::Unlimited,
            ecn: false,
            fast_open: false,
            pacing: false,
            restart_after_idle: true,
            receive_buffer_bytes: 1 << 30,
            send_buffer_bytes: 1 << 30,
        }
    }
}

/// Estimator of the retransmission timeout.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RtoEstimate {
    /// RTTVAR is the largest mean deviation of recent round trips; 4 RTTVAR is at least 200 ms or the minimum timeout.
    #[default]
    Linux,
    /// RFC 6298 section 2 exactly: each sample changes RTTVAR, and the clock's granularity is 1 ms.
    Rfc6298,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // required by serde
fn is_off(value: &bool) -> bool {
    !value
}

impl RtoEstimate {
    fn is_linux(&self) -> bool {
        *self == RtoEstimate::Linux
    }
}

/// Loss detection before the retransmission timer expires.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LossDetection {
    /// Duplicate ACKs, or SACKed segments above, by count (RFC 5681 section 3.2, RFC 6675).
    DuplicateAcks {
        /// DupThresh: 3.
        threshold: u32,
        /// Forward acknowledgement (Mathis and Mahdavi 1996; Linux before 4.18): data at that distance below the
        /// highest SACK is lost, regardless of arrivals between.
        #[serde(default, skip_serializing_if = "is_off")]
        forward: bool,
    },
    /// RACK-TLP (RFC 8985): by time, with tail loss probes. Needs SACK.
    RackTlp,
}

/// Delayed acknowledgements (RFC 1122 section 4.2.3.2, RFC 5681 section 4.2).
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct DelayedAck {
    /// Maximum delay.
    pub timeout_ns: u64,
    /// Maximum number of full segments per acknowledgement: 2.
    pub segments_per_ack: u32,
    /// Segments that are acknowledged at once, at the start of a connection and after a gap has closed (Linux's quick
    /// ACKs: 16). 0: none.
    pub quick_acks: u32,
}

/// Growth of the window for an ACK.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AckCounting {
    /// An ACK counts as at most one segment, for any acknowledged amount (RFC 5681 section 3.1).
    PerAck,
    /// Appropriate byte counting (RFC 3465): in slow start at most `limit` segments per ACK, or 1 after a timeout.
    /// Afterwards all bytes.
    Bytes {
        /// L: 1 or 2.
        limit: u32,
    },
    /// Every acknowledged byte counts (Linux since 3.14, and QUIC).
    Unlimited,
}
