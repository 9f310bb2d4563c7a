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
        self.change(&Counters::default(), other);
    }

    /// A connection of which `before` was added has now counted `now`.
    pub(crate) fn change(&mut self, before: &Counters, now: &Counters) {
        let renew = |sum: &mut u64, before: u64, now: u64| *sum = *sum + now - before;
        renew(&mut self.sent_packets, before.sent_packets, now.sent_packets);
        renew(&mut self.sent_bytes, before.sent_bytes, now.sent_bytes);
        renew(&mut self.ack_packets, before.ack_packets, now.ack_packets);
        renew(&mut self.ack_bytes, before.ack_bytes, now.ack_bytes);
        renew(&mut self.lost_packets, before.lost_packets, now.lost_packets);
        renew(&mut self.lost_bytes, before.lost_bytes, now.lost_bytes);
        renew(&mut self.congestion_events, before.congestion_events, now.congestion_events);
        renew(
            &mut self.persistent_congestion,
            before.persistent_congestion,
            now.persistent_congestion,
        );
        renew(&mut self.ptos, before.ptos, now.ptos);
        renew(&mut self.timeouts, before.timeouts, now.timeouts);
        renew(&mut self.retransmitted_bytes, before.retransmitted_bytes, now.retransmitted_bytes);
        renew(&mut self.undone, before.undone, now.undone);
        renew(&mut self.written_bytes, before.written_bytes, now.written_bytes);
        renew(&mut self.received_bytes, before.received_bytes, now.received_bytes);
        renew(
            &mut self.received_in_order_bytes,
            before.received_in_order_bytes,
            now.received_in_order_bytes,
        );
        self.largest_cwnd_bytes = self.largest_cwnd_bytes.max(now.largest_cwnd_bytes);
    }
}
