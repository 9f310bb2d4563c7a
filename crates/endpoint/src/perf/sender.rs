//! What a sender says of itself, of QUIC and of the kernel's TCP alike: the columns of the table `flows`
//! (docs/manual/results.md), with null for what a transport does not tell.

use serde::Serialize;
use transport::{Counters, Gauges};
use units::Span;

/// State and counts of one connection, or of several added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sender {
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Slow-start threshold; none: unset.
    pub ssthresh_bytes: Option<u64>,
    /// Sent, neither acknowledged nor declared lost.
    pub in_flight_bytes: u64,
    /// Smoothed RTT; none before a sample.
    pub smoothed_rtt_ms: Option<f64>,
    /// Latest RTT.
    pub latest_rtt_ms: Option<f64>,
    /// Least RTT.
    pub min_rtt_ms: Option<f64>,
    /// Rate of the pacer; 0: nothing paces.
    pub pacing_rate_bit_s: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent, with all headers.
    pub sent_bytes: u64,
    /// Packets that elicit no ACK.
    pub ack_packets: Option<u64>,
    /// Their bytes.
    pub ack_bytes: Option<u64>,
    /// Packets declared lost; of TCP, segments sent again.
    pub lost_packets: u64,
    /// Bytes declared lost.
    pub lost_bytes: Option<u64>,
    /// Congestion signals given to the controller.
    pub congestion_events: Option<u64>,
    /// Probe timeouts.
    pub ptos: Option<u64>,
    /// Retransmission timeouts of TCP.
    pub timeouts: Option<u64>,
    /// Reductions undone.
    pub undone: Option<u64>,
    /// Stream bytes sent again.
    pub retransmitted_bytes: u64,
    /// Stream bytes taken from the application.
    pub written_bytes: u64,
    /// Stream bytes received.
    pub received_bytes: u64,
    /// The same in order.
    pub received_in_order_bytes: u64,
    /// Bytes acknowledged by the peer.
    pub acked_bytes: Option<u64>,
    /// Latest sample of the rate at which they are.
    pub delivery_rate_bit_s: Option<u64>,
    /// The largest window, bytes.
    #[serde(skip)]
    pub largest_cwnd_bytes: u64,
}

impl Sender {
    /// Of a QUIC connection.
    pub fn quic(gauges: &Gauges, counters: &Counters) -> Sender {
        Sender {
            cwnd_bytes: gauges.cwnd,
            ssthresh_bytes: gauges.ssthresh,
            in_flight_bytes: gauges.in_flight,
            smoothed_rtt_ms: gauges.smoothed_rtt.map(Span::millis),
            latest_rtt_ms: gauges.latest_rtt.map(Span::millis),
            min_rtt_ms: gauges.min_rtt.map(Span::millis),
            pacing_rate_bit_s: gauges.pacing_rate_bit_s,
            sent_packets: counters.sent_packets,
            sent_bytes: counters.sent_bytes,
            ack_packets: Some(counters.ack_packets),
            ack_bytes: Some(counters.ack_bytes),
            lost_packets: counters.lost_packets,
            lost_bytes: Some(counters.lost_bytes),
            congestion_events: Some(counters.congestion_events),
            ptos: Some(counters.ptos),
            timeouts: None,
            undone: Some(counters.undone),
            retransmitted_bytes: counters.retransmitted_bytes,
            written_bytes: counters.written_bytes,
            received_bytes: counters.received_bytes,
            received_in_order_bytes: counters.received_in_order_bytes,
            acked_bytes: None,
            delivery_rate_bit_s: None,
            largest_cwnd_bytes: counters.largest_cwnd_bytes,
        }
    }

    /// With a newer connection: counts are added, the state is the newer one's (as in `flows`).
    pub fn with(&self, newer: &Sender) -> Sender {
        let sum = |ours: Option<u64>, theirs: Option<u64>| Some(ours? + theirs?);
        Sender {
            sent_packets: self.sent_packets + newer.sent_packets,
            sent_bytes: self.sent_bytes + newer.sent_bytes,
            ack_packets: sum(self.ack_packets, newer.ack_packets),
            ack_bytes: sum(self.ack_bytes, newer.ack_bytes),
            lost_packets: self.lost_packets + newer.lost_packets,
            lost_bytes: sum(self.lost_bytes, newer.lost_bytes),
            congestion_events: sum(self.congestion_events, newer.congestion_events),
            ptos: sum(self.ptos, newer.ptos),
            timeouts: sum(self.timeouts, newer.timeouts),
            undone: sum(self.undone, newer.undone),
            retransmitted_bytes: self.retransmitted_bytes + newer.retransmitted_bytes,
            written_bytes: self.written_bytes + newer.written_bytes,
            received_bytes: self.received_bytes + newer.received_bytes,
            received_in_order_bytes: self.received_in_order_bytes + newer.received_in_order_bytes,
            acked_bytes: sum(self.acked_bytes, newer.acked_bytes),
            largest_cwnd_bytes: self.largest_cwnd_bytes.max(newer.largest_cwnd_bytes),
            ..*newer
        }
    }

    /// Several connections, in the order of their age; none: all zero.
    pub fn all<'a>(senders: impl Iterator<Item = &'a Sender>) -> Sender {
        senders.copied().reduce(|sum, newer| sum.with(&newer)).unwrap_or_default()
    }
}
