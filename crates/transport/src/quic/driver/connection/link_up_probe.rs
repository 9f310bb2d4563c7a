//! Probes after a signal that the link to the peer is up again.
//!
//! The probe timeout doubles without an ACK (RFC 9002 section 6.2.1), and every ack-eliciting packet restarts it. So
//! the next probe can be due long after the link is up. An immediate PING ignores the window as a probe does (section
//! 7.5). Its ACK resets the back-off and reveals losses. The stack offers only the PING, and its timer stays backed off
//! until then. After a lost PING the next one follows in three RTTs, the timeout of a connection with one sample
//! (sections 5.3, 6.2.1). The timeout then doubles each time.

use units::{Span, Time};

use super::ConnectionDriver;
use crate::quic::stack::StackConnection;

/// PINGs until data is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkUpProbe {
    /// Time of the next PING.
    next_at: Time,
    /// Interval before it.
    interval: Span,
}

impl<C: StackConnection> ConnectionDriver<C> {
    /// Handles a link-up signal. Without data in flight no timeout is pending.
    pub(super) fn on_link_up(&mut self, now: Time) {
        let waits = self.shim.with(|shared| shared.estimator.in_flight()) > 0;
        if waits && !self.has_ended {
            let interval = self.inner.rtt() * 3;
            self.send_ping(now, interval);
        }
    }

    /// Returns the time of the next PING.
    pub(super) fn link_up_probe_at(&self) -> Time {
        self.link_up_probe.map_or(Time::MAX, |probe| probe.next_at)
    }

    /// Sends the next PING if it is due.
    pub(super) fn poll_link_up_probe(&mut self, now: Time) {
        if let Some(probe) = self.link_up_probe.filter(|probe| probe.next_at <= now) {
            if self.has_ended {
                self.link_up_probe = None;
            } else {
                self.send_ping(now, probe.interval * 2);
            }
        }
    }

    fn send_ping(&mut self, now: Time, interval: Span) {
        self.inner.ping();
        self.may_send_one = true;
        self.link_up_probe = Some(LinkUpProbe { next_at: now + interval, interval });
    }
}
