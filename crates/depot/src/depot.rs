//! What changes in a store: a batch at a time, files first, then the index, then what is of no use any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{ScopedJoinHandle, scope};

use bytes::Bytes;

use crate::files::{Files, sync_folder};
use crate::index::{Batch, Closed, Index};
use crate::medium::{Medium, Plain, Step};
use crate::open::{Found, Unusable, open};
use crate::record::{Entry, crc_of};

/// Longest payload that lies in the index: a page of it.
const INLINE_BYTES: u64 = 4096;

/// What the disk keeps free: room for the index, so that what is stored can still be forgotten.
const RESERVE_BYTES: u64 = 16 << 20;

/// Files that are synchronised at once.
const SYNCS: usize = 8;

/// Names of files that are made durable ahead: a bundle alone needs its folder synchronised once for so many numbers.
const AHEAD: u64 = 16;

/// A change of what is stored.
#[derive(Clone, Debug)]
pub enum Change {
    /// An entry is to be kept.
    Keep {
        /// Its number, which no other has or has had.
        key: u64,
        /// What it is.
        card: Vec<u8>,
        /// Its payload, in parts.
        payload: Vec<Bytes>,
    },
    /// It is of no use any more, unless one of those that replace it is refused.
    Forget {
        /// Its number.
        key: u64,
        /// What replaces it.
        unless: Vec<u64>,
    },
    /// An id is to be remembered.
    Remember {
        /// The id.
        id: Vec<u8>,
        /// Until when, milliseconds.
        until_ms: u64,
    },
    /// An id is of no use any more.
    ForgetId(Vec<u8>),
    /// The node has given so many numbers.
    Sequence(u64),
}

/// An entry that is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its number.
    pub key: u64,
    /// Why.
    pub why: String,
}

struct Shared<M> {
    files: Files,
    /// None where it failed and could not be opened again yet.
    index: RwLock<Option<Index>>,
    medium: M,
}

/// A store on disk, which one process has.
pub struct Depot<M: Medium = Plain> {
    root: PathBuf,
    shared: Arc<Shared<M>>,
    /// Folders of payloads that are there for certain.
    folders: BTreeSet<PathBuf>,
    /// Numbers whose files are there, empty, and their names for certain.
    named: BTreeSet<u64>,
    /// What an index that failed has still to be told.
    debts: Batch,
    _lock: File,
}

/// Reads payloads of a store, beside who writes.
pub struct Shelf<M: Medium = Plain>(Arc<Shared<M>>);

impl Depot<Plain> {
    /// Opens the store of `node` in the folder `root`, or begins one; ids that are of no use after `now_ms` are forgotten.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open(root: &Path, node: &str, now_ms: u64) -> Result<(Depot, Found), Unusable> {
        open(root, node, now_ms, Plain)
    }
}

impl<M: Medium> Depot<M> {
    /// The same on `medium`.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open_on(
        root: &Path,
        node: &str,
        now_ms: u64,
        medium: M,
    ) -> Result<(Depot<M>, Found), Unusable> {
        open(root, node, now_ms, medium)
    }

    pub(crate) fn new(
        root: &Path,
        files: Files,
        index: Index,
        folders: BTreeSet<PathBuf>,
        medium: M,
        lock: File,
    ) -> Depot<M> {
        let index = RwLock::new(Some(index));
        Depot {
            root: root.to_owned(),
            shared: Arc::new(Shared { files, index, medium }),
            folders,
            named: BTreeSet::new(),
            debts: Batch::default(),
            _lock: lock,
        }
    }

    /// To read payloads by.
    pub fn shelf(&self) -> Shelf<M> {
        Shelf(self.shared.clone())
    }

    /// Whether all that was asked for is durable, but for entries that were refused.
    pub fn is_settled(&self) -> bool {
        self.debts.is_empty()
    }

    /// Does `changes`, all of them together: afterwards they are durable, but for entries that are refused.
    pub fn apply(&mut self, changes: Vec<Change>) -> Vec<Refused> {
        let mut refused = Vec::new();
        let mut kept: BTreeMap<u64, (Entry, Vec<Bytes>)> = BTreeMap::new();
        let mut forgotten = Vec::new();
        let mut batch = std::mem::take(&mut self.debts);
        for change in changes {
            match change {
                Change::Keep { key, card, payload } => {
                    let payload_bytes = payload.iter().map(|part| part.len() as u64).sum();
                    let inline = (payload_bytes <= INLINE_BYTES).then(|| payload.concat().into());
                    let payload_crc = crc_of(&payload);
                    kept.insert(key, (Entry { card, payload_bytes, payload_crc, inline }, payload));
                }
                Change::Forget { key, unless } => forgotten.push((key, unless)),
                Change::Remember { id, until_ms } => batch.ids.push((id, Some(until_ms))),
                Change::ForgetId(id) => batch.ids.push((id, None)),
                Change::Sequence(number) => {
                    batch.sequence = batch.sequence.max(Some(number));
                }
            }
        }
        // What is replaced by nothing need not be written at all.
        let hasty: Vec<u64> = forgotten
            .iter()
            .filter(|(key, unless)| unless.is_empty() && kept.contains_key(key))
            .map(|(key, _)| *key)
            .collect();
        hasty.iter().for_each(|key| drop(kept.remove(key)));
        self.write(&mut kept, &mut refused);
        let is_refused = |key: &u64| refused.iter().any(|one: &Refused| one.key == *key);
        forgotten.retain(|(key, unless)| !hasty.contains(key) && !unless.iter().any(is_refused));
        batch.remove.extend(forgotten.iter().map(|(key, _)| *key));
        // What is to be replaced stays where nothing replaces it after all.
        let mut stays = std::mem::take(&mut batch.put);
        let rows = self.rows(forgotten.iter().filter(|(_, unless)| !unless.is_empty()));
        stays.extend(rows);
        batch.put = kept.iter().map(|(key, (entry, _))| (*key, entry.row(*key))).collect();
        if batch.is_empty() && stays.is_empty() {
            return refused;
        }
        let replaced = stays.iter().map(|(key, _)| *key).filter(|key| batch.remove.contains(key));
        let replaced: Vec<u64> = replaced.collect();
        batch.put.extend(stays.iter().filter(|(key, _)| !replaced.contains(key)).cloned());
        match self.commit(&batch) {
            Ok(()) => batch.remove.iter().for_each(|key| self.remove(*key)),
            Err(error) => {
                let why = error.to_string();
                batch.remove.retain(|key| !replaced.contains(key));
                for key in kept.into_keys() {
                    self.remove(key);
                    refused.push(Refused { key, why: why.clone() });
                    // The batch may have been done in spite of what the disk says.
                    batch.remove.push(key);
                }
                batch.put = stays;
                self.debts = batch;
            }
        }
        refused
    }

    /// The rows of these as they are.
    fn rows<'a>(&self, of: impl Iterator<Item = &'a (u64, Vec<u64>)>) -> Vec<(u64, Vec<u8>)> {
        let held = self.shared.index.read().unwrap_or_else(PoisonError::into_inner);
        let Some(reader) = held.as_ref().and_then(|index| index.reader().ok()) else {
            return Vec::new();
        };
        of.filter_map(|(key, _)| Some((*key, reader.row(*key).ok()??))).collect()
    }

    /// Files of entries that have one, durable; those that fail are taken out of `kept`.
    fn write(&mut self, kept: &mut BTreeMap<u64, (Entry, Vec<Bytes>)>, refused: &mut Vec<Refused>) {
        let shared = self.shared.clone();
        let (files, medium) = (&shared.files, &shared.medium);
        let mut refuse = |kept: &mut BTreeMap<_, _>, key: u64, why: String| {
            kept.remove(&key);
            refused.push(Refused { key, why });
        };
        let mut room = medium.room(&self.root).unwrap_or(u64::MAX).saturating_sub(RESERVE_BYTES);
        let (mut open, mut folders, mut last) = (Vec::new(), BTreeSet::new(), None);
        for key in kept.keys().copied().collect::<Vec<u64>>() {
            let Some((entry, payload)) = kept.get(&key) else { continue };
            if entry.file_bytes() > room {
                refuse(kept, key, "the disk is full".to_owned());
                continue;
            }
            room -= entry.file_bytes();
            if entry.inline.is_some() {
                continue;
            }
            let folder = files.folder(key);
            let named = self.named.remove(&key);
            let made = self.make(&folder).and_then(|()| match named {
                true => files.named(key),
                false => files.create(medium, key),
            });
            let written = made.and_then(|file| files.write(medium, key, (entry, payload), file));
            match written {
                Ok(file) => {
                    open.push((key, file));
                    if !named {
                        folders.insert(folder);
                        last = Some(key);
                    }
                }
                Err(error) => {
                    self.remove(key);
                    refuse(kept, key, error.to_string());
                }
            }
        }
        let ahead = last.map(|last| self.name_ahead(last)).unwrap_or_default();
        let mut failed = synced(files, medium, &open);
        for folder in folders {
            let synced =
                medium.before(Step::SyncFolder(&folder)).and_then(|()| sync_folder(&folder));
            if let Err(error) = synced {
                let why = error.to_string();
                let of_it = open.iter().map(|(key, _)| *key);
                let of_it = of_it.filter(|key| files.folder(*key) == folder);
                failed.extend(of_it.map(|key| (key, io::Error::other(why.clone()))));
            } else if last.is_some_and(|last| files.folder(last) == folder) {
                self.named.extend(&ahead);
            }
        }
        // Numbers that are passed over have no use for theirs.
        if let Some((first, _)) = open.first() {
            let rest = self.named.split_off(first);
            let passed = std::mem::replace(&mut self.named, rest);
            passed.into_iter().for_each(|key| self.remove(key));
        }
        for (key, error) in failed {
            if kept.contains_key(&key) {
                self.remove(key);
                refuse(kept, key, error.to_string());
            }
        }
    }

    /// Makes the files of the numbers behind `last` in its folder, whose names become durable with it.
    fn name_ahead(&self, last: u64) -> Vec<u64> {
        let (files, medium) = (&self.shared.files, &self.shared.medium);
        let folder = files.folder(last);
        let ahead = (last + 1..=last + AHEAD).filter(|key| files.folder(*key) == folder);
        ahead.take_while(|key| files.create(medium, *key).is_ok()).collect()
    }

    /// Has a folder of payloads, durably.
    fn make(&mut self, folder: &Path) -> io::Result<()> {
        if self.folders.contains(folder) {
            return Ok(());
        }
        match fs::create_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let above = self.shared.files.payloads();
        self.shared.medium.before(Step::SyncFolder(&above))?;
        sync_folder(&above)?;
        self.folders.insert(folder.to_owned());
        Ok(())
    }

    fn commit(&self, batch: &Batch) -> io::Result<()> {
        let mut held = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            let opened = Index::open(&self.shared.medium, &Index::path(&self.root));
            *held = Some(opened.map_err(|closed| match closed {
                Closed::Damaged(why) => io::Error::other(why),
                Closed::InUse => io::Error::other("the index is in use"),
                Closed::Kernel(error) => error,
            })?);
        }
        let Some(index) = held.as_ref() else { return Ok(()) };
        let done = self.shared.medium.before(Step::Commit).and_then(|()| index.commit(batch));
        if done.is_err() {
            // After an error it takes nothing any more before it is opened again.
            *held = None;
        }
        done
    }

    /// Removes an entry's file: what is left of it is removed at the next start.
    fn remove(&self, key: u64) {
        let _ = self.shared.files.remove(&self.shared.medium, key);
    }
}

/// Makes files durable, some at a time: what is asked for together the disk does together. Those that fail, and why.
fn synced(files: &Files, medium: &dyn Medium, open: &[(u64, File)]) -> Vec<(u64, io::Error)> {
    let sync = |(key, file): &(u64, File)| {
        let done = medium.before(Step::Sync(&files.path(*key))).and_then(|()| file.sync_data());
        done.err().map(|error| (*key, error))
    };
    if open.len() < 2 {
        return open.iter().filter_map(sync).collect();
    }
    scope(|scope| {
        let parts = open.chunks(open.len().div_ceil(SYNCS));
        let threads: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().filter_map(sync).collect::<Vec<_>>()))
            .collect();
        let all = |thread: ScopedJoinHandle<'_, Vec<_>>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().flat_map(all).collect()
    })
}

impl<M: Medium> Drop for Depot<M> {
    fn drop(&mut self) {
        // After a kill the next start does it.
        std::mem::take(&mut self.named).into_iter().for_each(|key| self.remove(key));
    }
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.put.is_empty()
            && self.remove.is_empty()
            && self.ids.is_empty()
            && self.sequence.is_none()
    }
}

impl<M: Medium> Shelf<M> {
    /// The payload of an entry.
    ///
    /// # Errors
    /// Why there is none; a damaged file is set aside.
    pub fn payload(&self, key: u64) -> Result<Bytes, String> {
        let row = {
            let held = self.0.index.read().unwrap_or_else(PoisonError::into_inner);
            let Some(index) = held.as_ref() else { return Err("there is no index".to_owned()) };
            let reader = index.reader().map_err(|error| error.to_string())?;
            reader.row(key).map_err(|error| error.to_string())?
        };
        let row = row.ok_or_else(|| "it is not in the index".to_owned())?;
        let entry = Entry::of_row(key, &row).ok_or("its row of the index is damaged")?;
        if let Some(payload) = entry.inline.clone() {
            return if entry.holds(&payload) { Ok(payload) } else { Err("it is damaged".into()) };
        }
        let data = self.0.files.read(key).map_err(|error| error.to_string())?;
        match Entry::of_file(key, &data) {
            Some((found, payload)) if found.payload_crc == entry.payload_crc => Ok(payload),
            _ => {
                let path = self.0.files.path(key);
                let aside = self.0.files.set_aside(&path).map_err(|error| error.to_string())?;
                Err(format!("its file is damaged and set aside as {}", aside.display()))
            }
        }
    }
}
