//! Encoding of messages.

use super::{Message, SessInit, WireFormat, XferAck, XferSegment};
use crate::DeliveryMode;

/// Message types: RFC 9174 section 4.5, table 2, and draft-caini-dtn-quiccl-01, table 2.
pub(super) const MESSAGE_TYPES: [(MessageType, u8, u8); 7] = [
    (MessageType::SessInit, 7, 1),
    (MessageType::XferSegment, 1, 2),
    (MessageType::XferAck, 2, 3),
    (MessageType::XferRefuse, 3, 4),
    (MessageType::Keepalive, 4, 5),
    (MessageType::SessTerm, 5, 6),
    (MessageType::MsgReject, 6, 7),
];

/// The type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageType {
    SessInit,
    XferSegment,
    XferAck,
    XferRefuse,
    Keepalive,
    SessTerm,
    MsgReject,
}

/// Transfer Length among the transfer extensions (RFC 9174 section 5.2.5.1).
pub(super) const TRANSFER_LENGTH: u16 = 1;

/// The length of its item: flags, type, length, and 8 octets.
const TRANSFER_LENGTH_BYTES: u32 = 13;

pub(super) fn mode_code(mode: DeliveryMode) -> u8 {
    match mode {
        DeliveryMode::Reliable => 0,
        DeliveryMode::Notified => 1,
        DeliveryMode::Unreliable => 2,
    }
}

impl Message {
    pub(super) fn message_type(&self) -> MessageType {
        match self {
            Message::SessInit(_) => MessageType::SessInit,
            Message::XferSegment(_) => MessageType::XferSegment,
            Message::XferAck(_) => MessageType::XferAck,
            Message::XferRefuse { .. } => MessageType::XferRefuse,
            Message::Keepalive => MessageType::Keepalive,
            Message::SessTerm { .. } => MessageType::SessTerm,
            Message::MsgReject { .. } => MessageType::MsgReject,
        }
    }

    /// Returns the type code.
    pub fn type_code(&self, format: WireFormat) -> u8 {
        let message_type = self.message_type();
        MESSAGE_TYPES.iter().find(|(kind, ..)| *kind == message_type).map_or(
            0,
            |(_, tcpcl, quiccl)| match format {
                WireFormat::Tcpcl => *tcpcl,
                WireFormat::Quiccl => *quiccl,
            },
        )
    }
}

/// Appends the encoded message.
pub fn encode(format: WireFormat, message: &Message, out: &mut Vec<u8>) {
    out.push(message.type_code(format));
    match message {
        Message::SessInit(init) => encode_init(format, init, out),
        Message::XferSegment(segment) => encode_segment(format, segment, out),
        Message::XferAck(ack) => encode_ack(format, ack, out),
        Message::XferRefuse { reason, transfer } => {
            out.push(*reason);
            out.extend(transfer.to_be_bytes());
        }
        Message::Keepalive => {}
        Message::SessTerm { is_reply, reason } => out.extend([u8::from(*is_reply), *reason]),
        Message::MsgReject { reason, kind } => out.extend([*reason, *kind]),
    }
}

fn encode_init(format: WireFormat, init: &SessInit, out: &mut Vec<u8>) {
    out.extend(init.keepalive_s.to_be_bytes());
    out.extend(init.segment_mru.to_be_bytes());
    if format == WireFormat::Quiccl {
        out.extend(init.datagram_mru.to_be_bytes());
    }
    out.extend(init.transfer_mru.to_be_bytes());
    out.extend((init.node_id.len() as u16).to_be_bytes());
    out.extend(init.node_id.as_bytes());
    out.extend(0u32.to_be_bytes());
}

fn encode_segment(format: WireFormat, segment: &XferSegment, out: &mut Vec<u8>) {
    out.push(segment.flags);
    if format == WireFormat::Quiccl {
        out.extend(segment.position.0.to_be_bytes());
        out.extend(segment.position.1.to_be_bytes());
    }
    out.extend(segment.transfer.to_be_bytes());
    if segment.is_start() {
        match segment.total {
            // A single segment already has the length of its transfer (RFC 9174 section 5.2.5.1).
            Some(total) if format == WireFormat::Tcpcl && !segment.is_end() => {
                out.extend(TRANSFER_LENGTH_BYTES.to_be_bytes());
                // Not critical.
                out.push(0);
                out.extend(TRANSFER_LENGTH.to_be_bytes());
                out.extend(8u16.to_be_bytes());
                out.extend(total.to_be_bytes());
            }
            _ => out.extend(0u32.to_be_bytes()),
        }
    }
    out.extend(segment.bytes.to_be_bytes());
    if format == WireFormat::Quiccl {
        out.extend(segment.total.unwrap_or_default().to_be_bytes());
        out.push(mode_code(segment.mode));
    }
}

fn encode_ack(format: WireFormat, ack: &XferAck, out: &mut Vec<u8>) {
    out.push(ack.flags);
    if format == WireFormat::Quiccl {
        out.extend(ack.segment_index.to_be_bytes());
    }
    out.extend(ack.transfer.to_be_bytes());
    out.extend(ack.bytes.to_be_bytes());
}
