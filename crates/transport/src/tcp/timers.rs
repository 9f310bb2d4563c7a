//! The retransmission timer and the others that share it (RFC 6298, RFC 8985 section 7, RFC 9293 section 3.8.6.1).

use units::{Span, Time};

use super::recovery::CaState;
use super::sender::Sender;

/// Purpose of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerKind {
    /// No purpose: the timer is off.
    Idle,
    /// Retransmission timeout.
    Retransmission,
    /// Probe timeout.
    Probe,
    /// RACK's reordering timeout.
    Reordering,
    /// The peer's window is closed.
    Persist,
}

/// RFC 8985 section 7.2: without an RTT sample a probe waits for 1 s.
const PROBE_WITHOUT_RTT: Span = Span::from_secs(1);

/// RFC 8985 section 7.2's TLP.max_ack_delay: Linux uses 200 ms.
const MAX_ACK_DELAY: Span = Span::from_millis(200);

impl Sender {
    /// Sets the timer for the current state.
    pub(super) fn arm(&mut self, now: Time) {
        if self.board.is_empty() {
            let blocked = self.unsent() > 0 && self.send_window_edge <= self.board.next();
            if !blocked {
                self.set_timer(TimerKind::Idle, Time::MAX);
            } else if self.timer != TimerKind::Persist {
                self.set_timer(TimerKind::Persist, now + self.rtt.rto());
            }
            return;
        }
        // A shortened timeout can lie in the past: it expires now.
        let rto_at = (self.rto_start + self.rtt.rto()).max(now);
        if self.timer == TimerKind::Reordering && self.timer_at > now {
            return;
        }
        if self.can_probe() {
            let mut wait = self.rtt.smoothed().map_or(PROBE_WITHOUT_RTT, |smoothed| smoothed * 2);
            if self.board.len() == 1 {
                wait += MAX_ACK_DELAY;
            }
            self.set_timer(TimerKind::Probe, (now + wait).min(rto_at));
        } else {
            self.set_timer(TimerKind::Retransmission, rto_at);
        }
    }

    /// RFC 8985 section 7.2: returns whether a probe is allowed. It is not in recovery, after a selective
    /// acknowledgement, or with another probe in transit.
    fn can_probe(&self) -> bool {
        self.options.rack
            && matches!(self.ca_state, CaState::Open | CaState::Cwr)
            && self.probe.is_none()
            && !self.probe_due
            && self.board.sacked_records() == 0
    }

    pub(super) fn set_timer(&mut self, timer: TimerKind, at: Time) {
        self.timer = timer;
        self.timer_at = at;
    }

    /// Sets the timer of RACK (RFC 8985 section 6.2, step 5), or another one.
    pub(super) fn arm_reordering(&mut self, now: Time, at: Option<Time>) {
        match at {
            Some(at) => {
                let rto_at = self.rto_start + self.rtt.rto();
                self.set_timer(TimerKind::Reordering, at.min(rto_at).max(now));
            }
            None => {
                if self.timer == TimerKind::Reordering {
                    self.timer = TimerKind::Idle;
                }
                self.arm(now);
            }
        }
    }

    /// Does the work that is due.
    pub(super) fn poll(&mut self, now: Time) {
        if self.control.timer_at <= now {
            let control = self.controller.on_event(now, &cc::ControllerEvent::Timer);
            self.apply_control(control);
        }
        if self.timer_at > now {
            return;
        }
        let timer = self.timer;
        self.set_timer(TimerKind::Idle, Time::MAX);
        match timer {
            TimerKind::Idle => {}
            TimerKind::Reordering if self.rto_start + self.rtt.rto() > now => {
                let (reduces, at) = self.detect_by_time(now);
                self.update_control(now, reduces, false, false, None);
                self.arm_reordering(now, at);
            }
            // A probe with a deadline limited to the RTO also goes first.
            TimerKind::Probe => self.probe_due = true,
            // The deadline of the reordering timer was limited to the RTO.
            TimerKind::Retransmission | TimerKind::Reordering => {
                self.enter_loss(now);
                self.rtt.back_off();
                self.rto_start = now;
                self.arm(now);
            }
            TimerKind::Persist => {
                self.window_probe_due = true;
                self.rtt.back_off();
                self.set_timer(TimerKind::Persist, now + self.rtt.rto());
            }
        }
    }
}
