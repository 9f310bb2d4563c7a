//! Bytes as messages.

use super::cursor::{Cursor, Fault, Stop};
use super::encode::{KINDS, Kind, TRANSFER_LENGTH};
use super::{Ack, Dialect, Init, Message, Problem, Segment};
use crate::Service;

/// Longest node id that is taken. Names of RFC 9171 have no limit; whoever needs more is nobody's neighbour.
pub const MOST_NODE_BYTES: usize = 1024;

/// Longest list of extensions that is taken: RFC 9174 asks for short ones (section 4.8), its only one takes 13.
pub const MOST_EXTENSION_BYTES: usize = 4096;

/// An item must be understood (RFC 9174 section 4.8, table 3).
const CRITICAL: u8 = 1;

/// The message at the start of `bytes`, and its length; the data of a segment follows.
pub(super) fn parse(dialect: Dialect, bytes: &[u8]) -> Result<(Message, usize), Stop> {
    let mut cursor = Cursor::new(bytes);
    let number = cursor.u8()?;
    let kind = KINDS.iter().find(|(_, tcpcl, quiccl)| match dialect {
        Dialect::Tcpcl => *tcpcl == number,
        Dialect::Quiccl => *quiccl == number,
    });
    let (kind, ..) = kind.ok_or(Fault::Kind(number))?;
    let message = match kind {
        Kind::Init => Message::Init(init(dialect, &mut cursor)?),
        Kind::Segment => Message::Segment(segment(dialect, &mut cursor)?),
        Kind::Ack => Message::Ack(ack(dialect, &mut cursor)?),
        Kind::Refuse => Message::Refuse { reason: cursor.u8()?, transfer: cursor.u64()? },
        Kind::Keepalive => Message::Keepalive,
        Kind::Term => Message::Term { reply: cursor.u8()? & 1 != 0, reason: cursor.u8()? },
        Kind::Reject => Message::Reject { reason: cursor.u8()?, kind: cursor.u8()? },
    };
    Ok((message, cursor.at()))
}

/// The message at the start of `bytes`, and its length; none as long as it is not whole.
///
/// # Errors
/// It can never be one.
pub fn decode(dialect: Dialect, bytes: &[u8]) -> Result<Option<(Message, usize)>, Fault> {
    match parse(dialect, bytes) {
        Ok(found) => Ok(Some(found)),
        Err(Stop::Needs(_)) => Ok(None),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

fn init(dialect: Dialect, cursor: &mut Cursor) -> Result<Init, Stop> {
    let keepalive_s = cursor.u16()?;
    let segment_mru = cursor.u64()?;
    let datagram_mru = if dialect == Dialect::Quiccl { cursor.u64()? } else { 0 };
    let transfer_mru = cursor.u64()?;
    let length = usize::from(cursor.u16()?);
    if length > MOST_NODE_BYTES {
        return Err(Fault::TooLong.into());
    }
    let node = std::str::from_utf8(cursor.take(length)?).map_err(|_| Fault::NotText)?.to_owned();
    let (_, problem) = extensions(cursor, &|_| false)?;
    Ok(Init { keepalive_s, segment_mru, datagram_mru, transfer_mru, node, problem })
}

fn segment(dialect: Dialect, cursor: &mut Cursor) -> Result<Segment, Stop> {
    let flags = cursor.u8()?;
    let quiccl = dialect == Dialect::Quiccl;
    let place = if quiccl { (cursor.u16()?, cursor.u16()?) } else { (0, 0) };
    let transfer = cursor.u64()?;
    let (mut total, mut problem) = (None, None);
    if flags & Segment::START != 0 {
        (total, problem) = extensions(cursor, &|kind| !quiccl && kind == TRANSFER_LENGTH)?;
    }
    let bytes = cursor.u64()?;
    let mut service = Service::Reliable;
    if quiccl {
        total = Some(cursor.u64()?);
        service = match cursor.u8()? {
            0 => Service::Reliable,
            1 => Service::Notified,
            2 => Service::Unreliable,
            _ => {
                problem = Some(Problem::Malformed);
                Service::Reliable
            }
        };
    }
    Ok(Segment { flags, transfer, place, bytes, total, service, problem })
}

fn ack(dialect: Dialect, cursor: &mut Cursor) -> Result<Ack, Stop> {
    let flags = cursor.u8()?;
    let place = if dialect == Dialect::Quiccl { cursor.u16()? } else { 0 };
    Ok(Ack { flags, transfer: cursor.u64()?, place, bytes: cursor.u64()? })
}

/// A list of extensions: the number in the one of 8 octets that is `known`, and what is wrong with them (RFC 9174 sections 4.8,
/// 5.2.2 and 5.2.5).
fn extensions(
    cursor: &mut Cursor,
    known: &dyn Fn(u16) -> bool,
) -> Result<(Option<u64>, Option<Problem>), Stop> {
    let length = cursor.u32()? as usize;
    if length > MOST_EXTENSION_BYTES {
        return Err(Fault::TooLong.into());
    }
    let mut list = Cursor::new(cursor.take(length)?);
    let (mut found, mut problem) = (None, None);
    while list.at() < length {
        let Ok((flags, kind, value)) = item(&mut list) else {
            return Ok((None, Some(Problem::Malformed)));
        };
        if known(kind) {
            match (found, value.try_into()) {
                (None, Ok(value)) => found = Some(u64::from_be_bytes(value)),
                _ => return Ok((None, Some(Problem::Malformed))),
            }
        } else if flags & CRITICAL != 0 {
            problem = Some(Problem::Critical);
        }
    }
    Ok((found, problem))
}

fn item<'a>(list: &mut Cursor<'a>) -> Result<(u8, u16, &'a [u8]), Stop> {
    let (flags, kind, length) = (list.u8()?, list.u16()?, list.u16()?);
    Ok((flags, kind, list.take(length.into())?))
}
