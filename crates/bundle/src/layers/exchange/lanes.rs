//! The streams of a session, and which of them something is to be done for: an event concerns one or two of what may be hundreds.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::lane::Lane;

/// Lanes by their streams.
#[derive(Default)]
pub(super) struct Lanes {
    map: BTreeMap<u64, Lane>,
    /// Those that somebody may have changed since they were settled.
    touched: Vec<u64>,
    /// Those that had something to write when they were settled, in order.
    loaded: Vec<u64>,
}

impl Lanes {
    pub fn contains(&self, id: u64) -> bool {
        self.map.contains_key(&id)
    }

    pub fn get(&self, id: u64) -> Option<&Lane> {
        self.map.get(&id)
    }

    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.map.keys().copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.map.values()
    }

    fn touch(&mut self, id: u64) {
        if self.touched.last() != Some(&id) {
            self.touched.push(id);
        }
    }

    /// One, for a change.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Lane> {
        self.touch(id);
        self.map.get_mut(&id)
    }

    /// One that is made if it is not there.
    pub fn get_or(&mut self, id: u64, make: impl FnOnce() -> Lane) -> &mut Lane {
        self.touch(id);
        match self.map.entry(id) {
            Entry::Occupied(lane) => lane.into_mut(),
            Entry::Vacant(place) => place.insert(make()),
        }
    }

    /// All, for a change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.touched.clear();
        self.touched.extend(self.map.keys());
        self.map.values_mut()
    }

    pub fn remove(&mut self, id: u64) -> Option<Lane> {
        self.touch(id);
        self.map.remove(&id)
    }

    /// Goes through those that may have changed, in order. Those of which `ends` says so are over.
    pub fn settle(&mut self, mut ends: impl FnMut(&mut Lane) -> bool) {
        if self.touched.len() > 1 {
            self.touched.sort_unstable_by_key(|id| Reverse(*id));
            self.touched.dedup();
        }
        while let Some(id) = self.touched.pop() {
            let mut has_data = false;
            if let Some(lane) = self.map.get_mut(&id) {
                if ends(lane) {
                    self.map.remove(&id);
                } else {
                    has_data = lane.has_data();
                    if std::mem::replace(&mut lane.is_loaded, has_data) == has_data {
                        continue;
                    }
                }
            }
            match (self.loaded.binary_search(&id), has_data) {
                (Ok(place), false) => {
                    self.loaded.remove(place);
                }
                (Err(place), true) => self.loaded.insert(place, id),
                _ => {}
            }
        }
        debug_assert!(self.loaded.iter().eq(self.walk()));
    }

    fn walk(&self) -> impl Iterator<Item = &u64> {
        self.map.iter().filter(|(_, lane)| lane.has_data()).map(|(id, _)| id)
    }

    /// Whether any has something to write, once they are settled.
    pub fn has_data(&self) -> bool {
        !self.loaded.is_empty()
    }

    /// Those that had something to write when they were settled, from `first` on and then those before it.
    pub fn loaded(&self, first: u64) -> impl Iterator<Item = u64> {
        let (before, behind) = self.loaded.split_at(self.loaded.partition_point(|id| *id < first));
        behind.iter().chain(before).copied()
    }
}
