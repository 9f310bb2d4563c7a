//! The state of a neighbour: its queue, its active transfers and its session.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use contacts::{Priority, VolumeBooking};
use units::Time;

use super::{NeighbourConfig, SessionId};
use crate::LinkState;

/// A copy of a bundle in the queue of a neighbour.
pub(super) struct QueuedCopy {
    pub key: u64,
    pub booking: VolumeBooking,
    /// The start of the planned contact.
    pub not_before: Time,
}

/// A copy that the CLA session transmits.
pub(super) struct ActiveTransfer {
    pub key: u64,
    pub booking: VolumeBooking,
    /// The transport has accepted all bytes.
    pub is_transmitted: bool,
    pub bytes: u64,
}

/// The position of a copy in its queue.
pub(super) type QueueKey = (Reverse<Priority>, u64);

/// The state of a copy for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CopyState {
    /// In the queue.
    Queued(QueueKey),
    /// In this transfer of the session.
    InTransfer(u64),
}

/// A neighbour.
pub(super) struct Neighbour {
    pub config: NeighbourConfig,
    pub queue: BTreeMap<QueueKey, QueuedCopy>,
    /// Queue positions by the start of their contacts, and those with a started contact.
    not_due: BTreeSet<(Time, QueueKey)>,
    pub due: BTreeSet<QueueKey>,
    pub active_transfers: BTreeMap<u64, ActiveTransfer>,
    /// Bytes in the session that the transport has not accepted yet.
    pub unsent_bytes: u64,
    pub session: Option<SessionId>,
    pub is_opening: bool,
    /// The earliest time to open a connection.
    pub retry_at: Time,
    /// The neighbour had a contact at the last poll.
    pub has_contact: bool,
    /// The time to close the session.
    pub close_at: Time,
    /// The next deadline.
    pub poll_at: Time,
    /// The link state that the session last received.
    pub link_state: LinkState,
}

impl Neighbour {
    pub fn new(config: NeighbourConfig) -> Neighbour {
        Neighbour {
            config,
            queue: BTreeMap::new(),
            not_due: BTreeSet::new(),
            due: BTreeSet::new(),
            active_transfers: BTreeMap::new(),
            unsent_bytes: 0,
            session: None,
            is_opening: false,
            retry_at: Time::ZERO,
            has_contact: false,
            close_at: Time::MAX,
            poll_at: Time::ZERO,
            link_state: LinkState::default(),
        }
    }

    pub fn enqueue(&mut self, queue_key: QueueKey, copy: QueuedCopy) {
        self.not_due.insert((copy.not_before, queue_key));
        self.queue.insert(queue_key, copy);
    }

    /// Removes a copy from the queue.
    pub fn remove_queued(&mut self, queue_key: QueueKey) -> Option<QueuedCopy> {
        let copy = self.queue.remove(&queue_key)?;
        if !self.not_due.remove(&(copy.not_before, queue_key)) {
            self.due.remove(&queue_key);
        }
        Some(copy)
    }

    /// Removes all copies from the queue.
    pub fn take_queue(&mut self) -> BTreeMap<QueueKey, QueuedCopy> {
        self.not_due.clear();
        self.due.clear();
        std::mem::take(&mut self.queue)
    }

    /// Moves copies with a started contact to `due`. Returns the start of the next contact.
    pub fn promote_due(&mut self, now: Time) -> Option<Time> {
        while let Some(next) = self.not_due.first().copied().filter(|(at, _)| *at <= now) {
            self.not_due.remove(&next);
            self.due.insert(next.1);
        }
        self.not_due.first().map(|(at, _)| *at)
    }

    /// Returns the first copy that can be transmitted now.
    pub fn first_due(&mut self, now: Time) -> Option<QueueKey> {
        self.promote_due(now);
        self.due.first().copied()
    }

    pub fn start_transfer(&mut self, transfer: u64, active: ActiveTransfer) {
        self.unsent_bytes += active.bytes;
        self.active_transfers.insert(transfer, active);
    }

    /// Marks a transfer as accepted by the transport. Returns `None` if it was already.
    pub fn mark_transmitted(&mut self, transfer: u64) -> Option<&ActiveTransfer> {
        let active =
            self.active_transfers.get_mut(&transfer).filter(|active| !active.is_transmitted)?;
        active.is_transmitted = true;
        self.unsent_bytes -= active.bytes;
        Some(active)
    }

    /// Removes an answered transfer.
    pub fn finish_transfer(&mut self, transfer: u64) -> Option<ActiveTransfer> {
        let active = self.active_transfers.remove(&transfer)?;
        self.unsent_bytes -= if active.is_transmitted { 0 } else { active.bytes };
        Some(active)
    }

    /// Resets the state after a node failure. Returns the active transfers and the queued copies.
    pub fn reset(&mut self) -> (Vec<ActiveTransfer>, Vec<QueuedCopy>) {
        let fresh = Neighbour { poll_at: Time::MAX, ..Neighbour::new(self.config.clone()) };
        let previous = std::mem::replace(self, fresh);
        (previous.active_transfers.into_values().collect(), previous.queue.into_values().collect())
    }
}
