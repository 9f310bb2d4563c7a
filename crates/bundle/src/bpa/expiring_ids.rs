//! Bundle IDs that a node records until every copy of the bundle has expired.

use std::collections::{BTreeMap, BTreeSet};

use units::Time;

use crate::wire::Id;

/// The maximum number of IDs, some 50 MB. After an early removal, another copy of the bundle would be accepted.
pub(super) const MAX_IDS: usize = 1 << 18;

/// Bundle IDs, each with the time from which on copies of the bundle are refused as expired.
#[derive(Debug, Default)]
pub(super) struct ExpiringIds {
    expiry: BTreeMap<Id, Time>,
    by_expiry: BTreeSet<(Time, Id)>,
}

impl ExpiringIds {
    /// Inserts `id` until `expires`. The later of two times counts.
    pub fn insert(&mut self, id: &Id, expires: Time) {
        let before = self.expiry.get(id).copied();
        if before.is_some_and(|before| before >= expires) {
            return;
        }
        if let Some(before) = before {
            self.by_expiry.remove(&(before, id.clone()));
        }
        self.expiry.insert(id.clone(), expires);
        self.by_expiry.insert((expires, id.clone()));
    }

    /// Returns whether `id` is recorded at `now`. An expired ID does not count, even before its removal.
    pub fn contains(&self, id: &Id, now: Time) -> bool {
        self.expiry.get(id).is_some_and(|expires| *expires > now)
    }

    /// Removes `id`.
    pub fn remove(&mut self, id: &Id) {
        if let Some(expires) = self.expiry.remove(id) {
            self.by_expiry.remove(&(expires, id.clone()));
        }
    }

    /// Removes the ID that expires first if the set has more than [`MAX_IDS`].
    pub fn remove_excess(&mut self) -> Option<Id> {
        if self.expiry.len() > MAX_IDS { self.remove_earliest() } else { None }
    }

    /// Removes the ID that expires first.
    fn remove_earliest(&mut self) -> Option<Id> {
        let (_, id) = self.by_expiry.pop_first()?;
        self.expiry.remove(&id);
        Some(id)
    }

    /// Removes one ID that has expired by `now`, if any.
    pub fn remove_expired(&mut self, now: Time) -> Option<Id> {
        self.by_expiry.first().filter(|(expires, _)| *expires <= now)?;
        self.remove_earliest()
    }

    /// Returns the number of IDs.
    pub fn len(&self) -> usize {
        self.expiry.len()
    }
}
