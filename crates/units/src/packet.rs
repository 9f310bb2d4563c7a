//! The packet header that stages see. The driver holds the payloads.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FlowHash, Time};

/// A direction of a path, of a link or of data.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Client to server.
    Up,
    /// Server to client.
    Down,
}

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
    /// Sequence number of the first byte.
    pub first: u32,
    /// Sequence number after the last byte; equal to `first` without data.
    pub next: u32,
}

/// The packet header that stages see: small and copyable. The payload stays in the driver's slab under `handle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Key of the payload in the driver's slab.
    pub handle: u32,
    /// Index of the flow the packet belongs to.
    pub flow: u32,
    /// Index of the user: the terminal that a scheduler serves.
    pub user: u32,
    /// Hash of the connection's 5-tuple. Flow queues use it.
    pub tuple: FlowHash,
    /// Sending node.
    pub source: NodeId,
    /// Receiving node.
    pub destination: NodeId,
    /// Sequence numbers of its data in a TCP stream; empty for other protocols.
    pub sequence: SequenceNumbers,
    /// Bytes on the link, including all headers that the path counts.
    pub bytes: u32,
    /// ECN field; queues may set it to [`Ecn::Ce`].
    pub ecn: Ecn,
    /// Instant at which the sender gave the packet to its first link.
    pub created_at: Time,
}

impl Packet {
    /// Creates a packet of `bytes` with every other field zero, for tests and traffic sources.
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
