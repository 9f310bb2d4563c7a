//! Messages as bytes.

use super::{Ack, Dialect, Init, Message, Segment};
use crate::Service;

/// Types of messages: RFC 9174 section 4.5, table 2, and draft-caini-dtn-quiccl-01, table 2.
pub(super) const KINDS: [(Kind, u8, u8); 7] = [
    (Kind::Init, 7, 1),
    (Kind::Segment, 1, 2),
    (Kind::Ack, 2, 3),
    (Kind::Refuse, 3, 4),
    (Kind::Keepalive, 4, 5),
    (Kind::Term, 5, 6),
    (Kind::Reject, 6, 7),
];

/// A message without what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Init,
    Segment,
    Ack,
    Refuse,
    Keepalive,
    Term,
    Reject,
}

/// Transfer Length among the extensions of a transfer (RFC 9174 section 5.2.5.1).
pub(super) const TRANSFER_LENGTH: u16 = 1;

/// An item of it: flags, type, length, and 8 octets.
const TRANSFER_LENGTH_BYTES: u32 = 13;

pub(super) fn service(service: Service) -> u8 {
    match service {
        Service::Reliable => 0,
        Service::Notified => 1,
        Service::Unreliable => 2,
    }
}

impl Message {
    pub(super) fn what(&self) -> Kind {
        match self {
            Message::Init(_) => Kind::Init,
            Message::Segment(_) => Kind::Segment,
            Message::Ack(_) => Kind::Ack,
            Message::Refuse { .. } => Kind::Refuse,
            Message::Keepalive => Kind::Keepalive,
            Message::Term { .. } => Kind::Term,
            Message::Reject { .. } => Kind::Reject,
        }
    }

    /// Its type on the wire.
    pub fn kind(&self, dialect: Dialect) -> u8 {
        let what = self.what();
        KINDS.iter().find(|(kind, ..)| *kind == what).map_or(
            0,
            |(_, tcpcl, quiccl)| match dialect {
                Dialect::Tcpcl => *tcpcl,
                Dialect::Quiccl => *quiccl,
            },
        )
    }
}

/// Appends a message.
pub fn encode(dialect: Dialect, message: &Message, out: &mut Vec<u8>) {
    out.push(message.kind(dialect));
    match message {
        Message::Init(said) => init(dialect, said, out),
        Message::Segment(said) => segment(dialect, said, out),
        Message::Ack(said) => ack(dialect, said, out),
        Message::Refuse { reason, transfer } => {
            out.push(*reason);
            out.extend(transfer.to_be_bytes());
        }
        Message::Keepalive => {}
        Message::Term { reply, reason } => out.extend([u8::from(*reply), *reason]),
        Message::Reject { reason, kind } => out.extend([*reason, *kind]),
    }
}

fn init(dialect: Dialect, said: &Init, out: &mut Vec<u8>) {
    out.extend(said.keepalive_s.to_be_bytes());
    out.extend(said.segment_mru.to_be_bytes());
    if dialect == Dialect::Quiccl {
        out.extend(said.datagram_mru.to_be_bytes());
    }
    out.extend(said.transfer_mru.to_be_bytes());
    out.extend((said.node.len() as u16).to_be_bytes());
    out.extend(said.node.as_bytes());
    out.extend(0u32.to_be_bytes());
}

fn segment(dialect: Dialect, said: &Segment, out: &mut Vec<u8>) {
    out.push(said.flags);
    if dialect == Dialect::Quiccl {
        out.extend(said.place.0.to_be_bytes());
        out.extend(said.place.1.to_be_bytes());
    }
    out.extend(said.transfer.to_be_bytes());
    if said.starts() {
        match said.total {
            // A transfer of one segment says its length anyhow (RFC 9174 section 5.2.5.1).
            Some(total) if dialect == Dialect::Tcpcl && !said.ends() => {
                out.extend(TRANSFER_LENGTH_BYTES.to_be_bytes());
                // Critical: no.
                out.push(0);
                out.extend(TRANSFER_LENGTH.to_be_bytes());
                out.extend(8u16.to_be_bytes());
                out.extend(total.to_be_bytes());
            }
            _ => out.extend(0u32.to_be_bytes()),
        }
    }
    out.extend(said.bytes.to_be_bytes());
    if dialect == Dialect::Quiccl {
        out.extend(said.total.unwrap_or_default().to_be_bytes());
        out.push(service(said.service));
    }
}

fn ack(dialect: Dialect, said: &Ack, out: &mut Vec<u8>) {
    out.push(said.flags);
    if dialect == Dialect::Quiccl {
        out.extend(said.place.to_be_bytes());
    }
    out.extend(said.transfer.to_be_bytes());
    out.extend(said.bytes.to_be_bytes());
}
