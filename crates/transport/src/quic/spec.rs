//! Options of a QUIC connection in a resolved run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of both endpoints of a QUIC flow.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct QuicSpec {
    /// Modelled cryptography, or TLS 1.3 by rustls.
    pub crypto: Crypto,
    /// Full handshake, or resumption with early data.
    pub handshake: Handshake,
    /// UDP payload of a full packet, bytes (RFC 9000 section 14: at least 1200).
    pub mtu_bytes: u16,
    /// IP and UDP headers, bytes: 28 over IPv4, 48 over IPv6.
    pub header_bytes: u16,
    /// Initial congestion window, bytes.
    pub initial_window_bytes: u64,
    /// Packets that may be sent without pacing at the start, and when no data is in flight. RFC 9002 section 7.7 allows
    /// an initial window; Chromium's kInitialUnpacedBurst is 10. 0: always paced.
    #[serde(default)]
    pub unpaced_burst_packets: u32,
    /// RTT assumed before the first sample.
    pub initial_rtt_ns: u64,
    /// Packets received before an ACK, less one (ACK_FREQUENCY's ack-eliciting threshold). `None`: the stack's default,
    /// every second packet (RFC 9000 section 13.2.2).
    pub ack_eliciting_threshold: Option<u32>,
    /// Maximum ACK delay that the endpoint requests of its peer by ACK_FREQUENCY; `None`: the peer's default, 25 ms.
    pub max_ack_delay_ns: Option<u64>,
    /// Send ECT(0) and report CE.
    pub ecn: bool,
    /// Flow-control window of the connection, bytes.
    pub receive_window_bytes: u64,
    /// Flow-control window of a stream, bytes.
    pub stream_receive_window_bytes: u64,
    /// Bytes the sender buffers, unacknowledged data included.
    pub send_window_bytes: u64,
    /// Idle timeout; `None`: never.
    pub idle_timeout_ns: Option<u64>,
    /// kPacketThreshold of RFC 9002 section 6.1.1.
    pub packet_threshold: u32,
    /// kTimeThreshold of RFC 9002 section 6.1.2 in thousandths of a round trip; `None`: 9/8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_threshold_permille: Option<u32>,
}

/// Default options, without limits by windows, for programs and tests. A plan writes every field.
impl Default for QuicSpec {
    fn default() -> QuicSpec {
        QuicSpec {
            crypto: Crypto::Modelled,
            handshake: Handshake::OneRtt,
            mtu_bytes: 1452,
            header_bytes: 28,
            initial_window_bytes: 14_520,
            unpaced_burst_packets: 0,
            initial_rtt_ns: 333_000_000,
            ack_eliciting_threshold: None,
            max_ack_delay_ns: None,
            ecn: false,
            receive_window_bytes: 1 << 30,
            stream_receive_window_bytes: 1 << 30,
            send_window_bytes: 1 << 30,
            idle_timeout_ns: None,
            packet_threshold: 3,
            time_threshold_permille: None,
        }
    }
}

/// Cryptography of a flow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Crypto {
    /// Messages of true size, tags of true length, no encryption.
    Modelled,
    /// TLS 1.3 by rustls with ring.
    Rustls,
}

/// Handshake of a flow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
pub enum Handshake {
    /// Data follows one round trip after the first packet.
    #[serde(rename = "1-rtt")]
    OneRtt,
    /// A session saved before the run allows data with the first packet.
    #[serde(rename = "0-rtt")]
    ZeroRtt,
}
