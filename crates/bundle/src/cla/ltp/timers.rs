//! Timers that follow the planned state of the peer (RFC 5326 sections 6.2 to 6.8). A timer runs only while the peer
//! can send, and expires after the light times and the response time of the peer.

use std::collections::{BTreeMap, BTreeSet};

use units::{Span, Time};

use super::segment::LtpSessionId;
use crate::LinkState;

/// The subject of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimerKey {
    /// A checkpoint of a session of this side.
    Checkpoint(u64, u64),
    /// The cancellation of a session of this side.
    CancelOutgoing(u64),
    /// A report on a session of the peer.
    Report(LtpSessionId, u64),
    /// The cancellation of a session of the peer.
    CancelIncoming(LtpSessionId),
    /// Silence of a session of the peer.
    Silence(LtpSessionId),
}

/// The latest time of the response by the clock of the peer, and the expiry. `None` while the peer cannot send.
#[derive(Clone, Copy, Debug)]
struct Countdown {
    answers_at: Time,
    expires_at: Option<Time>,
}

#[derive(Debug, Default)]
pub(super) struct LtpTimers {
    countdowns: BTreeMap<TimerKey, Countdown>,
    due: BTreeSet<(Time, TimerKey)>,
    /// Lower bounds of arrival times after a decrease of the light time: later segments do not overtake earlier ones.
    arrival_floor_out: Time,
    arrival_floor_in: Time,
}

impl LtpTimers {
    /// Starts a timer for a segment sent at `sent`. The peer responds within `peer_time` after its arrival.
    pub fn start(&mut self, key: TimerKey, sent: Time, peer_time: Span, link_state: &LinkState) {
        self.stop(key);
        let answers_at = (sent + link_state.owlt_out).max(self.arrival_floor_out) + peer_time;
        self.insert(
            key,
            answers_at,
            link_state.can_receive.then(|| self.expiry(answers_at, link_state)),
        );
    }

    /// Returns the latest arrival here of a response that the peer sends at `answers_at`.
    fn expiry(&self, answers_at: Time, link_state: &LinkState) -> Time {
        (answers_at + link_state.owlt_in).max(self.arrival_floor_in)
    }

    /// Applies changed light times from `now` on. Later responses use the new light time, and no timer becomes shorter.
    pub fn on_owlt_change(&mut self, now: Time, before: &LinkState, link_state: &LinkState) {
        if link_state.owlt_out < before.owlt_out {
            self.arrival_floor_out = self.arrival_floor_out.max(now + before.owlt_out);
        }
        if link_state.owlt_in < before.owlt_in {
            self.arrival_floor_in = self.arrival_floor_in.max(now + before.owlt_in);
        }
        if link_state.owlt_in > before.owlt_in {
            let later = self
                .countdowns
                .iter()
                .filter(|(_, one)| one.expires_at.is_some() && one.answers_at > now);
            let later: Vec<(TimerKey, Time)> =
                later.map(|(key, one)| (*key, one.answers_at)).collect();
            for (key, answers_at) in later {
                self.stop(key);
                self.insert(key, answers_at, Some(self.expiry(answers_at, link_state)));
            }
        }
    }

    fn insert(&mut self, key: TimerKey, answers_at: Time, expires_at: Option<Time>) {
        self.countdowns.insert(key, Countdown { answers_at, expires_at });
        self.due.extend(expires_at.map(|until| (until, key)));
    }

    pub fn stop(&mut self, key: TimerKey) {
        if let Some(Countdown { expires_at: Some(until), .. }) = self.countdowns.remove(&key) {
            self.due.remove(&(until, key));
        }
    }

    /// Suspends timers when the peer cannot send from `now` on. It sends later responses after it resumes.
    pub fn suspend(&mut self, now: Time) {
        for (key, one) in &mut self.countdowns {
            if let Some(until) = one.expires_at.take_if(|_| one.answers_at > now) {
                self.due.remove(&(until, *key));
            }
        }
    }

    /// Resumes timers when the peer can send again. It sends waiting responses within `peer_time`.
    pub fn resume(&mut self, now: Time, peer_time: Span, link_state: &LinkState) {
        let suspended = self.countdowns.iter().filter(|(_, one)| one.expires_at.is_none());
        let suspended: Vec<(TimerKey, Time)> =
            suspended.map(|(key, one)| (*key, one.answers_at)).collect();
        for (key, answers_at) in suspended {
            let answers_at = answers_at.max(now + peer_time);
            self.insert(key, answers_at, Some(self.expiry(answers_at, link_state)));
        }
    }

    /// Removes one timer that expired by `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<TimerKey> {
        let (_, key) = self.due.first().copied().filter(|(until, _)| *until <= now)?;
        self.stop(key);
        Some(key)
    }

    pub fn poll_at(&self) -> Time {
        self.due.first().map_or(Time::MAX, |(until, _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;

    const KEY: TimerKey = TimerKey::Checkpoint(1, 1);

    fn link_state(can_receive: bool) -> LinkState {
        let (owlt_out, owlt_in) = (Span::from_secs(10), Span::from_secs(20));
        LinkState { can_send: true, rate: Some(Rate(1)), can_receive, owlt_out, owlt_in }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    /// Starts a timer: sent at 100 s, answered by the peer by 112 s, received by 132 s.
    fn started(can_receive: bool) -> LtpTimers {
        let mut timers = LtpTimers::default();
        timers.start(KEY, at(100), Span::from_secs(2), &link_state(can_receive));
        timers
    }

    #[test]
    fn a_timer_expires_after_both_light_times_and_the_response_time() {
        let mut timers = started(true);
        assert_eq!(timers.poll_at(), at(132));
        assert_eq!(timers.pop_due(at(131)), None);
        assert_eq!(timers.pop_due(at(132)), Some(KEY));
        assert_eq!(timers.poll_at(), Time::MAX);
    }

    #[test]
    fn a_response_sent_before_the_end_of_a_contact_is_awaited() {
        let mut timers = started(true);
        timers.suspend(at(112));
        assert_eq!(timers.poll_at(), at(132));
    }

    #[test]
    fn a_response_uses_the_light_time_at_its_transmission() {
        let (short, long) =
            (link_state(true), LinkState { owlt_in: Span::from_secs(50), ..link_state(true) });
        // The response is sent by 112 s: after the increase of the light time, or before.
        for (changes, expected) in [(111, 162), (112, 132)] {
            let mut timers = started(true);
            timers.on_owlt_change(at(changes), &short, &long);
            assert_eq!(timers.poll_at(), at(expected), "{changes} s");
            // The timer does not become shorter: a response in transit still has the longer light time.
            timers.on_owlt_change(at(changes) + Span(1), &long, &short);
            assert_eq!(timers.poll_at(), at(expected), "{changes} s");
        }
    }

    #[test]
    fn a_shorter_light_time_does_not_reorder_segments() {
        let near = LinkState {
            owlt_out: Span::from_secs(1),
            owlt_in: Span::from_secs(2),
            ..link_state(true)
        };
        let mut timers = LtpTimers::default();
        timers.on_owlt_change(at(99), &link_state(true), &near);
        // The segment arrives at 109 s with that of 99 s. The response is sent by 111 s with the short light time.
        timers.start(KEY, at(100), Span::from_secs(2), &near);
        assert_eq!(timers.poll_at(), at(119));
        timers.start(KEY, at(200), Span::from_secs(2), &near);
        assert_eq!(timers.poll_at(), at(205));
    }

    #[test]
    fn an_unsent_response_is_awaited_from_the_next_contact() {
        for began in [true, false] {
            let mut timers = started(began);
            timers.suspend(at(111));
            assert_eq!((timers.poll_at(), timers.pop_due(at(9_999))), (Time::MAX, None));
            timers.resume(at(5_000), Span::from_secs(2), &link_state(true));
            assert_eq!(timers.poll_at(), at(5_022));
        }
        // The peer resumes before the segment arrives.
        let mut timers = started(false);
        timers.resume(at(105), Span::from_secs(2), &link_state(true));
        assert_eq!(timers.poll_at(), at(132));
    }
}
