//! What is remembered of the packets sent, and for how long.
//!
//! A packet is known by its send instant: packets sent at one instant share one record, which is all that
//! quinn-proto's callbacks allow and loses nothing, since a rate sample depends on the instant alone.

use std::collections::VecDeque;

use units::{Span, Time, prefetch};

/// Connection state at one send instant.
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
    /// Where the one after the last that was asked for is: ACKs mostly go on there, behind what was lost.
    next_index: usize,
    /// When the newest packet acknowledged so far was sent.
    newest_acked: Time,
    /// When `newest_acked` was last noted, and what it was then.
    newest_acked_checkpoint: (Time, Time),
    /// No ACK names a packet sent before this instant any more.
    expired_before: Time,
    /// RTT of the newest packet of the last event that acknowledged any.
    latest_rtt: Span,
}

impl SendRecords {
    /// Has the memory of the oldest brought.
    pub fn prefetch_oldest(&self) {
        if let Some(first) = self.records.front() {
            prefetch(first);
        }
    }

    /// Packets have left.
    pub fn push(&mut self, sent: SendRecord) {
        match self.records.back_mut() {
            Some(last) if last.sent_at == sent.sent_at => {
                last.outstanding_bytes += sent.outstanding_bytes;
                last.in_flight = sent.in_flight;
            }
            _ => self.records.push_back(sent),
        }
    }

    /// The record of the packets sent at `sent`, of which some were acknowledged.
    pub fn acknowledge(&mut self, sent: Time) -> Option<&mut SendRecord> {
        self.newest_acked = self.newest_acked.max(sent);
        self.get_mut(sent)
    }

    /// The record of the packets sent at `sent`.
    pub fn get_mut(&mut self, sent: Time) -> Option<&mut SendRecord> {
        let is =
            |place: usize| self.records.get(place).is_some_and(|record| record.sent_at == sent);
        let near = [0, self.next_index, self.next_index.wrapping_sub(1)];
        let index = near
            .into_iter()
            .find(|place| is(*place))
            .unwrap_or_else(|| self.records.partition_point(|record| record.sent_at < sent));
        self.next_index = index + 1;
        self.records.get_mut(index).filter(|record| record.sent_at == sent)
    }

    /// Records of lost packets are never acknowledged; they go once no ACK can name them. Age alone
    /// does not tell: an ACK may come after hours of silence. What tells is that a packet sent later was
    /// acknowledged, and that longer ago than loss detection takes: 9/8 of the larger of smoothed and
    /// latest RTT (RFC 9002 section 6.1.2), here twice the larger and a second. The newest packet
    /// acknowledged is noted that seldom, so that a record goes after one to two such spans. What has
    /// not been overtaken is in flight, which the window bounds, or a probe, of which silence makes
    /// fewer and fewer.
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

    /// A path that is cut and comes back delivers what it held: hand-over, deep space.
    #[test]
    fn packets_are_known_however_long_the_silence_was() {
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
                // The smoothed RTT has hardly moved.
                let ack = estimator.flush(now, rtt * 5, rtt, &controller(rtt)).unwrap();
                assert_eq!(ack.latest_rtt, Some(Span::from_secs(silence)), "packet {packet}");
                let sample =
                    ack.rate_sample.unwrap_or_else(|| panic!("{silence} s: packet {packet}"));
                assert_eq!(sample.prior_delivered, 1200);
            }
        }
    }

    /// A timeout in the silence sent the first packet again, and its ACK comes before those of the
    /// others (TCP, RFC 5682); a timer that expires in the silence forgets nothing either.
    #[test]
    fn packets_are_known_that_a_probe_has_overtaken() {
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

    /// An hour of traffic in which some packets are lost, and one is never heard of again (its keys
    /// were discarded).
    #[test]
    fn what_is_remembered_does_not_grow() {
        let mut estimator = Estimator::default();
        let rtt = Span::from_millis(500);
        let step = 10 * MS;
        let (mut most, mut late) = (0, 0);
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
            most = most.max(estimator.send_records.records.len());
        }
        // The flight of 0.5 s and at most two spans of 2 x 0.5 s and a second, at 100 packets/s.
        assert!((50..=450).contains(&most), "{most}");
        assert_eq!(late, 0);
    }
}
