//! Decodes messages and segment data from a stream.

use super::codec::parse_message;
use super::cursor::{DecodeError, DecodeStop};
use super::{Message, WireFormat};

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
