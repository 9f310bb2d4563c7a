//! Where datagrams go: into the loop's packets one by one, or to a socket in batches.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use units::Ecn;

use super::Datagram;
use super::endpoint::connection;
use crate::Payload;

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

/// Memory that datagrams share, bytes: what one of full size would ask for by itself costs more than all else that is
/// done with it here, as allocators keep only small pieces at hand.
const SHARED: usize = 16 << 10;

/// The loop's packets.
pub(super) struct Packets<'a> {
    pub(super) out: &'a mut Vec<Payload>,
    pub(super) header_bytes: u16,
    /// Where the next datagrams go: a part of what the last ones lie in.
    pub(super) memory: BytesMut,
}

impl<'a> Packets<'a> {
    /// Datagrams become packets in `out`, with `header_bytes` before each.
    #[cfg(test)]
    pub(super) fn new(out: &'a mut Vec<Payload>, header_bytes: u16) -> Packets<'a> {
        Packets { out, header_bytes, memory: BytesMut::new() }
    }
}

impl Outlet for Packets<'_> {
    fn put(&mut self, batch: Batch<'_>) {
        let Batch { ecn, to, .. } = batch;
        for data in batch.data.chunks(batch.segment) {
            if self.memory.capacity() < data.len() {
                self.memory = BytesMut::with_capacity(SHARED.max(data.len()));
            }
            self.memory.extend_from_slice(data);
            let data = self.memory.split();
            let (connection, header_bytes) = (connection(to), self.header_bytes);
            self.out.push(Payload::Datagram(Datagram { data, ecn, connection, header_bytes }));
        }
    }
}
