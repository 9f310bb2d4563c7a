//! Options of a TCP connection in a resolved run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of one end of a TCP connection. What both ends must agree on (SACK, timestamps, window
/// scaling, ECN) is negotiated by the SYN as in life: an end that lacks it turns it off for both.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct TcpSpec {
    /// Largest segment: payload and TCP options together (the MSS option of RFC 9293 section
    /// 3.7.1); options are taken from it. 1460 over IPv4 and Ethernet, 1440 over IPv6.
    pub mss_bytes: u16,
    /// IP and TCP headers without TCP options, bytes: 40 over IPv4, 60 over IPv6.
    pub header_bytes: u16,
    /// Initial congestion window, bytes (RFC 6928).
    pub initial_window_bytes: u64,
    /// Retransmission timeout before the first RTT sample (RFC 6298 section 2: 1 s).
    pub initial_rto_ns: u64,
    /// Least retransmission timeout (RFC 6298: 1 s; Linux: 200 ms).
    pub min_rto_ns: u64,
    /// Largest retransmission timeout (RFC 6298: at least 60 s; Linux: 120 s).
    pub max_rto_ns: u64,
    /// What the retransmission timeout is computed from.
    #[serde(default, skip_serializing_if = "RtoEstimate::is_linux")]
    pub rto_estimate: RtoEstimate,
    /// How losses are found.
    pub loss_detection: LossDetection,
    /// Selective acknowledgements (RFC 2018, RFC 6675).
    pub sack: bool,
    /// The receiver reports duplicates (RFC 2883), and the sender undoes reductions that all turn
    /// out to be spurious (RFC 3708, Linux's undo).
    pub dsack: bool,
    /// The duplicate threshold, or RACK's reordering window, adapts to the reordering seen (RFC
    /// 8985 section 6.2; Linux's `tcp_reordering`).
    pub adapt_reordering: bool,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Proportional rate reduction (RFC 9937); otherwise the window drops at once and recovery is
    /// RFC 6675's pipe (with SACK) or RFC 6582's inflation (without).
    pub prr: bool,
    /// Forward RTO recovery (RFC 5682).
    pub frto: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Window scaling (RFC 7323); without it a window is at most 65,535 bytes.
    pub window_scaling: bool,
    /// Delayed acknowledgements; none: every segment is acknowledged at once.
    pub delayed_ack: Option<DelayedAck>,
    /// What an ACK is worth to the window.
    pub ack_counting: AckCounting,
    /// ECN (RFC 3168).
    pub ecn: bool,
    /// Fast Open with a cookie from an earlier connection (RFC 7413): data in the SYN.
    pub fast_open: bool,
    /// Segments are paced; otherwise they leave as the window opens. A controller that names a rate
    /// is always paced.
    pub pacing: bool,
    /// Slow start after an idle period of one RTO (RFC 5681 section 4.1).
    pub restart_after_idle: bool,
    /// Receive buffer, bytes: the largest window advertised.
    pub receive_buffer_bytes: u64,
    /// Send buffer, bytes: unsent and unacknowledged data.
    pub send_buffer_bytes: u64,
}

/// An end as a current Linux has it, whose buffers are no limit: where programs and tests begin. A plan writes every
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
            delayed_ack: Some(DelayedAck { timeout_ns: 40_000_000, every: 2, quick: 16 }),
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

/// What the retransmission timeout is computed from.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum RtoEstimate {
    /// RTTVAR is the largest mean deviation of recent round trips, and 4 RTTVAR at least 200 ms or the least timeout.
    #[default]
    Linux,
    /// RFC 6298 section 2 to the letter: each sample moves RTTVAR, and the clock's granularity is 1 ms.
    Rfc6298,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's form
fn is_off(value: &bool) -> bool {
    !value
}

impl RtoEstimate {
    fn is_linux(&self) -> bool {
        *self == RtoEstimate::Linux
    }
}

/// How losses are found before the retransmission timer runs out.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LossDetection {
    /// Duplicate ACKs, or SACKed segments above, by count (RFC 5681 section 3.2, RFC 6675).
    DuplicateAcks {
        /// DupThresh: 3.
        threshold: u32,
        /// Forward acknowledgement (Mathis and Mahdavi 1996; Linux before 4.18): what lies that far below the highest
        /// SACK is lost, whatever has arrived between.
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
    /// Longest delay.
    pub timeout_ns: u64,
    /// Full segments that are acknowledged together at the latest: 2.
    pub every: u32,
    /// Segments at the start of a connection, and after a gap has closed, that are acknowledged at
    /// once (Linux's quick ACKs: 16); 0: none.
    pub quick: u32,
}

/// Growth of the window for an ACK.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AckCounting {
    /// An ACK counts as at most one segment, however many it acknowledges (RFC 5681 section 3.1).
    PerAck,
    /// Appropriate byte counting (RFC 3465): in slow start at most `limit` segments an ACK, 1 in slow
    /// start after a timeout; afterwards all bytes.
    Bytes {
        /// L: 1 or 2.
        limit: u32,
    },
    /// Every byte acknowledged counts (Linux since 3.14; what QUIC does).
    Unlimited,
}
