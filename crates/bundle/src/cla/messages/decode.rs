//! Decoding of messages.

use super::codec::{MESSAGE_TYPES, MessageType, TRANSFER_LENGTH};
use super::cursor::{Cursor, DecodeError, DecodeStop};
use super::{ExtensionError, Message, SessInit, WireFormat, XferAck, XferSegment};
use crate::DeliveryMode;

/// The maximum length of a node ID. RFC 9171 sets no limit, but no real node needs more.
pub const MAX_NODE_ID_BYTES: usize = 1024;

/// The maximum length of an extension list. RFC 9174 section 4.8 recommends short ones; its only one has 13 bytes.
pub const MAX_EXTENSION_BYTES: usize = 4096;

/// Flag: the extension is critical (RFC 9174 section 4.8, table 3).
const CRITICAL: u8 = 1;

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
