//! What an acknowledgement teaches the sender.

use units::{Span, Time};

use super::recovery::Phase;
use super::scoreboard::Count;
use super::sender::Sender;
use super::{Flags, Segment, is_before, milliseconds};

/// Largest duplicate threshold to which reordering leads (Linux's tcp_max_reordering).
const MOST_THRESHOLD: u64 = 300;

/// RFC 5682 section 3.1, step 2b: new segments that leave before the next ACK shows whether the timeout was spurious.
const NEW_SEGMENTS: u32 = 2;

/// Segments that an acknowledgement says have arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    /// When the oldest and the newest of those sent once had left.
    once: Option<(Time, Time)>,
    /// One of them was sent more than once.
    resent: bool,
    /// One of them was sent once, before the last timeout.
    original: bool,
    /// Highest sequence numbers by which one was overtaken.
    overtaken: u64,
}

impl Arrived {
    fn is_empty(&self) -> bool {
        self.once.is_none() && !self.resent
    }
}

impl Sender {
    /// The acknowledgement of a segment.
    pub(super) fn on_ack(&mut self, now: Time, segment: &Segment) {
        let ack = segment.acknowledgement;
        if ack > self.board.next() {
            return;
        }
        let una = self.board.una();
        let edge = ack + segment.window;
        let opens = edge > self.peer_edge;
        self.peer_edge = self.peer_edge.max(edge);
        if segment.acknowledgement >= una && self.timer == super::timers::Timer::Persist {
            // The peer answers: RFC 9293 section 3.8.6.1 keeps the connection open.
            if opens {
                self.rtt.clear_backoff();
                self.timer = super::timers::Timer::Idle;
                self.arm(now);
            }
        }
        let outstanding = !self.board.is_empty();
        let stamp = segment.timestamps.filter(|_| self.rules.timestamps);
        let was = self.phase;
        let mut arrived = Arrived::default();
        self.rack.begin();
        let mut undoes = false;
        let mut duplicate = false;
        if self.rules.sack
            && let Some(blocks) = &segment.sack
        {
            let blocks = blocks.as_slice();
            for (index, &(start, end)) in blocks.iter().enumerate() {
                if index == 0 && is_duplicate(start, end, ack, blocks.get(1)) {
                    duplicate = true;
                    undoes = self.on_duplicate(start, end, una);
                } else {
                    // Its echo is that of what came in order before it.
                    self.take(now, None, &mut arrived, |board, take| {
                        board.sack(start, end, |record| take(record, u64::from(record.length)));
                    });
                }
            }
        }
        let sacked = arrived;
        let advanced = ack > una;
        if advanced {
            arrived.resent = false;
            let echo = stamp.map(|(_, echo)| echo);
            self.take(now, echo, &mut arrived, |board, take| board.acknowledge(ack, take));
            self.buffer.acknowledge(ack - 1);
            self.rto_from = now;
            if arrived.resent {
                // Karn's algorithm: RFC 6298 section 3.
                arrived.once = sacked.once;
            }
        } else if !self.rules.sack && outstanding && is_plain(segment) && ack == una && !opens {
            self.dup_acks += 1;
            self.take(now, None, &mut arrived, |board, take| {
                board.sack_one(|record| take(record, u64::from(record.length)));
            });
        }
        let latest = self.sample(now, segment, &arrived, advanced);
        self.adapt_threshold(&arrived);

        let eifel = advanced
            && matches!(self.phase, Phase::Recovery | Phase::Loss)
            && self.undo.zip(stamp).is_some_and(|(undo, (_, echo))| {
                undo.first_resent != Time::MAX && is_before(echo, milliseconds(undo.first_resent))
            });
        if self.frto.is_some() {
            undoes |= self.forward(&arrived, advanced);
        }
        if (undoes && self.rules.dsack) || eifel || (undoes && was == Phase::Loss) {
            self.undo(now);
            self.conclude(now, false, true, advanced, latest);
            self.after(now, None);
            return;
        }

        let plain = !advanced && sacked.is_empty() && !duplicate && is_plain(segment);
        let mut reduces = self.on_probe_acked(ack, duplicate, plain && !opens);
        let (lost, reorder_at) = self.detect(now, advanced, una);
        reduces |= lost;
        // The ECE of a SYN-ACK says that the peer knows ECN (RFC 3168 section 6.1.1).
        let echo = segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::SYN);
        if self.rules.ecn && echo {
            let newest = arrived.once.map_or(now, |(_, newest)| newest);
            self.estimator.on_ce(now, newest);
            reduces |= self.enter_reduced();
        }
        let may_grow = |phase| matches!(phase, Phase::Open | Phase::Loss);
        // RFC 5681 section 3.1: an ACK that acknowledges new data cumulatively. Where reordering was
        // seen, anything that arrives (Linux's tcp_may_raise_cwnd).
        let forward = advanced || self.threshold > self.rules.threshold;
        let growth = may_grow(was) && may_grow(self.phase) && !reduces && forward;
        let mut over = advanced && self.phase != Phase::Open && ack >= self.recover;
        if over && self.recovers_on() {
            (over, reduces) = (false, true);
        }
        self.conclude(now, reduces, growth, advanced, latest);
        if over {
            if !self.rules.sack {
                self.take_back();
            }
            self.leave_recovery();
        }
        self.after(now, reorder_at);
    }

    fn after(&mut self, now: Time, reorder_at: Option<Time>) {
        self.arm_reordering(now, reorder_at);
    }

    /// Lets `work` name what has arrived; `echo`: the timestamp that tells which transmission of it.
    fn take(
        &mut self,
        now: Time,
        echo: Option<u32>,
        arrived: &mut Arrived,
        work: impl FnOnce(
            &mut super::scoreboard::Scoreboard,
            &mut dyn FnMut(&super::scoreboard::Record, u64),
        ),
    ) {
        let Sender { board, estimator, rack, rtt, rules, recover, .. } = self;
        let highest = board.highest();
        let least = rtt.least();
        let frto_mark = *recover;
        let mut take = |record: &super::scoreboard::Record, bytes: u64| {
            estimator.on_acked(now, record.sent, bytes);
            if rules.rack {
                rack.arrived(now, record, echo, highest, least);
            }
            if record.is_resent() {
                arrived.resent = true;
            } else {
                let (oldest, newest) = arrived.once.unwrap_or((record.sent, record.sent));
                arrived.once = Some((oldest.min(record.sent), newest.max(record.sent)));
                arrived.original |= record.end() <= frto_mark;
                if record.end() <= highest {
                    arrived.overtaken = arrived.overtaken.max(highest - record.start);
                }
            }
        };
        work(board, &mut take);
    }

    /// RTT samples; returns that of the newest segment.
    fn sample(
        &mut self,
        now: Time,
        segment: &Segment,
        arrived: &Arrived,
        advanced: bool,
    ) -> Option<Span> {
        let (una, next) = (self.board.una(), self.board.next());
        // A duplicate ACK without SACK does not say what has arrived.
        if let Some((oldest, newest)) = arrived.once.filter(|_| advanced || self.rules.sack) {
            let latest = now.since(newest);
            self.rtt.newest(latest);
            self.rtt.sample(now.since(oldest), una, next);
            self.rtt.clear_backoff();
            self.counters.tcp.on_rtt(self.rtt.rto(), self.srtt(), self.rtt.variance());
            return Some(latest);
        }
        // RFC 7323 section 4: the echo tells which transmission was acknowledged.
        let (_, echo) = segment.timestamps.filter(|_| advanced && self.rules.timestamps)?;
        let rtt = Span::from_millis(u64::from(milliseconds(now).wrapping_sub(echo)));
        self.rtt.sample(rtt, una, next);
        self.rtt.clear_backoff();
        self.counters.tcp.on_rtt(self.rtt.rto(), self.srtt(), self.rtt.variance());
        None
    }

    /// A D-SACK block (RFC 2883); whether it proves the last reduction spurious.
    fn on_duplicate(&mut self, start: u64, end: u64, una: u64) -> bool {
        if !self.rules.dsack {
            return false;
        }
        if self.rules.rack {
            self.rack.on_dsack(una, self.board.next());
        }
        let _ = start;
        match &mut self.undo {
            Some(undo) if end > undo.marker => undo.on_duplicate(),
            _ => false,
        }
    }

    /// Linux's `tcp_reordering`: by how much an original was overtaken. RACK does not count by it.
    fn adapt_threshold(&mut self, arrived: &Arrived) {
        if self.rules.adapt && arrived.overtaken > 0 {
            let segments = arrived.overtaken.div_ceil(self.rules.mss).min(MOST_THRESHOLD) as u32;
            self.threshold = self.threshold.max(segments);
        }
    }

    /// Without SACK: nothing beyond SND.UNA counts as arrived any more.
    pub(super) fn take_back(&mut self) {
        let Sender { board, estimator, .. } = self;
        board.forget_sacked(|record| {
            estimator.on_delivery_retracted(record.sent, u64::from(record.length));
        });
    }

    /// Declares losses; whether a reduction begins, and when RACK wants to look again.
    fn detect(&mut self, now: Time, advanced: bool, una: u64) -> (bool, Option<Time>) {
        if self.rules.rack {
            return self.detect_by_time(now);
        }
        let before = self.estimator.lost();
        if self.rules.sack {
            let Sender { board, estimator, counters, threshold, rules, .. } = self;
            let count = if rules.forward { Count::Distance } else { Count::Arrived };
            board.mark_by_count(u64::from(*threshold), count, |record| {
                let length = u64::from(record.length);
                estimator.on_lost(now, record.sent, length, false);
                counters.lost_packets += 1;
                counters.lost_bytes += length;
            });
        } else if self.phase == Phase::Recovery {
            // RFC 6582 section 3.2, step 3: a partial ACK.
            if advanced && self.board.una() < self.recover {
                self.board.unsack_first();
                self.lose_first(now);
            }
        } else if advanced {
            self.dup_acks = 0;
            if self.phase == Phase::Open {
                self.take_back();
            }
        } else if self.dup_acks >= self.threshold
            && self.phase != Phase::Loss
            && (una > self.recover || self.recover == 0)
        {
            self.lose_first(now);
        }
        let lost = self.estimator.lost() > before;
        (lost && self.enter_recovery(), None)
    }

    fn lose_first(&mut self, now: Time) {
        let first = self.board.first();
        let Sender { board, estimator, counters, .. } = self;
        board.mark_lost(first, |record| {
            let length = u64::from(record.length);
            estimator.on_lost(now, record.sent, length, false);
            counters.lost_packets += 1;
            counters.lost_bytes += length;
        });
    }

    /// RACK's steps 4 and 5 (RFC 8985 section 6.2).
    pub(super) fn detect_by_time(&mut self, now: Time) -> (bool, Option<Time>) {
        let hurry = self.phase == Phase::Recovery
            || self.phase == Phase::Loss
            || self.board.sacked_records() >= 3;
        let reo_wnd = self.rack.reo_wnd(hurry, self.rtt.least(), self.rtt.smoothed());
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

    /// F-RTO (RFC 5682 section 3.1, with SACK): whether the timeout was spurious.
    fn forward(&mut self, arrived: &Arrived, advanced: bool) -> bool {
        // Something sent once, before the timeout, has arrived after it. Without SACK it may have arrived before it,
        // behind the hole that the retransmission has filled.
        if arrived.original && (self.rules.sack || (advanced && !arrived.resent)) {
            return true;
        }
        let sent_new = self.board.next() > self.recover;
        let more = self.unsent() > 0 && self.peer_edge > self.board.next();
        match (sent_new, advanced) {
            // Step 2b: the first ACK that advances SND.UNA.
            (false, true) if more => self.frto = Some(NEW_SEGMENTS),
            // Step 2: the ACK of the retransmission is still to come.
            (false, false) if self.rules.sack => {}
            (true, true) => {}
            _ => self.frto = None,
        }
        false
    }

    /// TLP_process_ack (RFC 8985 section 7.4.2): whether the probe repaired a loss that nothing else
    /// told of.
    fn on_probe_acked(&mut self, ack: u64, duplicate: bool, plain: bool) -> bool {
        let Some((end, resent)) = self.probe else { return false };
        if ack < end {
            return false;
        }
        if !resent || duplicate {
            self.probe = None;
        } else if ack > end {
            self.probe = None;
            return self.enter_reduced();
        } else if plain {
            // Case 3: the original and the probe have both arrived.
            self.probe = None;
        }
        false
    }
}

/// RFC 2883 section 4: the first block lies below the cumulative ACK or within the second block.
fn is_duplicate(start: u64, end: u64, ack: u64, second: Option<&(u64, u64)>) -> bool {
    end <= ack || second.is_some_and(|second| second.0 <= start && end <= second.1)
}

/// It carries nothing but an acknowledgement.
pub(super) fn is_plain(segment: &Segment) -> bool {
    segment.data.is_empty() && !segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::FIN)
}
