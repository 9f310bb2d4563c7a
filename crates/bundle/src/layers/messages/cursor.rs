//! Big-endian fields, as far as they have arrived.

use std::fmt;

/// What makes bytes no message. A stream has no second beginning: whoever reads it cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A message of a kind that the protocol does not have.
    Kind(u8),
    /// A field that may be long is longer than is taken.
    TooLong,
    /// A node id is no text.
    NotText,
    /// Not the four octets that a connection begins with.
    Magic,
    /// No byte string of known length (RFC 8949 section 3.1), nor a bundle as it is.
    NoBundle(u8),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Kind(kind) => write!(f, "no message has the type {kind}"),
            Fault::TooLong => f.write_str("a node id or a list of extensions is too long"),
            Fault::NotText => f.write_str("a node id is not UTF-8"),
            Fault::Magic => f.write_str("the connection does not begin with 'dtn!'"),
            Fault::NoBundle(first) => write!(f, "no bundle begins with {first:#04x}"),
        }
    }
}

/// Why a message is not there yet, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It has so many bytes at the least, more than have arrived.
    Needs(usize),
    /// It is none.
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

/// Reads from the start of a message.
pub(crate) struct Cursor<'a> {
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

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Stop> {
        let end = self.at + count;
        let taken = self.bytes.get(self.at..end).ok_or(Stop::Needs(end))?;
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self, count: usize) -> Result<u64, Stop> {
        Ok(self.take(count)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }

    pub fn u8(&mut self) -> Result<u8, Stop> {
        Ok(self.number(1)? as u8)
    }

    pub fn u16(&mut self) -> Result<u16, Stop> {
        Ok(self.number(2)? as u16)
    }

    pub fn u32(&mut self) -> Result<u32, Stop> {
        Ok(self.number(4)? as u32)
    }

    pub fn u64(&mut self) -> Result<u64, Stop> {
        self.number(8)
    }
}
