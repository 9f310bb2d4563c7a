//! Recovery episodes: how they begin and end, and how one that was a mistake is undone.

use units::Time;

use super::prr::Prr;
use super::scoreboard::{Record, Scoreboard};
use super::sender::Sender;
use crate::EventKind;

/// What the sender is doing about congestion (Linux's names: Open, Recovery, CWR, Loss).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing is wrong.
    Open,
    /// Fast recovery: losses are being repaired.
    Recovery,
    /// The window was reduced without a loss to repair: an ECN echo, a probe that repaired one.
    Reduced,
    /// After a retransmission timeout.
    Loss,
}

/// What tells a spurious reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// SND.UNA when the reduction was made.
    pub marker: u64,
    /// Retransmissions of which no duplicate was reported.
    unproved: u32,
    /// Any retransmission was made.
    any: bool,
    /// When the first of them left.
    pub first_resent: Time,
}

impl Undo {
    /// What was sent again before and is still on its way counts too: its ACK is no proof that an
    /// original has arrived (Linux: undo_retrans begins with retrans_out).
    fn new(board: &Scoreboard) -> Undo {
        let (unproved, first_resent) = board.resent();
        Undo { marker: board.una(), unproved, any: unproved > 0, first_resent }
    }

    pub(super) fn on_resent(&mut self, now: Time) {
        self.unproved += 1;
        self.any = true;
        self.first_resent = self.first_resent.min(now);
    }

    /// A duplicate was reported; whether every retransmission was one (RFC 3708).
    pub(super) fn on_duplicate(&mut self) -> bool {
        self.unproved = self.unproved.saturating_sub(1);
        self.any && self.unproved == 0
    }
}

impl Sender {
    /// Data was declared lost: whether recovery begins here, with a reduction of the window.
    pub(super) fn enter_recovery(&mut self) -> bool {
        let reduces = match self.phase {
            Phase::Open => true,
            // One reduction for both reasons.
            Phase::Reduced => false,
            Phase::Recovery | Phase::Loss => return false,
        };
        self.phase = Phase::Recovery;
        self.answers_mark();
        self.recover = self.board.next();
        self.rescued = false;
        self.forward_from = self.board.first();
        if reduces {
            self.undo = Some(Undo::new(&self.board));
            self.forced = !self.rules.prr || self.control.pacing_rate.is_some();
        }
        reduces
    }

    /// RFC 3168 section 6.1.2: after a reduction for whatever reason, the next new data says so.
    fn answers_mark(&mut self) {
        self.cwr |= self.rules.ecn;
    }

    /// A reason to reduce the window that needs no repair; whether it is the first of this window.
    pub(super) fn enter_reduced(&mut self) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        self.phase = Phase::Reduced;
        self.answers_mark();
        self.recover = self.board.next();
        self.undo = None;
        true
    }

    /// Gives the controller what has been learnt, and lets PRR act on it. `reduces`: a reduction
    /// begins here. `growth` says whether the window may grow.
    pub(super) fn conclude(
        &mut self,
        now: Time,
        reduces: bool,
        growth: bool,
        advanced: bool,
        latest: Option<units::Span>,
    ) {
        let least = self.rtt.least().unwrap_or(units::Span::ZERO);
        let flushed = self.estimator.flush(now, self.srtt(), least, &*self.controller);
        let Some(mut ack) = flushed else { return };
        ack.is_congestion_event = reduces;
        ack.is_persistent_congestion = false;
        ack.is_in_rto_recovery = self.phase == Phase::Loss && self.board.una() < self.recover;
        ack.acked_in_recovery = if growth { 0 } else { ack.acked };
        ack.latest_rtt = latest;
        let (slow_start, any) = self.limits();
        ack.slow_start_limit = slow_start;
        ack.growth_limit = any.min(ack.growth_limit);
        if reduces {
            self.counters.congestion_events += 1;
            self.signals.push((EventKind::Congestion, ack.lost as f64));
        }
        let control = self.controller.on_event(now, &cc::ControllerEvent::Ack(ack));
        self.adopt(control);
        if self.uses_prr() {
            if reduces {
                self.prr = Prr::begin(self.control.cwnd, ack.prior_in_flight);
            }
            let safe = advanced && ack.lost == 0;
            self.prr.on_ack(ack.acked, ack.in_flight, safe, self.rules.mss);
        }
    }

    /// SND.UNA has reached the recovery point.
    pub(super) fn leave_recovery(&mut self) {
        // RFC 8985 section 6.2 step 4 counts recoveries of both kinds.
        if matches!(self.phase, Phase::Recovery | Phase::Loss) {
            self.rack.on_recovered();
        }
        self.phase = Phase::Open;
        self.dup_acks = 0;
        self.frto = None;
        self.rtt.clear_backoff();
    }

    /// SND.UNA has reached the recovery point: whether what is known of the data beyond it is a
    /// recovery of its own, with its own reduction (RFC 6675 section 5; Linux: lost_out).
    pub(super) fn recovers_on(&mut self) -> bool {
        if !self.rules.sack || !self.board.misses() {
            return false;
        }
        self.leave_recovery();
        let reduces = self.enter_recovery();
        // The repair may have left already.
        self.forced &= self.board.next_to_resend().is_some();
        reduces
    }

    /// A retransmission timeout begins the phase Loss (RFC 5681 section 3.1, RFC 6675 section 5.1).
    pub(super) fn enter_loss(&mut self, now: Time) {
        let again = self.phase == Phase::Loss;
        // RFC 5682 section 3.1, step 1: not while losses are being repaired.
        let forward = self.rules.frto && matches!(self.phase, Phase::Open | Phase::Reduced);
        self.frto = forward.then_some(0);
        // RFC 5681's FlightSize: what is outstanding, whether or not it is still in the network.
        let outstanding = (self.board.next() - self.board.una()).min(self.control.cwnd);
        let flight_size = self.estimator.in_flight().max(outstanding);
        if !again || self.undo.is_none_or(|undo| undo.marker < self.board.una()) {
            self.undo = Some(Undo::new(&self.board));
        }
        self.phase = Phase::Loss;
        self.answers_mark();
        self.recover = self.board.next();
        self.dup_acks = 0;
        self.threshold = self.rules.threshold;
        self.probe = None;
        self.probe_due = false;
        let Sender { board, estimator, counters, rack, rules, .. } = self;
        if !rules.sack {
            board.forget_sacked(|record| {
                estimator.on_delivery_retracted(record.sent, u64::from(record.length));
            });
        }
        // RFC 8985 section 6.3, without its reo_wnd, as in Linux: with RACK, what left a moment ago is not lost yet.
        let overdue =
            |record: &Record| !rules.rack || rack.lost_at(record, units::Span::ZERO) <= now;
        board.mark_overdue(overdue, |record| {
            let length = u64::from(record.length);
            estimator.on_lost(now, record.sent, length, false);
            counters.lost_packets += 1;
            counters.lost_bytes += length;
        });
        // What the timer lost is told by the timeout, not as a loss.
        let least = self.rtt.least().unwrap_or(units::Span::ZERO);
        let _ = self.estimator.flush(now, self.srtt(), least, &*self.controller);
        self.estimator.end_recovery();
        self.counters.timeouts += 1;
        self.signals.push((EventKind::Timeout, flight_size as f64));
        let in_flight = self.estimator.in_flight();
        let timeout = cc::ControllerEvent::Timeout { flight_size, in_flight };
        let control = self.controller.on_event(now, &timeout);
        self.adopt(control);
        self.forced = true;
    }

    /// The last reduction was a mistake: what was declared lost is in flight, and the controller
    /// takes its reduction back (RFC 4015, RFC 3708, RFC 5682).
    pub(super) fn undo(&mut self, now: Time) {
        self.undo = None;
        self.frto = None;
        let Sender { board, estimator, .. } = self;
        board
            .unmark_all(|record| estimator.on_spurious_loss(record.sent, u64::from(record.length)));
        self.phase = Phase::Open;
        // Without SACK the next duplicate ACKs are of a new loss, of a segment that did not arrive.
        self.recover = self.board.una() - 1;
        if !self.rules.sack {
            self.take_back();
        }
        self.dup_acks = 0;
        self.rtt.clear_backoff();
        self.counters.undone += 1;
        let control = self.controller.on_event(now, &cc::ControllerEvent::SpuriousLoss);
        self.adopt(control);
    }

    /// Bytes an ACK is worth at the most: in slow start, and ever.
    fn limits(&self) -> (u64, u64) {
        let mss = self.rules.mss;
        match self.rules.counting {
            super::AckCounting::PerAck => (mss, mss),
            // RFC 3465 section 2.3: L = 1 after a timeout.
            super::AckCounting::Bytes { .. } if self.phase == Phase::Loss => (mss, u64::MAX),
            super::AckCounting::Bytes { limit } => (u64::from(limit) * mss, u64::MAX),
            super::AckCounting::Unlimited => (u64::MAX, u64::MAX),
        }
    }
}
