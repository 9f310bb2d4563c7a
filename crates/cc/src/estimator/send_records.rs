//! Records of sent packets and their expiry.
//!
//! The send instant identifies a packet, and packets of one instant share a record. The callbacks of the QUIC stack permit
//! no finer key. The rate sample depends on the instant alone.

use std::collections::VecDeque;

use units::{Span, Time};

/// The connection state at one send instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendRecord {
    pub sent_at: Time,
    pub delivered: u64,
    pub delivered_at: Time,
    pub first_sent_at: Time,
    pub in_flight: u64,
    pub lost: u64,
    pub is_app_limited: bool,
    pub outstanding_bytes: u64,
}

/// The records of one sender, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct SendRecords {
    records: VecDeque<SendRecord>,
    /// Index after the last record found. ACKs mostly continue there, behind the records of lost packets.
    next_index: usize,
    /// Send time of the newest packet acknowledged.
    newest_acked: Time,
    /// Time of the last checkpoint, and the value of `newest_acked` at that time.
    newest_acked_checkpoint: (Time, Time),
    /// Records of packets sent before this instant have expired: no ACK can refer to them.
    expired_before: Time,
    /// RTT of the newest packet in the last event with an acknowledgement.
    latest_rtt: Span,
}

impl SendRecords {
    /// Adds the record of sent packets.
    pub fn push(&mut self, sent: SendRecord) {
        match self.records.back_mut() {
            Some(last) if last.sent_at == sent.sent_at => {
                last.outstanding_bytes += sent.outstanding_bytes;
                last.in_flight = sent.in_flight;
            }
            _ => self.records.push_back(sent),
        }
    }

    /// Returns the record of the packets sent at `sent` and updates the newest acknowledged packet.
    pub fn acknowledge(&mut self, sent: Time) -> Option<&mut SendRecord> {
        self.newest_acked = self.newest_acked.max(sent);
        self.get_mut(sent)
    }

    /// Returns the record of the packets sent at `sent`.
    pub fn get_mut(&mut self, sent: Time) -> Option<&mut SendRecord> {
        let is =
            |index: usize| self.records.get(index).is_some_and(|record| record.sent_at == sent);
        let near = [0, self.next_index, self.next_index.wrapping_sub(1)];
        let index = near
            .into_iter()
            .find(|index| is(*index))
            .unwrap_or_else(|| self.records.partition_point(|record| record.sent_at < sent));
        self.next_index = index + 1;
        self.records.get_mut(index).filter(|record| record.sent_at == sent)
    }

    /// Removes records that no ACK can refer to, because ACKs never remove the records of lost packets. Age alone is no
    /// criterion: an ACK can arrive after hours of silence. A record expires if a later packet was acknowledged longer
    /// ago than loss detection takes. That is 9/8 of the larger of smoothed and latest RTT (RFC 9002 section 6.1.2).
    /// The code uses twice the larger plus one second as the checkpoint interval, so a record expires after one to two
    /// intervals. Newer records are bounded by the window, or are probes, which become less frequent during silence.
    pub fn remove_expired(&mut self, now: Time, latest_rtt: Option<Span>, smoothed_rtt: Span) {
        self.latest_rtt = latest_rtt.unwrap_or(self.latest_rtt);
        let (noted_at, newest_then) = self.newest_acked_checkpoint;
        if now.since(noted_at) >= smoothed_rtt.max(self.latest_rtt) * 2 + Span::from_secs(1) {
            self.expired_before = newest_then;
            self.newest_acked_checkpoint = (now, self.newest_acked);
        }
        let over = self.expired_before;
        while self
            .records
            .front()
            .is_some_and(|record| record.outstanding_bytes == 0 || record.sent_at < over)
        {
            self.records.pop_front();
            self.next_index = self.next_index.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Estimator;
    use super::super::tests::{controller, flush};
    use super::*;

    const MS: u64 = 1_000_000;

    /// A path that returns after an outage delivers its stored packets: handover, deep space.
    #[test]
    fn send_records_survive_a_long_silence() {
        for silence in [10, 3_600, 5 * 3_600] {
            let mut estimator = Estimator::default();
            let rtt = Span::from_millis(30);
            estimator.on_sent(Time(0), 1200);
            estimator.on_acked(Time(30 * MS), Time(0), 1200);
            flush(&mut estimator, Time(30 * MS), rtt);
            for packet in 0..100 {
                estimator.on_sent(Time((40 + packet) * MS), 1200);
            }
            for packet in 0..100 {
                let sent = Time((40 + packet) * MS);
                let now = sent + Span::from_secs(silence);
                estimator.on_acked(now, sent, 1200);
                // The smoothed RTT has hardly changed.
                let ack = estimator.flush(now, rtt * 5, rtt, &controller(rtt)).unwrap();
                assert_eq!(ack.latest_rtt, Some(Span::from_secs(silence)), "packet {packet}");
                let sample =
                    ack.rate_sample.unwrap_or_else(|| panic!("{silence} s: packet {packet}"));
                assert_eq!(sample.prior_delivered, 1200);
            }
        }
    }

    /// A timeout during the silence retransmits the first packet, and its ACK precedes the others (TCP, RFC 5682). A
    /// timer that expires during the silence removes no record either.
    #[test]
    fn send_records_survive_the_ack_of_a_later_probe() {
        let mut estimator = Estimator::default();
        let rtt = Span::from_millis(30);
        for packet in 0..100 {
            estimator.on_sent(Time(packet * MS), 1200);
        }
        let second = 1_000 * MS;
        estimator.on_lost(Time(second), Time(0), 1200, false);
        flush(&mut estimator, Time(second), rtt);
        let probe = Time(3_599 * second);
        estimator.on_sent(probe, 1200);
        estimator.on_acked(Time(3_600 * second), probe, 1200);
        flush(&mut estimator, Time(3_600 * second), rtt);
        for packet in 1..100 {
            let now = Time(3_600 * second + packet * MS);
            estimator.on_acked(now, Time(packet * MS), 1200);
            assert!(flush(&mut estimator, now, rtt).unwrap().latest_rtt.is_some(), "{packet}");
        }
    }

    /// One hour of traffic with losses. One packet is neither acknowledged nor declared lost, because its keys were
    /// discarded.
    #[test]
    fn the_number_of_send_records_is_bounded() {
        let mut estimator = Estimator::default();
        let rtt = Span::from_millis(500);
        let step = 10 * MS;
        let (mut max_records, mut late) = (0, 0);
        for packet in 0..360_000u64 {
            let now = Time(packet * step);
            estimator.on_sent(now, 1200);
            if let Some(acked) = packet.checked_sub(50) {
                let sent = Time(acked * step);
                if acked == 1_000 {
                } else if acked % 100 == 99 {
                    estimator.on_lost(now, sent, 1200, false);
                } else {
                    estimator.on_acked(now, sent, 1200);
                }
                let ack = flush(&mut estimator, now, rtt);
                late +=
                    u64::from(ack.is_some_and(|ack| ack.acked > 0 && ack.rate_sample.is_none()));
            }
            max_records = max_records.max(estimator.send_records.records.len());
        }
        // The flight of 0.5 s plus at most two intervals of 2 x 0.5 s + 1 s, at 100 packets/s.
        assert!((50..=450).contains(&max_records), "{max_records}");
        assert_eq!(late, 0);
    }
}
