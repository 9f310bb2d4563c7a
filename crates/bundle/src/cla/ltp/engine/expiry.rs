//! The expiry of timers: retransmission, cancellation, and the end of silent sessions.

use units::Time;

use super::super::segment::{LtpSessionId, reason};
use super::super::timers::TimerKey;
use super::{ControlSegment, LtpEngine};
use crate::SessionEvent;

impl LtpEngine {
    /// Handles timers that expired by `now`.
    pub fn expire_timers(&mut self, now: Time, out: &mut Vec<SessionEvent>) {
        let max_retransmissions = self.spec.max_retransmissions;
        while let Some(key) = self.timers.pop_due(now) {
            match key {
                TimerKey::Checkpoint(number, serial) => {
                    let Some(one) = self.outgoing.get_mut(&number) else { continue };
                    match one.on_checkpoint_expired(serial, max_retransmissions) {
                        Ok(()) => self.queue_retransmission(number),
                        Err(why) => self.cancel_outgoing(now, number, why, out),
                    }
                }
                TimerKey::Report(session, serial) => {
                    let one = self
                        .incoming
                        .get(&session)
                        .and_then(|one| one.unacked_reports.get(&serial));
                    match one {
                        Some(one) if one.transmissions > max_retransmissions => {
                            self.cancel_incoming(session, reason::RETRANSMISSIONS);
                        }
                        Some(_) => {
                            self.control_queue.push_back(ControlSegment::Report(session, serial))
                        }
                        None => {}
                    }
                }
                TimerKey::CancelOutgoing(number) => {
                    if self
                        .cancelled_outgoing
                        .get(&number)
                        .is_some_and(|one| one.transmissions > max_retransmissions)
                    {
                        self.cancelled_outgoing.remove(&number);
                    } else {
                        self.control_queue.push_back(ControlSegment::CancelOutgoing(number));
                    }
                }
                TimerKey::CancelIncoming(session) => {
                    if self
                        .cancelled_incoming
                        .get(&session)
                        .is_some_and(|one| one.transmissions > max_retransmissions)
                    {
                        self.cancelled_incoming.remove(&session);
                    } else {
                        self.control_queue.push_back(ControlSegment::CancelIncoming(session));
                    }
                }
                TimerKey::Silence(session) => self.on_silence(now, session),
            }
        }
    }

    /// Handles the silence timer of a session.
    fn on_silence(&mut self, now: Time, session: LtpSessionId) {
        let Some(one) = self.incoming.get(&session) else { return };
        let received_at = self.last_received_at.get(&session).copied().unwrap_or(now);
        let is_waiting =
            one.delivered_id.is_some() && !one.durable || !one.unacked_reports.is_empty();
        let since = if is_waiting { now } else { received_at };
        let silence_timeout = self.silence_timeout();
        if since + silence_timeout + self.link_state.owlt_out + self.link_state.owlt_in > now {
            self.timers.start(TimerKey::Silence(session), since, silence_timeout, &self.link_state);
        } else if one.is_red() && one.delivered_id.is_none() {
            self.cancel_incoming(session, reason::SYSTEM);
        } else {
            // A green block has no response; a delivered red block was reported as far as the sender requested.
            self.close_incoming(session);
        }
    }
}
