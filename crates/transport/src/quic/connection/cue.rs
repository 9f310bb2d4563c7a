//! What is done when somebody who knows the way says that it is there again after a time without one.
//!
//! The probe timeout doubles as long as nothing is acknowledged (RFC 9002 section 6.2.1) and is set anew by every packet that
//! elicits an ACK, so the next probe may be due long after the way's return. A PING at once, past the window as a probe is
//! (section 7.5), has the peer acknowledge what it has; that brings the back-off to zero and declares lost what is.
//! The stack offers no more than the PING, and its timer stays backed off until then: should the PING be lost, the next follows
//! here after three RTTs, the timeout of a connection with one sample (sections 5.3, 6.2.1), doubled each time.

use units::{Span, Time};

use super::{Connection, span};

/// PINGs until something is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cue {
    /// When the next is due.
    at: Time,
    /// How long after the one before it.
    after: Span,
}

impl Connection {
    /// The way is there again. Where nothing is in flight nothing waits for a timeout.
    pub(super) fn on_cue(&mut self, now: Time) {
        let waits = self.gate.with(|shared| shared.estimator.in_flight()) > 0;
        if waits && !self.over {
            let after = span(self.inner.rtt()) * 3;
            self.ping(now, after);
        }
    }

    /// When the next PING is due.
    pub(super) fn cue_at(&self) -> Time {
        self.cue.map_or(Time::MAX, |cue| cue.at)
    }

    /// Sends the next PING if it is due.
    pub(super) fn cue_again(&mut self, now: Time) {
        if let Some(cue) = self.cue.filter(|cue| cue.at <= now) {
            if self.over {
                self.cue = None;
            } else {
                self.ping(now, cue.after * 2);
            }
        }
    }

    fn ping(&mut self, now: Time, after: Span) {
        self.inner.ping();
        self.may_send_one = true;
        self.cue = Some(Cue { at: now + after, after });
    }
}
