//! The start of a store: owner, content, damage. Damaged items are reported and quarantined, the rest is used.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::backend::{FileSystem, StoreBackend};
use crate::entry::StoreEntry;
use crate::index::{Index, IndexBatch, IndexOpenError, IndexRows};
use crate::payload_files::{PayloadFiles, sync_folder};
use crate::store::DiskStore;

/// The marker of a store folder, with the format version and the node.
const MARKER_FILE: &str = "bentpipe-store";
const FORMAT: &str = "bentpipe store 1";
const LOCK_FILE: &str = "lock";
/// The next index, while it is rebuilt from a damaged one.
const NEXT_INDEX: &str = "index.next";

/// The reason why a store cannot be used.
#[derive(Debug)]
pub enum OpenError {
    /// Another process uses the store.
    InUse {
        /// The process ID from the lock file.
        by: String,
    },
    /// The store belongs to another node.
    OtherNode {
        /// The owner.
        found: String,
    },
    /// The folder contains other files.
    NotAStore,
    /// The store has another format.
    OtherFormat {
        /// The format.
        found: String,
    },
    /// An error of the operating system.
    Io(io::Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::InUse { by } if by.is_empty() => write!(out, "another node uses it"),
            OpenError::InUse { by } => write!(out, "another node uses it (process {by})"),
            OpenError::OtherNode { found } => write!(out, "the store belongs to node {found}"),
            OpenError::NotAStore => {
                write!(out, "found other files, expected a store or an empty folder")
            }
            OpenError::OtherFormat { found } => {
                write!(out, "found a store of format {found:?}, expected {FORMAT:?}")
            }
            OpenError::Io(error) => write!(out, "{error}"),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

/// A damaged item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedEntry {
    /// The key of an entry.
    pub key: Option<u64>,
    /// The metadata, if readable.
    pub metadata: Option<Vec<u8>>,
    /// The damage.
    pub reason: String,
    /// The quarantined file, if any.
    pub moved_to: Option<PathBuf>,
}

/// The recovered content of a store.
#[derive(Debug, Default)]
pub struct RecoveredState {
    /// The entries by key. [`crate::PayloadReader::read_payload`] reads their payloads.
    pub entries: Vec<(u64, StoreEntry)>,
    /// The recorded IDs, each with its expiry in milliseconds.
    pub ids: Vec<(Vec<u8>, u64)>,
    /// The next sequence number of the node.
    pub sequence: u64,
    /// The damaged items.
    pub quarantined: Vec<QuarantinedEntry>,
}

impl DiskStore<FileSystem> {
    /// Opens or creates the store of `node` in the folder `root`. IDs that expired by `now_ms` are removed.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn open(
        root: &Path,
        node: &str,
        now_ms: u64,
    ) -> Result<(DiskStore, RecoveredState), OpenError> {
        DiskStore::open_with_backend(root, node, now_ms, FileSystem)
    }
}

impl<M: StoreBackend> DiskStore<M> {
    /// Opens the store on `backend`.
    ///
    /// # Errors
    /// The store cannot be used.
    pub fn open_with_backend(
        root: &Path,
        node: &str,
        now_ms: u64,
        backend: M,
    ) -> Result<(DiskStore<M>, RecoveredState), OpenError> {
        fs::create_dir_all(root)?;
        let lock = acquire_lock(root)?;
        check_marker(root, node)?;
        let files = PayloadFiles::new(root);
        let mut state = RecoveredState::default();
        let (path, next) = (Index::path(root), root.join(NEXT_INDEX));
        if next.exists() {
            // It is complete if the old index was removed.
            if path.exists() {
                fs::remove_file(&next)?
            } else {
                fs::rename(&next, &path)?
            }
            sync_folder(root)?;
        }
        // The index is durable before the payload folder is created.
        let had_payloads = files.payload_root().exists();
        let length = fs::metadata(&path).map(|index| index.len());
        let is_new = !matches!(length, Ok(1..));
        let opened = if had_payloads && is_new {
            Err(IndexOpenError::Damaged(
                if length.is_ok() { "it is empty" } else { "it is missing" }.to_owned(),
            ))
        } else {
            Index::open(&backend, &path)
        };
        if is_new && opened.is_ok() {
            sync_folder(root)?;
        }
        fs::create_dir_all(files.payload_root())?;
        let opened = match opened {
            Ok(index) => index.rows().map(|rows| (index, rows)).map_err(|error| error.to_string()),
            Err(IndexOpenError::InUse) => return Err(OpenError::InUse { by: String::new() }),
            Err(IndexOpenError::Io(error)) => return Err(error.into()),
            Err(IndexOpenError::Damaged(why)) => Err(why),
        };
        let (opened, rows, is_intact) = match opened {
            Ok((index, rows)) => (Some(index), rows, true),
            Err(why) => {
                let mut rows = salvage(&path);
                // Above every sequence number that the node can have used.
                rows.sequence = rows.sequence.max(now_ms);
                state.quarantined.push(QuarantinedEntry {
                    key: None,
                    metadata: None,
                    reason: format!("the index is damaged ({why}): recovery read {} ids and {} entries, and searches the files for others", rows.ids.len(), rows.entries.len()),
                    moved_to: None,
                });
                (None, rows, false)
            }
        };
        if rows.damaged_ids > 0 {
            let reason = format!("{} ids of delivered bundles are damaged", rows.damaged_ids);
            state.quarantined.push(QuarantinedEntry {
                key: None,
                metadata: None,
                reason,
                moved_to: None,
            });
        }
        state.sequence = rows.sequence;
        let mut batch = IndexBatch::default();
        let entries = reconcile(&files, rows.entries, is_intact, &mut batch, &mut state)?;
        let index = match opened {
            Some(index) => {
                if !batch.put.is_empty() || !batch.remove.is_empty() {
                    index.commit(&batch)?;
                }
                if rows.ids.iter().any(|(_, until)| *until <= now_ms) {
                    index.expire_ids(now_ms)?;
                }
                index
            }
            None => {
                let all = IndexBatch {
                    put: entries.iter().map(|(key, entry)| (*key, entry.to_row(*key))).collect(),
                    remove: Vec::new(),
                    ids: rows.ids.iter().map(|(id, until)| (id.clone(), Some(*until))).collect(),
                    sequence: Some(rows.sequence),
                };
                rebuild_index(&backend, root, &files, &all, &mut state)?
            }
        };
        state.ids = rows.ids.into_iter().filter(|(_, until)| *until > now_ms).collect();
        let without_payload =
            |(key, entry): (u64, StoreEntry)| (key, StoreEntry { inline: None, ..entry });
        state.entries = entries.into_iter().map(without_payload).collect();
        let mut folders: Vec<PathBuf> = state
            .entries
            .iter()
            .map(|(key, _)| *key)
            .filter(crate::payload_files::first_of_folder())
            .map(|key| files.folder(key))
            .collect();
        folders.retain(|folder| folder.exists());
        let folders = folders.into_iter().collect();
        Ok((DiskStore::new(root, files, index, folders, backend, lock), state))
    }
}

/// Matches rows and files, and quarantines incomplete entries. A file without a row belongs to an interrupted batch.
/// With a damaged index it is an entry.
fn reconcile(
    files: &PayloadFiles,
    rows: Vec<(u64, Option<StoreEntry>)>,
    is_intact: bool,
    batch: &mut IndexBatch,
    state: &mut RecoveredState,
) -> io::Result<BTreeMap<u64, StoreEntry>> {
    let mut listed = files.list()?;
    let mut entries = BTreeMap::new();
    for (key, row) in rows {
        let length = listed.remove(&key);
        match (row, length) {
            (Some(entry), _) if entry.inline.as_ref().is_some_and(|one| entry.has_payload(one)) => {
                entries.insert(key, entry);
            }
            (Some(entry), Some(length))
                if entry.inline.is_none() && entry.file_bytes() == length =>
            {
                entries.insert(key, entry);
            }
            (row, length) => {
                let reread = length.and_then(|_| read_file(files, key));
                if let Some(entry) = reread {
                    batch.put.push((key, entry.to_row(key)));
                    entries.insert(key, entry);
                    continue;
                }
                let reason = match (&row, length) {
                    (None, _) => "its index entry is damaged".to_owned(),
                    (Some(_), None) => "its file is missing".to_owned(),
                    (Some(entry), Some(length)) => {
                        format!("its file has {length} bytes, expected {}", entry.file_bytes())
                    }
                };
                let moved_to = length.map(|_| files.quarantine(&files.path(key))).transpose()?;
                let metadata = row.map(|entry| entry.metadata);
                batch.remove.push(key);
                state.quarantined.push(QuarantinedEntry {
                    key: Some(key),
                    metadata,
                    reason,
                    moved_to,
                });
            }
        }
    }
    for (key, length) in listed {
        // An empty file was precreated.
        if is_intact || length == 0 {
            fs::remove_file(files.path(key))?;
            // Fails if the folder has other files.
            let _ = fs::remove_dir(files.folder(key));
            continue;
        }
        match read_file(files, key) {
            Some(entry) => {
                entries.insert(key, entry);
            }
            None => {
                let moved_to = Some(files.quarantine(&files.path(key))?);
                let reason = "its file is damaged".to_owned();
                state.quarantined.push(QuarantinedEntry {
                    key: Some(key),
                    metadata: None,
                    reason,
                    moved_to,
                });
            }
        }
    }
    Ok(entries)
}

fn read_file(files: &PayloadFiles, key: u64) -> Option<StoreEntry> {
    StoreEntry::from_file(key, &files.read(key).ok()?).map(|(entry, _)| entry)
}

/// Reads a damaged index as far as possible.
fn salvage(path: &Path) -> IndexRows {
    let mut rows = IndexRows::default();
    let _ = catch_unwind(AssertUnwindSafe(|| Index::read_damaged(path, &mut rows)));
    // A damaged tree can return the same row twice.
    rows.entries.sort_by_key(|(key, entry)| (*key, entry.is_none()));
    rows.entries.dedup_by_key(|(key, _)| *key);
    rows
}

/// Builds an index from the salvaged content and quarantines the damaged one.
fn rebuild_index(
    backend: &dyn StoreBackend,
    root: &Path,
    files: &PayloadFiles,
    batch: &IndexBatch,
    state: &mut RecoveredState,
) -> Result<Index, OpenError> {
    let (path, next) = (Index::path(root), root.join(NEXT_INDEX));
    let index = Index::open(backend, &next).map_err(|error| match error {
        IndexOpenError::Io(error) => OpenError::Io(error),
        IndexOpenError::InUse => OpenError::InUse { by: String::new() },
        IndexOpenError::Damaged(why) => OpenError::Io(io::Error::other(why)),
    })?;
    index.commit(batch)?;
    if path.exists() {
        let moved_to = files.quarantine(&path)?;
        if let Some(aside) = state.quarantined.first_mut() {
            aside.moved_to = Some(moved_to);
        }
    }
    fs::rename(&next, &path)?;
    sync_folder(root)?;
    Ok(index)
}

/// Locks the store for this process until the file is closed.
fn acquire_lock(root: &Path) -> Result<File, OpenError> {
    let path = root.join(LOCK_FILE);
    let mut file =
        File::options().create(true).truncate(false).read(true).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let mut by = String::new();
            let _ = file.read_to_string(&mut by);
            return Err(OpenError::InUse { by: by.trim().to_owned() });
        }
        Err(fs::TryLockError::Error(error)) => return Err(error.into()),
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

/// Checks the marker of a store, or writes it.
fn check_marker(root: &Path, node: &str) -> Result<(), OpenError> {
    let path = root.join(MARKER_FILE);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let mut lines = text.lines();
            let format = lines.next().unwrap_or_default();
            if format != FORMAT {
                return Err(OpenError::OtherFormat { found: format.chars().take(80).collect() });
            }
            let found = lines.next().unwrap_or_default();
            if found != node {
                return Err(OpenError::OtherNode { found: found.chars().take(80).collect() });
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let new = format!("{MARKER_FILE}.new");
            for entry in fs::read_dir(root)? {
                let name = entry?.file_name();
                if name != LOCK_FILE && name.to_str() != Some(&new) {
                    return Err(OpenError::NotAStore);
                }
            }
            let new = root.join(new);
            let mut file = File::create(&new)?;
            write!(file, "{FORMAT}\n{node}\n")?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            sync_folder(root)?;
            // The name of the store folder too.
            if let Some(parent) = root.canonicalize()?.parent() {
                sync_folder(parent)?;
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(OpenError::OtherFormat { found: "no text".to_owned() })
        }
        Err(error) => Err(error.into()),
    }
}
