//! Decodes messages and segment data from a stream, and big-endian fields from incomplete data.

use std::fmt;

use super::codec::parse_message;
use super::{Message, WireFormat};

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
            DecodeError::UnknownType(kind) => write!(f, "no message has the type {kind}"),
            DecodeError::TooLong => f.write_str("a node id or a list of extensions is too long"),
            DecodeError::NotText => f.write_str("a node id is not UTF-8"),
            DecodeError::Magic => f.write_str("the connection does not begin with 'dtn!'"),
            DecodeError::NotABundle(first) => write!(f, "no bundle begins with {first:#04x}"),
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

/// The next item of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum DecodedItem<'a> {
    /// A message.
    Message(Message),
    /// Data of the preceding segment, as far as received.
    Data {
        /// The bytes.
        bytes: &'a [u8],
        /// Whether the segment is complete.
        is_last: bool,
    },
}

/// A decoder of a message stream. It buffers an incomplete message header, but no segment data.
#[derive(Debug)]
pub struct Decoder {
    format: WireFormat,
    head: Vec<u8>,
    /// The remaining data bytes of a segment.
    remaining_data: Option<u64>,
}

impl Decoder {
    /// Builds a decoder at the start of a stream.
    pub fn new(format: WireFormat) -> Decoder {
        Decoder { format, head: Vec::new(), remaining_data: None }
    }

    /// Returns whether the stream is between two messages.
    pub fn is_at_boundary(&self) -> bool {
        self.head.is_empty() && self.remaining_data.is_none()
    }

    /// Returns the number of buffered bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.head.len()
    }

    /// Removes the next item from `input`; `None` if bytes are missing.
    ///
    /// # Errors
    /// The bytes are not a message. The rest of the stream cannot be decoded.
    pub fn next_item<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> Result<Option<DecodedItem<'a>>, DecodeError> {
        if input.is_empty() && self.remaining_data != Some(0) {
            return Ok(None);
        }
        if let Some(left) = self.remaining_data {
            let count = left.min(input.len() as u64) as usize;
            let (bytes, rest) = input.split_at(count);
            *input = rest;
            let left = left - count as u64;
            self.remaining_data = (left > 0).then_some(left);
            return Ok(Some(DecodedItem::Data { bytes, is_last: left == 0 }));
        }
        loop {
            // Copies at most the message header; data after it is not copied.
            let needs = match parse_message(self.format, &self.head) {
                Ok((message, _)) => {
                    self.head.clear();
                    if let Message::XferSegment(segment) = &message {
                        self.remaining_data = Some(segment.bytes);
                    }
                    return Ok(Some(DecodedItem::Message(message)));
                }
                Err(DecodeStop::NeedsBytes(needs)) => needs,
                Err(DecodeStop::Error(error)) => return Err(error),
            };
            if input.is_empty() {
                return Ok(None);
            }
            let (part, rest) = input.split_at(input.len().min(needs - self.head.len()));
            self.head.extend_from_slice(part);
            *input = rest;
        }
    }
}
