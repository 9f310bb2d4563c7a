//! Reads QUIC packets and frames from datagrams (RFC 9000 sections 17 and 19), without copying.
//!
//! Nothing is decrypted: what lies behind header protection can be read with modelled cryptography
//! only, which protects nothing and keeps room for the tag.

/// Length of the connection ids that both sides issue; a short header does not say it.
pub const CID_LENGTH: usize = 8;

/// Length of an authentication tag (RFC 9001 section 5.3).
const TAG: usize = 16;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

type Parsed<T> = Result<T, Malformed>;

/// Takes fields off the front of a slice.
#[derive(Clone, Copy, Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: u64) -> Parsed<&'a [u8]> {
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A big-endian number of `count` bytes, at most 8.
    fn number(&mut self, count: u64) -> Parsed<u64> {
        Ok(self.bytes(count)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A variable-length integer (RFC 9000 section 16).
    fn varint(&mut self) -> Parsed<u64> {
        let length = 1 << (self.0.first().ok_or(Malformed)? >> 6);
        Ok(self.number(length)? & (u64::MAX >> (66 - 8 * length)))
    }

    /// Bytes behind their length.
    fn counted(&mut self) -> Parsed<&'a [u8]> {
        let length = self.varint()?;
        self.bytes(length)
    }

    /// A connection id behind its length of one byte.
    fn connection_id(&mut self) -> Parsed<&'a [u8]> {
        let length = self.number(1)?;
        self.bytes(length)
    }
}

/// Types of packets (RFC 9000 section 17, RFC 8999).
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

/// A packet as far as it is in the clear under header protection.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Type.
    pub kind: PacketType,
    /// Version; 0 in a short header.
    pub version: u32,
    /// Destination connection id.
    pub destination: &'a [u8],
    /// Source connection id; empty in a short header.
    pub source: &'a [u8],
    /// Token of an Initial packet.
    pub token: &'a [u8],
    /// Bytes of the whole packet.
    pub bytes: usize,
    first: u8,
    /// Packet number, frames and tag.
    protected: &'a [u8],
}

/// What header protection and encryption hide.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    /// The packet number as it is on the wire.
    pub truncated: u64,
    /// Bits of it.
    pub bits: u32,
    /// The frames.
    pub frames: Frames<'a>,
}

impl<'a> Packet<'a> {
    /// Reads what is behind an absent protection (RFC 9000 section 17.2: the low two bits of the
    /// first byte are the length of the packet number, less one).
    ///
    /// # Errors
    /// The packet has no number, or is too short for one and a tag.
    pub fn open(&self) -> Parsed<Opened<'a>> {
        if matches!(self.kind, PacketType::Retry | PacketType::VersionNegotiation) {
            return Err(Malformed);
        }
        let length = u64::from(self.first & 3) + 1;
        let mut reader = Reader(self.protected);
        let truncated = reader.number(length)?;
        let bytes = reader.0.len().checked_sub(TAG).ok_or(Malformed)?;
        let frames = Frames(Reader(&reader.0[..bytes]));
        Ok(Opened { truncated, bits: 8 * length as u32, frames })
    }
}

/// The packets of a datagram (RFC 9000 section 12.2). Ends after the first error.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a>(Reader<'a>);

/// The packets that are coalesced in `datagram`.
pub fn packets(datagram: &[u8]) -> Packets<'_> {
    Packets(Reader(datagram))
}

impl<'a> Packets<'a> {
    fn packet(&mut self) -> Parsed<Packet<'a>> {
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
                token = reader.counted()?;
            }
            protected = match kind {
                PacketType::Retry | PacketType::VersionNegotiation => std::mem::take(&mut reader.0),
                _ => reader.counted()?,
            };
        }
        let bytes = before - reader.0.len();
        Ok(Packet { kind, version, destination, source, token, bytes, first, protected })
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Parsed<Packet<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let packet = self.packet();
        if packet.is_err() {
            self.0.0 = &[];
        }
        Some(packet)
    }
}

/// The packet number of which the low `bits` are `truncated`, when `largest` is the largest so far
/// in its space and direction (RFC 9000 appendix A.3).
pub fn expand(largest: Option<u64>, truncated: u64, bits: u32) -> u64 {
    let expected = largest.map_or(0, |largest| largest + 1);
    let (window, half) = (1u64 << bits, 1u64 << (bits - 1));
    let candidate = (expected & !(window - 1)) | truncated;
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
pub struct Ack<'a> {
    /// Largest acknowledged.
    pub largest: u64,
    /// Delay as it is on the wire, before the exponent.
    pub delay: u64,
    /// Counts of ECT(0), ECT(1) and CE.
    pub ecn: Option<[u64; 3]>,
    first: u64,
    ranges: Reader<'a>,
}

impl<'a> Ack<'a> {
    fn read(reader: &mut Reader<'a>, ecn: bool) -> Parsed<Ack<'a>> {
        let (largest, delay) = (reader.varint()?, reader.varint()?);
        let (count, first) = (reader.varint()?, reader.varint()?);
        let (mut low, start) = (largest.checked_sub(first).ok_or(Malformed)?, reader.0);
        for _ in 0..count {
            let (gap, length) = (reader.varint()?, reader.varint()?);
            low = low.checked_sub(gap + 2 + length).ok_or(Malformed)?;
        }
        let ranges = Reader(&start[..start.len() - reader.0.len()]);
        let ecn =
            if ecn { Some([reader.varint()?, reader.varint()?, reader.varint()?]) } else { None };
        Ok(Ack { largest, delay, ecn, first, ranges })
    }

    /// Ranges of packet numbers, both ends included, the largest first.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        let (mut next, mut rest) = (Some((self.largest - self.first, self.largest)), self.ranges);
        std::iter::from_fn(move || {
            let range = next?;
            next = match (rest.varint(), rest.varint()) {
                // The subtractions were checked when the frame was read.
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
#[allow(missing_docs, reason = "fields are called as in the RFC")]
pub enum Frame<'a> {
    /// 19.1; a run of them is one.
    Padding { bytes: usize },
    /// 19.2.
    Ping,
    /// 19.3.
    Ack(Ack<'a>),
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
    /// 19.19; `frame_type` only in the transport's kind.
    ConnectionClose { error: u64, frame_type: Option<u64>, reason: &'a [u8] },
    /// 19.20.
    HandshakeDone,
    /// draft-ietf-quic-ack-frequency section 4; the delay in microseconds.
    AckFrequency { sequence: u64, threshold: u64, max_ack_delay: u64, reordering: u64 },
    /// draft-ietf-quic-ack-frequency section 5.
    ImmediateAck,
    /// RFC 9221 section 4.
    Datagram { length: usize },
}

impl<'a> Frame<'a> {
    /// Whether the frame elicits an ACK (RFC 9002 section 2).
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(self, Frame::Padding { .. } | Frame::Ack(_) | Frame::ConnectionClose { .. })
    }

    fn read(reader: &mut Reader<'a>) -> Parsed<Frame<'a>> {
        let kind = reader.varint()?;
        Ok(match kind {
            0x00 => {
                let more = reader.0.iter().take_while(|byte| **byte == 0).count();
                reader.0 = &reader.0[more..];
                Frame::Padding { bytes: more + 1 }
            }
            0x01 => Frame::Ping,
            0x02 | 0x03 => Frame::Ack(Ack::read(reader, kind == 0x03)?),
            0x04 => Frame::ResetStream {
                stream: reader.varint()?,
                error: reader.varint()?,
                final_size: reader.varint()?,
            },
            0x05 => Frame::StopSending { stream: reader.varint()?, error: reader.varint()? },
            0x06 => Frame::Crypto { offset: reader.varint()?, length: reader.counted()?.len() },
            0x07 => Frame::NewToken { length: reader.counted()?.len() },
            // The low bits say which fields there are: OFF, LEN, FIN.
            0x08..=0x0f => {
                let stream = reader.varint()?;
                let offset = if kind & 0x04 != 0 { reader.varint()? } else { 0 };
                let data = if kind & 0x02 != 0 {
                    reader.counted()?
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
                reason: reader.counted()?,
            },
            0x1e => Frame::HandshakeDone,
            0x1f => Frame::ImmediateAck,
            0x30 => Frame::Datagram { length: std::mem::take(&mut reader.0).len() },
            0x31 => Frame::Datagram { length: reader.counted()?.len() },
            0xaf => Frame::AckFrequency {
                sequence: reader.varint()?,
                threshold: reader.varint()?,
                max_ack_delay: reader.varint()?,
                reordering: reader.varint()?,
            },
            _ => return Err(Malformed),
        })
    }
}

/// The frames of a packet. Ends after the first error: what follows cannot be told apart.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a>(Reader<'a>);

impl<'a> Iterator for Frames<'a> {
    type Item = Parsed<Frame<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let frame = Frame::read(&mut self.0);
        if frame.is_err() {
            self.0.0 = &[];
        }
        Some(frame)
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
