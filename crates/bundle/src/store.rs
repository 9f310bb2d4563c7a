//! The boundary between a bundle node and what keeps its bundles: what it asks for, and what it is told of that.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use units::{Span, Time};

use crate::Agent;
use crate::wire::Id;

/// What an agent asks of its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Make the bundle of this number durable.
    Keep(u64),
    /// It is here no more, once these are durable in its place.
    Forget(u64, Vec<u64>),
    /// An application has the bundle with this id; of no use when the node's clock shows so many milliseconds since 2000.
    Remember(Id, u64),
    /// The id of a delivered bundle is of no use any more.
    ForgetDelivered(Id),
    /// Bring the payload of the bundle of this number.
    Load(u64),
}

/// What a store says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bundle of this number is durable.
    Durable(u64),
    /// There is no room for it.
    Refused(u64),
    /// Its payload, or why there is none.
    Loaded(u64, Result<Vec<Bytes>, String>),
}

/// Keeps a node's bundles. What is asked in one turn becomes durable together, turns in their order.
pub trait Store: Send {
    /// `agent` asks for something.
    fn ask(&mut self, now: Time, asked: Asked, agent: &Agent);
    /// The turn is over.
    fn end_turn(&mut self, _now: Time, _agent: &Agent) {}
    /// What it has to say by now, in order.
    fn answers(&mut self, now: Time, into: &mut Vec<Answer>);
    /// When it will have something to say, as far as that is known.
    fn wake_at(&self) -> Time;
    /// The node stops: nothing that is not done will be.
    fn stop(&mut self);
    /// Waits until all that was asked for is done or refused.
    fn flush(&mut self) {}
    /// Turns that are over, and of these those whose wishes are durable.
    fn turns(&self) -> (u64, u64) {
        (0, 0)
    }
    /// It does nothing that it is asked for any more: it has failed.
    fn is_over(&self) -> bool {
        false
    }
}

/// A store in memory: what it has is durable at once, or after a time.
#[derive(Debug, Default)]
pub struct InMemory {
    takes: Span,
    writing: BTreeSet<(Time, u64)>,
    ready: VecDeque<u64>,
}

impl InMemory {
    /// One that takes so long.
    pub fn new(takes: Span) -> InMemory {
        InMemory { takes, ..InMemory::default() }
    }
}

impl Store for InMemory {
    fn ask(&mut self, now: Time, asked: Asked, _agent: &Agent) {
        match asked {
            Asked::Keep(key) if self.takes == Span::ZERO => self.ready.push_back(key),
            Asked::Keep(key) => {
                self.writing.insert((now + self.takes, key));
            }
            // Of what is in memory anyway it knows nothing.
            Asked::Forget(..)
            | Asked::Remember(..)
            | Asked::ForgetDelivered(_)
            | Asked::Load(_) => {}
        }
    }

    fn answers(&mut self, now: Time, into: &mut Vec<Answer>) {
        into.extend(self.ready.drain(..).map(Answer::Durable));
        while let Some((_, key)) = self.writing.first().copied().filter(|(at, _)| *at <= now) {
            self.writing.pop_first();
            into.push(Answer::Durable(key));
        }
    }

    fn wake_at(&self) -> Time {
        self.writing.first().map_or(Time::MAX, |(at, _)| *at)
    }

    fn stop(&mut self) {
        self.writing.clear();
        self.ready.clear();
    }
}
