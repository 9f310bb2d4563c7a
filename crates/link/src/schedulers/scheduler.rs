//! The boundary of a scheduler: it receives the backlogged users and selects one.

use units::{Packet, Span, Time};

use super::{ExternalScheduler, ExternalSchedulerSpec};
use crate::checks::ValidationResult;
use crate::{Channel, ServiceOutcome, Transmission};

/// The specification of a scheduler.
pub(crate) trait SchedulerFactory {
    /// Validates the specification.
    fn validate(&self) -> ValidationResult {
        Ok(())
    }

    /// Builds the scheduler of a valid specification; `external` is the external scheduler, if it is one.
    fn build(
        &self,
        channel_delay: Span,
        external: Option<Box<dyn ExternalScheduler>>,
    ) -> Box<dyn Scheduler>;

    /// Returns the specification of an external scheduler.
    fn external(&self) -> Option<&ExternalSchedulerSpec> {
        None
    }
}

/// Selects the user to serve. User indexes are in order of the users' first packets.
pub(crate) trait Scheduler: Send + std::fmt::Debug {
    /// Adds `user` with the next user index.
    fn add_user(&mut self, user_index: usize, user: u32) {
        let _ = (user_index, user);
    }

    /// Signals that a packet was enqueued.
    fn on_enqueue(&mut self, due: Time, user_index: usize, bytes: u32) {
        let _ = (due, user_index, bytes);
    }

    /// Signals that the queue of a user is no longer empty.
    fn on_backlogged(&mut self, user_index: usize) {
        let _ = user_index;
    }

    /// Signals that the queue of a user became empty although the scheduler did not select it.
    fn on_idle(&mut self, user_index: usize) {
        let _ = user_index;
    }

    /// Selects a user at `now` from those with a packet in `heads`; there is at least one.
    fn select(&mut self, now: Time, heads: &[HeadOfLine], channel: &mut dyn Channel) -> Selection;

    /// Signals that the packet of the selected user, of `bytes`, departs; `next` is its next packet, if there is one.
    fn on_dequeue(&mut self, user_index: usize, bytes: u32, next: HeadOfLine) {
        let _ = (user_index, bytes, next);
    }

    /// Handles the end of a service, as [`crate::Queue::on_service_end`].
    fn on_service_end(
        &mut self,
        due: Time,
        user_index: usize,
        transmission: &Transmission,
        airtime: Span,
        outcome: ServiceOutcome,
    ) {
        let _ = (due, user_index, transmission, airtime, outcome);
    }

    /// Returns the maximum waiting time of a packet; packets above it are dropped at the next selection.
    fn max_wait(&self) -> Option<Span> {
        None
    }

    /// Returns the time with the best channel and how often it became the best; `None` without channel state.
    fn best_channel_stats(&self, user_index: usize) -> Option<(Span, u64)> {
        let _ = user_index;
        None
    }
}

/// The selection of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// Serves the head-of-line packet of this user index.
    Serve(usize),
    /// Serves no user until this later instant or until a packet arrives.
    Pause(Time),
}

/// The head-of-line packet of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadOfLine {
    /// The arrival time; [`Time::MAX`] without a packet.
    pub arrived: Time,
    pub bytes: u32,
}

impl HeadOfLine {
    pub const NONE: HeadOfLine = HeadOfLine { arrived: Time::MAX, bytes: 0 };

    pub fn from_front(first: Option<&(Time, Packet)>) -> HeadOfLine {
        first.map_or(HeadOfLine::NONE, |(arrived, packet)| HeadOfLine {
            arrived: *arrived,
            bytes: packet.bytes,
        })
    }

    pub fn is_some(self) -> bool {
        self.arrived != Time::MAX
    }
}

/// The indexes of users.
#[derive(Debug, Default)]
pub(crate) struct UserIndexes {
    /// By user: 0 for unknown users, otherwise the index plus one.
    indexes: Vec<u32>,
    count: u32,
}

impl UserIndexes {
    /// Returns the index of `user`, which is the next one for a new user.
    pub fn get_or_insert(&mut self, user: u32) -> usize {
        let index = user as usize;
        if self.indexes.len() <= index {
            self.indexes.resize(index + 1, 0);
        }
        if self.indexes[index] == 0 {
            self.count += 1;
            self.indexes[index] = self.count;
        }
        self.indexes[index] as usize - 1
    }
}
