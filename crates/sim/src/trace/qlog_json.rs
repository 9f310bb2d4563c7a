//! JSON of qlog's packets and frames (draft-ietf-quic-qlog-quic-events-03, for `qlog_version` 0.3). Direct formatting
//! keeps the cost low: a trace has hundreds of thousands of events.

use std::io::Write as _;

use super::quic_parser::{Frame, PacketType, QuicPacket};

/// Writes to a byte vector, which cannot fail.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {{
        let written = write!($out, $($text)*);
        debug_assert!(written.is_ok());
    }};
}
pub(super) use put;

/// Returns a text as a JSON string.
pub fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Writes milliseconds with nanosecond resolution and without trailing zeros.
pub fn write_millis(out: &mut Vec<u8>, nanos: u64) {
    put!(out, "{}", nanos / 1_000_000);
    let (mut fraction, mut digits) = (nanos % 1_000_000, 6);
    if fraction > 0 {
        while fraction % 10 == 0 {
            fraction /= 10;
            digits -= 1;
        }
        put!(out, ".{fraction:0digits$}");
    }
}

/// Writes bytes as a hexadecimal string.
pub fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
    out.push(b'"');
}

/// Returns the qlog name of a packet type.
pub fn packet_type_name(kind: PacketType) -> &'static str {
    match kind {
        PacketType::Initial => "initial",
        PacketType::ZeroRtt => "0RTT",
        PacketType::Handshake => "handshake",
        PacketType::Retry => "retry",
        PacketType::VersionNegotiation => "version_negotiation",
        PacketType::OneRtt => "1RTT",
    }
}

/// Writes a PacketHeader. Only long headers have ids and version.
pub fn write_header(out: &mut Vec<u8>, packet: &QuicPacket<'_>, number: Option<u64>) {
    put!(out, "{{\"packet_type\":\"{}\"", packet_type_name(packet.kind));
    if let Some(number) = number {
        put!(out, ",\"packet_number\":{number}");
    }
    if packet.kind != PacketType::OneRtt {
        put!(out, ",\"version\":\"{:x}\",\"scid\":", packet.version);
        write_hex(out, packet.source);
        put!(out, ",\"dcid\":");
        write_hex(out, packet.destination);
    }
    if !packet.token.is_empty() {
        put!(out, ",\"token\":{{\"raw\":{{\"length\":{}}}}}", packet.token.len());
    }
    out.push(b'}');
}

fn stream_type_name(bidirectional: bool) -> &'static str {
    if bidirectional { "bidirectional" } else { "unidirectional" }
}

/// Writes a frame.
pub fn write_frame(out: &mut Vec<u8>, frame: &Frame<'_>) {
    put!(out, "{{\"frame_type\":");
    match frame {
        Frame::Padding { bytes } => put!(out, "\"padding\",\"payload_length\":{bytes}"),
        Frame::Ping => put!(out, "\"ping\""),
        Frame::Ack(ack) => {
            put!(out, "\"ack\",\"ack_delay\":");
            // The stack uses the default ack_delay_exponent 3, so the unit is 8 microseconds.
            write_millis(out, ack.delay.saturating_mul(8000));
            put!(out, ",\"acked_ranges\":[");
            for (index, (low, high)) in ack.ranges().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                put!(out, "{comma}[{low},{high}]");
            }
            out.push(b']');
            if let Some([ect0, ect1, ce]) = ack.ecn {
                put!(out, ",\"ect1\":{ect1},\"ect0\":{ect0},\"ce\":{ce}");
            }
        }
        Frame::ResetStream { stream, error, final_size } => put!(
            out,
            "\"reset_stream\",\"stream_id\":{stream},\"error_code\":{error},\"final_size\":{final_size}"
        ),
        Frame::StopSending { stream, error } => {
            put!(out, "\"stop_sending\",\"stream_id\":{stream},\"error_code\":{error}");
        }
        Frame::Crypto { offset, length } => {
            put!(out, "\"crypto\",\"offset\":{offset},\"length\":{length}");
        }
        Frame::NewToken { length } => {
            put!(out, "\"new_token\",\"token\":{{\"raw\":{{\"length\":{length}}}}}");
        }
        Frame::Stream { stream, offset, length, fin } => {
            put!(out, "\"stream\",\"stream_id\":{stream},\"offset\":{offset},\"length\":{length}");
            if *fin {
                put!(out, ",\"fin\":true");
            }
        }
        Frame::MaxData { maximum } => put!(out, "\"max_data\",\"maximum\":{maximum}"),
        Frame::MaxStreamData { stream, maximum } => {
            put!(out, "\"max_stream_data\",\"stream_id\":{stream},\"maximum\":{maximum}");
        }
        Frame::MaxStreams { bidirectional, maximum } => {
            let kind = stream_type_name(*bidirectional);
            put!(out, "\"max_streams\",\"stream_type\":\"{kind}\",\"maximum\":{maximum}");
        }
        Frame::DataBlocked { limit } => put!(out, "\"data_blocked\",\"limit\":{limit}"),
        Frame::StreamDataBlocked { stream, limit } => {
            put!(out, "\"stream_data_blocked\",\"stream_id\":{stream},\"limit\":{limit}");
        }
        Frame::StreamsBlocked { bidirectional, limit } => {
            let kind = stream_type_name(*bidirectional);
            put!(out, "\"streams_blocked\",\"stream_type\":\"{kind}\",\"limit\":{limit}");
        }
        Frame::NewConnectionId { sequence, retire_prior_to, id, reset_token } => {
            put!(
                out,
                "\"new_connection_id\",\"sequence_number\":{sequence},\"retire_prior_to\":{retire_prior_to},\"connection_id_length\":{},\"connection_id\":",
                id.len()
            );
            write_hex(out, id);
            put!(out, ",\"stateless_reset_token\":{{\"raw\":{{\"data\":");
            write_hex(out, reset_token);
            put!(out, "}}}}");
        }
        Frame::RetireConnectionId { sequence } => {
            put!(out, "\"retire_connection_id\",\"sequence_number\":{sequence}");
        }
        Frame::PathChallenge { data } => {
            put!(out, "\"path_challenge\",\"data\":");
            write_hex(out, data);
        }
        Frame::PathResponse { data } => {
            put!(out, "\"path_response\",\"data\":");
            write_hex(out, data);
        }
        Frame::ConnectionClose { error, frame_type, reason } => {
            let space = if frame_type.is_some() { "transport" } else { "application" };
            let reason = json_string(&String::from_utf8_lossy(reason));
            put!(
                out,
                "\"connection_close\",\"error_space\":\"{space}\",\"error_code\":{error},\"reason\":{reason}"
            );
            if let Some(frame_type) = frame_type {
                put!(out, ",\"trigger_frame_type\":{frame_type}");
            }
        }
        Frame::HandshakeDone => put!(out, "\"handshake_done\""),
        Frame::AckFrequency { sequence, threshold, max_ack_delay, reordering } => {
            put!(
                out,
                "\"ack_frequency\",\"sequence_number\":{sequence},\"ack_eliciting_threshold\":{threshold},\"request_max_ack_delay\":"
            );
            write_millis(out, max_ack_delay.saturating_mul(1000));
            put!(out, ",\"reordering_threshold\":{reordering}");
        }
        Frame::ImmediateAck => put!(out, "\"immediate_ack\""),
        Frame::Datagram { length } => put!(out, "\"datagram\",\"length\":{length}"),
    }
    out.push(b'}');
}
