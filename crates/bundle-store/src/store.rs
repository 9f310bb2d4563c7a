//! Changes of a store, in batches: files first, then the index, then the removal of obsolete files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{ScopedJoinHandle, scope};

use bytes::Bytes;

use crate::backend::{FileSystem, IoStep, StoreBackend};
use crate::entry::{StoreEntry, parts_crc};
use crate::index::{Index, IndexBatch, IndexOpenError};
use crate::payload_files::{PayloadFiles, sync_folder};

/// The maximum payload in the index: one page of it.
const INLINE_BYTES: u64 = 4096;

/// The free disk space to reserve: without space for the index no entry could be removed.
const RESERVE_BYTES: u64 = 16 << 20;

/// The maximum number of concurrent file synchronisations.
const MAX_PARALLEL_SYNCS: usize = 8;

/// The number of files to precreate: one synchronisation of a folder is sufficient for that number of single bundles.
const PRECREATED_FILES: u64 = 16;

/// A change of the stored data.
#[derive(Clone, Debug)]
pub enum StoreChange {
    /// Stores an entry.
    Put {
        /// The key, never used before.
        key: u64,
        /// The metadata, opaque to the store.
        metadata: Vec<u8>,
        /// The payload in chunks.
        payload: Vec<Bytes>,
    },
    /// Removes an entry, unless one of its replacements is rejected.
    Remove {
        /// The key.
        key: u64,
        /// The keys of the replacements.
        replaced_by: Vec<u64>,
    },
    /// Records an ID.
    RecordId {
        /// The ID.
        id: Vec<u8>,
        /// The expiry in milliseconds.
        until_ms: u64,
    },
    /// Removes an ID.
    RemoveId(Vec<u8>),
    /// Sets the next sequence number of the node.
    SetSequence(u64),
}

/// A rejected entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedEntry {
    /// The key.
    pub key: u64,
    /// The reason.
    pub reason: String,
}

struct SharedStore<M> {
    files: PayloadFiles,
    /// `None` after a failure until the index is open again.
    index: RwLock<Option<Index>>,
    backend: M,
}

/// A store on disk, locked by one process.
pub struct DiskStore<M: StoreBackend = FileSystem> {
    root: PathBuf,
    shared: Arc<SharedStore<M>>,
    /// Payload folders with a durable name.
    synced_folders: BTreeSet<PathBuf>,
    /// Keys with an empty file that has a durable name.
    precreated: BTreeSet<u64>,
    /// The changes that a failed index has not committed.
    pending_index_batch: IndexBatch,
    _lock: File,
}

/// Reads payloads of a store, concurrently to its writer.
pub struct PayloadReader<M: StoreBackend = FileSystem>(Arc<SharedStore<M>>);

impl<M: StoreBackend> DiskStore<M> {
    pub(crate) fn new(
        root: &Path,
        files: PayloadFiles,
        index: Index,
        folders: BTreeSet<PathBuf>,
        backend: M,
        lock: File,
    ) -> DiskStore<M> {
        let index = RwLock::new(Some(index));
        DiskStore {
            root: root.to_owned(),
            shared: Arc::new(SharedStore { files, index, backend }),
            synced_folders: folders,
            precreated: BTreeSet::new(),
            pending_index_batch: IndexBatch::default(),
            _lock: lock,
        }
    }

    /// Returns a reader of payloads.
    pub fn payload_reader(&self) -> PayloadReader<M> {
        PayloadReader(self.shared.clone())
    }

    /// Returns whether all changes are durable, except rejected entries.
    pub fn is_durable(&self) -> bool {
        self.pending_index_batch.is_empty()
    }

    /// Applies `changes` atomically. Afterwards they are durable, except rejected entries.
    pub fn apply(&mut self, changes: Vec<StoreChange>) -> Vec<RejectedEntry> {
        let mut rejected = Vec::new();
        let mut put: BTreeMap<u64, (StoreEntry, Vec<Bytes>)> = BTreeMap::new();
        let mut removed = Vec::new();
        let mut batch = std::mem::take(&mut self.pending_index_batch);
        for change in changes {
            match change {
                StoreChange::Put { key, metadata, payload } => {
                    let payload_bytes = payload.iter().map(|part| part.len() as u64).sum();
                    let inline = (payload_bytes <= INLINE_BYTES).then(|| payload.concat().into());
                    let payload_crc = parts_crc(&payload);
                    put.insert(
                        key,
                        (StoreEntry { metadata, payload_bytes, payload_crc, inline }, payload),
                    );
                }
                StoreChange::Remove { key, replaced_by } => removed.push((key, replaced_by)),
                StoreChange::RecordId { id, until_ms } => batch.ids.push((id, Some(until_ms))),
                StoreChange::RemoveId(id) => batch.ids.push((id, None)),
                StoreChange::SetSequence(number) => {
                    batch.sequence = batch.sequence.max(Some(number));
                }
            }
        }
        // An entry without a replacement that the same batch removes is not written at all.
        let short_lived: Vec<u64> = removed
            .iter()
            .filter(|(key, replaced_by)| replaced_by.is_empty() && put.contains_key(key))
            .map(|(key, _)| *key)
            .collect();
        short_lived.iter().for_each(|key| drop(put.remove(key)));
        self.write_files(&mut put, &mut rejected);
        let is_rejected = |key: &u64| rejected.iter().any(|one: &RejectedEntry| one.key == *key);
        removed.retain(|(key, replaced_by)| {
            !short_lived.contains(key) && !replaced_by.iter().any(is_rejected)
        });
        batch.remove.extend(removed.iter().map(|(key, _)| *key));
        // A replaced entry remains if its replacement fails.
        let mut retained = std::mem::take(&mut batch.put);
        let rows =
            self.read_rows(removed.iter().filter(|(_, replaced_by)| !replaced_by.is_empty()));
        retained.extend(rows);
        batch.put = put.iter().map(|(key, (entry, _))| (*key, entry.to_row(*key))).collect();
        if batch.is_empty() && retained.is_empty() {
            return rejected;
        }
        let replaced =
            retained.iter().map(|(key, _)| *key).filter(|key| batch.remove.contains(key));
        let replaced: Vec<u64> = replaced.collect();
        batch.put.extend(retained.iter().filter(|(key, _)| !replaced.contains(key)).cloned());
        match self.commit(&batch) {
            Ok(()) => batch.remove.iter().for_each(|key| self.remove_file(*key)),
            Err(error) => {
                let reason = error.to_string();
                batch.remove.retain(|key| !replaced.contains(key));
                for key in put.into_keys() {
                    self.remove_file(key);
                    rejected.push(RejectedEntry { key, reason: reason.clone() });
                    // The commit can have succeeded in spite of the error.
                    batch.remove.push(key);
                }
                batch.put = retained;
                self.pending_index_batch = batch;
            }
        }
        rejected
    }

    /// Returns the current rows of the removed entries.
    fn read_rows<'a>(
        &self,
        removed: impl Iterator<Item = &'a (u64, Vec<u64>)>,
    ) -> Vec<(u64, Vec<u8>)> {
        let index_guard = self.shared.index.read().unwrap_or_else(PoisonError::into_inner);
        let Some(reader) = index_guard.as_ref().and_then(|index| index.reader().ok()) else {
            return Vec::new();
        };
        removed.filter_map(|(key, _)| Some((*key, reader.row(*key).ok()??))).collect()
    }

    /// Writes and synchronises the payload files. Failed entries are removed from `put`.
    fn write_files(
        &mut self,
        put: &mut BTreeMap<u64, (StoreEntry, Vec<Bytes>)>,
        rejected: &mut Vec<RejectedEntry>,
    ) {
        let shared = self.shared.clone();
        let (files, backend) = (&shared.files, &shared.backend);
        let mut reject = |put: &mut BTreeMap<_, _>, key: u64, reason: String| {
            put.remove(&key);
            rejected.push(RejectedEntry { key, reason });
        };
        let mut free =
            backend.free_bytes(&self.root).unwrap_or(u64::MAX).saturating_sub(RESERVE_BYTES);
        let (mut open, mut folders, mut last) = (Vec::new(), BTreeSet::new(), None);
        for key in put.keys().copied().collect::<Vec<u64>>() {
            let Some((entry, payload)) = put.get(&key) else { continue };
            if entry.file_bytes() > free {
                reject(put, key, "the disk is full".to_owned());
                continue;
            }
            free -= entry.file_bytes();
            if entry.inline.is_some() {
                continue;
            }
            let folder = files.folder(key);
            let is_precreated = self.precreated.remove(&key);
            let created = self.create_folder(&folder).and_then(|()| match is_precreated {
                true => files.open_precreated(key),
                false => files.create(backend, key),
            });
            let written =
                created.and_then(|file| files.write(backend, key, (entry, payload), file));
            match written {
                Ok(file) => {
                    open.push((key, file));
                    if !is_precreated {
                        folders.insert(folder);
                        last = Some(key);
                    }
                }
                Err(error) => {
                    self.remove_file(key);
                    reject(put, key, error.to_string());
                }
            }
        }
        let ahead = last.map(|last| self.precreate_files(last)).unwrap_or_default();
        let mut failed = sync_files(files, backend, &open);
        for folder in folders {
            let result = backend
                .before_step(IoStep::SyncFolder(&folder))
                .and_then(|()| sync_folder(&folder));
            if let Err(error) = result {
                let reason = error.to_string();
                let keys = open.iter().map(|(key, _)| *key);
                let keys = keys.filter(|key| files.folder(*key) == folder);
                failed.extend(keys.map(|key| (key, io::Error::other(reason.clone()))));
            } else if last.is_some_and(|last| files.folder(last) == folder) {
                self.precreated.extend(&ahead);
            }
        }
        // Precreated files of skipped keys are unused.
        if let Some((first, _)) = open.first() {
            let rest = self.precreated.split_off(first);
            let skipped = std::mem::replace(&mut self.precreated, rest);
            skipped.into_iter().for_each(|key| self.remove_file(key));
        }
        for (key, error) in failed {
            if put.contains_key(&key) {
                self.remove_file(key);
                reject(put, key, error.to_string());
            }
        }
    }

    /// Precreates the files of the keys after `last` in its folder; their names become durable with it.
    fn precreate_files(&self, last: u64) -> Vec<u64> {
        let (files, backend) = (&self.shared.files, &self.shared.backend);
        let folder = files.folder(last);
        let ahead = (last + 1..=last + PRECREATED_FILES).filter(|key| files.folder(*key) == folder);
        ahead.take_while(|key| files.create(backend, *key).is_ok()).collect()
    }

    /// Creates a durable payload folder.
    fn create_folder(&mut self, folder: &Path) -> io::Result<()> {
        if self.synced_folders.contains(folder) {
            return Ok(());
        }
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let parent = self.shared.files.payload_root();
        self.shared.backend.before_step(IoStep::SyncFolder(&parent))?;
        sync_folder(&parent)?;
        self.synced_folders.insert(folder.to_owned());
        Ok(())
    }

    fn commit(&self, batch: &IndexBatch) -> io::Result<()> {
        let mut index_guard = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
        if index_guard.is_none() {
            let opened = Index::open(&self.shared.backend, &Index::path(&self.root));
            *index_guard = Some(opened.map_err(|error| match error {
                IndexOpenError::Damaged(why) => io::Error::other(why),
                IndexOpenError::InUse => io::Error::other("the index is in use"),
                IndexOpenError::Io(error) => error,
            })?);
        }
        let Some(index) = index_guard.as_ref() else { return Ok(()) };
        let done =
            self.shared.backend.before_step(IoStep::Commit).and_then(|()| index.commit(batch));
        if done.is_err() {
            // After an error redb rejects all writes until it is opened again.
            *index_guard = None;
        }
        done
    }

    /// Removes a payload file; the next start removes its remains.
    fn remove_file(&self, key: u64) {
        let _ = self.shared.files.remove(&self.shared.backend, key);
    }
}

/// Synchronises files in parallel: the disk combines concurrent requests. Returns the failed files with their errors.
fn sync_files(
    files: &PayloadFiles,
    backend: &dyn StoreBackend,
    open: &[(u64, File)],
) -> Vec<(u64, io::Error)> {
    let sync = |(key, file): &(u64, File)| {
        let done =
            backend.before_step(IoStep::Sync(&files.path(*key))).and_then(|()| file.sync_data());
        done.err().map(|error| (*key, error))
    };
    if open.len() < 2 {
        return open.iter().filter_map(sync).collect();
    }
    scope(|scope| {
        let parts = open.chunks(open.len().div_ceil(MAX_PARALLEL_SYNCS));
        let threads: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().filter_map(sync).collect::<Vec<_>>()))
            .collect();
        let all = |thread: ScopedJoinHandle<'_, Vec<_>>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().flat_map(all).collect()
    })
}

impl<M: StoreBackend> Drop for DiskStore<M> {
    fn drop(&mut self) {
        // After a kill the next start removes them.
        std::mem::take(&mut self.precreated).into_iter().for_each(|key| self.remove_file(key));
    }
}

impl IndexBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.put.is_empty()
            && self.remove.is_empty()
            && self.ids.is_empty()
            && self.sequence.is_none()
    }
}

impl<M: StoreBackend> PayloadReader<M> {
    /// Reads the payload of an entry.
    ///
    /// # Errors
    /// The entry or its payload is missing or damaged. A damaged file is quarantined.
    pub fn read_payload(&self, key: u64) -> Result<Bytes, String> {
        let row = {
            let index_guard = self.0.index.read().unwrap_or_else(PoisonError::into_inner);
            let Some(index) = index_guard.as_ref() else {
                return Err("the index is not open".to_owned());
            };
            let reader = index.reader().map_err(|error| error.to_string())?;
            reader.row(key).map_err(|error| error.to_string())?
        };
        let row = row.ok_or_else(|| "it is not in the index".to_owned())?;
        let entry = StoreEntry::from_row(key, &row).ok_or("its index entry is damaged")?;
        if let Some(payload) = entry.inline.clone() {
            return if entry.has_payload(&payload) {
                Ok(payload)
            } else {
                Err("it is damaged".into())
            };
        }
        let data = self.0.files.read(key).map_err(|error| error.to_string())?;
        match StoreEntry::from_file(key, &data) {
            Some((found, payload)) if found.payload_crc == entry.payload_crc => Ok(payload),
            _ => {
                let path = self.0.files.path(key);
                let quarantined =
                    self.0.files.quarantine(&path).map_err(|error| error.to_string())?;
                Err(format!("its file is damaged; moved to {}", quarantined.display()))
            }
        }
    }
}
