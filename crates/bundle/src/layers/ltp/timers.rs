//! Timers that go by what the plan says of the peer (RFC 5326 sections 6.2 to 6.8): an answer is waited for while the peer
//! may send it, and no longer than light and the peer take.

use std::collections::{BTreeMap, BTreeSet};

use units::{Span, Time};

use super::segment::SessionNumber;
use crate::Way;

/// What a timer is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// A checkpoint of a session of this side.
    Checkpoint(u64, u64),
    /// That a session of this side is cancelled.
    CancelOut(u64),
    /// A report on a session of the peer's.
    Report(SessionNumber, u64),
    /// That a session of the peer's is cancelled.
    CancelIn(SessionNumber),
    /// That a session of the peer's goes on.
    Silence(SessionNumber),
}

/// When the peer answers at the latest, by its clock, and when this side gives it up; none: the peer cannot send.
#[derive(Clone, Copy, Debug)]
struct Countdown {
    answers: Time,
    until: Option<Time>,
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    all: BTreeMap<Key, Countdown>,
    due: BTreeSet<(Time, Key)>,
    /// What left before light became shorter is there by then, and here; what leaves later does not overtake it.
    there: Time,
    here: Time,
}

impl Timers {
    /// Waits for the answer to what has left at `sent`, to which the peer takes at most `peer` after it came.
    pub fn start(&mut self, key: Key, sent: Time, peer: Span, way: &Way) {
        self.stop(key);
        let answers = (sent + way.there).max(self.there) + peer;
        self.set(key, answers, way.hears.then(|| self.until(answers, way)));
    }

    /// When what leaves the peer at `answers` is here at the latest.
    fn until(&self, answers: Time, way: &Way) -> Time {
        (answers + way.back).max(self.here)
    }

    /// Light takes another time from `now` on. An answer that leaves later takes as long as light then; no timer becomes
    /// shorter.
    pub fn bend(&mut self, now: Time, before: &Way, way: &Way) {
        if way.there < before.there {
            self.there = self.there.max(now + before.there);
        }
        if way.back < before.back {
            self.here = self.here.max(now + before.back);
        }
        if way.back > before.back {
            let later = self.all.iter().filter(|(_, one)| one.until.is_some() && one.answers > now);
            let later: Vec<(Key, Time)> = later.map(|(key, one)| (*key, one.answers)).collect();
            for (key, answers) in later {
                self.stop(key);
                self.set(key, answers, Some(self.until(answers, way)));
            }
        }
    }

    fn set(&mut self, key: Key, answers: Time, until: Option<Time>) {
        self.all.insert(key, Countdown { answers, until });
        self.due.extend(until.map(|until| (until, key)));
    }

    pub fn stop(&mut self, key: Key) {
        if let Some(Countdown { until: Some(until), .. }) = self.all.remove(&key) {
            self.due.remove(&(until, key));
        }
    }

    /// The peer sends no more from `now` on: what it would have answered later it answers when it may again.
    pub fn suspend(&mut self, now: Time) {
        for (key, one) in &mut self.all {
            if let Some(until) = one.until.take_if(|_| one.answers > now) {
                self.due.remove(&(until, *key));
            }
        }
    }

    /// It sends again: answers that wait there leave within `peer`.
    pub fn resume(&mut self, now: Time, peer: Span, way: &Way) {
        let held = self.all.iter().filter(|(_, one)| one.until.is_none());
        let held: Vec<(Key, Time)> = held.map(|(key, one)| (*key, one.answers)).collect();
        for (key, answers) in held {
            let answers = answers.max(now + peer);
            self.set(key, answers, Some(self.until(answers, way)));
        }
    }

    /// One that has run out by `now`; it runs no more.
    pub fn pop(&mut self, now: Time) -> Option<Key> {
        let (_, key) = self.due.first().copied().filter(|(until, _)| *until <= now)?;
        self.stop(key);
        Some(key)
    }

    pub fn wake_at(&self) -> Time {
        self.due.first().map_or(Time::MAX, |(until, _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use units::Rate;

    use super::*;

    const KEY: Key = Key::Checkpoint(1, 1);

    fn way(hears: bool) -> Way {
        let (there, back) = (Span::from_secs(10), Span::from_secs(20));
        Way { sends: true, rate: Some(Rate(1)), hears, there, back }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    /// Sent at 100 s, answered there by 112 s, here by 132 s.
    fn started(hears: bool) -> Timers {
        let mut timers = Timers::default();
        timers.start(KEY, at(100), Span::from_secs(2), &way(hears));
        timers
    }

    #[test]
    fn it_runs_out_after_light_both_ways_and_what_the_peer_takes() {
        let mut timers = started(true);
        assert_eq!(timers.wake_at(), at(132));
        assert_eq!(timers.pop(at(131)), None);
        assert_eq!(timers.pop(at(132)), Some(KEY));
        assert_eq!(timers.wake_at(), Time::MAX);
    }

    #[test]
    fn an_answer_that_the_peer_has_sent_before_it_goes_dark_is_waited_for() {
        let mut timers = started(true);
        timers.suspend(at(112));
        assert_eq!(timers.wake_at(), at(132));
    }

    #[test]
    fn an_answer_takes_as_long_as_light_when_it_leaves() {
        let (short, long) = (way(true), Way { back: Span::from_secs(50), ..way(true) });
        // The answer leaves by 112 s: after light has become longer, or before.
        for (changes, expected) in [(111, 162), (112, 132)] {
            let mut timers = started(true);
            timers.bend(at(changes), &short, &long);
            assert_eq!(timers.wake_at(), at(expected), "{changes} s");
            // Nor does it become shorter again: what is on its way has the longer light.
            timers.bend(at(changes) + Span(1), &long, &short);
            assert_eq!(timers.wake_at(), at(expected), "{changes} s");
        }
    }

    #[test]
    fn nothing_overtakes_what_left_before_light_became_shorter() {
        let near = Way { there: Span::from_secs(1), back: Span::from_secs(2), ..way(true) };
        let mut timers = Timers::default();
        timers.bend(at(99), &way(true), &near);
        // It is there at 109 s, as what left at 99 s, and is answered by 111 s; then light is short.
        timers.start(KEY, at(100), Span::from_secs(2), &near);
        assert_eq!(timers.wake_at(), at(119));
        timers.start(KEY, at(200), Span::from_secs(2), &near);
        assert_eq!(timers.wake_at(), at(205));
    }

    #[test]
    fn one_that_it_cannot_have_sent_is_waited_for_from_its_return() {
        for began in [true, false] {
            let mut timers = started(began);
            timers.suspend(at(111));
            assert_eq!((timers.wake_at(), timers.pop(at(9_999))), (Time::MAX, None));
            timers.resume(at(5_000), Span::from_secs(2), &way(true));
            assert_eq!(timers.wake_at(), at(5_022));
        }
        // It returns before what it is to answer has come.
        let mut timers = started(false);
        timers.resume(at(105), Span::from_secs(2), &way(true));
        assert_eq!(timers.wake_at(), at(132));
    }
}
