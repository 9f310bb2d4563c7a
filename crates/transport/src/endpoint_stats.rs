//! Gauges and counters of one side of a flow, read at each sample time, and the statistics of an endpoint beyond its
//! live connections.

use units::{Span, Time};

use crate::media::MediaReport;
use crate::perf_load::StreamReport;
use crate::{FlowEvent, FlowEventKind};

/// State of a sender at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderGauges {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Slow-start threshold, bytes.
    pub ssthresh: Option<u64>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Smoothed RTT; `None` before the first sample.
    pub smoothed_rtt: Option<Span>,
    /// Latest RTT.
    pub latest_rtt: Option<Span>,
    /// Minimum RTT.
    pub min_rtt: Option<Span>,
    /// Pacing rate, bit/s; 0 without pacing.
    pub pacing_rate_bit_s: u64,
}

/// Cumulative counts, summed over all connections of a flow. `None`: the transport does not report the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCounters {
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent, with all headers.
    pub sent_bytes: u64,
    /// Packets sent that elicit no ACK.
    pub ack_packets: u64,
    /// Bytes of those packets, with all headers.
    pub ack_bytes: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Bytes declared lost, without IP and UDP headers.
    pub lost_bytes: u64,
    /// Congestion signals passed to the controller.
    pub congestion_events: Option<u64>,
    /// Declarations of persistent congestion.
    pub persistent_congestion: Option<u64>,
    /// Probe timeouts that sent a probe: QUIC's PTO, TCP's tail loss probe.
    pub ptos: Option<u64>,
    /// Retransmission timeouts of TCP.
    pub rtos: u64,
    /// Retransmitted stream bytes, without headers; for QUIC, all stream bytes of packets declared lost.
    pub retransmitted_bytes: Option<u64>,
    /// Reductions of the window undone because they were spurious.
    pub cwnd_undos: Option<u64>,
    /// Stream bytes accepted from the application.
    pub written_bytes: u64,
    /// Stream bytes received in any order, each counted once.
    pub received_bytes: u64,
    /// Stream bytes received in order.
    pub received_in_order_bytes: u64,
    /// Largest congestion window.
    pub cwnd_max_bytes: u64,
    /// Counters of TCP only.
    pub tcp: TcpCounters,
}

impl Default for FlowCounters {
    /// Returns known counts, all 0.
    fn default() -> FlowCounters {
        FlowCounters {
            sent_packets: 0,
            sent_bytes: 0,
            ack_packets: 0,
            ack_bytes: 0,
            lost_packets: 0,
            lost_bytes: 0,
            congestion_events: Some(0),
            persistent_congestion: Some(0),
            ptos: Some(0),
            rtos: 0,
            retransmitted_bytes: Some(0),
            cwnd_undos: Some(0),
            written_bytes: 0,
            received_bytes: 0,
            received_in_order_bytes: 0,
            cwnd_max_bytes: 0,
            tcp: TcpCounters::default(),
        }
    }
}

/// Adds `more` to a count, if it is known.
pub(crate) fn add_count(count: &mut Option<u64>, more: u64) {
    *count = count.map(|count| count + more);
}

/// Upper bounds of the wait of a first segment for the second one of a delayed ACK.
pub const ACK_PAIR_WAIT_BOUNDS: [Span; 6] = [
    Span::from_millis(1),
    Span::from_millis(5),
    Span::from_millis(10),
    Span::from_millis(20),
    Span::from_millis(30),
    Span::from_millis(40),
];

/// Cumulative counters of TCP only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Segments sent with data, retransmissions included.
    pub data_segments: u64,
    /// Retransmissions among them.
    pub retransmitted_segments: u64,
    /// Received data segments that bring no new byte. On a path that duplicates no packets, one of two transmissions
    /// was unnecessary.
    pub duplicate_segments: u64,
    /// RTT samples. The next three fields sum the values after each sample.
    pub rtt_samples: u64,
    /// Retransmission timeouts without backoff, ns.
    pub rto_ns: u64,
    /// SRTT, ns.
    pub smoothed_rtt_ns: u64,
    /// RTTVAR, ns.
    pub rtt_variance_ns: u64,
    /// ACKs for two segments that were delayed at the first segment.
    pub ack_pairs: u64,
    /// Waits of their first segments, ns.
    pub ack_pair_wait_ns: u64,
    /// Pairs with a wait of the first segment within each of [`ACK_PAIR_WAIT_BOUNDS`].
    pub ack_pairs_within: [u64; ACK_PAIR_WAIT_BOUNDS.len()],
}

impl TcpCounters {
    fn apply_delta(&mut self, before: &TcpCounters, now: &TcpCounters) {
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
        renew(&mut self.ack_pair_wait_ns, before.ack_pair_wait_ns, now.ack_pair_wait_ns);
        for (sum, (before, now)) in self
            .ack_pairs_within
            .iter_mut()
            .zip(before.ack_pairs_within.iter().zip(&now.ack_pairs_within))
        {
            renew(sum, *before, *now);
        }
    }

    /// Counts a sample of the round-trip time.
    pub(crate) fn on_rtt_sample(&mut self, rto: Span, smoothed: Span, variance: Span) {
        self.rtt_samples += 1;
        self.rto_ns += rto.0;
        self.smoothed_rtt_ns += smoothed.0;
        self.rtt_variance_ns += variance.0;
    }

    /// Counts an ACK for two segments, with the wait of the first for the second.
    pub(crate) fn on_ack_pair(&mut self, wait: Span) {
        self.ack_pairs += 1;
        self.ack_pair_wait_ns += wait.0;
        for (count, longest) in self.ack_pairs_within.iter_mut().zip(ACK_PAIR_WAIT_BOUNDS) {
            *count += u64::from(wait <= longest);
        }
    }
}

impl FlowCounters {
    /// Adds the counts of another connection.
    pub fn add(&mut self, other: &FlowCounters) {
        self.apply_delta(&FlowCounters::default(), other);
    }

    /// Replaces the counts `before` of a connection in the sum by `now`.
    pub(crate) fn apply_delta(&mut self, before: &FlowCounters, now: &FlowCounters) {
        let renew = |sum: &mut u64, before: u64, now: u64| *sum = *sum + now - before;
        renew(&mut self.sent_packets, before.sent_packets, now.sent_packets);
        renew(&mut self.sent_bytes, before.sent_bytes, now.sent_bytes);
        renew(&mut self.ack_packets, before.ack_packets, now.ack_packets);
        renew(&mut self.ack_bytes, before.ack_bytes, now.ack_bytes);
        renew(&mut self.lost_packets, before.lost_packets, now.lost_packets);
        renew(&mut self.lost_bytes, before.lost_bytes, now.lost_bytes);
        renew(&mut self.rtos, before.rtos, now.rtos);
        renew(&mut self.written_bytes, before.written_bytes, now.written_bytes);
        renew(&mut self.received_bytes, before.received_bytes, now.received_bytes);
        renew(
            &mut self.received_in_order_bytes,
            before.received_in_order_bytes,
            now.received_in_order_bytes,
        );
        for (sum, before, now) in [
            (&mut self.congestion_events, before.congestion_events, now.congestion_events),
            (
                &mut self.persistent_congestion,
                before.persistent_congestion,
                now.persistent_congestion,
            ),
            (&mut self.ptos, before.ptos, now.ptos),
            (&mut self.retransmitted_bytes, before.retransmitted_bytes, now.retransmitted_bytes),
            (&mut self.cwnd_undos, before.cwnd_undos, now.cwnd_undos),
        ] {
            // A sum with an unknown part is unknown.
            *sum = sum.zip(before).zip(now).map(|((sum, before), now)| sum + now - before);
        }
        self.cwnd_max_bytes = self.cwnd_max_bytes.max(now.cwnd_max_bytes);
        self.tcp.apply_delta(&before.tcp, &now.tcp);
    }
}

/// Statistics of opened and ended connections.
#[derive(Debug, Default)]
pub(crate) struct EndpointStats {
    /// Connections opened or accepted.
    pub opened: u32,
    /// Connections closed by agreement.
    pub completed: u32,
    /// Time of the first completed handshake.
    pub connected_at: Option<Time>,
    /// Time at which the last connection to end was closed or lost.
    pub ended_at: Option<Time>,
    /// Counters of ended connections.
    pub counters: FlowCounters,
    /// State of the last connection's sender when it ended.
    pub gauges: SenderGauges,
    /// Events that were not taken yet.
    pub events: Vec<FlowEvent>,
    /// Media statistics of the last call to end.
    pub media_report: Option<Box<MediaReport>>,
    /// Streams of ended connections, by connection.
    closed_streams: Vec<(u32, Vec<StreamReport>)>,
}

impl EndpointStats {
    /// Adds a connection that has ended.
    pub fn on_connection_closed(
        &mut self,
        index: u32,
        counters: &FlowCounters,
        gauges: SenderGauges,
        streams: &[StreamReport],
    ) {
        self.add_closed(index, counters, streams);
        self.set_last_gauges(gauges);
    }

    /// Sets the sender state of the last connection to end.
    pub fn set_last_gauges(&mut self, gauges: SenderGauges) {
        self.gauges = SenderGauges { in_flight: 0, ..gauges };
    }

    /// Adds the counters and streams of a connection that has ended.
    pub fn add_closed(&mut self, index: u32, counters: &FlowCounters, streams: &[StreamReport]) {
        self.counters.add(counters);
        if !streams.is_empty() {
            self.closed_streams.push((index, streams.to_vec()));
        }
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<FlowEvent> {
        self.count_events();
        std::mem::take(&mut self.events)
    }

    /// Discards events that no caller will take.
    pub fn discard_events(&mut self) {
        self.count_events();
        self.events.clear();
    }

    fn count_events(&mut self) {
        for event in &self.events {
            match event.kind {
                FlowEventKind::Connected => {
                    self.connected_at.get_or_insert(event.time);
                }
                FlowEventKind::Closed | FlowEventKind::Lost => {
                    self.ended_at = Some(event.time);
                    self.completed += u32::from(event.kind == FlowEventKind::Closed);
                }
                _ => {}
            }
        }
    }

    /// Returns the streams of ended and of `live` connections, in order of (connection, stream).
    pub fn stream_reports<'a>(
        &'a self,
        live: impl Iterator<Item = (u32, &'a [StreamReport])>,
    ) -> Vec<(u32, StreamReport)> {
        let ended = self.closed_streams.iter().map(|(index, streams)| (*index, streams.as_slice()));
        let mut all: Vec<_> = ended
            .chain(live)
            .flat_map(|(index, streams)| streams.iter().map(move |stream| (index, stream.clone())))
            .collect();
        all.sort_by_key(|(index, stream)| (*index, stream.id));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_with_an_unknown_part_is_unknown() {
        let known = FlowCounters { ptos: Some(2), sent_packets: 5, ..FlowCounters::default() };
        let unknown = FlowCounters { ptos: None, ..known };
        let mut sum = FlowCounters::default();
        sum.add(&known);
        sum.add(&known);
        assert_eq!((sum.ptos, sum.sent_packets), (Some(4), 10));
        sum.apply_delta(&known, &unknown);
        assert_eq!((sum.ptos, sum.congestion_events, sum.sent_packets), (None, Some(0), 10));
        add_count(&mut sum.ptos, 1);
        assert_eq!(sum.ptos, None);
    }
}
