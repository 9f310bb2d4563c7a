//! The messages of TCPCLv4 and QUICCL. They are the same (draft-caini-dtn-quiccl-01 follows RFC 9174), with a few more
//! fields in QUICCL.

use crate::{DeliveryMode, RefusalReason};

/// The wire format of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireFormat {
    /// RFC 9174.
    Tcpcl,
    /// draft-caini-dtn-quiccl-01.
    Quiccl,
}

/// A message; the data of a segment follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// SESS_INIT (RFC 9174 section 4.6).
    SessInit(SessInit),
    /// XFER_SEGMENT without its data (section 5.2.2).
    XferSegment(XferSegment),
    /// XFER_ACK (section 5.2.3).
    XferAck(XferAck),
    /// XFER_REFUSE (section 5.2.4).
    XferRefuse {
        /// The reason code: [`refusal`].
        reason: u8,
        /// The transfer ID.
        transfer: u64,
    },
    /// KEEPALIVE (section 5.1.1).
    Keepalive,
    /// SESS_TERM (section 6.1).
    SessTerm {
        /// The reply flag.
        is_reply: bool,
        /// The reason code: [`term`].
        reason: u8,
    },
    /// MSG_REJECT (section 5.1.2).
    MsgReject {
        /// The reason code: [`reject`].
        reason: u8,
        /// The type of the rejected message.
        kind: u8,
    },
}

/// The session parameters of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessInit {
    /// The keepalive interval in seconds; 0 disables keepalives.
    pub keepalive_s: u16,
    /// The maximum data length of a received segment.
    pub segment_mru: u64,
    /// The maximum length of a received datagram, in QUICCL only.
    pub datagram_mru: u64,
    /// The maximum length of a received bundle.
    pub transfer_mru: u64,
    /// The node ID.
    pub node_id: String,
    /// The error in the extension list, if any.
    pub extension_error: Option<ExtensionError>,
}

/// An error in an extension list (sections 4.8 and 5.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionError {
    /// An unknown critical extension.
    UnknownCritical,
    /// An item exceeds the list, or a length occurs twice.
    Malformed,
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XferSegment {
    /// All flag bits; the acknowledgement repeats them.
    pub flags: u8,
    /// The transfer ID.
    pub transfer: u64,
    /// The segment index and the number of segments, in QUICCL only.
    pub position: (u16, u16),
    /// The length of the segment data.
    pub bytes: u64,
    /// The bundle length: always present in QUICCL, an extension of the first segment in TCPCLv4 (section 5.2.5.1).
    pub total: Option<u64>,
    /// The delivery mode of QUICCL; TCPCLv4 is always reliable.
    pub mode: DeliveryMode,
    /// The error in the extension list, if any.
    pub extension_error: Option<ExtensionError>,
}

impl XferSegment {
    /// The last segment of its transfer (section 5.2.2, table 5).
    pub const END: u8 = 1;
    /// The first segment.
    pub const START: u8 = 2;

    /// Returns whether the segment is the first of its transfer.
    pub fn is_start(&self) -> bool {
        self.flags & XferSegment::START != 0
    }

    /// Returns whether the segment is the last of its transfer.
    pub fn is_end(&self) -> bool {
        self.flags & XferSegment::END != 0
    }
}

/// The acknowledgement of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XferAck {
    /// The flags of the segment.
    pub flags: u8,
    /// The transfer ID.
    pub transfer: u64,
    /// The segment index, in QUICCL only.
    pub segment_index: u16,
    /// The acknowledged bytes of the transfer.
    pub bytes: u64,
}

impl XferAck {
    /// Returns whether the acknowledgement is for the last segment.
    pub fn is_end(&self) -> bool {
        self.flags & XferSegment::END != 0
    }
}

/// Reason codes of XFER_REFUSE (RFC 9174 section 5.2.4, table 6).
pub mod refusal {
    use super::RefusalReason;

    /// A failure with the transfer extensions.
    pub const EXTENSION: u8 = 5;

    /// Returns the reason code.
    pub fn to_code(refusal: RefusalReason) -> u8 {
        match refusal {
            RefusalReason::Unknown => 0,
            RefusalReason::Completed => 1,
            RefusalReason::NoResources => 2,
            RefusalReason::Retransmit => 3,
            RefusalReason::NotAcceptable
            | RefusalReason::TooLarge
            | RefusalReason::UnsupportedMode => 4,
            RefusalReason::Terminating => 6,
        }
    }

    /// Returns the reason of a code. An unknown code counts as "Unknown" (section 5.2.4).
    pub fn from_code(code: u8) -> RefusalReason {
        match code {
            1 => RefusalReason::Completed,
            2 => RefusalReason::NoResources,
            3 => RefusalReason::Retransmit,
            4 | EXTENSION => RefusalReason::NotAcceptable,
            6 => RefusalReason::Terminating,
            _ => RefusalReason::Unknown,
        }
    }
}

/// Reason codes of SESS_TERM (RFC 9174 section 6.1, table 9).
pub mod term {
    /// No reason: regular termination.
    pub const UNKNOWN: u8 = 0;
    /// No message arrived before the timeout.
    pub const IDLE: u8 = 1;
    /// The protocol version is not supported.
    pub const VERSION: u8 = 2;
    /// The session parameters of the peer are invalid or not acceptable.
    pub const CONTACT: u8 = 4;
    /// A resource limit is exceeded.
    pub const RESOURCES: u8 = 5;

    /// Returns the name of a reason in the section.
    pub fn name(reason: u8) -> &'static str {
        match reason {
            UNKNOWN => "Unknown",
            IDLE => "Idle timeout",
            VERSION => "Version mismatch",
            3 => "Busy",
            CONTACT => "Contact Failure",
            RESOURCES => "Resource Exhaustion",
            240..=255 => "Private use",
            _ => "Unassigned",
        }
    }
}

/// Reason codes of MSG_REJECT (RFC 9174 section 5.1.2, table 4).
pub mod reject {
    /// The message type is unknown.
    pub const UNKNOWN: u8 = 1;
    /// The session does not support the message type.
    pub const UNSUPPORTED: u8 = 2;
    /// The message is not expected in this state.
    pub const UNEXPECTED: u8 = 3;
}
