//! Where datagrams go: into the loop's packets one by one, or to a socket in batches.

use std::net::{IpAddr, SocketAddr};

use units::Ecn;

use super::endpoint::connection;
use crate::Payload;
use crate::datagram::Payloads;

/// Datagrams that leave together for one peer.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The peer.
    pub to: SocketAddr,
    /// The address of ours it speaks to, where it is known.
    pub from: Option<IpAddr>,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Length of each datagram but the last, which may be shorter; bytes.
    pub segment: usize,
    /// The datagrams, one after the other.
    pub data: &'a [u8],
}

/// Takes datagrams that leave.
pub trait Outlet {
    /// Takes a batch.
    fn put(&mut self, batch: Batch<'_>);
}

/// The loop's packets.
pub(super) struct Packets<'a> {
    pub(super) out: &'a mut Vec<Payload>,
    pub(super) header_bytes: u16,
    pub(super) payloads: Payloads,
}

impl<'a> Packets<'a> {
    /// Datagrams become packets in `out`, with `header_bytes` before each.
    #[cfg(test)]
    pub(super) fn new(out: &'a mut Vec<Payload>, header_bytes: u16) -> Packets<'a> {
        Packets { out, header_bytes, payloads: Payloads::default() }
    }
}

impl Outlet for Packets<'_> {
    fn put(&mut self, batch: Batch<'_>) {
        let Batch { ecn, to, .. } = batch;
        for data in batch.data.chunks(batch.segment) {
            let datagram = self.payloads.pack(data, ecn, connection(to), self.header_bytes);
            self.out.push(Payload::Datagram(datagram));
        }
    }
}
