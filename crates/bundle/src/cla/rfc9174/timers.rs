//! The timers of a session: keepalives (section 4.7), and the time for the next message of the peer.

use units::{Span, Time};

use super::transfer_stream::TransferStream;
use super::{Rfc9174Session, SIGNAL_STREAM, SessionState};
use crate::cla::messages::{Message, term};

impl Rfc9174Session {
    /// Returns the negotiated keepalive interval (section 4.7), if enabled.
    fn keepalive_interval(&self) -> Option<Span> {
        let peer = self.peer_init.as_ref()?.keepalive_s;
        let seconds = self.config.init.keepalive_s.min(peer);
        (seconds > 0).then(|| Span::from_secs(seconds.into()))
    }

    /// Returns the deadline for the next message of the peer.
    fn response_deadline(&self) -> Time {
        match self.state {
            SessionState::Contact | SessionState::Secure | SessionState::Init => {
                self.last_received_at + self.config.response_timeout
            }
            SessionState::Established if self.uses_remembered_parameters => {
                self.last_received_at + self.config.response_timeout
            }
            // The reply to SESS_TERM.
            SessionState::Established if self.term_sent && !self.is_busy() => {
                self.last_received_at.max(self.last_sent_at) + self.config.response_timeout
            }
            // A peer behind flow control of a full stream does not count as silent.
            SessionState::Established
                if self
                    .transfer_streams
                    .get(SIGNAL_STREAM)
                    .is_some_and(TransferStream::is_full) =>
            {
                Time::MAX
            }
            // Section 5.1.1: twice the keepalive.
            SessionState::Established => self
                .keepalive_interval()
                .map_or(Time::MAX, |every| self.last_received_at + every * 2),
            SessionState::Closed | SessionState::Ended => Time::MAX,
        }
    }

    fn keepalive_at(&self) -> Time {
        match self.state {
            SessionState::Established if !self.term_sent => {
                self.keepalive_interval().map_or(Time::MAX, |every| self.last_sent_at + every)
            }
            _ => Time::MAX,
        }
    }

    pub fn poll_at(&self) -> Time {
        self.response_deadline().min(self.keepalive_at())
    }

    pub(super) fn on_timer(&mut self, now: Time) {
        if self.response_deadline() <= now {
            if self.state == SessionState::Established && !self.term_sent {
                self.send_term(term::IDLE);
            }
            self.is_peer_unreachable = true;
            return self.fail(Some("the peer is silent"));
        }
        if self.keepalive_at() <= now {
            self.last_sent_at = now;
            self.signal_stream().queue_message(&Message::Keepalive);
        }
    }
}
