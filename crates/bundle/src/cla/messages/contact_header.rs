//! The contact header of TCPCLv4 (RFC 9174 section 4.2).

use super::cursor::DecodeError;

/// The length of the header.
pub const BYTES: usize = 6;

/// The supported version.
pub const VERSION: u8 = 4;

/// Flag: the sender supports TLS (table 1).
pub const CAN_TLS: u8 = 1;

const MAGIC: [u8; 4] = *b"dtn!";

/// A contact header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContactHeader {
    /// The protocol version.
    pub version: u8,
    /// The flags; reserved bits are ignored.
    pub flags: u8,
}

/// Encodes the header.
pub fn encode(header: ContactHeader) -> [u8; BYTES] {
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, header.version, header.flags]
}

/// Decodes the start of a connection; `None` while bytes are missing.
///
/// # Errors
/// The bytes are not a contact header. The connection is closed without a message (section 6.1).
pub fn decode(bytes: &[u8]) -> Result<Option<ContactHeader>, DecodeError> {
    let common = bytes.len().min(MAGIC.len());
    if bytes[..common] != MAGIC[..common] {
        return Err(DecodeError::Magic);
    }
    Ok(bytes.get(MAGIC.len()..BYTES).map(|rest| ContactHeader { version: rest[0], flags: rest[1] }))
}
