//! The index: a row for each entry and each recorded ID, and a few numbers.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageError, TableDefinition,
};

use crate::backend::StoreBackend;
use crate::entry::{StoreEntry, crc};

const ENTRIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");
/// IDs, each with its expiry and a checksum.
const IDS: TableDefinition<'_, &[u8], (u64, u32)> = TableDefinition::new("ids");
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// The next sequence number of the node.
const SEQUENCE: &str = "sequence";

/// The page cache in bytes.
const CACHE_BYTES: usize = 64 << 20;

/// The content of an index.
#[derive(Debug, Default)]
pub(crate) struct IndexRows {
    /// The entries by key; `None` for a damaged row.
    pub entries: Vec<(u64, Option<StoreEntry>)>,
    pub ids: Vec<(Vec<u8>, u64)>,
    pub sequence: u64,
    /// The number of damaged IDs.
    pub damaged_ids: usize,
}

/// A batch of changes of the index.
#[derive(Debug, Default)]
pub(crate) struct IndexBatch {
    pub put: Vec<(u64, Vec<u8>)>,
    pub remove: Vec<u64>,
    /// In sequence: the expiry of an ID, or `None` for its removal.
    pub ids: Vec<(Vec<u8>, Option<u64>)>,
    pub sequence: Option<u64>,
}

/// The reason why an index was not opened.
pub(crate) enum IndexOpenError {
    Damaged(String),
    InUse,
    Io(io::Error),
}

fn io_error(error: impl Into<redb::Error>) -> io::Error {
    match error.into() {
        redb::Error::Io(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

fn id_crc(id: &[u8], until: u64) -> u32 {
    crc(&[id, &until.to_le_bytes()])
}

/// An open index.
pub(crate) struct Index(Database);

impl Index {
    /// Opens the index at `path` with verification of all checksums, or creates it.
    pub fn open(medium: &dyn StoreBackend, path: &Path) -> Result<Index, IndexOpenError> {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
        let opened = catch_unwind(AssertUnwindSafe(|| medium.open_index(path, &builder)));
        match opened {
            Ok(Ok(database)) => Ok(Index(database)),
            Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => Err(IndexOpenError::InUse),
            Ok(Err(DatabaseError::Storage(StorageError::Io(error)))) if is_os_error(&error) => {
                Err(IndexOpenError::Io(error))
            }
            Ok(Err(error)) => Err(IndexOpenError::Damaged(error.to_string())),
            Err(_) => Err(IndexOpenError::Damaged("it cannot be read".to_owned())),
        }
    }

    /// Returns the complete content.
    pub fn rows(&self) -> io::Result<IndexRows> {
        let mut rows = IndexRows::default();
        self.read(&mut rows)?;
        Ok(rows)
    }

    /// Reads an index with wrong checksums as far as possible: each row has a checksum. The read can panic.
    pub fn read_damaged(path: &Path, rows: &mut IndexRows) {
        if let Ok(database) = Builder::new().set_cache_size(CACHE_BYTES).open(path) {
            let _ = Index(database).read(rows);
        }
    }

    /// Returns the path of the index in the folder of a store.
    pub fn path(root: &Path) -> PathBuf {
        root.join("index.redb")
    }

    fn read(&self, rows: &mut IndexRows) -> io::Result<()> {
        let read = self.0.begin_read().map_err(io_error)?;
        if let Ok(table) = read.open_table(ENTRIES) {
            for row in table.iter().map_err(io_error)? {
                let (key, value) = row.map_err(io_error)?;
                rows.entries.push((key.value(), StoreEntry::from_row(key.value(), value.value())));
            }
        }
        if let Ok(table) = read.open_table(IDS) {
            for row in table.iter().map_err(io_error)? {
                let (id, value) = row.map_err(io_error)?;
                let (until, sum) = value.value();
                if id_crc(id.value(), until) == sum {
                    rows.ids.push((id.value().to_vec(), until));
                } else {
                    rows.damaged_ids += 1;
                }
            }
        }
        if let Ok(table) = read.open_table(NUMBERS) {
            let found = table.get(SEQUENCE).map_err(io_error)?;
            rows.sequence = found.map_or(0, |value| value.value());
        }
        Ok(())
    }

    /// Commits a batch atomically.
    pub fn commit(&self, batch: &IndexBatch) -> io::Result<()> {
        let write = self.0.begin_write().map_err(io_error)?;
        {
            let mut entries = write.open_table(ENTRIES).map_err(io_error)?;
            for (key, row) in &batch.put {
                entries.insert(*key, &row[..]).map_err(io_error)?;
            }
            for key in &batch.remove {
                entries.remove(*key).map_err(io_error)?;
            }
        }
        if !batch.ids.is_empty() {
            let mut ids = write.open_table(IDS).map_err(io_error)?;
            for (id, until) in &batch.ids {
                match until {
                    Some(until) => {
                        drop(ids.insert(&id[..], (*until, id_crc(id, *until))).map_err(io_error)?)
                    }
                    None => drop(ids.remove(&id[..]).map_err(io_error)?),
                }
            }
        }
        if let Some(sequence) = batch.sequence {
            let mut numbers = write.open_table(NUMBERS).map_err(io_error)?;
            let before = numbers.get(SEQUENCE).map_err(io_error)?.map_or(0, |value| value.value());
            numbers.insert(SEQUENCE, sequence.max(before)).map_err(io_error)?;
        }
        write.commit().map_err(io_error)
    }

    /// Removes IDs that expired by `now`.
    pub fn expire_ids(&self, now: u64) -> io::Result<()> {
        let write = self.0.begin_write().map_err(io_error)?;
        {
            let mut ids = write.open_table(IDS).map_err(io_error)?;
            ids.retain(|_, (until, _)| until > now).map_err(io_error)?;
        }
        write.commit().map_err(io_error)
    }

    /// Returns a snapshot for reads that are concurrent to writes.
    pub fn reader(&self) -> io::Result<IndexReader> {
        self.0.begin_read().map(IndexReader).map_err(io_error)
    }
}

/// A snapshot of the index.
pub(crate) struct IndexReader(ReadTransaction);

impl IndexReader {
    /// Returns the row of an entry.
    pub fn row(&self, key: u64) -> io::Result<Option<Vec<u8>>> {
        let Ok(table) = self.0.open_table(ENTRIES) else { return Ok(None) };
        let row = table.get(key).map_err(io_error)?;
        Ok(row.map(|value| value.value().to_vec()))
    }
}

/// Returns whether the disk or its permissions caused an error, not the file content.
fn is_os_error(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}
