//! The retransmission timer and the others that share its place (RFC 6298, RFC 8985 section 7,
//! RFC 9293 section 3.8.6.1).

use units::{Span, Time};

use super::recovery::Phase;
use super::sender::Sender;

/// What the timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// Nothing.
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

/// RFC 8985 section 7.2's TLP.max_ack_delay: Linux takes 200 ms.
const MAX_ACK_DELAY: Span = Span::from_millis(200);

impl Sender {
    /// Sets the timer for the present state.
    pub(super) fn arm(&mut self, now: Time) {
        if self.board.is_empty() {
            let blocked = self.unsent() > 0 && self.peer_edge <= self.board.next();
            if !blocked {
                self.set(Timer::Idle, Time::MAX);
            } else if self.timer != Timer::Persist {
                self.set(Timer::Persist, now + self.rtt.rto());
            }
            return;
        }
        // A timeout that has grown shorter meanwhile may be over already: it expires now.
        let rto_at = (self.rto_from + self.rtt.rto()).max(now);
        if self.timer == Timer::Reordering && self.timer_at > now {
            return;
        }
        if self.may_probe() {
            let mut wait = self.rtt.smoothed().map_or(PROBE_WITHOUT_RTT, |smoothed| smoothed * 2);
            if self.board.len() == 1 {
                wait += MAX_ACK_DELAY;
            }
            self.set(Timer::Probe, (now + wait).min(rto_at));
        } else {
            self.set(Timer::Retransmission, rto_at);
        }
    }

    /// RFC 8985 section 7.2: no probe in recovery, after a selective acknowledgement, or while
    /// another is out.
    fn may_probe(&self) -> bool {
        self.rules.rack
            && matches!(self.phase, Phase::Open | Phase::Reduced)
            && self.probe.is_none()
            && !self.probe_due
            && self.board.sacked_records() == 0
    }

    pub(super) fn set(&mut self, timer: Timer, at: Time) {
        self.timer = timer;
        self.timer_at = at;
    }

    /// The timer of RACK (RFC 8985 section 6.2, step 5), or another one.
    pub(super) fn arm_reordering(&mut self, now: Time, at: Option<Time>) {
        match at {
            Some(at) => {
                let rto_at = self.rto_from + self.rtt.rto();
                self.set(Timer::Reordering, at.min(rto_at).max(now));
            }
            None => {
                if self.timer == Timer::Reordering {
                    self.timer = Timer::Idle;
                }
                self.arm(now);
            }
        }
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, now: Time) {
        if self.control.timer_at <= now {
            let control = self.controller.on_event(now, &cc::ControllerEvent::Timer);
            self.adopt(control);
        }
        if self.timer_at > now {
            return;
        }
        let timer = self.timer;
        self.set(Timer::Idle, Time::MAX);
        match timer {
            Timer::Idle => {}
            Timer::Reordering if self.rto_from + self.rtt.rto() > now => {
                let (reduces, at) = self.detect_by_time(now);
                self.conclude(now, reduces, false, false, None);
                self.arm_reordering(now, at);
            }
            // Also where it was brought forward to the timeout: a probe comes first.
            Timer::Probe => self.probe_due = true,
            Timer::Retransmission | Timer::Reordering => {
                self.enter_loss(now);
                self.rtt.back_off();
                self.rto_from = now;
                self.arm(now);
            }
            Timer::Persist => {
                self.window_probe_due = true;
                self.rtt.back_off();
                self.set(Timer::Persist, now + self.rtt.rto());
            }
        }
    }
}
