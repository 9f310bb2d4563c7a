//! A scheduler that is given from outside.

use units::{Span, Time};

use super::scheduler::{Choice, Head, Scheduler};
use crate::{Channel, Fate, Job, OwnSpec};

/// A scheduler of one's own. It goes by users, not by slots, and sees those alone who have a packet.
pub trait Decider: Send {
    /// A packet of `user` has found room.
    fn arrived(&mut self, now: Time, user: u32, bytes: u32) {
        let _ = (now, user, bytes);
    }

    /// Whose packet goes at `now`, of those who wait: there is at least one. In the order in which their first packets came.
    fn decide(&mut self, now: Time, waiting: &[Waiter]) -> Decision;

    /// What the service of a packet came to, and how long it took.
    fn served(&mut self, now: Time, user: u32, bytes: u32, air: Span, outcome: Outcome) {
        let _ = (now, user, bytes, air, outcome);
    }

    /// A decision was none: why.
    fn refused(&mut self, why: String);
}

/// A user who has a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waiter {
    /// Who.
    pub user: u32,
    /// The mutual information per coded bit of the user's channel; 1 without a channel.
    pub rate: f64,
    /// How long the first packet has waited.
    pub waited: Span,
    /// Its size.
    pub bytes: u32,
}

/// What a [`Decider`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The first packet of this user goes.
    Serve(u32),
    /// Nobody's: it is asked again at this instant, or when a packet comes.
    Pause(Time),
}

/// How the service of a packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has left.
    Delivered,
    /// It has left, which the sender does not know: it may be sent again.
    Unconfirmed,
    /// It is to be sent again.
    Again,
    /// It is lost.
    Lost,
    /// It had left before.
    Copy,
}

impl Outcome {
    fn of(job: &Job, fate: Fate) -> Outcome {
        match fate {
            _ if job.copy => Outcome::Copy,
            Fate::Deliver => Outcome::Delivered,
            Fate::Unconfirmed { .. } => Outcome::Unconfirmed,
            Fate::Again { .. } => Outcome::Again,
            Fate::Drop(_) => Outcome::Lost,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Delivered => "delivered",
            Outcome::Unconfirmed => "unconfirmed",
            Outcome::Again => "again",
            Outcome::Lost => "lost",
            Outcome::Copy => "copy",
        }
    }
}

/// Makes the schedulers that are given from outside, for a line of a run; none: there is no such.
pub type Deciders<'a> = dyn Fn(&OwnSpec, &str, u64) -> Option<Box<dyn Decider>> + 'a;

/// A [`Decider`] in its place: what it says is held to who waits.
pub(super) struct Own {
    decider: Box<dyn Decider>,
    late: Span,
    users: Vec<u32>,
    rates: Vec<f64>,
    waiting: Vec<Waiter>,
}

impl Own {
    pub fn new(decider: Box<dyn Decider>, late: Span) -> Own {
        Own { decider, late, users: Vec::new(), rates: Vec::new(), waiting: Vec::new() }
    }

    /// What is no decision: the run is over for who said it, and until then the first goes.
    fn refuse(&mut self, heads: &[Head], why: String) -> Choice {
        self.decider.refused(why);
        Choice::Goes(heads.iter().position(|head| head.is_some()).unwrap_or(0))
    }
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Own").field("users", &self.users).finish_non_exhaustive()
    }
}

impl Scheduler for Own {
    fn came(&mut self, _slot: usize, user: u32) {
        self.users.push(user);
        self.rates.push(0.0);
    }

    fn arrived(&mut self, due: Time, slot: usize, bytes: u32) {
        self.decider.arrived(due, self.users[slot], bytes);
    }

    fn choose(&mut self, now: Time, heads: &[Head], channel: &mut dyn Channel) -> Choice {
        let at = Time(now.nanos().saturating_sub(self.late.nanos()));
        channel.rates(at, &self.users, &mut self.rates);
        self.waiting.clear();
        for (slot, head) in heads.iter().enumerate().filter(|(_, head)| head.is_some()) {
            let (user, rate) = (self.users[slot], self.rates[slot]);
            let waited = now.since(head.arrived);
            self.waiting.push(Waiter { user, rate, waited, bytes: head.bytes });
        }
        match self.decider.decide(now, &self.waiting) {
            Decision::Serve(user) => {
                let slot = self.users.iter().position(|other| *other == user);
                match slot {
                    Some(slot) if heads[slot].is_some() => Choice::Goes(slot),
                    Some(_) => self.refuse(heads, format!("user {user} has no packet that waits")),
                    None => self.refuse(heads, format!("there is no user {user}")),
                }
            }
            Decision::Pause(until) if until > now => Choice::Pause(until),
            Decision::Pause(until) => {
                let (now, until) = (now.nanos(), until.nanos());
                self.refuse(
                    heads,
                    format!("at {now} ns it pauses until {until} ns, which has passed"),
                )
            }
        }
    }

    fn served(&mut self, due: Time, slot: usize, job: &Job, air: Span, fate: Fate) {
        let user = self.users[slot];
        self.decider.served(due, user, job.packet.bytes, air, Outcome::of(job, fate));
    }
}
