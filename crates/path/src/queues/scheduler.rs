//! The boundary of a scheduler: it sees who waits, and says whose packet goes next.

use units::{Packet, Span, Time};

use super::by_channel::ByChannel;
use super::deficit_round_robin::DeficitRoundRobin;
use super::exp_pf::ExpPf;
use super::m_lwdf::MLwdf;
use super::maximum_rate::MaximumRate;
use super::own::{Decider, Own};
use super::proportional_fair::ProportionalFair;
use super::round_robin::RoundRobin;
use crate::{Channel, Fate, Job, PerUserSpec, SchedulerSpec};

/// Says whose packet goes next. Users have slots, counted in the order in which their first packets came.
pub(super) trait Scheduler: Send + std::fmt::Debug {
    /// `user` has got the next slot.
    fn came(&mut self, slot: usize, user: u32) {
        let _ = (slot, user);
    }

    /// A packet has found room.
    fn arrived(&mut self, due: Time, slot: usize, bytes: u32) {
        let _ = (due, slot, bytes);
    }

    /// Who had no packet has one.
    fn joined(&mut self, slot: usize) {
        let _ = slot;
    }

    /// Who had packets has none any more, without having been chosen.
    fn left(&mut self, slot: usize) {
        let _ = slot;
    }

    /// Whose packet goes at `now`, of those that `heads` has one of: there is at least one.
    fn choose(&mut self, now: Time, heads: &[Head], channel: &mut dyn Channel) -> Choice;

    /// The packet of who was chosen goes, of so many bytes; `next` is its next one, if it has one.
    fn goes(&mut self, slot: usize, bytes: u32, next: Head) {
        let _ = (slot, bytes, next);
    }

    /// As [`crate::Queue::served`].
    fn served(&mut self, due: Time, slot: usize, job: &Job, air: Span, fate: Fate) {
        let _ = (due, slot, job, air, fate);
    }

    /// How long a packet waits at most; who has waited for longer is dropped at the next choice.
    fn time_limit(&self) -> Option<Span> {
        None
    }

    /// For how long, and how often, this user's channel was the best, as far as the scheduler looked; none: it does not.
    fn best(&self, slot: usize) -> Option<(Span, u64)> {
        let _ = slot;
        None
    }
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The first packet of this slot goes.
    Goes(usize),
    /// Nobody's until this instant, which is later, or a packet comes.
    Pause(Time),
}

/// What is known of a user's first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// When it came; [`Time::MAX`]: there is none.
    pub arrived: Time,
    pub bytes: u32,
}

impl Head {
    pub const NONE: Head = Head { arrived: Time::MAX, bytes: 0 };

    pub fn of(first: Option<&(Time, Packet)>) -> Head {
        first
            .map_or(Head::NONE, |(arrived, packet)| Head { arrived: *arrived, bytes: packet.bytes })
    }

    pub fn is_some(self) -> bool {
        self.arrived != Time::MAX
    }
}

/// The slots of users.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// By user; 0: none, otherwise one more than the slot.
    known: Vec<u32>,
    count: u32,
}

impl Slots {
    /// The slot of `user`: the next one if it is new.
    pub fn of(&mut self, user: u32) -> usize {
        let index = user as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, 0);
        }
        if self.known[index] == 0 {
            self.count += 1;
            self.known[index] = self.count;
        }
        self.known[index] as usize - 1
    }
}

/// The scheduler of a valid specification; `own` is the one that is given from outside, where it says so. (No line is built
/// without: who has none takes turns.)
pub(super) fn build(spec: &PerUserSpec, own: Option<Box<dyn Decider>>) -> Box<dyn Scheduler> {
    let late = Span(spec.channel_delay_ns);
    match &spec.scheduler {
        SchedulerSpec::RoundRobin => Box::new(RoundRobin::default()),
        SchedulerSpec::DeficitRoundRobin { quantum_bytes, weights } => {
            Box::new(DeficitRoundRobin::new(*quantum_bytes, weights))
        }
        SchedulerSpec::MaximumRate => Box::new(ByChannel::new(MaximumRate, None, late)),
        SchedulerSpec::ProportionalFair { average } => {
            Box::new(ByChannel::new(ProportionalFair, Some(*average), late))
        }
        SchedulerSpec::Codes { average, time_limit_ns } => {
            let fair = ByChannel::new(ProportionalFair, Some(*average), late);
            Box::new(super::codes::Codes::new(fair, Span(*time_limit_ns)))
        }
        SchedulerSpec::MLwdf { average, deadline } => {
            Box::new(ByChannel::new(MLwdf::new(deadline), Some(*average), late))
        }
        SchedulerSpec::ExpPf { average, deadline } => {
            Box::new(ByChannel::new(ExpPf::new(deadline), Some(*average), late))
        }
        SchedulerSpec::Own(_) => match own {
            Some(decider) => Box::new(Own::new(decider, late)),
            None => Box::new(RoundRobin::default()),
        },
    }
}
