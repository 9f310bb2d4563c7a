//! Counters of one side of a flow, read at the sampling tick.

use units::Span;

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
    /// What only TCP counts.
    pub tcp: TcpCounters,
}

/// Longest waits of a first segment for the second one of a delayed ACK that are told apart.
pub const PAIR_WAITS: [Span; 6] = [
    Span::from_millis(1),
    Span::from_millis(5),
    Span::from_millis(10),
    Span::from_millis(20),
    Span::from_millis(30),
    Span::from_millis(40),
];

/// What only TCP counts; cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Segments with data that were sent, retransmissions included.
    pub data_segments: u64,
    /// Of these, retransmissions.
    pub retransmitted_segments: u64,
    /// Segments with data that arrived although all their bytes were there: on a path that copies nothing, of two
    /// transmissions one was not needed.
    pub duplicate_segments: u64,
    /// Samples of the round-trip time, and after each the timeout, SRTT and RTTVAR, added up.
    pub rtt_samples: u64,
    /// Timeouts without backoff, ns.
    pub rto_ns: u64,
    /// SRTT, ns.
    pub smoothed_rtt_ns: u64,
    /// RTTVAR, ns.
    pub rtt_variance_ns: u64,
    /// ACKs of two segments that were put off at the first.
    pub ack_pairs: u64,
    /// How long their first segments waited, ns.
    pub pair_wait_ns: u64,
    /// Pairs whose first segment waited no longer than [`PAIR_WAITS`].
    pub pairs_within: [u64; PAIR_WAITS.len()],
}

impl TcpCounters {
    fn change(&mut self, before: &TcpCounters, now: &TcpCounters) {
        let renew = |sum: &mut u64, before: u64, now: u64| *sum = *sum + now - before;
        renew(&mut self.data_segments, before.data_segments, now.data_segments);
        renew(
            &mut self.retransmitted_segments,
            before.retransmitted_segments,
            now.retransmitted_segments,
        );
        renew(&mut self.duplicate_segments, before.duplicate_segments, now.duplicate_segments);
        renew(&mut self.rtt_samples, before.rtt_samples, now.rtt_samples);
        renew(&mut self.rto_ns, before.rto_ns, now.rto_ns);
        renew(&mut self.smoothed_rtt_ns, before.smoothed_rtt_ns, now.smoothed_rtt_ns);
        renew(&mut self.rtt_variance_ns, before.rtt_variance_ns, now.rtt_variance_ns);
        renew(&mut self.ack_pairs, before.ack_pairs, now.ack_pairs);
        renew(&mut self.pair_wait_ns, before.pair_wait_ns, now.pair_wait_ns);
        for (sum, (before, now)) in
            self.pairs_within.iter_mut().zip(before.pairs_within.iter().zip(&now.pairs_within))
        {
            renew(sum, *before, *now);
        }
    }

    /// Another sample of the round-trip time.
    pub(crate) fn on_rtt(&mut self, rto: Span, smoothed: Span, variance: Span) {
        self.rtt_samples += 1;
        self.rto_ns += rto.0;
        self.smoothed_rtt_ns += smoothed.0;
        self.rtt_variance_ns += variance.0;
    }

    /// An ACK of two segments, of which the first waited for the second.
    pub(crate) fn on_pair(&mut self, wait: Span) {
        self.ack_pairs += 1;
        self.pair_wait_ns += wait.0;
        for (count, longest) in self.pairs_within.iter_mut().zip(PAIR_WAITS) {
            *count += u64::from(wait <= longest);
        }
    }
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
        self.tcp.change(&before.tcp, &now.tcp);
    }
}
