//! Sender statistics of QUIC and kernel TCP: the columns of the table `flows` (docs/reference/results.md). A value that a
//! transport does not provide is null.

use serde::Serialize;
use transport::{FlowCounters, SenderGauges};
use units::Span;

use crate::tcp::TcpInfo;

/// Bytes of a TCP header without options (RFC 9293 section 3.1).
const TCP_HEADER_BYTES: u64 = 20;
/// Bytes of the timestamps option in each segment (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: u64 = 12;

/// State and counters of one connection, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SenderReport {
    /// Congestion window in bytes, `None` for a side that only receives.
    pub cwnd_bytes: Option<u64>,
    /// Slow-start threshold in bytes, `None` while unset.
    pub ssthresh_bytes: Option<u64>,
    /// Bytes sent, neither acknowledged nor declared lost.
    pub in_flight_bytes: u64,
    /// Smoothed RTT in ms, `None` before the first sample.
    pub smoothed_rtt_ms: Option<f64>,
    /// Latest RTT in ms.
    pub latest_rtt_ms: Option<f64>,
    /// Minimum RTT in ms.
    pub min_rtt_ms: Option<f64>,
    /// Pacing rate in bit/s, 0 without a pacer.
    pub pacing_rate_bit_s: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent, including all headers.
    pub sent_bytes: u64,
    /// Packets that elicit no ACK.
    pub ack_packets: Option<u64>,
    /// Bytes of these packets.
    pub ack_bytes: Option<u64>,
    /// Packets declared lost; for TCP, retransmitted segments.
    pub lost_packets: u64,
    /// Bytes declared lost.
    pub lost_bytes: Option<u64>,
    /// Congestion signals to the controller.
    pub congestion_events: Option<u64>,
    /// Probe timeouts.
    pub ptos: Option<u64>,
    /// Retransmission timeouts of TCP.
    pub rtos: Option<u64>,
    /// Window reductions that were undone.
    pub cwnd_undos: Option<u64>,
    /// Retransmitted stream bytes.
    pub retransmitted_bytes: Option<u64>,
    /// Stream bytes accepted from the application.
    pub written_bytes: u64,
    /// Stream bytes received.
    pub received_bytes: u64,
    /// Stream bytes received in order.
    pub received_in_order_bytes: u64,
    /// Bytes acknowledged by the peer.
    pub acked_bytes: Option<u64>,
    /// Latest delivery rate sample in bit/s.
    pub delivery_rate_bit_s: Option<u64>,
    /// Largest congestion window in bytes.
    #[serde(skip)]
    pub cwnd_max_bytes: Option<u64>,
}

impl SenderReport {
    /// Creates the report of a QUIC connection.
    pub fn from_quic(gauges: &SenderGauges, counters: &FlowCounters) -> SenderReport {
        SenderReport {
            cwnd_bytes: Some(gauges.cwnd),
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
            congestion_events: counters.congestion_events,
            ptos: counters.ptos,
            rtos: None,
            cwnd_undos: counters.cwnd_undos,
            retransmitted_bytes: counters.retransmitted_bytes,
            written_bytes: counters.written_bytes,
            received_bytes: counters.received_bytes,
            received_in_order_bytes: counters.received_in_order_bytes,
            acked_bytes: None,
            delivery_rate_bit_s: None,
            cwnd_max_bytes: Some(counters.cwnd_max_bytes),
        }
    }

    /// Creates the report of a kernel TCP connection. `ip`: bytes of an IP header; the others: stream bytes.
    pub fn from_tcp_info(info: &TcpInfo, ip: u64, written: u64, received: u64) -> SenderReport {
        let mss = u64::from(info.snd_mss);
        let sampled =
            |micros: u32| (micros > 0 && micros < u32::MAX).then(|| f64::from(micros) / 1000.0);
        let [unacked, sacked, lost, retransmitted] =
            [info.unacked, info.sacked, info.lost, info.retrans].map(u64::from);
        let header =
            ip + TCP_HEADER_BYTES + if info.has_timestamps() { TIMESTAMPS_BYTES } else { 0 };
        let segments = u64::from(info.segs_out);
        let acks = segments.saturating_sub(info.data_segs_out.into());
        // Converts bytes/s to bit/s; all ones means no limit.
        let rate = |bytes: u64| if bytes == u64::MAX { 0 } else { bytes.saturating_mul(8) };
        SenderReport {
            cwnd_bytes: Some(info.cwnd_bytes()),
            ssthresh_bytes: info.ssthresh().map(|segments| u64::from(segments) * mss),
            in_flight_bytes: (unacked + retransmitted).saturating_sub(sacked + lost) * mss,
            smoothed_rtt_ms: sampled(info.rtt),
            latest_rtt_ms: None,
            min_rtt_ms: sampled(info.min_rtt),
            pacing_rate_bit_s: rate(info.pacing_rate),
            sent_packets: segments,
            sent_bytes: info.bytes_sent + segments * header,
            ack_packets: Some(acks),
            ack_bytes: Some(acks * header),
            lost_packets: info.total_retrans.into(),
            lost_bytes: None,
            congestion_events: None,
            ptos: None,
            rtos: info.total_rto.map(u64::from),
            cwnd_undos: None,
            retransmitted_bytes: Some(info.bytes_retrans),
            written_bytes: written,
            received_bytes: received,
            received_in_order_bytes: received,
            acked_bytes: Some(info.bytes_acked),
            delivery_rate_bit_s: Some(rate(info.delivery_rate)),
            cwnd_max_bytes: Some(info.cwnd_bytes()),
        }
    }

    /// Adds the counters of a newer connection and takes its state (as in `flows`).
    pub fn merge(&self, newer: &SenderReport) -> SenderReport {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        SenderReport {
            sent_packets: self.sent_packets + newer.sent_packets,
            sent_bytes: self.sent_bytes + newer.sent_bytes,
            ack_packets: sum(self.ack_packets, newer.ack_packets),
            ack_bytes: sum(self.ack_bytes, newer.ack_bytes),
            lost_packets: self.lost_packets + newer.lost_packets,
            lost_bytes: sum(self.lost_bytes, newer.lost_bytes),
            congestion_events: sum(self.congestion_events, newer.congestion_events),
            ptos: sum(self.ptos, newer.ptos),
            rtos: sum(self.rtos, newer.rtos),
            cwnd_undos: sum(self.cwnd_undos, newer.cwnd_undos),
            retransmitted_bytes: sum(self.retransmitted_bytes, newer.retransmitted_bytes),
            written_bytes: self.written_bytes + newer.written_bytes,
            received_bytes: self.received_bytes + newer.received_bytes,
            received_in_order_bytes: self.received_in_order_bytes + newer.received_in_order_bytes,
            acked_bytes: sum(self.acked_bytes, newer.acked_bytes),
            cwnd_max_bytes: self.cwnd_max_bytes.max(newer.cwnd_max_bytes),
            // Taken from connections that send.
            cwnd_bytes: newer.cwnd_bytes.or(self.cwnd_bytes),
            ssthresh_bytes: if newer.cwnd_bytes.is_some() {
                newer.ssthresh_bytes
            } else {
                self.ssthresh_bytes
            },
            ..*newer
        }
    }

    /// Removes the window of a receiver: its `written_bytes` do not exceed the `requests` bytes of its requests. The
    /// window of a receiver has no meaning.
    pub fn omit_receiver_window(self, requests: u64) -> SenderReport {
        if self.written_bytes > requests {
            return self;
        }
        SenderReport { cwnd_bytes: None, ssthresh_bytes: None, cwnd_max_bytes: None, ..self }
    }

    /// Merges several connections, oldest first. Without connections all values are zero.
    pub fn aggregate<'a>(senders: impl Iterator<Item = &'a SenderReport>) -> SenderReport {
        let none = SenderReport { retransmitted_bytes: Some(0), ..SenderReport::default() };
        senders.copied().reduce(|sum, newer| sum.merge(&newer)).unwrap_or(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_a_connection_of_the_kernel() {
        let info = TcpInfo {
            options: 7,
            snd_mss: 1000,
            snd_cwnd: 40,
            snd_ssthresh: 30,
            unacked: 20,
            sacked: 5,
            lost: 4,
            retrans: 3,
            rtt: 20_500,
            min_rtt: 20_000,
            pacing_rate: 1_000_000,
            delivery_rate: 900_000,
            segs_out: 100,
            data_segs_out: 90,
            bytes_sent: 90_000,
            total_retrans: 6,
            bytes_retrans: 6000,
            bytes_acked: 70_001,
            total_rto: Some(2),
            ..TcpInfo::default()
        };
        let sender = SenderReport::from_tcp_info(&info, 20, 84_000, 10);
        assert_eq!((sender.cwnd_bytes, sender.ssthresh_bytes), (Some(40_000), Some(30_000)));
        assert_eq!(sender.in_flight_bytes, (20 + 3 - 5 - 4) * 1000);
        assert_eq!((sender.smoothed_rtt_ms, sender.min_rtt_ms), (Some(20.5), Some(20.0)));
        assert_eq!(
            (sender.pacing_rate_bit_s, sender.delivery_rate_bit_s),
            (8_000_000, Some(7_200_000))
        );
        // Headers of IP and TCP, and timestamps.
        assert_eq!((sender.sent_packets, sender.sent_bytes), (100, 90_000 + 100 * 52));
        assert_eq!((sender.ack_packets, sender.ack_bytes), (Some(10), Some(520)));
        assert_eq!((sender.lost_packets, sender.retransmitted_bytes), (6, Some(6000)));
        assert_eq!((sender.acked_bytes, sender.rtos), (Some(70_001), Some(2)));
        assert_eq!((sender.written_bytes, sender.received_bytes), (84_000, 10));
    }

    #[test]
    fn the_window_of_a_receiver_is_omitted() {
        let sends =
            SenderReport { cwnd_bytes: Some(9), written_bytes: 100, ..SenderReport::default() };
        assert_eq!(sends.omit_receiver_window(99).cwnd_bytes, Some(9));
        let receives = sends.omit_receiver_window(100);
        assert_eq!((receives.cwnd_bytes, receives.cwnd_max_bytes), (None, None));
        assert_eq!(sends.merge(&receives).cwnd_bytes, Some(9), "of several, that of who sends");
    }

    #[test]
    fn unset_kernel_values_are_none() {
        let info = TcpInfo {
            snd_mss: 1000,
            snd_ssthresh: 0x7fff_ffff,
            min_rtt: u32::MAX,
            pacing_rate: u64::MAX,
            segs_out: 1,
            ..TcpInfo::default()
        };
        let sender = SenderReport::from_tcp_info(&info, 40, 0, 0);
        assert_eq!((sender.smoothed_rtt_ms, sender.min_rtt_ms), (None, None));
        assert_eq!((sender.ssthresh_bytes, sender.rtos), (None, None));
        assert_eq!((sender.pacing_rate_bit_s, sender.sent_bytes), (0, 60));
    }
}
