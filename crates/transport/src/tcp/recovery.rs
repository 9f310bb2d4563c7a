//! Recovery episodes: their start, their end, and the undo of spurious ones.

use units::Time;

use super::prr::Prr;
use super::scoreboard::{Scoreboard, SentSegment};
use super::sender::Sender;
use crate::FlowEventKind;
use crate::endpoint_stats::add_count;

/// Congestion state of the sender (Linux's names: Open, Recovery, CWR, Loss).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaState {
    /// No congestion.
    Open,
    /// Fast recovery: losses are being repaired.
    Recovery,
    /// The window was reduced without a pending repair: after an ECN echo, or a probe that repaired a loss.
    Cwr,
    /// After a retransmission timeout.
    Loss,
}

/// Evidence of a spurious reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct UndoState {
    /// SND.UNA at the reduction.
    pub marker: u64,
    /// Retransmissions without a reported duplicate.
    undo_retrans: u32,
    /// There was a retransmission.
    has_retransmitted: bool,
    /// Time of the first retransmission.
    pub first_retransmit_at: Time,
}

impl UndoState {
    /// Creates the state of a reduction. Earlier retransmissions in transit count: their ACKs do not prove that an
    /// original has arrived (Linux: undo_retrans begins with retrans_out).
    fn new(board: &Scoreboard) -> UndoState {
        let (undo_retrans, first_retransmit_at) = board.outstanding_retransmissions();
        UndoState {
            marker: board.una(),
            undo_retrans,
            has_retransmitted: undo_retrans > 0,
            first_retransmit_at,
        }
    }

    pub(super) fn on_retransmit(&mut self, now: Time) {
        self.undo_retrans += 1;
        self.has_retransmitted = true;
        self.first_retransmit_at = self.first_retransmit_at.min(now);
    }

    /// Counts a reported duplicate. Returns whether every retransmission was one (RFC 3708).
    pub(super) fn on_dsack(&mut self) -> bool {
        self.undo_retrans = self.undo_retrans.saturating_sub(1);
        self.has_retransmitted && self.undo_retrans == 0
    }
}

impl Sender {
    /// Handles a declared loss. Returns whether recovery begins here, with a reduction of the window.
    pub(super) fn enter_recovery(&mut self) -> bool {
        let reduces = match self.ca_state {
            CaState::Open => true,
            // One reduction covers both reasons.
            CaState::Cwr => false,
            CaState::Recovery | CaState::Loss => return false,
        };
        self.ca_state = CaState::Recovery;
        self.mark_cwr();
        self.recovery_point = self.board.next();
        self.rescue_sent = false;
        self.rule3_cursor = self.board.first_id();
        if reduces {
            self.undo_state = Some(UndoState::new(&self.board));
            self.forced = !self.options.prr || self.control.pacing_rate.is_some();
        }
        reduces
    }

    /// Marks the next new data with CWR after any reduction (RFC 3168 section 6.1.2).
    fn mark_cwr(&mut self) {
        self.cwr_pending |= self.options.ecn;
    }

    /// Reduces the window for a cause without a repair. Returns whether it is the first one in this window.
    pub(super) fn enter_cwr(&mut self) -> bool {
        if self.ca_state != CaState::Open {
            return false;
        }
        self.ca_state = CaState::Cwr;
        self.mark_cwr();
        self.recovery_point = self.board.next();
        self.undo_state = None;
        true
    }

    /// Passes the new samples to the controller, and applies PRR. `reduces`: a reduction begins here. `growth`: the
    /// window may grow.
    pub(super) fn update_control(
        &mut self,
        now: Time,
        reduces: bool,
        growth: bool,
        advanced: bool,
        latest: Option<units::Span>,
    ) {
        let min_rtt = self.rtt.min_rtt().unwrap_or(units::Span::ZERO);
        let flushed = self.estimator.flush(now, self.srtt(), min_rtt, &*self.controller);
        let Some(mut ack) = flushed else { return };
        ack.is_congestion_event = reduces;
        ack.is_persistent_congestion = false;
        ack.is_in_rto_recovery =
            self.ca_state == CaState::Loss && self.board.una() < self.recovery_point;
        ack.acked_in_recovery = if growth { 0 } else { ack.acked };
        ack.latest_rtt = latest;
        let (slow_start, any) = self.growth_limits();
        ack.slow_start_limit = slow_start;
        ack.growth_limit = any.min(ack.growth_limit);
        if reduces {
            add_count(&mut self.counters.congestion_events, 1);
            self.events.push((FlowEventKind::Congestion, ack.lost as f64));
        }
        let control = self.controller.on_event(now, &cc::ControllerEvent::Ack(ack));
        self.apply_control(control);
        if self.uses_prr() {
            if reduces {
                self.prr = Prr::begin(self.control.cwnd, ack.prior_in_flight);
            }
            let safe = advanced && ack.lost == 0;
            self.prr.on_ack(ack.acked, ack.in_flight, safe, self.options.mss);
        }
    }

    /// Ends recovery: SND.UNA has reached the recovery point.
    pub(super) fn exit_recovery(&mut self) {
        // RFC 8985 section 6.2 step 4 counts recoveries of both kinds.
        if matches!(self.ca_state, CaState::Recovery | CaState::Loss) {
            self.rack.on_recovered();
        }
        self.ca_state = CaState::Open;
        self.dup_acks = 0;
        self.frto = None;
        self.rtt.clear_backoff();
    }

    /// Checks data beyond the recovery point, which SND.UNA has reached. Returns whether it starts a new recovery with
    /// another reduction (RFC 6675 section 5; Linux: lost_out).
    pub(super) fn reenter_recovery(&mut self) -> bool {
        if !self.options.sack || !self.board.has_unrepaired_loss() {
            return false;
        }
        self.exit_recovery();
        let reduces = self.enter_recovery();
        // The repair may already be sent.
        self.forced &= self.board.next_lost().is_some();
        reduces
    }

    /// Enters the state Loss after a retransmission timeout (RFC 5681 section 3.1, RFC 6675 section 5.1).
    pub(super) fn enter_loss(&mut self, now: Time) {
        let was_loss = self.ca_state == CaState::Loss;
        // RFC 5682 section 3.1, step 1: not during the repair of losses.
        let use_frto = self.options.frto && matches!(self.ca_state, CaState::Open | CaState::Cwr);
        self.frto = use_frto.then_some(0);
        // RFC 5681's FlightSize: outstanding data, whether or not it is still in the network.
        let outstanding = (self.board.next() - self.board.una()).min(self.control.cwnd);
        let flight_size = self.estimator.in_flight().max(outstanding);
        if !was_loss || self.undo_state.is_none_or(|undo| undo.marker < self.board.una()) {
            self.undo_state = Some(UndoState::new(&self.board));
        }
        self.ca_state = CaState::Loss;
        self.mark_cwr();
        self.recovery_point = self.board.next();
        self.dup_acks = 0;
        self.threshold = self.options.dup_threshold;
        self.probe = None;
        self.probe_due = false;
        let Sender { board, estimator, counters, rack, options, .. } = self;
        if !options.sack {
            board.clear_sacked(|record| {
                estimator.on_delivery_retracted(record.sent, u64::from(record.length));
            });
        }
        // RFC 8985 section 6.3 without its reo_wnd, as in Linux: with RACK, recently sent data is not lost yet.
        let overdue =
            |record: &SentSegment| !options.rack || rack.lost_at(record, units::Span::ZERO) <= now;
        board.mark_overdue(overdue, |record| {
            let length = u64::from(record.length);
            estimator.on_lost(now, record.sent, length, false);
            counters.lost_packets += 1;
            counters.lost_bytes += length;
        });
        // The timeout event reports these losses, not a loss event.
        let min_rtt = self.rtt.min_rtt().unwrap_or(units::Span::ZERO);
        let _ = self.estimator.flush(now, self.srtt(), min_rtt, &*self.controller);
        self.estimator.end_recovery();
        self.counters.rtos += 1;
        self.events.push((FlowEventKind::Timeout, flight_size as f64));
        let in_flight = self.estimator.in_flight();
        let timeout = cc::ControllerEvent::Timeout { flight_size, in_flight };
        let control = self.controller.on_event(now, &timeout);
        self.apply_control(control);
        self.forced = true;
    }

    /// Undoes the last reduction: data declared lost is in flight, and the controller reverts its reduction (RFC 4015,
    /// RFC 3708, RFC 5682).
    pub(super) fn undo_reduction(&mut self, now: Time) {
        self.undo_state = None;
        self.frto = None;
        let Sender { board, estimator, .. } = self;
        board
            .unmark_all(|record| estimator.on_spurious_loss(record.sent, u64::from(record.length)));
        self.ca_state = CaState::Open;
        // Without SACK, the next duplicate ACKs report a new loss of a segment that did not arrive.
        self.recovery_point = self.board.una() - 1;
        if !self.options.sack {
            self.reset_virtual_sacks();
        }
        self.dup_acks = 0;
        self.rtt.clear_backoff();
        add_count(&mut self.counters.cwnd_undos, 1);
        let control = self.controller.on_event(now, &cc::ControllerEvent::SpuriousLoss);
        self.apply_control(control);
    }

    /// Returns the maximum bytes that an ACK counts: in slow start, and always.
    fn growth_limits(&self) -> (u64, u64) {
        let mss = self.options.mss;
        match self.options.ack_counting {
            super::AckCounting::PerAck => (mss, mss),
            // RFC 3465 section 2.3: L = 1 after a timeout.
            super::AckCounting::Bytes { .. } if self.ca_state == CaState::Loss => (mss, u64::MAX),
            super::AckCounting::Bytes { limit } => (u64::from(limit) * mss, u64::MAX),
            super::AckCounting::Unlimited => (u64::MAX, u64::MAX),
        }
    }
}
