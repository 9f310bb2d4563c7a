//! Bundle ids that a node remembers until every copy of the bundle has outlived its lifetime.

use std::collections::{BTreeMap, BTreeSet};

use units::Time;

use crate::wire::Id;

/// Ids that are remembered at the most, some 50 MB. A bundle whose id is forgotten early would be taken again.
pub(super) const MOST_IDS: usize = 1 << 18;

/// Bundle ids, each with the instant from which on a copy of its bundle is refused as expired.
#[derive(Debug, Default)]
pub(super) struct ExpiringIds {
    expiry: BTreeMap<Id, Time>,
    order: BTreeSet<(Time, Id)>,
}

impl ExpiringIds {
    /// Remembers `id` until `expires`; the later one of two instants counts.
    pub fn insert(&mut self, id: &Id, expires: Time) {
        let before = self.expiry.get(id).copied();
        if before.is_some_and(|before| before >= expires) {
            return;
        }
        if let Some(before) = before {
            self.order.remove(&(before, id.clone()));
        }
        self.expiry.insert(id.clone(), expires);
        self.order.insert((expires, id.clone()));
    }

    /// Whether `id` is remembered at `now`. An id that has expired is not, pruned or not.
    pub fn contains(&self, id: &Id, now: Time) -> bool {
        self.expiry.get(id).is_some_and(|expires| *expires > now)
    }

    /// Forgets `id`.
    pub fn remove(&mut self, id: &Id) {
        if let Some(expires) = self.expiry.remove(id) {
            self.order.remove(&(expires, id.clone()));
        }
    }

    /// Forgets the id that expires first if there are more than [`MOST_IDS`].
    pub fn remove_excess(&mut self) -> Option<Id> {
        if self.expiry.len() > MOST_IDS { self.remove_first() } else { None }
    }

    /// Forgets the id that expires first.
    fn remove_first(&mut self) -> Option<Id> {
        let (_, id) = self.order.pop_first()?;
        self.expiry.remove(&id);
        Some(id)
    }

    /// Forgets an id that has expired by `now`; none: there is no such id.
    pub fn remove_expired(&mut self, now: Time) -> Option<Id> {
        self.order.first().filter(|(expires, _)| *expires <= now)?;
        self.remove_first()
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        self.expiry.len()
    }
}
