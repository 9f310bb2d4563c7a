//! TCPCLv4's contact header (RFC 9174 section 4.2).

use super::cursor::Fault;

/// Its length.
pub const BYTES: usize = 6;

/// The version that is spoken here.
pub const VERSION: u8 = 4;

/// The sender can do TLS (table 1).
pub const CAN_TLS: u8 = 1;

const MAGIC: [u8; 4] = *b"dtn!";

/// A contact header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Version of the protocol.
    pub version: u8,
    /// Its flags; reserved ones are passed over.
    pub flags: u8,
}

/// As bytes.
pub fn encode(contact: Contact) -> [u8; BYTES] {
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, contact.version, contact.flags]
}

/// What stands at the start of a connection; none as long as too little has come to tell.
///
/// # Errors
/// It is none: the connection is closed without a word (section 6.1).
pub fn decode(bytes: &[u8]) -> Result<Option<Contact>, Fault> {
    let common = bytes.len().min(MAGIC.len());
    if bytes[..common] != MAGIC[..common] {
        return Err(Fault::Magic);
    }
    Ok(bytes.get(MAGIC.len()..BYTES).map(|rest| Contact { version: rest[0], flags: rest[1] }))
}
