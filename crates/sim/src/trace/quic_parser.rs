//! Parses QUIC packets and frames in datagrams (RFC 9000 sections 17 and 19), without copying.
//!
//! The parser does not decrypt. It reads protected fields only under modelled cryptography, which does not encrypt and
//! reserves the bytes of the tag.

/// The length of all connection ids. A short header does not contain it.
pub const CID_LENGTH: usize = 8;

/// The length of an authentication tag (RFC 9001 section 5.3).
const TAG_BYTES: usize = 16;

/// An error in the wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError;

type ParseResult<T> = Result<T, ParseError>;

/// A reader that consumes fields from the start of a slice.
#[derive(Clone, Copy, Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: u64) -> ParseResult<&'a [u8]> {
        let count = usize::try_from(count).map_err(|_| ParseError)?;
        let (taken, rest) = self.0.split_at_checked(count).ok_or(ParseError)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a big-endian number of `count` bytes, at most 8.
    fn number(&mut self, count: u64) -> ParseResult<u64> {
        Ok(self.bytes(count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Reads a variable-length integer (RFC 9000 section 16).
    fn varint(&mut self) -> ParseResult<u64> {
        let length = 1 << (self.0.first().ok_or(ParseError)? >> 6);
        Ok(self.number(length)? & (u64::MAX >> (66 - 8 * length)))
    }

    /// Reads bytes after their length.
    fn length_prefixed(&mut self) -> ParseResult<&'a [u8]> {
        let length = self.varint()?;
        self.bytes(length)
    }

    /// Reads a connection id after its length of one byte.
    fn connection_id(&mut self) -> ParseResult<&'a [u8]> {
        let length = self.number(1)?;
        self.bytes(length)
    }
}

/// Packet types (RFC 9000 section 17, RFC 8999).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketType {
    /// Section 17.2.2.
    Initial,
    /// Section 17.2.3.
    ZeroRtt,
    /// Section 17.2.4.
    Handshake,
    /// Section 17.2.5.
    Retry,
    /// Section 17.2.1.
    VersionNegotiation,
    /// Section 17.3.1.
    OneRtt,
}

/// A packet with the fields outside header protection.
#[derive(Clone, Copy, Debug)]
pub struct QuicPacket<'a> {
    /// The packet type.
    pub kind: PacketType,
    /// The version; 0 in a short header.
    pub version: u32,
    /// The destination connection id.
    pub destination: &'a [u8],
    /// The source connection id, which is empty in a short header.
    pub source: &'a [u8],
    /// The token of an Initial packet.
    pub token: &'a [u8],
    /// The size of the packet in bytes.
    pub bytes: usize,
    first_byte: u8,
    /// Packet number, frames and tag.
    protected: &'a [u8],
}

/// The fields under header protection and encryption.
#[derive(Clone, Copy, Debug)]
pub struct PlainPacket<'a> {
    /// The truncated packet number.
    pub truncated_number: u64,
    /// The number of its bits.
    pub number_bits: u32,
    /// The frames.
    pub frames: Frames<'a>,
}

impl<'a> QuicPacket<'a> {
    /// Reads the protected fields of an unprotected packet. The low two bits of the first byte are the length of the
    /// packet number minus one (RFC 9000 section 17.2).
    ///
    /// # Errors
    /// A packet without number, or a packet too short for number and tag.
    pub fn read_plain(&self) -> ParseResult<PlainPacket<'a>> {
        if matches!(self.kind, PacketType::Retry | PacketType::VersionNegotiation) {
            return Err(ParseError);
        }
        let length = u64::from(self.first_byte & 3) + 1;
        let mut reader = Reader(self.protected);
        let truncated_number = reader.number(length)?;
        let bytes = reader.0.len().checked_sub(TAG_BYTES).ok_or(ParseError)?;
        let frames = Frames(Reader(&reader.0[..bytes]));
        Ok(PlainPacket { truncated_number, number_bits: 8 * length as u32, frames })
    }
}

/// The packets of a datagram (RFC 9000 section 12.2). The iterator ends after the first error.
#[derive(Clone, Copy, Debug)]
pub struct DatagramPackets<'a>(Reader<'a>);

/// Returns the packets coalesced in `datagram`.
pub fn parse_packets(datagram: &[u8]) -> DatagramPackets<'_> {
    DatagramPackets(Reader(datagram))
}

impl<'a> DatagramPackets<'a> {
    fn parse_next(&mut self) -> ParseResult<QuicPacket<'a>> {
        let before = self.0.0.len();
        let reader = &mut self.0;
        let first = reader.number(1)? as u8;
        let (mut version, mut source, mut token) = (0, &[][..], &[][..]);
        let (kind, destination, protected);
        if first & 0x80 == 0 {
            kind = PacketType::OneRtt;
            destination = reader.bytes(CID_LENGTH as u64)?;
            protected = std::mem::take(&mut reader.0);
        } else {
            version = reader.number(4)? as u32;
            destination = reader.connection_id()?;
            source = reader.connection_id()?;
            kind = match (version, first >> 4 & 3) {
                (0, _) => PacketType::VersionNegotiation,
                (_, 0) => PacketType::Initial,
                (_, 1) => PacketType::ZeroRtt,
                (_, 2) => PacketType::Handshake,
                _ => PacketType::Retry,
            };
            if kind == PacketType::Initial {
                token = reader.length_prefixed()?;
            }
            protected = match kind {
                PacketType::Retry | PacketType::VersionNegotiation => std::mem::take(&mut reader.0),
                _ => reader.length_prefixed()?,
            };
        }
        let bytes = before - reader.0.len();
        Ok(QuicPacket {
            kind,
            version,
            destination,
            source,
            token,
            bytes,
            first_byte: first,
            protected,
        })
    }
}

impl<'a> Iterator for DatagramPackets<'a> {
    type Item = ParseResult<QuicPacket<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let packet = self.parse_next();
        if packet.is_err() {
            self.0.0 = &[];
        }
        Some(packet)
    }
}

/// Returns the full packet number for the low `number_bits` bits `truncated_number`. `largest` is the largest number so
/// far in this space and direction (RFC 9000 appendix A.3).
pub fn expand_packet_number(largest: Option<u64>, truncated_number: u64, number_bits: u32) -> u64 {
    let expected = largest.map_or(0, |largest| largest + 1);
    let (window, half) = (1u64 << number_bits, 1u64 << (number_bits - 1));
    let candidate = (expected & !(window - 1)) | truncated_number;
    if candidate + half <= expected && candidate + window < 1 << 62 {
        candidate + window
    } else if candidate > expected + half && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// An ACK frame (RFC 9000 section 19.3).
#[derive(Clone, Copy, Debug)]
pub struct AckFrame<'a> {
    /// The largest acknowledged number.
    pub largest: u64,
    /// The encoded delay, before multiplication by the exponent.
    pub delay: u64,
    /// The counts of ECT(0), ECT(1) and CE.
    pub ecn: Option<[u64; 3]>,
    first_range: u64,
    ranges: Reader<'a>,
}

impl<'a> AckFrame<'a> {
    fn parse(reader: &mut Reader<'a>, ecn: bool) -> ParseResult<AckFrame<'a>> {
        let (largest, delay) = (reader.varint()?, reader.varint()?);
        let (count, first) = (reader.varint()?, reader.varint()?);
        let (mut low, start) = (largest.checked_sub(first).ok_or(ParseError)?, reader.0);
        for _ in 0..count {
            let (gap, length) = (reader.varint()?, reader.varint()?);
            low = low.checked_sub(gap + 2 + length).ok_or(ParseError)?;
        }
        let ranges = Reader(&start[..start.len() - reader.0.len()]);
        let ecn =
            if ecn { Some([reader.varint()?, reader.varint()?, reader.varint()?]) } else { None };
        Ok(AckFrame { largest, delay, ecn, first_range: first, ranges })
    }

    /// Returns the ranges of packet numbers, both ends included, the largest first.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        let (mut next, mut rest) =
            (Some((self.largest - self.first_range, self.largest)), self.ranges);
        std::iter::from_fn(move || {
            let range = next?;
            next = match (rest.varint(), rest.varint()) {
                // Parsing has checked the subtractions.
                (Ok(gap), Ok(length)) => {
                    let high = range.0 - gap - 2;
                    Some((high - length, high))
                }
                _ => None,
            };
            Some(range)
        })
    }
}

/// A frame. Numbers are sections of RFC 9000.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "fields have the names of the RFC")]
pub enum Frame<'a> {
    /// 19.1; a run of padding frames counts as one.
    Padding { bytes: usize },
    /// 19.2.
    Ping,
    /// 19.3.
    Ack(AckFrame<'a>),
    /// 19.4.
    ResetStream { stream: u64, error: u64, final_size: u64 },
    /// 19.5.
    StopSending { stream: u64, error: u64 },
    /// 19.6.
    Crypto { offset: u64, length: usize },
    /// 19.7.
    NewToken { length: usize },
    /// 19.8.
    Stream { stream: u64, offset: u64, length: usize, fin: bool },
    /// 19.9.
    MaxData { maximum: u64 },
    /// 19.10.
    MaxStreamData { stream: u64, maximum: u64 },
    /// 19.11.
    MaxStreams { bidirectional: bool, maximum: u64 },
    /// 19.12.
    DataBlocked { limit: u64 },
    /// 19.13.
    StreamDataBlocked { stream: u64, limit: u64 },
    /// 19.14.
    StreamsBlocked { bidirectional: bool, limit: u64 },
    /// 19.15.
    NewConnectionId { sequence: u64, retire_prior_to: u64, id: &'a [u8], reset_token: &'a [u8] },
    /// 19.16.
    RetireConnectionId { sequence: u64 },
    /// 19.17.
    PathChallenge { data: &'a [u8] },
    /// 19.18.
    PathResponse { data: &'a [u8] },
    /// 19.19; only the transport's frame type has `frame_type`.
    ConnectionClose { error: u64, frame_type: Option<u64>, reason: &'a [u8] },
    /// 19.20.
    HandshakeDone,
    /// draft-ietf-quic-ack-frequency section 4; the delay is in microseconds.
    AckFrequency { sequence: u64, threshold: u64, max_ack_delay: u64, reordering: u64 },
    /// draft-ietf-quic-ack-frequency section 5.
    ImmediateAck,
    /// RFC 9221 section 4.
    Datagram { length: usize },
}

impl<'a> Frame<'a> {
    /// Returns whether the frame is ack-eliciting (RFC 9002 section 2).
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Frame::Padding { .. } | Frame::Ack(_) | Frame::ConnectionClose { .. })
    }

    fn parse(reader: &mut Reader<'a>) -> ParseResult<Frame<'a>> {
        let kind = reader.varint()?;
        Ok(match kind {
            0x00 => {
                let more = reader.0.iter().take_while(|byte| **byte == 0).count();
                reader.0 = &reader.0[more..];
                Frame::Padding { bytes: more + 1 }
            }
            0x01 => Frame::Ping,
            0x02 | 0x03 => Frame::Ack(AckFrame::parse(reader, kind == 0x03)?),
            0x04 => Frame::ResetStream {
                stream: reader.varint()?,
                error: reader.varint()?,
                final_size: reader.varint()?,
            },
            0x05 => Frame::StopSending { stream: reader.varint()?, error: reader.varint()? },
            0x06 => {
                Frame::Crypto { offset: reader.varint()?, length: reader.length_prefixed()?.len() }
            }
            0x07 => Frame::NewToken { length: reader.length_prefixed()?.len() },
            // The low bits mark the optional fields: OFF, LEN, FIN.
            0x08..=0x0f => {
                let stream = reader.varint()?;
                let offset = if kind & 0x04 != 0 { reader.varint()? } else { 0 };
                let data = if kind & 0x02 != 0 {
                    reader.length_prefixed()?
                } else {
                    std::mem::take(&mut reader.0)
                };
                Frame::Stream { stream, offset, length: data.len(), fin: kind & 0x01 != 0 }
            }
            0x10 => Frame::MaxData { maximum: reader.varint()? },
            0x11 => Frame::MaxStreamData { stream: reader.varint()?, maximum: reader.varint()? },
            0x12 | 0x13 => {
                Frame::MaxStreams { bidirectional: kind == 0x12, maximum: reader.varint()? }
            }
            0x14 => Frame::DataBlocked { limit: reader.varint()? },
            0x15 => Frame::StreamDataBlocked { stream: reader.varint()?, limit: reader.varint()? },
            0x16 | 0x17 => {
                Frame::StreamsBlocked { bidirectional: kind == 0x16, limit: reader.varint()? }
            }
            0x18 => Frame::NewConnectionId {
                sequence: reader.varint()?,
                retire_prior_to: reader.varint()?,
                id: reader.connection_id()?,
                reset_token: reader.bytes(16)?,
            },
            0x19 => Frame::RetireConnectionId { sequence: reader.varint()? },
            0x1a => Frame::PathChallenge { data: reader.bytes(8)? },
            0x1b => Frame::PathResponse { data: reader.bytes(8)? },
            0x1c | 0x1d => Frame::ConnectionClose {
                error: reader.varint()?,
                frame_type: if kind == 0x1c { Some(reader.varint()?) } else { None },
                reason: reader.length_prefixed()?,
            },
            0x1e => Frame::HandshakeDone,
            0x1f => Frame::ImmediateAck,
            0x30 => Frame::Datagram { length: std::mem::take(&mut reader.0).len() },
            0x31 => Frame::Datagram { length: reader.length_prefixed()?.len() },
            0xaf => Frame::AckFrequency {
                sequence: reader.varint()?,
                threshold: reader.varint()?,
                max_ack_delay: reader.varint()?,
                reordering: reader.varint()?,
            },
            _ => return Err(ParseError),
        })
    }
}

/// The frames of a packet. The iterator ends after the first error, because the next boundary is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a>(Reader<'a>);

impl<'a> Iterator for Frames<'a> {
    type Item = ParseResult<Frame<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let frame = Frame::parse(&mut self.0);
        if frame.is_err() {
            self.0.0 = &[];
        }
        Some(frame)
    }
}

#[cfg(test)]
#[path = "quic_parser_tests.rs"]
mod tests;
