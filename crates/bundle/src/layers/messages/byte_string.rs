//! The head of a CBOR byte string (RFC 8949 section 3.1) of known length: what MTCP has before each bundle, and qubicle
//! before one whose length is known.

use super::cursor::{Cursor, Fault, Stop};

/// Longest head.
pub const MOST: usize = 9;

/// Major type 2.
const BYTES: u8 = 0x40;

/// The shortest head of `length` bytes (RFC 8949 section 4.2.1).
pub fn encode(length: u64, out: &mut Vec<u8>) {
    match length {
        0..24 => out.push(BYTES | length as u8),
        24..0x100 => out.extend([BYTES | 24, length as u8]),
        0x100..0x1_0000 => {
            out.push(BYTES | 25);
            out.extend((length as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(BYTES | 26);
            out.extend((length as u32).to_be_bytes());
        }
        _ => {
            out.push(BYTES | 27);
            out.extend(length.to_be_bytes());
        }
    }
}

/// The length that a head says, and the head's own; longer ones than needed are taken.
pub(crate) fn parse(bytes: &[u8]) -> Result<(u64, usize), Stop> {
    let mut cursor = Cursor::new(bytes);
    let first = cursor.u8()?;
    let length = match first.wrapping_sub(BYTES) {
        length @ 0..24 => length.into(),
        24 => cursor.u8()?.into(),
        25 => cursor.u16()?.into(),
        26 => cursor.u32()?.into(),
        27 => cursor.u64()?,
        _ => return Err(Fault::NoBundle(first).into()),
    };
    Ok((length, cursor.at()))
}

/// The length that a head says, and the head's own; none as long as it is not whole.
///
/// # Errors
/// It is no byte string of known length.
pub fn decode(bytes: &[u8]) -> Result<Option<(u64, usize)>, Fault> {
    match parse(bytes) {
        Ok(found) => Ok(Some(found)),
        Err(Stop::Needs(_)) => Ok(None),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}
