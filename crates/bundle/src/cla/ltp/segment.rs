//! Segments (RFC 5326 section 3), one per UDP datagram (RFC 7122 section 3).
//!
//! The format is an octet of version and type, the session ID, the counts of header and trailer extensions, these, and
//! the content. Received extensions are skipped, and none is sent.

use std::fmt;

use bytes::Bytes;

use super::sdnv;

/// A session ID (section 3.1): the engine that sends the block, and the session number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LtpSessionId {
    /// The sender of the block.
    pub originator: u64,
    /// The session number.
    pub number: u64,
}

/// The type of a data segment (section 3.1.1, types 0 to 4 and 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSegmentType {
    /// Red data.
    Red,
    /// Red data, a checkpoint.
    Checkpoint,
    /// The end of the red part, a checkpoint.
    EndOfRed,
    /// The end of the red part and of the block, a checkpoint.
    EndOfBlock,
    /// Green data.
    Green,
    /// Green data at the end of the block.
    GreenEndOfBlock,
}

impl DataSegmentType {
    fn type_code(self) -> u8 {
        match self {
            DataSegmentType::Red => 0,
            DataSegmentType::Checkpoint => 1,
            DataSegmentType::EndOfRed => 2,
            DataSegmentType::EndOfBlock => 3,
            DataSegmentType::Green => 4,
            DataSegmentType::GreenEndOfBlock => 7,
        }
    }

    /// Returns whether the data is red.
    pub fn is_red(self) -> bool {
        !matches!(self, DataSegmentType::Green | DataSegmentType::GreenEndOfBlock)
    }

    fn is_checkpoint(self) -> bool {
        matches!(
            self,
            DataSegmentType::Checkpoint | DataSegmentType::EndOfRed | DataSegmentType::EndOfBlock
        )
    }
}

/// The serial numbers of a checkpoint (section 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The checkpoint serial number, never 0.
    pub serial: u64,
    /// The serial number of the answered report; 0 without one.
    pub report: u64,
}

/// A data segment (section 3.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSegment {
    /// The segment type.
    pub segment_type: DataSegmentType,
    /// The client service ID: 1 is the bundle protocol (IANA, LTP client service identifiers).
    pub client_service: u64,
    /// The offset in the block.
    pub offset: u64,
    /// The checkpoint numbers, present exactly for checkpoint types.
    pub checkpoint: Option<Checkpoint>,
    /// The data.
    pub data: Bytes,
}

impl DataSegment {
    /// Returns the end offset. [`LtpSegment::decode`] refuses an end beyond 64 bits.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.data.len() as u64)
    }
}

/// A report on the reception of a red part (section 3.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportSegment {
    /// The report serial number, never 0.
    pub serial: u64,
    /// The serial number of the answered checkpoint; 0 without one.
    pub checkpoint: u64,
    /// The first octet of the scope.
    pub lower_bound: u64,
    /// The end of the scope, exclusive.
    pub upper_bound: u64,
    /// The received ranges in the block: start and end, in ascending sequence with gaps between them.
    pub claims: Vec<(u64, u64)>,
}

/// The side that cancels a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Canceller {
    /// The sender of the block.
    Sender,
    /// The receiver of the block.
    Receiver,
}

/// Cancellation reason codes (section 3.2.4); codes from 6 on are decoded unchanged.
pub mod reason {
    /// The client cancelled the session.
    pub const CANCELLED: u8 = 0;
    /// The client service is unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// The retransmission limit is exceeded.
    pub const RETRANSMISSIONS: u8 = 2;
    /// Red data after green data.
    pub const MISCOLOURED: u8 = 3;
    /// A system error.
    pub const SYSTEM: u8 = 4;
    /// The limit of retransmission cycles is exceeded.
    pub const CYCLES: u8 = 5;
}

/// The content of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentBody {
    /// Types 0 to 7.
    Data(DataSegment),
    /// Type 8.
    Report(ReportSegment),
    /// Type 9, with the report serial number.
    ReportAck(u64),
    /// Types 12 and 14, with the reason.
    Cancel(Canceller, u8),
    /// Types 13 and 15, to the cancelling side.
    CancelAck(Canceller),
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LtpSegment {
    /// The session.
    pub session: LtpSessionId,
    /// The content.
    pub body: SegmentBody,
}

/// A decoding error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// The version is not 0.
    Version(u8),
    /// The type is undefined.
    UndefinedType(u8),
    /// The segment is incomplete, or a number has more than 64 bits.
    Truncated,
    /// Bytes follow the segment.
    Trailing,
    /// A serial number is 0, or an end exceeds 64 bits.
    OutOfRange,
    /// Claims are empty, unsorted, or beyond the bounds of the report.
    InvalidClaims,
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentError::Version(version) => {
                write!(f, "found a segment of version {version}, expected 0")
            }
            SegmentError::UndefinedType(kind) => write!(f, "unknown segment type {kind}"),
            SegmentError::Truncated => f.write_str("a segment is truncated"),
            SegmentError::Trailing => f.write_str("a datagram has bytes after its segment"),
            SegmentError::OutOfRange => f.write_str("a serial number or an offset is out of range"),
            SegmentError::InvalidClaims => {
                f.write_str("claims are out of order, or outside the bounds of their report")
            }
        }
    }
}

impl SegmentBody {
    fn type_code(&self) -> u8 {
        match self {
            SegmentBody::Data(data) => data.segment_type.type_code(),
            SegmentBody::Report(_) => 8,
            SegmentBody::ReportAck(_) => 9,
            SegmentBody::Cancel(Canceller::Sender, _) => 12,
            SegmentBody::CancelAck(Canceller::Sender) => 13,
            SegmentBody::Cancel(Canceller::Receiver, _) => 14,
            SegmentBody::CancelAck(Canceller::Receiver) => 15,
        }
    }
}

/// Returns the number of octets before the content.
pub fn head_bytes(session: LtpSessionId) -> usize {
    2 + sdnv::length(session.originator) + sdnv::length(session.number)
}

impl LtpSegment {
    /// Encodes the segment.
    pub fn encode(&self) -> Vec<u8> {
        let capacity = match &self.body {
            SegmentBody::Data(data) => data.data.len() + 64,
            SegmentBody::Report(report) => 64 + 10 * report.claims.len(),
            _ => 32,
        };
        let mut out = Vec::with_capacity(capacity);
        out.push(self.body.type_code());
        let mut number = |value| sdnv::encode(value, &mut out);
        number(self.session.originator);
        number(self.session.number);
        // No extensions.
        number(0);
        match &self.body {
            SegmentBody::Data(data) => {
                number(data.client_service);
                number(data.offset);
                number(data.data.len() as u64);
                if let Some(checkpoint) = data.checkpoint {
                    number(checkpoint.serial);
                    number(checkpoint.report);
                }
                out.extend_from_slice(&data.data);
            }
            SegmentBody::Report(report) => {
                number(report.serial);
                number(report.checkpoint);
                number(report.upper_bound);
                number(report.lower_bound);
                number(report.claims.len() as u64);
                for (start, end) in &report.claims {
                    number(start - report.lower_bound);
                    number(end - start);
                }
            }
            SegmentBody::ReportAck(serial) => number(*serial),
            SegmentBody::Cancel(_, reason) => out.push(*reason),
            SegmentBody::CancelAck(_) => {}
        }
        out
    }

    /// Decodes a datagram.
    ///
    /// # Errors
    /// The datagram is not a segment.
    pub fn decode(datagram: &Bytes) -> Result<LtpSegment, SegmentError> {
        let mut left = &datagram[..];
        let kind = parse_octet(&mut left)?;
        if kind >> 4 != 0 {
            return Err(SegmentError::Version(kind >> 4));
        }
        let session =
            LtpSessionId { originator: parse_number(&mut left)?, number: parse_number(&mut left)? };
        let extensions = parse_octet(&mut left)?;
        skip_extensions(&mut left, extensions >> 4)?;
        let body = match kind {
            0..=4 | 7 => {
                let segment_type = match kind {
                    0 => DataSegmentType::Red,
                    1 => DataSegmentType::Checkpoint,
                    2 => DataSegmentType::EndOfRed,
                    3 => DataSegmentType::EndOfBlock,
                    4 => DataSegmentType::Green,
                    _ => DataSegmentType::GreenEndOfBlock,
                };
                let (client_service, offset) = (parse_number(&mut left)?, parse_number(&mut left)?);
                let length = parse_number(&mut left)?;
                offset.checked_add(length).ok_or(SegmentError::OutOfRange)?;
                let checkpoint = match segment_type.is_checkpoint() {
                    true => {
                        let serial = parse_serial(&mut left)?;
                        Some(Checkpoint { serial, report: parse_number(&mut left)? })
                    }
                    false => None,
                };
                let data = take_bytes(&mut left, length)?;
                let data = datagram.slice_ref(data);
                SegmentBody::Data(DataSegment {
                    segment_type,
                    client_service,
                    offset,
                    checkpoint,
                    data,
                })
            }
            8 => SegmentBody::Report(parse_report(&mut left)?),
            9 => SegmentBody::ReportAck(parse_serial(&mut left)?),
            12 => SegmentBody::Cancel(Canceller::Sender, parse_octet(&mut left)?),
            13 => SegmentBody::CancelAck(Canceller::Sender),
            14 => SegmentBody::Cancel(Canceller::Receiver, parse_octet(&mut left)?),
            15 => SegmentBody::CancelAck(Canceller::Receiver),
            _ => return Err(SegmentError::UndefinedType(kind)),
        };
        skip_extensions(&mut left, extensions & 0xf)?;
        if !left.is_empty() {
            return Err(SegmentError::Trailing);
        }
        Ok(LtpSegment { session, body })
    }
}

fn parse_report(left: &mut &[u8]) -> Result<ReportSegment, SegmentError> {
    let (serial, checkpoint) = (parse_serial(left)?, parse_number(left)?);
    let (upper_bound, lower_bound, count) =
        (parse_number(left)?, parse_number(left)?, parse_number(left)?);
    // A claim has at least two octets.
    if count > left.len() as u64 / 2 {
        return Err(SegmentError::Truncated);
    }
    if lower_bound > upper_bound {
        return Err(SegmentError::InvalidClaims);
    }
    let mut claims: Vec<(u64, u64)> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let start = lower_bound.checked_add(parse_number(left)?).ok_or(SegmentError::OutOfRange)?;
        let end = start.checked_add(parse_number(left)?).ok_or(SegmentError::OutOfRange)?;
        let before = claims.last().map_or(lower_bound, |claim| claim.1);
        if start < before || end <= start || end > upper_bound {
            return Err(SegmentError::InvalidClaims);
        }
        claims.push((start, end));
    }
    Ok(ReportSegment { serial, checkpoint, lower_bound, upper_bound, claims })
}

fn parse_number(left: &mut &[u8]) -> Result<u64, SegmentError> {
    sdnv::decode(left).ok_or(SegmentError::Truncated)
}

fn parse_serial(left: &mut &[u8]) -> Result<u64, SegmentError> {
    match parse_number(left)? {
        0 => Err(SegmentError::OutOfRange),
        serial => Ok(serial),
    }
}

fn parse_octet(left: &mut &[u8]) -> Result<u8, SegmentError> {
    let (first, rest) = left.split_first().ok_or(SegmentError::Truncated)?;
    *left = rest;
    Ok(*first)
}

fn take_bytes<'a>(left: &mut &'a [u8], count: u64) -> Result<&'a [u8], SegmentError> {
    let count = usize::try_from(count).map_err(|_| SegmentError::Truncated)?;
    let (taken, rest) = left.split_at_checked(count).ok_or(SegmentError::Truncated)?;
    *left = rest;
    Ok(taken)
}

/// Skips extensions (section 3.1.4): a tag, a length, a value.
fn skip_extensions(left: &mut &[u8], count: u8) -> Result<(), SegmentError> {
    for _ in 0..count {
        parse_octet(left)?;
        let length = parse_number(left)?;
        take_bytes(left, length)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
