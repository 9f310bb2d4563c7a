//! Decodes big-endian fields from incomplete data.

use std::fmt;

/// A decoding error. It is permanent, because the stream has no synchronisation point after its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The protocol has no message of this type.
    UnknownType(u8),
    /// A variable-length field exceeds its limit.
    TooLong,
    /// A node ID is not UTF-8.
    NotText,
    /// The connection does not start with the four octets of the magic string.
    Magic,
    /// Neither a definite-length byte string (RFC 8949 section 3.1) nor a bundle.
    NotABundle(u8),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::UnknownType(kind) => write!(f, "unknown message type {kind}"),
            DecodeError::TooLong => f.write_str("a node id or a list of extensions is too long"),
            DecodeError::NotText => f.write_str("a node id is not UTF-8"),
            DecodeError::Magic => f.write_str("the connection does not begin with 'dtn!'"),
            DecodeError::NotABundle(first) => {
                write!(f, "found {first:#04x}, expected the start of a bundle")
            }
        }
    }
}

/// The reason why no message is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecodeStop {
    /// The message has at least this length, and bytes are missing.
    NeedsBytes(usize),
    /// The bytes are not a message.
    Error(DecodeError),
}

impl From<DecodeError> for DecodeStop {
    fn from(error: DecodeError) -> DecodeStop {
        DecodeStop::Error(error)
    }
}

/// A read position from the start of a message. It reads big-endian fields.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, at: 0 }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeStop> {
        let end = self.at + count;
        let taken = self.bytes.get(self.at..end).ok_or(DecodeStop::NeedsBytes(end))?;
        self.at = end;
        Ok(taken)
    }

    fn read_be(&mut self, count: usize) -> Result<u64, DecodeStop> {
        Ok(self.take(count)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    pub fn u8(&mut self) -> Result<u8, DecodeStop> {
        Ok(self.read_be(1)? as u8)
    }

    pub fn u16(&mut self) -> Result<u16, DecodeStop> {
        Ok(self.read_be(2)? as u16)
    }

    pub fn u32(&mut self) -> Result<u32, DecodeStop> {
        Ok(self.read_be(4)? as u32)
    }

    pub fn u64(&mut self) -> Result<u64, DecodeStop> {
        self.read_be(8)
    }
}
