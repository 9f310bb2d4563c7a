//! The measurements that all controllers share: bytes in flight, rounds, recovery, delivery-rate samples and the
//! application-limited mark.
//!
//! The delivery rate follows draft-ietf-ccwg-bbr-06 section 4.1 and uses the records of sent packets
//! (`send_records.rs`).

mod send_records;
mod window_use;

use units::{Rate, Span, Time, divide};

use self::send_records::{SendRecord, SendRecords};
use self::window_use::WindowUse;
use crate::{AckEvent, CongestionControl, LossSample, RateSample};

/// The events since the last [`Estimator::flush`].
#[derive(Clone, Copy, Debug, Default)]
struct PendingEvents {
    has_events: bool,
    acked: u64,
    acked_in_recovery: u64,
    lost: u64,
    has_new_ce_marks: bool,
    is_congestion_event: bool,
    is_persistent_congestion: bool,
    newest_acked: Option<SendRecord>,
    newest_lost: Option<SendRecord>,
    prior_in_flight: u64,
}

/// The measurement state of one sender.
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    send_records: SendRecords,
    in_flight: u64,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    lost: u64,
    round_end: u64,
    rounds: u64,
    recovery_start: Option<Time>,
    /// Packets sent while `delivered` is at most this mark are application-limited. 0 means no mark.
    app_limited_until: u64,
    window_use: WindowUse,
    pending: PendingEvents,
}

impl Estimator {
    /// Returns the bytes in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the bytes delivered in total.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the bytes declared lost in total.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Records `bytes`, sent at `now`, that count against the window.
    pub fn on_sent(&mut self, now: Time, bytes: u64) {
        if self.in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        self.in_flight += bytes;
        // This includes the first packet after idle: section 4.1.2.3 clears the mark only after a further delivery.
        let app_limited = self.app_limited_until > 0 && self.delivered <= self.app_limited_until;
        self.send_records.push(SendRecord {
            sent_at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight: self.in_flight,
            lost: self.lost,
            is_app_limited: app_limited,
            outstanding_bytes: bytes,
        });
        self.window_use.on_sent(self.in_flight, self.delivered + self.lost);
    }

    /// Sets the congestion window and the size of the largest packet in bytes. Without a window, every flight fills it.
    pub fn set_window(&mut self, cwnd: u64, mss: u64) {
        self.window_use.set_window(cwnd, mss);
    }

    /// Records the acknowledgement at `now` of `bytes` sent at `sent`.
    #[inline]
    pub fn on_acked(&mut self, now: Time, sent: Time, bytes: u64) {
        self.begin_event();
        self.delivered += bytes;
        self.delivered_at = now;
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.pending.acked += bytes;
        if self.recovery_start.is_some_and(|start| sent <= start) {
            self.pending.acked_in_recovery += bytes;
        }
        let Some(record) = self.send_records.acknowledge(sent) else { return };
        record.outstanding_bytes = record.outstanding_bytes.saturating_sub(bytes);
        if self.pending.newest_acked.is_none_or(|newest| newest.sent_at <= sent) {
            self.pending.newest_acked = Some(*record);
        }
    }

    /// Records the loss of `bytes`. The newest lost packet was sent at `newest_sent`.
    pub fn on_lost(&mut self, now: Time, newest_sent: Time, bytes: u64, persistent: bool) {
        self.begin_event();
        self.lost += bytes;
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.pending.lost += bytes;
        self.pending.is_persistent_congestion |= persistent;
        if self.pending.newest_lost.is_none_or(|newest| newest.sent_at <= newest_sent) {
            self.pending.newest_lost = self.send_records.get_mut(newest_sent).copied();
        }
        self.signal_congestion(now, newest_sent);
        if persistent {
            // RFC 9002 appendix B.8: the collapsed window is not in recovery and may grow at once.
            self.recovery_start = None;
        }
    }

    /// Records new CE marks. The newest packet received by the peer was sent at `newest_sent`.
    pub fn on_ce(&mut self, now: Time, newest_sent: Time) {
        self.begin_event();
        self.pending.has_new_ce_marks = true;
        self.signal_congestion(now, newest_sent);
    }

    /// Sets the bytes in flight to the transport's count, which also excludes silently discarded packets (key discard,
    /// RFC 9002 section 6.4).
    pub fn set_in_flight(&mut self, bytes: u64) {
        self.in_flight = bytes;
    }

    /// Removes `bytes` sent at `sent` from the flight: the sender retransmitted them without a declared loss.
    pub fn on_superseded(&mut self, sent: Time, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
        if let Some(record) = self.send_records.get_mut(sent) {
            record.outstanding_bytes = record.outstanding_bytes.saturating_sub(bytes);
        }
    }

    /// Returns `bytes` that counted as delivered to the flight: a duplicate ACK without SACK does not identify the
    /// delivered data.
    pub fn on_delivery_retracted(&mut self, sent: Time, bytes: u64) {
        self.in_flight += bytes;
        self.delivered = self.delivered.saturating_sub(bytes);
        if let Some(record) = self.send_records.get_mut(sent) {
            record.outstanding_bytes += bytes;
        }
    }

    /// Returns `bytes` that were declared lost to the flight: the loss was spurious.
    pub fn on_spurious_loss(&mut self, sent: Time, bytes: u64) {
        let _ = sent;
        self.in_flight += bytes;
        self.lost = self.lost.saturating_sub(bytes);
    }

    /// Ends recovery after a retransmission timeout, so that data sent from now on can grow the window.
    pub fn end_recovery(&mut self) {
        self.recovery_start = None;
    }

    /// Marks the sender as application-limited: window and pacer permit more data than the application provides. The
    /// mark holds until all data in flight is delivered.
    #[inline]
    pub fn mark_app_limited(&mut self) {
        self.mark_data_limited();
        self.app_limited_until = (self.delivered + self.in_flight).max(1);
    }

    /// Marks the sender as data-limited: window and pacer permit more data than the application, flow control or the
    /// send buffer provides.
    #[inline]
    pub fn mark_data_limited(&mut self) {
        self.window_use.on_data_limited(self.in_flight, self.delivered + self.lost);
    }

    /// Combines all inputs since the last call into one event for `controller`. Returns `None` without inputs.
    pub fn flush(
        &mut self,
        now: Time,
        smoothed_rtt: Span,
        min_rtt: Span,
        controller: &dyn CongestionControl,
    ) -> Option<AckEvent> {
        if !self.pending.has_events {
            return None;
        }
        let pending = std::mem::take(&mut self.pending);
        let mut round_start = false;
        let mut sample = None;
        if let Some(newest) = pending.newest_acked {
            if newest.delivered >= self.round_end {
                self.round_end = self.delivered;
                self.rounds += 1;
                round_start = true;
            }
            self.first_sent_at = newest.sent_at;
            let send_elapsed = newest.sent_at.since(newest.first_sent_at);
            let ack_elapsed = self.delivered_at.since(newest.delivered_at);
            let interval = send_elapsed.max(ack_elapsed);
            let delivered = self.delivered.saturating_sub(newest.delivered);
            // ACKs of retransmissions or of older packets cause intervals shorter than the path's RTT. Draft section
            // 4.1.2.3 discards them.
            if interval >= min_rtt && interval > Span::ZERO {
                let (rate, _) = divide(u128::from(delivered) * 8_000_000_000, interval.nanos());
                sample = Some(RateSample {
                    delivered,
                    interval,
                    rate: Rate(rate as u64),
                    prior_delivered: newest.delivered,
                    tx_in_flight: newest.in_flight,
                    lost: self.lost.saturating_sub(newest.lost),
                    is_app_limited: newest.is_app_limited,
                });
            }
        }
        let (cwnd_limited, limit) = self.window_limit(controller);
        let event = AckEvent {
            acked: pending.acked,
            acked_in_recovery: pending.acked_in_recovery,
            lost: pending.lost,
            has_new_ce_marks: pending.has_new_ce_marks,
            is_congestion_event: pending.is_congestion_event,
            is_persistent_congestion: pending.is_persistent_congestion,
            is_in_rto_recovery: false,
            latest_rtt: pending.newest_acked.map(|newest| now.since(newest.sent_at)),
            smoothed_rtt,
            min_rtt,
            prior_in_flight: pending.prior_in_flight,
            in_flight: self.in_flight,
            delivered: self.delivered,
            total_lost: self.lost,
            rate_sample: sample,
            loss_sample: pending.newest_lost.map(|newest| LossSample {
                tx_in_flight: newest.in_flight,
                lost: self.lost.saturating_sub(newest.lost),
                prior_delivered: newest.delivered,
                is_app_limited: newest.is_app_limited,
            }),
            is_round_start: round_start,
            round_count: self.rounds,
            is_cwnd_limited: cwnd_limited,
            slow_start_limit: u64::MAX,
            growth_limit: limit,
        };
        self.send_records.remove_expired(now, event.latest_rtt, smoothed_rtt);
        Some(event)
    }

    /// Returns whether the window limits the sender, and the upper limit of its growth in bytes.
    fn window_limit(&self, controller: &dyn CongestionControl) -> (bool, u64) {
        if self.window_use.is_cwnd_limited {
            return (true, u64::MAX);
        }
        let growth_limit = self.window_use.growth_limit();
        let limited = growth_limit > 0
            && (self.window_use.is_pacing_limited(self.delivered + self.lost)
                || controller.is_in_slow_start(self.window_use.cwnd));
        (limited, if limited { growth_limit } else { 0 })
    }

    fn begin_event(&mut self) {
        if !self.pending.has_events {
            self.pending.has_events = true;
            self.pending.prior_in_flight = self.in_flight;
        }
    }

    /// Starts a new recovery only for a packet sent after the current one began (RFC 9002 section 7.3.2).
    fn signal_congestion(&mut self, now: Time, newest_sent: Time) {
        if self.recovery_start.is_none_or(|start| newest_sent > start) {
            self.recovery_start = Some(now);
            self.pending.is_congestion_event = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ControllerConfig;
    use crate::aimd::Aimd;

    const MS: u64 = 1_000_000;

    pub(super) fn controller(initial_rtt: Span) -> Aimd {
        Aimd::new(&ControllerConfig {
            mss: 1200,
            initial_window: 12_000,
            initial_rtt,
            seed: 1,
            is_paced: true,
        })
    }

    pub(super) fn flush(estimator: &mut Estimator, now: Time, rtt: Span) -> Option<AckEvent> {
        estimator.flush(now, rtt, rtt, &controller(rtt))
    }

    /// The sender sends 1,200-byte packets every millisecond. The peer acknowledges each one 100 ms later.
    #[test]
    fn a_steady_flow_is_measured_exactly() {
        let mut estimator = Estimator::default();
        let rtt = Span::from_millis(100);
        let mut last = None;
        for step in 0..400u64 {
            let now = Time(step * MS);
            if step >= 100 {
                estimator.on_acked(now, Time((step - 100) * MS), 1200);
                last = flush(&mut estimator, now, rtt);
            }
            estimator.on_sent(now, 1200);
        }
        let ack = last.unwrap();
        assert_eq!(ack.rate_sample.unwrap().rate, Rate(9_600_000));
        assert_eq!(ack.in_flight, 99 * 1200);
        assert_eq!(estimator.in_flight(), 100 * 1200);
        assert_eq!(ack.latest_rtt, Some(rtt));
        assert_eq!(ack.round_count, 3);
    }

    #[test]
    fn one_congestion_signal_per_round() {
        let mut estimator = Estimator::default();
        let rtt = Span::from_millis(10);
        for step in 0..10 {
            estimator.on_sent(Time(step * MS), 1200);
        }
        estimator.on_lost(Time(12 * MS), Time(MS), 1200, false);
        assert!(flush(&mut estimator, Time(12 * MS), rtt).unwrap().is_congestion_event);
        // A loss of the same flight causes no second signal.
        estimator.on_lost(Time(13 * MS), Time(2 * MS), 1200, false);
        let ack = flush(&mut estimator, Time(13 * MS), rtt).unwrap();
        assert!(!ack.is_congestion_event);
        assert_eq!((ack.lost, ack.total_lost), (1200, 2400));
        // The loss of a packet sent after recovery began causes a new signal.
        estimator.on_sent(Time(14 * MS), 1200);
        estimator.on_lost(Time(30 * MS), Time(14 * MS), 1200, false);
        assert!(flush(&mut estimator, Time(30 * MS), rtt).unwrap().is_congestion_event);
    }

    /// Persistent congestion causes a congestion signal and ends recovery.
    #[test]
    fn after_persistent_congestion_the_window_may_grow_at_once() {
        let mut estimator = Estimator::default();
        let rtt = Span::from_millis(10);
        for step in 0..3 {
            estimator.on_sent(Time(step * MS), 1200);
        }
        estimator.on_lost(Time(90 * MS), Time(MS), 2400, true);
        let ack = flush(&mut estimator, Time(90 * MS), rtt).unwrap();
        assert!(ack.is_congestion_event && ack.is_persistent_congestion);
        estimator.on_acked(Time(91 * MS), Time(2 * MS), 1200);
        let ack = flush(&mut estimator, Time(91 * MS), rtt).unwrap();
        assert_eq!((ack.acked, ack.acked_in_recovery), (1200, 0));
    }

    #[test]
    fn a_loss_sample_has_the_flight_at_its_send_time() {
        let mut estimator = Estimator::default();
        let rtt = Span::from_millis(10);
        for step in 0..10 {
            estimator.on_sent(Time(step * MS), 1200);
        }
        estimator.on_lost(Time(14 * MS), Time(MS), 2400, false);
        let lost = flush(&mut estimator, Time(14 * MS), rtt).unwrap().loss_sample.unwrap();
        assert_eq!((lost.tx_in_flight, lost.lost, lost.is_app_limited), (2 * 1200, 2400, false));
        estimator.on_lost(Time(15 * MS), Time(4 * MS), 1200, false);
        let lost = flush(&mut estimator, Time(15 * MS), rtt).unwrap().loss_sample.unwrap();
        assert_eq!((lost.tx_in_flight, lost.lost, lost.prior_delivered), (5 * 1200, 3600, 0));
    }

    #[test]
    fn an_idle_application_is_marked_until_its_data_has_been_delivered() {
        let mut estimator = Estimator::default();
        let rtt = Span::from_millis(10);
        estimator.on_sent(Time(0), 1200);
        estimator.mark_app_limited();
        estimator.on_sent(Time(MS), 1200);
        estimator.on_acked(Time(11 * MS), Time(MS), 1200);
        assert!(
            flush(&mut estimator, Time(11 * MS), rtt).unwrap().rate_sample.unwrap().is_app_limited
        );
        estimator.on_acked(Time(12 * MS), Time(0), 1200);
        flush(&mut estimator, Time(12 * MS), rtt);
        // The application is still idle: the first packet after the pause is marked, packets after its ACK are not.
        estimator.mark_app_limited();
        for (sent, limited) in [(13, true), (24, false)] {
            estimator.on_sent(Time(sent * MS), 1200);
            estimator.on_acked(Time((sent + 10) * MS), Time(sent * MS), 1200);
            let ack = flush(&mut estimator, Time((sent + 10) * MS), rtt).unwrap();
            assert_eq!(ack.rate_sample.unwrap().is_app_limited, limited);
        }
    }
}
