//! Takes messages and the data of segments out of a stream.

use super::cursor::{Fault, Stop};
use super::decode::parse;
use super::{Dialect, Message};

/// What a stream has next.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A message.
    Message(Message),
    /// Data of the segment before, as much as has come of it.
    Data {
        /// Its bytes.
        bytes: &'a [u8],
        /// It ends the segment.
        last: bool,
    },
}

/// A stream of messages. It keeps the part of a message that has come, and never of its data.
#[derive(Debug)]
pub struct Decoder {
    dialect: Dialect,
    head: Vec<u8>,
    /// Bytes of data to come, in a segment.
    body: Option<u64>,
}

impl Decoder {
    /// At the start of a stream.
    pub fn new(dialect: Dialect) -> Decoder {
        Decoder { dialect, head: Vec::new(), body: None }
    }

    /// Whether it stands between two messages.
    pub fn is_between(&self) -> bool {
        self.head.is_empty() && self.body.is_none()
    }

    /// Bytes that it keeps.
    pub fn kept(&self) -> usize {
        self.head.len()
    }

    /// Takes from `input` what comes next; none if it needs more.
    ///
    /// # Errors
    /// What comes is no message, and nothing after it can be found.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Item<'a>>, Fault> {
        if input.is_empty() && self.body != Some(0) {
            return Ok(None);
        }
        if let Some(left) = self.body {
            let count = left.min(input.len() as u64) as usize;
            let (bytes, rest) = input.split_at(count);
            *input = rest;
            let left = left - count as u64;
            self.body = (left > 0).then_some(left);
            return Ok(Some(Item::Data { bytes, last: left == 0 }));
        }
        loop {
            // Never more than the message has: what follows is not copied.
            let needs = match parse(self.dialect, &self.head) {
                Ok((message, _)) => {
                    self.head.clear();
                    if let Message::Segment(segment) = &message {
                        self.body = Some(segment.bytes);
                    }
                    return Ok(Some(Item::Message(message)));
                }
                Err(Stop::Needs(needs)) => needs,
                Err(Stop::Fault(fault)) => return Err(fault),
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
