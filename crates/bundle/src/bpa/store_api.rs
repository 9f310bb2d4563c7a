//! The boundary between a bundle protocol agent and its bundle store.

use std::collections::{BTreeSet, VecDeque};

use units::{Span, Time};

use super::{BundleProtocolAgent, StoreCompletion, StoreRequest};

/// A bundle store. The requests of one batch become durable together, and batches in their sequence.
pub trait Store: Send {
    /// Submits a request of `bpa`.
    fn submit(&mut self, now: Time, request: StoreRequest, bpa: &BundleProtocolAgent);
    /// Ends the batch of requests.
    fn end_batch(&mut self, _now: Time, _bpa: &BundleProtocolAgent) {}
    /// Appends the completions up to `now`, in sequence.
    fn poll_completions(&mut self, now: Time, into: &mut Vec<StoreCompletion>);
    /// Returns the time of the next completion if it is known.
    fn poll_at(&self) -> Time;
    /// Discards all pending requests because the node fails.
    fn crash(&mut self);
    /// Blocks until every request has completed.
    fn flush(&mut self) {}
    /// Returns the number of finished batches and the number of durable ones.
    fn batch_progress(&self) -> (u64, u64) {
        (0, 0)
    }
    /// Returns whether the store has failed and ignores further requests.
    fn has_failed(&self) -> bool {
        false
    }
}

/// A store in memory. A bundle is durable at once or after a constant delay.
#[derive(Debug, Default)]
pub struct MemoryStore {
    write_delay: Span,
    writing: BTreeSet<(Time, u64)>,
    ready: VecDeque<u64>,
}

impl MemoryStore {
    /// Builds a store with this write delay.
    pub fn new(write_delay: Span) -> MemoryStore {
        MemoryStore { write_delay, ..MemoryStore::default() }
    }
}

impl Store for MemoryStore {
    fn submit(&mut self, now: Time, request: StoreRequest, _bpa: &BundleProtocolAgent) {
        match request {
            StoreRequest::Put(key) if self.write_delay == Span::ZERO => self.ready.push_back(key),
            StoreRequest::Put(key) => {
                self.writing.insert((now + self.write_delay, key));
            }
            // A store in memory has no work for these requests.
            StoreRequest::Remove(..)
            | StoreRequest::RecordDelivered(..)
            | StoreRequest::RemoveDelivered(_)
            | StoreRequest::Load(_) => {}
        }
    }

    fn poll_completions(&mut self, now: Time, into: &mut Vec<StoreCompletion>) {
        into.extend(self.ready.drain(..).map(StoreCompletion::Durable));
        while let Some((_, key)) = self.writing.first().copied().filter(|(at, _)| *at <= now) {
            self.writing.pop_first();
            into.push(StoreCompletion::Durable(key));
        }
    }

    fn poll_at(&self) -> Time {
        self.writing.first().map_or(Time::MAX, |(at, _)| *at)
    }

    fn crash(&mut self) {
        self.writing.clear();
        self.ready.clear();
    }
}
