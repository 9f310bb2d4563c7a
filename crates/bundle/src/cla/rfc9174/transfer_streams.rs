//! The transfer streams of a session.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::transfer_stream::TransferStream;

/// The transfer streams of a session, by stream ID. An event changes one or two of possibly hundreds, so only changed
/// streams are visited.
#[derive(Default)]
pub(super) struct TransferStreams {
    map: BTreeMap<u64, TransferStream>,
    /// Streams with possible changes since the last update.
    changed: Vec<u64>,
    /// Streams that had output at the last update, sorted.
    writable: Vec<u64>,
}

impl TransferStreams {
    pub fn contains(&self, id: u64) -> bool {
        self.map.contains_key(&id)
    }

    pub fn get(&self, id: u64) -> Option<&TransferStream> {
        self.map.get(&id)
    }

    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.map.keys().copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = &TransferStream> {
        self.map.values()
    }

    fn mark_changed(&mut self, id: u64) {
        if self.changed.last() != Some(&id) {
            self.changed.push(id);
        }
    }

    /// Returns a stream for modification.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut TransferStream> {
        self.mark_changed(id);
        self.map.get_mut(&id)
    }

    /// Returns a stream for modification, and builds it if necessary.
    pub fn get_or_insert(
        &mut self,
        id: u64,
        build: impl FnOnce() -> TransferStream,
    ) -> &mut TransferStream {
        self.mark_changed(id);
        match self.map.entry(id) {
            Entry::Occupied(stream) => stream.into_mut(),
            Entry::Vacant(entry) => entry.insert(build()),
        }
    }

    /// Returns all streams for modification.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut TransferStream> {
        self.changed.clear();
        self.changed.extend(self.map.keys());
        self.map.values_mut()
    }

    pub fn remove(&mut self, id: u64) -> Option<TransferStream> {
        self.mark_changed(id);
        self.map.remove(&id)
    }

    /// Visits the possibly changed streams in sequence. It removes those for which `is_finished` is true.
    pub fn update(&mut self, mut is_finished: impl FnMut(&mut TransferStream) -> bool) {
        if self.changed.len() > 1 {
            self.changed.sort_unstable_by_key(|id| Reverse(*id));
            self.changed.dedup();
        }
        while let Some(id) = self.changed.pop() {
            let mut has_data = false;
            if let Some(stream) = self.map.get_mut(&id) {
                if is_finished(stream) {
                    self.map.remove(&id);
                } else {
                    has_data = stream.has_data();
                    if std::mem::replace(&mut stream.has_output, has_data) == has_data {
                        continue;
                    }
                }
            }
            match (self.writable.binary_search(&id), has_data) {
                (Ok(index), false) => {
                    self.writable.remove(index);
                }
                (Err(index), true) => self.writable.insert(index, id),
                _ => {}
            }
        }
        debug_assert!(self.writable.iter().eq(self.ids_with_data()));
    }

    fn ids_with_data(&self) -> impl Iterator<Item = &u64> {
        self.map.iter().filter(|(_, stream)| stream.has_data()).map(|(id, _)| id)
    }

    /// Returns whether any stream had output at the last update.
    pub fn has_data(&self) -> bool {
        !self.writable.is_empty()
    }

    /// Returns the streams that had output at the last update, from `first` on, then those before it.
    pub fn writable_from(&self, first: u64) -> impl Iterator<Item = u64> {
        let (before, behind) =
            self.writable.split_at(self.writable.partition_point(|id| *id < first));
        behind.iter().chain(before).copied()
    }
}
