//! What the two sides of TCPCLv4 and of QUICCL tell each other: the same messages (draft-caini-dtn-quiccl-01 follows RFC
//! 9174), with a few more fields in QUICCL.

use crate::{Refusal, Service};

/// Whose bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// RFC 9174.
    Tcpcl,
    /// draft-caini-dtn-quiccl-01.
    Quiccl,
}

/// A message; the data of a segment follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// SESS_INIT (RFC 9174 section 4.6).
    Init(Init),
    /// XFER_SEGMENT without its data (section 5.2.2).
    Segment(Segment),
    /// XFER_ACK (section 5.2.3).
    Ack(Ack),
    /// XFER_REFUSE (section 5.2.4).
    Refuse {
        /// Why: [`refusal`].
        reason: u8,
        /// Which transfer.
        transfer: u64,
    },
    /// KEEPALIVE (section 5.1.1).
    Keepalive,
    /// SESS_TERM (section 6.1).
    Term {
        /// It answers another one.
        reply: bool,
        /// Why: [`term`].
        reason: u8,
    },
    /// MSG_REJECT (section 5.1.2).
    Reject {
        /// Why: [`reject`].
        reason: u8,
        /// Type of the message that is rejected.
        kind: u8,
    },
}

/// What a side says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// Seconds after which it says something at the latest; 0: it need not.
    pub keepalive_s: u16,
    /// Longest data of a segment that it takes.
    pub segment_mru: u64,
    /// Longest datagram that it takes: QUICCL's.
    pub datagram_mru: u64,
    /// Longest bundle that it takes.
    pub transfer_mru: u64,
    /// Its node id.
    pub node: String,
    /// What is wrong with its extensions.
    pub problem: Option<Problem>,
}

/// What is wrong with a list of extensions (section 4.8 and 5.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// One that must be understood, and is not.
    Critical,
    /// An item ends behind the list, or a length is said twice.
    Malformed,
}

/// A part of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// All bits of its flags: the answer has the same.
    pub flags: u8,
    /// Which transfer.
    pub transfer: u64,
    /// Its number in the transfer, and of how many: QUICCL's.
    pub place: (u16, u16),
    /// Bytes of data that follow.
    pub bytes: u64,
    /// Bytes of the bundle: QUICCL says them always, TCPCLv4 by an extension of the first segment (section 5.2.5.1).
    pub total: Option<u64>,
    /// QUICCL's service; TCPCLv4 has the reliable one.
    pub service: Service,
    /// What is wrong with its extensions.
    pub problem: Option<Problem>,
}

impl Segment {
    /// The last one of its transfer (section 5.2.2, table 5).
    pub const END: u8 = 1;
    /// The first one.
    pub const START: u8 = 2;

    /// Whether it is the first of its transfer.
    pub fn starts(&self) -> bool {
        self.flags & Segment::START != 0
    }

    /// Whether it is the last of its transfer.
    pub fn ends(&self) -> bool {
        self.flags & Segment::END != 0
    }
}

/// What has been taken of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Those of the segment.
    pub flags: u8,
    /// Which transfer.
    pub transfer: u64,
    /// Number of the segment: QUICCL's.
    pub place: u16,
    /// Bytes of the transfer so far.
    pub bytes: u64,
}

impl Ack {
    /// Whether it is of the last segment.
    pub fn ends(&self) -> bool {
        self.flags & Segment::END != 0
    }
}

/// Reasons of XFER_REFUSE (RFC 9174 section 5.2.4, table 6).
pub mod refusal {
    use super::Refusal;

    /// A failure with the transfer's extensions.
    pub const EXTENSION: u8 = 5;

    /// As a reason on the wire.
    pub fn code(refusal: Refusal) -> u8 {
        match refusal {
            Refusal::Unknown => 0,
            Refusal::Completed => 1,
            Refusal::NoResources => 2,
            Refusal::Retransmit => 3,
            Refusal::NotAcceptable | Refusal::TooLarge | Refusal::NoService => 4,
            Refusal::Terminating => 6,
        }
    }

    /// Of a reason on the wire; one that is not known counts as none (section 5.2.4).
    pub fn of(code: u8) -> Refusal {
        match code {
            1 => Refusal::Completed,
            2 => Refusal::NoResources,
            3 => Refusal::Retransmit,
            4 | EXTENSION => Refusal::NotAcceptable,
            6 => Refusal::Terminating,
            _ => Refusal::Unknown,
        }
    }
}

/// Reasons of SESS_TERM (RFC 9174 section 6.1, table 9).
pub mod term {
    /// None is given: the session is over as it should be.
    pub const UNKNOWN: u8 = 0;
    /// Nothing was heard.
    pub const IDLE: u8 = 1;
    /// Another version of the protocol.
    pub const VERSION: u8 = 2;
    /// What the peer says of itself is not understood, or cannot be agreed with.
    pub const CONTACT: u8 = 4;
    /// More than there is room for.
    pub const RESOURCES: u8 = 5;

    /// What the section calls a reason.
    pub fn name(reason: u8) -> &'static str {
        match reason {
            UNKNOWN => "Unknown",
            IDLE => "Idle timeout",
            VERSION => "Version mismatch",
            3 => "Busy",
            CONTACT => "Contact Failure",
            RESOURCES => "Resource Exhaustion",
            240..=255 => "a private one",
            _ => "an unassigned one",
        }
    }
}

/// Reasons of MSG_REJECT (RFC 9174 section 5.1.2, table 4).
pub mod reject {
    /// No such type.
    pub const UNKNOWN: u8 = 1;
    /// A type that the session does not use.
    pub const UNSUPPORTED: u8 = 2;
    /// Not now.
    pub const UNEXPECTED: u8 = 3;
}
