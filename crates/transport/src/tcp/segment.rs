//! A TCP segment (RFC 9293 section 3.1) as a value. Sequence numbers are 64 bits wide and count from
//! 0 at the SYN, so they never wrap; a trace writes them modulo 2^32 from the initial number.

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
    /// The acknowledgement field counts.
    pub const ACK: Flags = Flags(0x10);
    /// ECN echo (RFC 3168).
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Flags = Flags(0x80);

    /// Whether all of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and `other`.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// SACK blocks of a segment (RFC 2018 section 3), the newest first; a D-SACK block (RFC 2883) comes
/// before all others. At most 4, 3 beside timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u64, u64); 4],
    count: u8,
}

impl SackBlocks {
    /// Adds a block `start..end` at the end; what exceeds 4 is left out.
    pub fn push(&mut self, start: u64, end: u64) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = (start, end);
            self.count += 1;
        }
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.count)]
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// A segment.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Sequence number of the first byte (the SYN's own number is 0).
    pub sequence: u64,
    /// Next byte expected of the peer; counts with [`Flags::ACK`].
    pub acknowledgement: u64,
    /// Bytes the sender of this segment will take from `acknowledgement` on.
    pub window: u64,
    /// Control bits.
    pub flags: Flags,
    /// Timestamp value and echo in milliseconds (RFC 7323); none without the option.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks; boxed because few segments have them.
    pub sack: Option<Box<SackBlocks>>,
    /// What a SYN offers.
    pub syn: Option<Box<SynOptions>>,
    /// Data.
    pub data: Bytes,
    /// Which connection of the flow this belongs to: it stands for the client's address and port.
    pub connection: u32,
    /// IP and TCP header with options, bytes.
    pub header_bytes: u16,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Data that was sent before.
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
    /// A Fast Open cookie is there (RFC 7413).
    pub fast_open: bool,
}

// Segments are moved from hand to hand by the million.
const _: () = assert!(size_of::<Segment>() <= 96);

impl Segment {
    /// A segment of data alone, for tests and tools.
    pub fn of_data(sequence: u64, data: Bytes) -> Segment {
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

    /// Bytes of the IP packet.
    pub fn wire_bytes(&self) -> u32 {
        self.data.len() as u32 + u32::from(self.header_bytes)
    }

    /// Sequence number after this segment: SYN and FIN count one each.
    pub fn end(&self) -> u64 {
        let control = u64::from(self.flags.has(Flags::SYN)) + u64::from(self.flags.has(Flags::FIN));
        self.sequence + self.data.len() as u64 + control
    }
}
