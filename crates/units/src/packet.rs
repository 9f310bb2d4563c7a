//! The packet header that stages see. Payloads live with the driver.

use crate::{FlowHash, Time};

/// A node of the graph, by its index in the specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0b00,
    /// ECT(1).
    Ect1 = 0b01,
    /// ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// Whether a queue may mark this packet instead of dropping it.
    pub fn is_capable(self) -> bool {
        self != Ecn::NotEct
    }
}

/// The data of a TCP segment by its sequence numbers (RFC 9293 section 3.4), which run through zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceNumbers {
    /// Of the first byte.
    pub first: u32,
    /// Of the byte after the last; as `first` where there is no data.
    pub next: u32,
}

/// What a stage knows of a packet: a small copyable header. The payload stays in the driver's slab
/// under `handle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The driver's name for the payload.
    pub handle: u32,
    /// Index of the flow the packet belongs to.
    pub flow: u32,
    /// Whose it is: the terminal that a scheduler serves.
    pub user: u32,
    /// Hash of its connection's 5-tuple: what a queue per flow goes by.
    pub tuple: FlowHash,
    /// Sending node.
    pub source: NodeId,
    /// Receiving node.
    pub destination: NodeId,
    /// Its data in the stream of a TCP connection; none of anything else.
    pub sequence: SequenceNumbers,
    /// Bytes on the wire, with all headers that the path counts.
    pub bytes: u32,
    /// ECN field; queues may set it to [`Ecn::Ce`].
    pub ecn: Ecn,
    /// Instant at which the sender gave the packet to its first link.
    pub created_at: Time,
}

impl Packet {
    /// A packet of `bytes` with every other field zero; tests and traffic sources fill
    /// in what they need.
    pub fn of_bytes(bytes: u32) -> Packet {
        Packet {
            handle: 0,
            flow: 0,
            user: 0,
            tuple: FlowHash::default(),
            source: NodeId(0),
            destination: NodeId(0),
            sequence: SequenceNumbers::default(),
            bytes,
            ecn: Ecn::NotEct,
            created_at: Time::ZERO,
        }
    }
}
