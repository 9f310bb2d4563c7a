//! The destination of datagrams: one by one into simulated packets, or in batches to a socket.

use std::net::{IpAddr, SocketAddr};

use units::Ecn;

use super::simulated_address::connection_number;
use crate::Payload;
use crate::datagram::PayloadBuffers;

/// Datagrams that are sent together to one peer.
#[derive(Clone, Copy, Debug)]
pub struct DatagramBatch<'a> {
    /// The peer.
    pub destination: SocketAddr,
    /// The local address to which the peer sends, if known.
    pub src_ip: Option<IpAddr>,
    /// ECN field of the IP header.
    pub ecn: Ecn,
    /// Length of each datagram but the last, which may be shorter; bytes.
    pub segment_size: usize,
    /// The datagrams, one after the other.
    pub data: &'a [u8],
}

/// Takes outgoing datagrams.
pub trait DatagramSink {
    /// Takes a batch.
    fn send_batch(&mut self, batch: DatagramBatch<'_>);
}

/// The sink of simulated packets.
pub(super) struct SimulatedSink<'a> {
    pub(super) out: &'a mut Vec<Payload>,
    pub(super) header_bytes: u16,
    pub(super) payloads: PayloadBuffers,
}

impl<'a> SimulatedSink<'a> {
    /// Creates a sink that turns datagrams into packets in `out`, with `header_bytes` for each.
    #[cfg(test)]
    pub(super) fn new(out: &'a mut Vec<Payload>, header_bytes: u16) -> SimulatedSink<'a> {
        SimulatedSink { out, header_bytes, payloads: PayloadBuffers::default() }
    }
}

impl DatagramSink for SimulatedSink<'_> {
    fn send_batch(&mut self, batch: DatagramBatch<'_>) {
        let DatagramBatch { ecn, destination, .. } = batch;
        for data in batch.data.chunks(batch.segment_size) {
            let datagram =
                self.payloads.pack(data, ecn, connection_number(destination), self.header_bytes);
            self.out.push(Payload::Datagram(datagram));
        }
    }
}
