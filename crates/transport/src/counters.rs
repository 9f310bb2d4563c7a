//! Counters of one side of a flow, read at the sampling tick.

/// Cumulative counts; all of a flow's connections are added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets put on the wire.
    pub sent_packets: u64,
    /// Bytes put on the wire, with all headers.
    pub sent_bytes: u64,
    /// Packets that elicit no ACK.
    pub ack_packets: u64,
    /// Their bytes, with all headers.
    pub ack_bytes: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Bytes declared lost, without IP and UDP headers.
    pub lost_bytes: u64,
    /// Congestion signals given to the controller.
    pub congestion_events: u64,
    /// Persistent congestion declared.
    pub persistent_congestion: u64,
    /// Probe timeouts that sent a probe: QUIC's PTO, TCP's tail loss probe.
    pub ptos: u64,
    /// Retransmission timeouts of TCP.
    pub timeouts: u64,
    /// Stream bytes sent again, without headers; of QUIC, all of the packets declared lost.
    pub retransmitted_bytes: u64,
    /// Reductions of the window undone because they were spurious.
    pub undone: u64,
    /// Stream bytes taken from the application.
    pub written_bytes: u64,
    /// Stream bytes received, in any order, each once.
    pub received_bytes: u64,
    /// Stream bytes received in order.
    pub received_in_order_bytes: u64,
    /// Largest congestion window.
    pub largest_cwnd_bytes: u64,
}

impl Counters {
    /// Adds another connection's counts.
    pub fn add(&mut self, other: &Counters) {
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.ack_packets += other.ack_packets;
        self.ack_bytes += other.ack_bytes;
        self.lost_packets += other.lost_packets;
        self.lost_bytes += other.lost_bytes;
        self.congestion_events += other.congestion_events;
        self.persistent_congestion += other.persistent_congestion;
        self.ptos += other.ptos;
        self.timeouts += other.timeouts;
        self.retransmitted_bytes += other.retransmitted_bytes;
        self.undone += other.undone;
        self.written_bytes += other.written_bytes;
        self.received_bytes += other.received_bytes;
        self.received_in_order_bytes += other.received_in_order_bytes;
        self.largest_cwnd_bytes = self.largest_cwnd_bytes.max(other.largest_cwnd_bytes);
    }
}
