//! One sent segment of the scoreboard, with its state.

use units::Time;

pub(super) const SACKED: u8 = 1;
pub(super) const LOST: u8 = 2;
pub(super) const RETRANSMITTED: u8 = 4;
pub(super) const FIN: u8 = 8;
/// The segment was declared lost, and may have been retransmitted since.
pub(super) const EVER_LOST: u8 = 16;

/// One segment that was sent.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct SentSegment {
    /// First sequence number.
    pub start: u64,
    /// Sequence numbers: data bytes, and 1 for FIN.
    pub length: u32,
    pub(super) flags: u8,
    /// Time of the last transmission.
    pub sent: Time,
}

impl SentSegment {
    /// Returns the sequence number after the segment.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.length)
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns whether it was sent more than once.
    pub fn is_retransmitted(&self) -> bool {
        self.has(RETRANSMITTED)
    }

    /// Returns whether it carries FIN.
    pub fn is_fin(&self) -> bool {
        self.has(FIN)
    }

    /// Returns whether it is selectively acknowledged.
    pub fn is_sacked(&self) -> bool {
        self.has(SACKED)
    }

    /// Returns whether it is declared lost and was not retransmitted.
    pub fn is_lost(&self) -> bool {
        self.has(LOST)
    }
}
