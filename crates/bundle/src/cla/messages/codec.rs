//! Encoding and decoding of messages, and of the head of a CBOR byte string.

use super::cursor::{Cursor, DecodeError, DecodeStop};
use super::{ExtensionError, Message, SessInit, WireFormat, XferAck, XferSegment};
use crate::DeliveryMode;

/// Message types: RFC 9174 section 4.5, table 2, and draft-caini-dtn-quiccl-01, table 2.
const MESSAGE_TYPES: [(MessageType, u8, u8); 7] = [
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
enum MessageType {
    SessInit,
    XferSegment,
    XferAck,
    XferRefuse,
    Keepalive,
    SessTerm,
    MsgReject,
}

/// Transfer Length among the transfer extensions (RFC 9174 section 5.2.5.1).
const TRANSFER_LENGTH: u16 = 1;

/// The length of its item: flags, type, length, and 8 octets.
const TRANSFER_LENGTH_BYTES: u32 = 13;

/// The maximum length of a node ID. RFC 9171 sets no limit, but no real node needs more.
pub const MAX_NODE_ID_BYTES: usize = 1024;

/// The maximum length of an extension list. RFC 9174 section 4.8 recommends short ones; its only one has 13 bytes.
pub const MAX_EXTENSION_BYTES: usize = 4096;

/// Flag: the extension is critical (RFC 9174 section 4.8, table 3).
const CRITICAL: u8 = 1;

/// The maximum length of the head of a byte string.
pub const MAX_BYTE_STRING_HEAD: usize = 9;

/// The major type of byte strings, 2.
const BYTE_STRING: u8 = 0x40;

fn mode_code(mode: DeliveryMode) -> u8 {
    match mode {
        DeliveryMode::Reliable => 0,
        DeliveryMode::Notified => 1,
        DeliveryMode::Unreliable => 2,
    }
}

impl Message {
    fn message_type(&self) -> MessageType {
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

/// Parses the message at the start of `bytes`, and returns its length. The data of a segment follows.
pub(super) fn parse_message(
    format: WireFormat,
    bytes: &[u8],
) -> Result<(Message, usize), DecodeStop> {
    let mut cursor = Cursor::new(bytes);
    let number = cursor.u8()?;
    let kind = MESSAGE_TYPES.iter().find(|(_, tcpcl, quiccl)| match format {
        WireFormat::Tcpcl => *tcpcl == number,
        WireFormat::Quiccl => *quiccl == number,
    });
    let (kind, ..) = kind.ok_or(DecodeError::UnknownType(number))?;
    let message = match kind {
        MessageType::SessInit => Message::SessInit(parse_init(format, &mut cursor)?),
        MessageType::XferSegment => Message::XferSegment(parse_segment(format, &mut cursor)?),
        MessageType::XferAck => Message::XferAck(parse_ack(format, &mut cursor)?),
        MessageType::XferRefuse => {
            Message::XferRefuse { reason: cursor.u8()?, transfer: cursor.u64()? }
        }
        MessageType::Keepalive => Message::Keepalive,
        MessageType::SessTerm => {
            Message::SessTerm { is_reply: cursor.u8()? & 1 != 0, reason: cursor.u8()? }
        }
        MessageType::MsgReject => Message::MsgReject { reason: cursor.u8()?, kind: cursor.u8()? },
    };
    Ok((message, cursor.at()))
}

/// Decodes the message at the start of `bytes`, and returns its length; `None` while bytes are missing.
///
/// # Errors
/// The bytes cannot become a message.
pub fn decode(format: WireFormat, bytes: &[u8]) -> Result<Option<(Message, usize)>, DecodeError> {
    match parse_message(format, bytes) {
        Ok(found) => Ok(Some(found)),
        Err(DecodeStop::NeedsBytes(_)) => Ok(None),
        Err(DecodeStop::Error(error)) => Err(error),
    }
}

fn parse_init(format: WireFormat, cursor: &mut Cursor) -> Result<SessInit, DecodeStop> {
    let keepalive_s = cursor.u16()?;
    let segment_mru = cursor.u64()?;
    let datagram_mru = if format == WireFormat::Quiccl { cursor.u64()? } else { 0 };
    let transfer_mru = cursor.u64()?;
    let length = usize::from(cursor.u16()?);
    if length > MAX_NODE_ID_BYTES {
        return Err(DecodeError::TooLong.into());
    }
    let node_id =
        std::str::from_utf8(cursor.take(length)?).map_err(|_| DecodeError::NotText)?.to_owned();
    let (_, extension_error) = parse_extensions(cursor, &|_| false)?;
    Ok(SessInit { keepalive_s, segment_mru, datagram_mru, transfer_mru, node_id, extension_error })
}

fn parse_segment(format: WireFormat, cursor: &mut Cursor) -> Result<XferSegment, DecodeStop> {
    let flags = cursor.u8()?;
    let quiccl = format == WireFormat::Quiccl;
    let position = if quiccl { (cursor.u16()?, cursor.u16()?) } else { (0, 0) };
    let transfer = cursor.u64()?;
    let (mut total, mut extension_error) = (None, None);
    if flags & XferSegment::START != 0 {
        (total, extension_error) =
            parse_extensions(cursor, &|kind| !quiccl && kind == TRANSFER_LENGTH)?;
    }
    let bytes = cursor.u64()?;
    let mut mode = DeliveryMode::Reliable;
    if quiccl {
        total = Some(cursor.u64()?);
        mode = match cursor.u8()? {
            0 => DeliveryMode::Reliable,
            1 => DeliveryMode::Notified,
            2 => DeliveryMode::Unreliable,
            _ => {
                extension_error = Some(ExtensionError::Malformed);
                DeliveryMode::Reliable
            }
        };
    }
    Ok(XferSegment { flags, transfer, position, bytes, total, mode, extension_error })
}

fn parse_ack(format: WireFormat, cursor: &mut Cursor) -> Result<XferAck, DecodeStop> {
    let flags = cursor.u8()?;
    let segment_index = if format == WireFormat::Quiccl { cursor.u16()? } else { 0 };
    Ok(XferAck { flags, transfer: cursor.u64()?, segment_index, bytes: cursor.u64()? })
}

/// Parses an extension list. Returns the value of the 8-octet extension that `known` selects, and the error of the list
/// (RFC 9174 sections 4.8, 5.2.2 and 5.2.5).
fn parse_extensions(
    cursor: &mut Cursor,
    known: &dyn Fn(u16) -> bool,
) -> Result<(Option<u64>, Option<ExtensionError>), DecodeStop> {
    let length = cursor.u32()? as usize;
    if length > MAX_EXTENSION_BYTES {
        return Err(DecodeError::TooLong.into());
    }
    let mut list = Cursor::new(cursor.take(length)?);
    let (mut found, mut extension_error) = (None, None);
    while list.at() < length {
        let Ok((flags, kind, value)) = parse_extension_item(&mut list) else {
            return Ok((None, Some(ExtensionError::Malformed)));
        };
        if known(kind) {
            match (found, value.try_into()) {
                (None, Ok(value)) => found = Some(u64::from_be_bytes(value)),
                _ => return Ok((None, Some(ExtensionError::Malformed))),
            }
        } else if flags & CRITICAL != 0 {
            extension_error = Some(ExtensionError::UnknownCritical);
        }
    }
    Ok((found, extension_error))
}

fn parse_extension_item<'a>(list: &mut Cursor<'a>) -> Result<(u8, u16, &'a [u8]), DecodeStop> {
    let (flags, kind, length) = (list.u8()?, list.u16()?, list.u16()?);
    Ok((flags, kind, list.take(length.into())?))
}

/// Appends the shortest head of a definite-length CBOR byte string of `length` bytes (RFC 8949 sections 3.1 and 4.2.1).
/// It precedes each bundle in MTCP, and bundles of known length in qubicle.
pub fn encode_byte_string_head(length: u64, out: &mut Vec<u8>) {
    match length {
        0..24 => out.push(BYTE_STRING | length as u8),
        24..0x100 => out.extend([BYTE_STRING | 24, length as u8]),
        0x100..0x1_0000 => {
            out.push(BYTE_STRING | 25);
            out.extend((length as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(BYTE_STRING | 26);
            out.extend((length as u32).to_be_bytes());
        }
        _ => {
            out.push(BYTE_STRING | 27);
            out.extend(length.to_be_bytes());
        }
    }
}

/// Parses the head of a byte string. Returns the length of the string and that of the head, which can be longer than
/// necessary.
fn parse_byte_string_head(bytes: &[u8]) -> Result<(u64, usize), DecodeStop> {
    let mut cursor = Cursor::new(bytes);
    let first = cursor.u8()?;
    let length = match first.wrapping_sub(BYTE_STRING) {
        length @ 0..24 => length.into(),
        24 => cursor.u8()?.into(),
        25 => cursor.u16()?.into(),
        26 => cursor.u32()?.into(),
        27 => cursor.u64()?,
        _ => return Err(DecodeError::NotABundle(first).into()),
    };
    Ok((length, cursor.at()))
}

/// Decodes the head of a byte string. Returns the length of the string and that of the head; `None` while bytes are
/// missing.
///
/// # Errors
/// The bytes are not a definite-length byte string.
pub fn decode_byte_string_head(bytes: &[u8]) -> Result<Option<(u64, usize)>, DecodeError> {
    match parse_byte_string_head(bytes) {
        Ok(found) => Ok(Some(found)),
        Err(DecodeStop::NeedsBytes(_)) => Ok(None),
        Err(DecodeStop::Error(error)) => Err(error),
    }
}
