//! A TCP segment (RFC 9293 section 3.1) as a value. Sequence numbers are 64 bits wide and count from
//! 0 at the SYN, so they never wrap. A trace writes them modulo 2^32 from the initial number.

use bytes::Bytes;
use units::Ecn;

/// Control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise.
    pub const SYN: Flags = Flags(0x02);
    /// Reset.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement field is valid.
    pub const ACK: Flags = Flags(0x10);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// Returns whether all flags of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns these flags with those of `other`.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// SACK blocks of a segment (RFC 2018 section 3), the newest first; a D-SACK block (RFC 2883) precedes all others. At
/// most 4, or 3 with timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u64, u64); 4],
    count: u8,
}

impl SackBlocks {
    /// Appends a block `start..end`; more than 4 are ignored.
    pub fn push(&mut self, start: u64, end: u64) {
        if let Some(block) = self.blocks.get_mut(usize::from(self.count)) {
            *block = (start, end);
            self.count += 1;
        }
    }

    /// Returns the blocks.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Returns whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A segment.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Sequence number of the first byte (the SYN has number 0).
    pub sequence: u64,
    /// Next byte expected of the peer; valid with [`Flags::ACK`].
    pub acknowledgement: u64,
    /// Bytes that the sender of this segment accepts from `acknowledgement` on.
    pub window: u64,
    /// Control bits.
    pub flags: Flags,
    /// Timestamp value and echo in milliseconds (RFC 7323); `None` without the option.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks; boxed because few segments have them.
    pub sack: Option<Box<SackBlocks>>,
    /// Options of a SYN.
    pub syn: Option<Box<SynOptions>>,
    /// Data.
    pub data: Bytes,
    /// Number of the connection in the flow; it represents the client's address and port.
    pub connection: u32,
    /// IP and TCP header with options, bytes.
    pub header_bytes: u16,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// The data was sent before.
    pub retransmission: bool,
}

/// Options of a SYN or SYN-ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// Maximum segment size.
    pub mss: u16,
    /// SACK permitted.
    pub sack: bool,
    /// Window scaling.
    pub window_scaling: bool,
    /// A Fast Open cookie is present (RFC 7413).
    pub fast_open: bool,
}

// Segments are moved millions of times.
const _: () = assert!(size_of::<Segment>() <= 96);

impl Segment {
    /// Creates a segment with data only, for tests and tools.
    pub fn from_data(sequence: u64, data: Bytes) -> Segment {
        Segment {
            sequence,
            acknowledgement: 1,
            window: 65_535,
            flags: Flags::ACK,
            timestamps: None,
            sack: None,
            syn: None,
            data,
            connection: 0,
            header_bytes: 40,
            ecn: Ecn::NotEct,
            retransmission: false,
        }
    }

    /// Returns the bytes of the IP packet.
    pub fn wire_bytes(&self) -> u32 {
        self.data.len() as u32 + u32::from(self.header_bytes)
    }

    /// Returns the sequence number after this segment: SYN and FIN count one each.
    pub fn end(&self) -> u64 {
        let control = u64::from(self.flags.has(Flags::SYN)) + u64::from(self.flags.has(Flags::FIN));
        self.sequence + self.data.len() as u64 + control
    }
}
