//! The head of a definite-length CBOR byte string (RFC 8949 section 3.1). It precedes each bundle in MTCP, and bundles
//! of known length in qubicle.

use super::cursor::{Cursor, DecodeError, DecodeStop};

/// The maximum length of a head.
pub const MAX_BYTE_STRING_HEAD: usize = 9;

/// Major type 2.
const BYTE_STRING: u8 = 0x40;

/// Appends the shortest head for `length` bytes (RFC 8949 section 4.2.1).
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

/// Parses a head. Returns the length of the string and that of the head, which can be longer than necessary.
pub(crate) fn parse_byte_string_head(bytes: &[u8]) -> Result<(u64, usize), DecodeStop> {
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

/// Decodes a head. Returns the length of the string and that of the head; `None` while bytes are missing.
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
