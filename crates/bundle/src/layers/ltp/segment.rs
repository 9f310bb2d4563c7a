//! Segments (RFC 5326 section 3), one a UDP datagram (RFC 7122 section 3).
//!
//! An octet of version and type, the session's id, the numbers of extensions before and behind the content, these, and
//! the content. Extensions are passed over, and none is written.

use std::fmt;

use bytes::Bytes;

use super::sdnv;

/// A session (section 3.1): the engine that sends the block, and its number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionNumber {
    /// The block's sender.
    pub engine: u64,
    /// Its number.
    pub number: u64,
}

/// What is marked by a data segment (section 3.1.1, types 0 to 4 and 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
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
    /// Green data that ends the block.
    GreenEnd,
}

impl Mark {
    fn kind(self) -> u8 {
        match self {
            Mark::Red => 0,
            Mark::Checkpoint => 1,
            Mark::EndOfRed => 2,
            Mark::EndOfBlock => 3,
            Mark::Green => 4,
            Mark::GreenEnd => 7,
        }
    }

    /// Whether it is red.
    pub fn is_red(self) -> bool {
        !matches!(self, Mark::Green | Mark::GreenEnd)
    }

    fn is_checkpoint(self) -> bool {
        matches!(self, Mark::Checkpoint | Mark::EndOfRed | Mark::EndOfBlock)
    }
}

/// Serial numbers of a checkpoint (section 3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its own, never 0.
    pub serial: u64,
    /// Of the report that it answers; 0: none.
    pub report: u64,
}

/// Data of a block (section 3.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// What it marks.
    pub mark: Mark,
    /// Whose block it is: 1 is the bundle protocol (IANA, LTP client service identifiers).
    pub service: u64,
    /// Where in the block it begins.
    pub offset: u64,
    /// With a checkpoint, its numbers: the marks that are one have them.
    pub checkpoint: Option<Checkpoint>,
    /// The octets.
    pub data: Bytes,
}

impl Data {
    /// The octet behind its last one. [`Segment::decode`] refuses what ends beyond 64 bits.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.data.len() as u64)
    }
}

/// What has been received of a red part (section 3.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its own number, never 0.
    pub serial: u64,
    /// Of the checkpoint that it answers; 0: none.
    pub checkpoint: u64,
    /// The first octet that it speaks of.
    pub lower: u64,
    /// The octet behind the last one.
    pub upper: u64,
    /// What is there of these: begin and end in the block, in order, with a gap between any two.
    pub claims: Vec<(u64, u64)>,
}

/// Who cancels a session, or has it cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Canceller {
    /// The block's sender.
    Sender,
    /// Its receiver.
    Receiver,
}

/// Why a session is cancelled (section 3.2.4); codes from 6 on are read as they are.
pub mod reason {
    /// The client has cancelled it.
    pub const CANCELLED: u8 = 0;
    /// The client service is not there.
    pub const UNREACHABLE: u8 = 1;
    /// A segment was sent again too often.
    pub const RETRANSMISSIONS: u8 = 2;
    /// Red data behind green data.
    pub const MISCOLOURED: u8 = 3;
    /// An error of the system.
    pub const SYSTEM: u8 = 4;
    /// Too many rounds of retransmissions.
    pub const CYCLES: u8 = 5;
}

/// Content of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Types 0 to 7.
    Data(Data),
    /// Type 8.
    Report(Report),
    /// Type 9, of the report with this number.
    ReportAck(u64),
    /// Types 12 and 14, with the reason.
    Cancel(Canceller, u8),
    /// Types 13 and 15, to who has cancelled.
    CancelAck(Canceller),
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Of which session.
    pub session: SessionNumber,
    /// What it says.
    pub body: Body,
}

/// What makes bytes no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is of another version than 0.
    Version(u8),
    /// Its type is undefined.
    Kind(u8),
    /// It ends before it is whole, or a number in it has more than 64 bits.
    Short,
    /// Bytes stand behind it.
    Trailing,
    /// A number is 0 that must not be, or ends beyond 64 bits.
    Number,
    /// Claims that are empty, not in order, or beyond the report's bounds.
    Claims,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Version(version) => write!(f, "a segment of version {version}"),
            Fault::Kind(kind) => write!(f, "no segment has the type {kind}"),
            Fault::Short => f.write_str("a segment is not whole"),
            Fault::Trailing => f.write_str("bytes stand behind a segment"),
            Fault::Number => f.write_str("a serial number or an offset is out of range"),
            Fault::Claims => f.write_str("claims are not in order, or out of a report's bounds"),
        }
    }
}

impl Body {
    fn kind(&self) -> u8 {
        match self {
            Body::Data(data) => data.mark.kind(),
            Body::Report(_) => 8,
            Body::ReportAck(_) => 9,
            Body::Cancel(Canceller::Sender, _) => 12,
            Body::CancelAck(Canceller::Sender) => 13,
            Body::Cancel(Canceller::Receiver, _) => 14,
            Body::CancelAck(Canceller::Receiver) => 15,
        }
    }
}

/// Octets of a segment before its content.
pub fn head_bytes(session: SessionNumber) -> usize {
    2 + sdnv::length(session.engine) + sdnv::length(session.number)
}

impl Segment {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let room = match &self.body {
            Body::Data(data) => data.data.len() + 64,
            Body::Report(report) => 64 + 10 * report.claims.len(),
            _ => 32,
        };
        let mut out = Vec::with_capacity(room);
        out.push(self.body.kind());
        let mut number = |value| sdnv::encode(value, &mut out);
        number(self.session.engine);
        number(self.session.number);
        // No extensions.
        number(0);
        match &self.body {
            Body::Data(data) => {
                number(data.service);
                number(data.offset);
                number(data.data.len() as u64);
                if let Some(checkpoint) = data.checkpoint {
                    number(checkpoint.serial);
                    number(checkpoint.report);
                }
                out.extend_from_slice(&data.data);
            }
            Body::Report(report) => {
                number(report.serial);
                number(report.checkpoint);
                number(report.upper);
                number(report.lower);
                number(report.claims.len() as u64);
                for (start, end) in &report.claims {
                    number(start - report.lower);
                    number(end - start);
                }
            }
            Body::ReportAck(serial) => number(*serial),
            Body::Cancel(_, reason) => out.push(*reason),
            Body::CancelAck(_) => {}
        }
        out
    }

    /// What stands in a datagram.
    ///
    /// # Errors
    /// It is no segment.
    pub fn decode(datagram: &Bytes) -> Result<Segment, Fault> {
        let mut left = &datagram[..];
        let kind = octet(&mut left)?;
        if kind >> 4 != 0 {
            return Err(Fault::Version(kind >> 4));
        }
        let session = SessionNumber { engine: number(&mut left)?, number: number(&mut left)? };
        let extensions = octet(&mut left)?;
        skip(&mut left, extensions >> 4)?;
        let body = match kind {
            0..=4 | 7 => {
                let mark = match kind {
                    0 => Mark::Red,
                    1 => Mark::Checkpoint,
                    2 => Mark::EndOfRed,
                    3 => Mark::EndOfBlock,
                    4 => Mark::Green,
                    _ => Mark::GreenEnd,
                };
                let (service, offset) = (number(&mut left)?, number(&mut left)?);
                let length = number(&mut left)?;
                offset.checked_add(length).ok_or(Fault::Number)?;
                let checkpoint = match mark.is_checkpoint() {
                    true => {
                        let serial = serial(&mut left)?;
                        Some(Checkpoint { serial, report: number(&mut left)? })
                    }
                    false => None,
                };
                let data = take(&mut left, length)?;
                let data = datagram.slice_ref(data);
                Body::Data(Data { mark, service, offset, checkpoint, data })
            }
            8 => Body::Report(report(&mut left)?),
            9 => Body::ReportAck(serial(&mut left)?),
            12 => Body::Cancel(Canceller::Sender, octet(&mut left)?),
            13 => Body::CancelAck(Canceller::Sender),
            14 => Body::Cancel(Canceller::Receiver, octet(&mut left)?),
            15 => Body::CancelAck(Canceller::Receiver),
            _ => return Err(Fault::Kind(kind)),
        };
        skip(&mut left, extensions & 0xf)?;
        if !left.is_empty() {
            return Err(Fault::Trailing);
        }
        Ok(Segment { session, body })
    }
}

fn report(left: &mut &[u8]) -> Result<Report, Fault> {
    let (serial, checkpoint) = (serial(left)?, number(left)?);
    let (upper, lower, count) = (number(left)?, number(left)?, number(left)?);
    // A claim is two octets at the least.
    if count > left.len() as u64 / 2 {
        return Err(Fault::Short);
    }
    if lower > upper {
        return Err(Fault::Claims);
    }
    let mut claims: Vec<(u64, u64)> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let start = lower.checked_add(number(left)?).ok_or(Fault::Number)?;
        let end = start.checked_add(number(left)?).ok_or(Fault::Number)?;
        let before = claims.last().map_or(lower, |claim| claim.1);
        if start < before || end <= start || end > upper {
            return Err(Fault::Claims);
        }
        claims.push((start, end));
    }
    Ok(Report { serial, checkpoint, lower, upper, claims })
}

fn number(left: &mut &[u8]) -> Result<u64, Fault> {
    sdnv::decode(left).ok_or(Fault::Short)
}

fn serial(left: &mut &[u8]) -> Result<u64, Fault> {
    match number(left)? {
        0 => Err(Fault::Number),
        serial => Ok(serial),
    }
}

fn octet(left: &mut &[u8]) -> Result<u8, Fault> {
    let (first, rest) = left.split_first().ok_or(Fault::Short)?;
    *left = rest;
    Ok(*first)
}

fn take<'a>(left: &mut &'a [u8], count: u64) -> Result<&'a [u8], Fault> {
    let count = usize::try_from(count).map_err(|_| Fault::Short)?;
    let (taken, rest) = left.split_at_checked(count).ok_or(Fault::Short)?;
    *left = rest;
    Ok(taken)
}

/// Passes over extensions (section 3.1.4): a tag, a length, a value.
fn skip(left: &mut &[u8], count: u8) -> Result<(), Fault> {
    for _ in 0..count {
        octet(left)?;
        let length = number(left)?;
        take(left, length)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SESSION: SessionNumber = SessionNumber { engine: 3, number: 300 };

    fn segment(body: Body) -> Segment {
        Segment { session: SESSION, body }
    }

    /// Section 3's figures, octet by octet.
    #[test]
    fn the_layouts_of_section_3() {
        let data = |mark, checkpoint| {
            Body::Data(Data {
                mark,
                service: 1,
                offset: 200,
                checkpoint,
                data: Bytes::from_static(b"abc"),
            })
        };
        let checkpoint = Some(Checkpoint { serial: 5, report: 130 });
        let report = Report {
            serial: 7,
            checkpoint: 5,
            lower: 100,
            upper: 1000,
            claims: vec![(100, 300), (400, 1000)],
        };
        for (body, octets) in [
            (data(Mark::Red, None), &[0, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, b'a', b'b', b'c'][..]),
            (
                data(Mark::Checkpoint, checkpoint),
                &[1, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, 5, 0x81, 2, b'a', b'b', b'c'],
            ),
            (
                data(Mark::EndOfRed, checkpoint),
                &[2, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, 5, 0x81, 2, b'a', b'b', b'c'],
            ),
            (
                data(Mark::EndOfBlock, checkpoint),
                &[3, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, 5, 0x81, 2, b'a', b'b', b'c'],
            ),
            (data(Mark::Green, None), &[4, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, b'a', b'b', b'c']),
            (
                data(Mark::GreenEnd, None),
                &[7, 3, 0x82, 0x2c, 0, 1, 0x81, 0x48, 3, b'a', b'b', b'c'],
            ),
            // Upper bound before lower bound; claims count from the lower one.
            (
                Body::Report(report),
                &[
                    8, 3, 0x82, 0x2c, 0, 7, 5, 0x87, 0x68, 100, 2, 0, 0x81, 0x48, 0x82, 0x2c, 0x84,
                    0x58,
                ],
            ),
            (Body::ReportAck(7), &[9, 3, 0x82, 0x2c, 0, 7]),
            (Body::Cancel(Canceller::Sender, 2), &[12, 3, 0x82, 0x2c, 0, 2]),
            (Body::CancelAck(Canceller::Sender), &[13, 3, 0x82, 0x2c, 0]),
            (Body::Cancel(Canceller::Receiver, 4), &[14, 3, 0x82, 0x2c, 0, 4]),
            (Body::CancelAck(Canceller::Receiver), &[15, 3, 0x82, 0x2c, 0]),
        ] {
            assert_eq!(segment(body.clone()).encode(), octets);
            assert_eq!(Segment::decode(&Bytes::copy_from_slice(octets)), Ok(segment(body)));
        }
    }

    #[test]
    fn extensions_are_passed_over() {
        // One before (tag 1, two octets), two behind (empty, one octet).
        let octets = [9, 3, 4, 0x12, 1, 2, 9, 9, 7, 0, 0, 1, 1, 9];
        let session = SessionNumber { engine: 3, number: 4 };
        let read = Segment::decode(&Bytes::copy_from_slice(&octets));
        assert_eq!(read, Ok(Segment { session, body: Body::ReportAck(7) }));
        assert_eq!(Segment::decode(&Bytes::copy_from_slice(&octets[..13])), Err(Fault::Short));
    }

    #[test]
    fn what_is_no_segment_is_refused() {
        for (octets, fault) in [
            (&[][..], Fault::Short),
            (&[0x10, 3, 4, 0], Fault::Version(1)),
            (&[5, 3, 4, 0, 1, 0, 0], Fault::Kind(5)),
            (&[6, 3, 4, 0], Fault::Kind(6)),
            (&[10, 3, 4, 0], Fault::Kind(10)),
            (&[11, 3, 4, 0], Fault::Kind(11)),
            (&[0, 3, 4, 0, 1, 0, 2, b'a'], Fault::Short),
            (
                &[0, 3, 4, 0, 1, 0, 0x83, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
                Fault::Short,
            ),
            (&[3, 3, 4, 0, 1, 0, 0, 0, 0], Fault::Number),
            (&[9, 3, 4, 0, 0], Fault::Number),
            (&[9, 3, 4, 0, 7, 7], Fault::Trailing),
            (&[12, 3, 4, 0], Fault::Short),
            (&[8, 3, 4, 0, 7, 5, 9, 10, 0], Fault::Claims),
            (&[8, 3, 4, 0, 7, 5, 9, 0, 1, 0, 0], Fault::Claims),
            (&[8, 3, 4, 0, 7, 5, 9, 0, 1, 0, 10], Fault::Claims),
            (&[8, 3, 4, 0, 7, 5, 9, 0, 2, 2, 2, 1, 1], Fault::Claims),
            // A count that no datagram holds.
            (&[8, 3, 4, 0, 7, 5, 9, 0, 0xff, 0xff, 0xff, 0x7f, 0, 1], Fault::Short),
        ] {
            assert_eq!(Segment::decode(&Bytes::copy_from_slice(octets)), Err(fault), "{octets:?}");
        }
    }

    fn bodies() -> impl Strategy<Value = Body> {
        let canceller = prop_oneof![Just(Canceller::Sender), Just(Canceller::Receiver)];
        let marks = vec![
            Mark::Red,
            Mark::Checkpoint,
            Mark::EndOfRed,
            Mark::EndOfBlock,
            Mark::Green,
            Mark::GreenEnd,
        ];
        let data = (
            prop::sample::select(marks),
            any::<u64>(),
            0..1u64 << 60,
            1..u64::MAX,
            any::<u64>(),
            prop::collection::vec(any::<u8>(), 0..50),
        )
            .prop_map(|(mark, service, offset, serial, report, data)| {
                let checkpoint = mark.is_checkpoint().then_some(Checkpoint { serial, report });
                Body::Data(Data { mark, service, offset, checkpoint, data: data.into() })
            });
        let spans = prop::collection::vec((1..1000u64, 1..1000u64), 0..20);
        let report = (1..u64::MAX, any::<u64>(), 0..1u64 << 40, spans, 0..100u64).prop_map(
            |(serial, checkpoint, lower, spans, rest)| {
                let mut at = lower;
                let claims: Vec<(u64, u64)> = spans
                    .into_iter()
                    .map(|(gap, long)| {
                        let start = at + gap;
                        at = start + long;
                        (start, at)
                    })
                    .collect();
                Body::Report(Report { serial, checkpoint, lower, upper: at + rest, claims })
            },
        );
        prop_oneof![
            data,
            report,
            (1..u64::MAX).prop_map(Body::ReportAck),
            (canceller.clone(), any::<u8>()).prop_map(|(who, why)| Body::Cancel(who, why)),
            canceller.prop_map(Body::CancelAck),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(body in bodies(), engine in any::<u64>(), number in any::<u64>(), cut in any::<prop::sample::Index>()) {
            let segment = Segment { session: SessionNumber { engine, number }, body };
            let octets = Bytes::from(segment.encode());
            prop_assert_eq!(Segment::decode(&octets), Ok(segment.clone()));
            // No part of one is one.
            let part = octets.slice(..cut.index(octets.len()));
            prop_assert!(Segment::decode(&part).is_err());
        }

        #[test]
        fn any_bytes_are_a_segment_or_refused(octets in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(segment) = Segment::decode(&octets.into()) {
                let again = Segment::decode(&segment.encode().into());
                prop_assert_eq!(again, Ok(segment));
            }
        }
    }
}
