//! The path model: packet-timed rounds, the detection of a full pipe, ACK aggregation and application-limited samples.
//! The references are sections of the draft and functions of Linux.
//! - [`RoundCounter`]: section 5.5.1, `bbr_update_bw`;
//! - [`FullPipe`]: section 5.3.1.2, `bbr_check_full_bw_reached`;
//! - [`AckAggregationEpoch`]: section 5.5.9, `bbr_update_ack_aggregation`;
//! - [`AppLimitedMark`]: MarkConnectionAppLimited of section 4.1.2.4, called in section 5.3.4.3.

use units::Time;

use crate::AckEvent;
use crate::max_filter::bytes_in;

/// Packet-timed round trips: counts rounds by the delivered bytes at the send time of a packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundCounter {
    /// BBR.next_round_delivered.
    pub next_round_delivered: u64,
    /// BBR.round_count.
    pub count: u64,
    /// BBR.round_start: the last ACK started a round.
    pub is_round_start: bool,
}

impl RoundCounter {
    /// StartRound: the round ends when a packet sent from now on is acknowledged.
    pub fn begin(&mut self, delivered: u64) {
        self.next_round_delivered = delivered;
    }

    /// UpdateRound for a packet sent when `prior_delivered` bytes had been delivered.
    pub fn update(&mut self, prior_delivered: u64, delivered: u64) {
        self.is_round_start = prior_delivered >= self.next_round_delivered;
        if self.is_round_start {
            self.begin(delivered);
            self.count += 1;
        }
    }
}

/// The pipe is full when the bandwidth has grown by less than a quarter in three rounds.
const FULL_BW_GROWTH: f64 = 1.25;
const FULL_BW_ROUNDS: u32 = 3;

/// The state of the full-pipe detection.
#[derive(Clone, Debug, Default)]
pub(crate) struct FullPipe {
    /// BBR.full_bw, bit/s.
    pub full_bw: u64,
    /// BBR.full_bw_count: rounds without sufficient growth.
    full_bw_count: u32,
    /// BBR.full_bw_now: full since the last reset.
    pub is_full_bw_now: bool,
    /// BBR.full_bw_reached: full at any time so far.
    pub is_full_bw_reached: bool,
}

impl FullPipe {
    /// ResetFullBW.
    pub fn reset(&mut self) {
        self.restart_at(0);
    }

    /// Restarts the detection with the base `bw`.
    pub fn restart_at(&mut self, bw: u64) {
        self.full_bw = bw;
        self.full_bw_count = 0;
        self.is_full_bw_now = false;
    }

    /// Processes the bandwidth `bw` of a round.
    pub fn check(&mut self, bw: u64) {
        if bw as f64 >= self.full_bw as f64 * FULL_BW_GROWTH {
            self.restart_at(bw);
            return;
        }
        self.full_bw_count += 1;
        self.is_full_bw_now = self.full_bw_count >= FULL_BW_ROUNDS;
        self.is_full_bw_reached |= self.is_full_bw_now;
    }
}

/// ACK aggregation: bytes acknowledged beyond the estimated bandwidth. An epoch is an interval in which ACKs exceed this
/// bandwidth.
#[derive(Clone, Debug, Default)]
pub(crate) struct AckAggregationEpoch {
    /// BBR.extra_acked_interval_start.
    pub start: Time,
    /// BBR.extra_acked_delivered.
    acked: u64,
}

impl AckAggregationEpoch {
    /// Starts a new epoch.
    pub fn restart(&mut self, now: Time) {
        *self = AckAggregationEpoch { start: now, acked: 0 };
    }

    /// Records `acked` bytes and returns the surplus in bytes over a bandwidth of `bw` bit/s.
    pub fn extra_acked(&mut self, now: Time, bw: u64, acked: u64) -> u64 {
        let mut expected = bytes_in(bw, now.since(self.start).nanos());
        if self.acked <= expected {
            self.restart(now);
            expected = 0;
        }
        self.acked += acked;
        self.acked - expected
    }
}

/// Marks samples as application-limited while the controller deliberately sends little: they do not show the capacity
/// of the path. The state is the range of packets sent under the mark, in bytes delivered at their send time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AppLimitedMark {
    range: Option<(u64, u64)>,
}

impl AppLimitedMark {
    /// Marks packets sent from now on, until all data now in flight is delivered.
    pub fn mark(&mut self, delivered: u64, in_flight: u64) {
        let from = match self.range {
            Some((from, until)) if delivered <= until => from,
            _ => delivered,
        };
        self.range = Some((from, (delivered + in_flight).max(1)));
    }

    /// Returns the event with its samples marked.
    pub fn apply(&self, ack: &AckEvent) -> AckEvent {
        let mut ack = *ack;
        let Some((from, until)) = self.range else { return ack };
        if let Some(sample) = &mut ack.rate_sample {
            sample.is_app_limited |= (from..=until).contains(&sample.prior_delivered);
        }
        if let Some(sample) = &mut ack.loss_sample {
            sample.is_app_limited |= (from..=until).contains(&sample.prior_delivered);
        }
        ack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LossSample;
    use crate::test_support::sample_ack;

    #[test]
    fn a_round_lasts_until_a_packet_sent_in_it_is_acknowledged() {
        let mut rounds = RoundCounter::default();
        let starts = [(0, 10), (5, 20), (9, 30), (10, 40), (39, 50)].map(|(prior, delivered)| {
            rounds.update(prior, delivered);
            rounds.is_round_start
        });
        assert_eq!((starts, rounds.count), ([true, false, false, true, false], 2));
        rounds.begin(60);
        rounds.update(59, 70);
        assert!(!rounds.is_round_start);
    }

    #[test]
    fn three_rounds_without_a_quarter_more_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        for (bw, full) in [(100, false), (124, false), (124, false), (125, false)] {
            pipe.check(bw);
            assert_eq!(pipe.is_full_bw_reached, full, "{bw}");
        }
        for full in [false, false, true] {
            pipe.check(156);
            assert_eq!((pipe.is_full_bw_now, pipe.is_full_bw_reached), (full, full));
        }
        pipe.reset();
        assert_eq!((pipe.is_full_bw_now, pipe.is_full_bw_reached), (false, true));
    }

    /// 8 Mb/s equal 1,000 bytes per millisecond.
    #[test]
    fn a_burst_is_a_surplus_over_the_bandwidth() {
        let mut epoch = AckAggregationEpoch::default();
        let ms = |ms: u64| Time(ms * 1_000_000);
        assert_eq!(epoch.extra_acked(ms(10), 8_000_000, 5_000), 5_000);
        assert_eq!(epoch.extra_acked(ms(12), 8_000_000, 1_000), 4_000);
        assert_eq!(epoch.extra_acked(ms(16), 8_000_000, 700), 700);
    }

    #[test]
    fn samples_of_marked_packets_are_application_limited() {
        let mut limited = AppLimitedMark::default();
        let marked = |limited: &AppLimitedMark, prior_delivered| {
            let sample =
                LossSample { tx_in_flight: 0, lost: 0, prior_delivered, is_app_limited: false };
            let ack = AckEvent { loss_sample: Some(sample), ..sample_ack() };
            limited.apply(&ack).loss_sample.unwrap().is_app_limited
        };
        assert!(!marked(&limited, 0));
        limited.mark(1_000, 500);
        limited.mark(1_400, 300);
        let all = [999, 1_000, 1_500, 1_700, 1_701].map(|delivered| marked(&limited, delivered));
        assert_eq!(all, [false, true, true, true, false]);
        limited.mark(9_000, 100);
        assert!(!marked(&limited, 1_500) && marked(&limited, 9_100));
    }
}
