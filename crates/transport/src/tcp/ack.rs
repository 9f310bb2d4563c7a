//! Processing of acknowledgements by the sender.

use units::{Span, Time};

use super::recovery::CaState;
use super::scoreboard::LossRule;
use super::sender::Sender;
use super::{Flags, Segment, is_before, timestamp_ms};

/// Maximum of the duplicate threshold under reordering (Linux's tcp_max_reordering).
const MAX_DUP_THRESHOLD: u64 = 300;

/// RFC 5682 section 3.1, step 2b: new segments before the next ACK, which shows whether the timeout was spurious.
const FRTO_NEW_SEGMENTS: u32 = 2;

/// Segments that an acknowledgement reports as received.
#[derive(Clone, Copy, Debug, Default)]
struct NewlyAcked {
    /// Send times of the oldest and the newest segment that was sent once.
    sent_once: Option<(Time, Time)>,
    /// At least one segment was sent more than once.
    has_retransmitted: bool,
    /// At least one segment was sent once, before the last timeout.
    has_original: bool,
    /// Largest distance by which an original was overtaken, in sequence numbers.
    overtaken: u64,
}

impl NewlyAcked {
    fn is_empty(&self) -> bool {
        self.sent_once.is_none() && !self.has_retransmitted
    }
}

impl Sender {
    /// Handles the acknowledgement of a segment.
    pub(super) fn on_ack(&mut self, now: Time, segment: &Segment) {
        let ack = segment.acknowledgement;
        if ack > self.board.next() {
            return;
        }
        let una = self.board.una();
        let edge = ack + segment.window;
        let opens = edge > self.send_window_edge;
        self.send_window_edge = self.send_window_edge.max(edge);
        if segment.acknowledgement >= una && self.timer == super::timers::TimerKind::Persist {
            // The peer responds: RFC 9293 section 3.8.6.1 keeps the connection open.
            if opens {
                self.rtt.clear_backoff();
                self.timer = super::timers::TimerKind::Idle;
                self.arm(now);
            }
        }
        let outstanding = !self.board.is_empty();
        let stamp = segment.timestamps.filter(|_| self.options.timestamps);
        let previous_state = self.ca_state;
        let mut arrived = NewlyAcked::default();
        self.rack.begin_ack();
        let mut undoes = false;
        let mut duplicate = false;
        if self.options.sack
            && let Some(blocks) = &segment.sack
        {
            let blocks = blocks.as_slice();
            for (index, &(start, end)) in blocks.iter().enumerate() {
                if index == 0 && is_duplicate(start, end, ack, blocks.get(1)) {
                    duplicate = true;
                    undoes = self.on_dsack(start, end, una);
                } else {
                    // The echo belongs to data that arrived in order before it.
                    self.process_acked(now, None, &mut arrived, |board, take| {
                        board.sack(start, end, |record| take(record, u64::from(record.length)));
                    });
                }
            }
        }
        let sacked = arrived;
        let advanced = ack > una;
        if advanced {
            arrived.has_retransmitted = false;
            let echo = stamp.map(|(_, echo)| echo);
            self.process_acked(now, echo, &mut arrived, |board, take| board.acknowledge(ack, take));
            self.buffer.acknowledge(ack - 1);
            self.rto_start = now;
            if arrived.has_retransmitted {
                // Karn's algorithm: RFC 6298 section 3.
                arrived.sent_once = sacked.sent_once;
            }
        } else if !self.options.sack && outstanding && is_plain(segment) && ack == una && !opens {
            self.dup_acks += 1;
            self.process_acked(now, None, &mut arrived, |board, take| {
                board.sack_virtual(|record| take(record, u64::from(record.length)));
            });
        }
        let latest = self.sample_rtt(now, segment, &arrived, advanced);
        self.adapt_threshold(&arrived);

        let eifel = advanced
            && matches!(self.ca_state, CaState::Recovery | CaState::Loss)
            && self.undo_state.zip(stamp).is_some_and(|(undo, (_, echo))| {
                undo.first_retransmit_at != Time::MAX
                    && is_before(echo, timestamp_ms(undo.first_retransmit_at))
            });
        if self.frto.is_some() {
            undoes |= self.frto_on_ack(&arrived, advanced);
        }
        if (undoes && self.options.dsack) || eifel || (undoes && previous_state == CaState::Loss) {
            self.undo_reduction(now);
            self.update_control(now, false, true, advanced, latest);
            self.finish_ack(now, None);
            return;
        }

        let plain = !advanced && sacked.is_empty() && !duplicate && is_plain(segment);
        let mut reduces = self.on_probe_acked(ack, duplicate, plain && !opens);
        let (lost, reorder_at) = self.detect_losses(now, advanced, una);
        reduces |= lost;
        // The ECE of a SYN-ACK announces that the peer supports ECN (RFC 3168 section 6.1.1).
        let echo = segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::SYN);
        if self.options.ecn && echo {
            let newest = arrived.sent_once.map_or(now, |(_, newest)| newest);
            self.estimator.on_ce(now, newest);
            reduces |= self.enter_cwr();
        }
        let may_grow = |phase| matches!(phase, CaState::Open | CaState::Loss);
        // RFC 5681 section 3.1: only an ACK that cumulatively acknowledges new data. After reordering, any arrival
        // (Linux's tcp_may_raise_cwnd).
        let forward = advanced || self.threshold > self.options.dup_threshold;
        let growth = may_grow(previous_state) && may_grow(self.ca_state) && !reduces && forward;
        let mut recovered =
            advanced && self.ca_state != CaState::Open && ack >= self.recovery_point;
        if recovered && self.reenter_recovery() {
            (recovered, reduces) = (false, true);
        }
        self.update_control(now, reduces, growth, advanced, latest);
        if recovered {
            if !self.options.sack {
                self.reset_virtual_sacks();
            }
            self.exit_recovery();
        }
        self.finish_ack(now, reorder_at);
    }

    fn finish_ack(&mut self, now: Time, reorder_at: Option<Time>) {
        self.arm_reordering(now, reorder_at);
    }

    /// Records the segments that `work` reports. The timestamp `echo` identifies the transmission.
    fn process_acked(
        &mut self,
        now: Time,
        echo: Option<u32>,
        arrived: &mut NewlyAcked,
        work: impl FnOnce(
            &mut super::scoreboard::Scoreboard,
            &mut dyn FnMut(&super::scoreboard::SentSegment, u64),
        ),
    ) {
        let Sender { board, estimator, rack, rtt, options, recovery_point, .. } = self;
        let highest = board.highest();
        let min_rtt = rtt.min_rtt();
        let frto_mark = *recovery_point;
        let mut take = |record: &super::scoreboard::SentSegment, bytes: u64| {
            estimator.on_acked(now, record.sent, bytes);
            if options.rack {
                rack.on_acked(now, record, echo, highest, min_rtt);
            }
            if record.is_retransmitted() {
                arrived.has_retransmitted = true;
            } else {
                let (oldest, newest) = arrived.sent_once.unwrap_or((record.sent, record.sent));
                arrived.sent_once = Some((oldest.min(record.sent), newest.max(record.sent)));
                arrived.has_original |= record.end() <= frto_mark;
                if record.end() <= highest {
                    arrived.overtaken = arrived.overtaken.max(highest - record.start);
                }
            }
        };
        work(board, &mut take);
    }

    /// Takes RTT samples. Returns the sample of the newest segment.
    fn sample_rtt(
        &mut self,
        now: Time,
        segment: &Segment,
        arrived: &NewlyAcked,
        advanced: bool,
    ) -> Option<Span> {
        let (una, next) = (self.board.una(), self.board.next());
        // Without SACK, a duplicate ACK does not identify the received segment.
        if let Some((oldest, newest)) = arrived.sent_once.filter(|_| advanced || self.options.sack)
        {
            let latest = now.since(newest);
            self.rtt.set_latest(latest);
            self.rtt.sample(now.since(oldest), una, next);
            self.rtt.clear_backoff();
            self.counters.tcp.on_rtt_sample(self.rtt.rto(), self.srtt(), self.rtt.variance());
            return Some(latest);
        }
        // RFC 7323 section 4: the echo identifies the acknowledged transmission.
        let (_, echo) = segment.timestamps.filter(|_| advanced && self.options.timestamps)?;
        let rtt = Span::from_millis(u64::from(timestamp_ms(now).wrapping_sub(echo)));
        self.rtt.sample(rtt, una, next);
        self.rtt.clear_backoff();
        self.counters.tcp.on_rtt_sample(self.rtt.rto(), self.srtt(), self.rtt.variance());
        None
    }

    /// Handles a D-SACK block (RFC 2883). Returns whether it proves the last reduction spurious.
    fn on_dsack(&mut self, start: u64, end: u64, una: u64) -> bool {
        if !self.options.dsack {
            return false;
        }
        if self.options.rack {
            self.rack.on_dsack(una, self.board.next());
        }
        let _ = start;
        match &mut self.undo_state {
            Some(undo) if end > undo.marker => undo.on_dsack(),
            _ => false,
        }
    }

    /// Adapts Linux's `tcp_reordering` to the distance by which an original was overtaken. RACK does not use it.
    fn adapt_threshold(&mut self, arrived: &NewlyAcked) {
        if self.options.adapt_reordering && arrived.overtaken > 0 {
            let segments =
                arrived.overtaken.div_ceil(self.options.mss).min(MAX_DUP_THRESHOLD) as u32;
            self.threshold = self.threshold.max(segments);
        }
    }

    /// Without SACK: clears all virtual selective acknowledgements beyond SND.UNA.
    pub(super) fn reset_virtual_sacks(&mut self) {
        let Sender { board, estimator, .. } = self;
        board.clear_sacked(|record| {
            estimator.on_delivery_retracted(record.sent, u64::from(record.length));
        });
    }

    /// Declares losses. Returns whether a reduction begins, and the time of RACK's next check.
    fn detect_losses(&mut self, now: Time, advanced: bool, una: u64) -> (bool, Option<Time>) {
        if self.options.rack {
            return self.detect_by_time(now);
        }
        let before = self.estimator.lost();
        if self.options.sack {
            let Sender { board, estimator, counters, threshold, options, .. } = self;
            let rule = if options.fack { LossRule::Fack } else { LossRule::SackCount };
            board.mark_by_count(u64::from(*threshold), rule, |record| {
                let length = u64::from(record.length);
                estimator.on_lost(now, record.sent, length, false);
                counters.lost_packets += 1;
                counters.lost_bytes += length;
            });
        } else if self.ca_state == CaState::Recovery {
            // RFC 6582 section 3.2, step 3: a partial ACK.
            if advanced && self.board.una() < self.recovery_point {
                self.board.unsack_first();
                self.mark_first_lost(now);
            }
        } else if advanced {
            self.dup_acks = 0;
            if self.ca_state == CaState::Open {
                self.reset_virtual_sacks();
            }
        } else if self.dup_acks >= self.threshold
            && self.ca_state != CaState::Loss
            && (una > self.recovery_point || self.recovery_point == 0)
        {
            self.mark_first_lost(now);
        }
        let lost = self.estimator.lost() > before;
        (lost && self.enter_recovery(), None)
    }

    fn mark_first_lost(&mut self, now: Time) {
        let first = self.board.first_id();
        let Sender { board, estimator, counters, .. } = self;
        board.mark_lost(first, |record| {
            let length = u64::from(record.length);
            estimator.on_lost(now, record.sent, length, false);
            counters.lost_packets += 1;
            counters.lost_bytes += length;
        });
    }

    /// Performs RACK's steps 4 and 5 (RFC 8985 section 6.2).
    pub(super) fn detect_by_time(&mut self, now: Time) -> (bool, Option<Time>) {
        let in_recovery = self.ca_state == CaState::Recovery
            || self.ca_state == CaState::Loss
            || self.board.sacked_records() >= 3;
        let reo_wnd = self.rack.reo_wnd(in_recovery, self.rtt.min_rtt(), self.rtt.smoothed());
        let Sender { board, estimator, counters, rack, .. } = self;
        let mut any = false;
        let waiting = board.mark_by_time(
            |record| rack.overtaken(record) && rack.lost_at(record, reo_wnd) <= now,
            |record| {
                let length = u64::from(record.length);
                estimator.on_lost(now, record.sent, length, false);
                counters.lost_packets += 1;
                counters.lost_bytes += length;
                any = true;
            },
        );
        let at = waiting
            .filter(|record| self.rack.overtaken(record))
            .map(|record| self.rack.lost_at(&record, reo_wnd));
        (any && self.enter_recovery(), at)
    }

    /// Performs F-RTO (RFC 5682 section 3.1, with SACK). Returns whether the timeout was spurious.
    fn frto_on_ack(&mut self, arrived: &NewlyAcked, advanced: bool) -> bool {
        // A segment sent once, before the timeout, has arrived after it. Without SACK it may have arrived before,
        // behind the hole that the retransmission has filled.
        if arrived.has_original && (self.options.sack || (advanced && !arrived.has_retransmitted)) {
            return true;
        }
        let sent_new = self.board.next() > self.recovery_point;
        let more = self.unsent() > 0 && self.send_window_edge > self.board.next();
        match (sent_new, advanced) {
            // Step 2b: the first ACK that advances SND.UNA.
            (false, true) if more => self.frto = Some(FRTO_NEW_SEGMENTS),
            // Step 2: the ACK of the retransmission has not arrived.
            (false, false) if self.options.sack => {}
            (true, true) => {}
            _ => self.frto = None,
        }
        false
    }

    /// Performs TLP_process_ack (RFC 8985 section 7.4.2). Returns whether the probe repaired a loss without any other
    /// signal.
    fn on_probe_acked(&mut self, ack: u64, duplicate: bool, plain: bool) -> bool {
        let Some((end, resent)) = self.probe else { return false };
        if ack < end {
            return false;
        }
        if !resent || duplicate {
            self.probe = None;
        } else if ack > end {
            self.probe = None;
            return self.enter_cwr();
        } else if plain {
            // Case 3: the original and the probe have both arrived.
            self.probe = None;
        }
        false
    }
}

/// RFC 2883 section 4: the first block is below the cumulative ACK or within the second block.
fn is_duplicate(start: u64, end: u64, ack: u64, second: Option<&(u64, u64)>) -> bool {
    end <= ack || second.is_some_and(|second| second.0 <= start && end <= second.1)
}

/// Returns whether the segment is only an acknowledgement.
pub(super) fn is_plain(segment: &Segment) -> bool {
    segment.data.is_empty() && !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::FIN)
}
