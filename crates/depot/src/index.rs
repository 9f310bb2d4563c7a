//! The index: a row for each entry, for each id that must not be forgotten, and a few numbers.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageError, TableDefinition,
};

use crate::medium::Medium;
use crate::record::{Entry, crc};

const ENTRIES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("entries");
/// Ids, each with until when it is of use and a checksum.
const IDS: TableDefinition<'_, &[u8], (u64, u32)> = TableDefinition::new("ids");
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// How many numbers the node has given.
const SEQUENCE: &str = "sequence";

/// Memory for pages.
const CACHE_BYTES: usize = 64 << 20;

/// What an index holds.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// By their numbers; none: a row that is damaged.
    pub entries: Vec<(u64, Option<Entry>)>,
    pub ids: Vec<(Vec<u8>, u64)>,
    pub sequence: u64,
    /// Ids that could not be read.
    pub damaged_ids: usize,
}

/// What a batch does to the index.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub put: Vec<(u64, Vec<u8>)>,
    pub remove: Vec<u64>,
    /// In order: until when each is of use; none: it is forgotten.
    pub ids: Vec<(Vec<u8>, Option<u64>)>,
    pub sequence: Option<u64>,
}

/// Why an index was not opened.
pub(crate) enum Closed {
    Damaged(String),
    InUse,
    Kernel(io::Error),
}

fn other(error: impl Into<redb::Error>) -> io::Error {
    match error.into() {
        redb::Error::Io(error) => error,
        error => io::Error::other(error.to_string()),
    }
}

fn id_crc(id: &[u8], until: u64) -> u32 {
    crc(&[id, &until.to_le_bytes()])
}

/// The index, open.
pub(crate) struct Index(Database);

impl Index {
    /// Opens the index of `path`, all checksums of which are checked, or begins one.
    pub fn open(medium: &dyn Medium, path: &Path) -> Result<Index, Closed> {
        let mut builder = Builder::new();
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
        let opened = catch_unwind(AssertUnwindSafe(|| medium.index(path, &builder)));
        match opened {
            Ok(Ok(database)) => Ok(Index(database)),
            Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => Err(Closed::InUse),
            Ok(Err(DatabaseError::Storage(StorageError::Io(error)))) if is_kernels(&error) => {
                Err(Closed::Kernel(error))
            }
            Ok(Err(error)) => Err(Closed::Damaged(error.to_string())),
            Err(_) => Err(Closed::Damaged("it cannot be read".to_owned())),
        }
    }

    /// All that is in it.
    pub fn rows(&self) -> io::Result<Rows> {
        let mut rows = Rows::default();
        self.read(&mut rows)?;
        Ok(rows)
    }

    /// What can be read of an index whose checksums are not right: rows have their own. It may panic half way.
    pub fn read_damaged(path: &Path, rows: &mut Rows) {
        if let Ok(database) = Builder::new().set_cache_size(CACHE_BYTES).open(path) {
            let _ = Index(database).read(rows);
        }
    }

    /// Where it lies in the folder of a store.
    pub fn path(root: &Path) -> PathBuf {
        root.join("index.redb")
    }

    fn read(&self, rows: &mut Rows) -> io::Result<()> {
        let read = self.0.begin_read().map_err(other)?;
        if let Ok(table) = read.open_table(ENTRIES) {
            for row in table.iter().map_err(other)? {
                let (key, value) = row.map_err(other)?;
                rows.entries.push((key.value(), Entry::of_row(key.value(), value.value())));
            }
        }
        if let Ok(table) = read.open_table(IDS) {
            for row in table.iter().map_err(other)? {
                let (id, value) = row.map_err(other)?;
                let (until, sum) = value.value();
                if id_crc(id.value(), until) == sum {
                    rows.ids.push((id.value().to_vec(), until));
                } else {
                    rows.damaged_ids += 1;
                }
            }
        }
        if let Ok(table) = read.open_table(NUMBERS) {
            let found = table.get(SEQUENCE).map_err(other)?;
            rows.sequence = found.map_or(0, |value| value.value());
        }
        Ok(())
    }

    /// Does a batch, all of it or nothing.
    pub fn commit(&self, batch: &Batch) -> io::Result<()> {
        let write = self.0.begin_write().map_err(other)?;
        {
            let mut entries = write.open_table(ENTRIES).map_err(other)?;
            for (key, row) in &batch.put {
                entries.insert(*key, &row[..]).map_err(other)?;
            }
            for key in &batch.remove {
                entries.remove(*key).map_err(other)?;
            }
        }
        if !batch.ids.is_empty() {
            let mut ids = write.open_table(IDS).map_err(other)?;
            for (id, until) in &batch.ids {
                match until {
                    Some(until) => {
                        drop(ids.insert(&id[..], (*until, id_crc(id, *until))).map_err(other)?)
                    }
                    None => drop(ids.remove(&id[..]).map_err(other)?),
                }
            }
        }
        if let Some(sequence) = batch.sequence {
            let mut numbers = write.open_table(NUMBERS).map_err(other)?;
            let before = numbers.get(SEQUENCE).map_err(other)?.map_or(0, |value| value.value());
            numbers.insert(SEQUENCE, sequence.max(before)).map_err(other)?;
        }
        write.commit().map_err(other)
    }

    /// Lets go of ids that are of no use after `now`.
    pub fn forget_ids(&self, now: u64) -> io::Result<()> {
        let write = self.0.begin_write().map_err(other)?;
        {
            let mut ids = write.open_table(IDS).map_err(other)?;
            ids.retain(|_, (until, _)| until > now).map_err(other)?;
        }
        write.commit().map_err(other)
    }

    /// To read in, while others write.
    pub fn reader(&self) -> io::Result<Reader> {
        self.0.begin_read().map(Reader).map_err(other)
    }
}

/// The index as it was when this was asked for.
pub(crate) struct Reader(ReadTransaction);

impl Reader {
    /// The row of an entry.
    pub fn row(&self, key: u64) -> io::Result<Option<Vec<u8>>> {
        let Ok(table) = self.0.open_table(ENTRIES) else { return Ok(None) };
        let row = table.get(key).map_err(other)?;
        Ok(row.map(|value| value.value().to_vec()))
    }
}

/// Whether an error is about the disk or its permissions, not about what is in the file.
fn is_kernels(error: &io::Error) -> bool {
    error.raw_os_error().is_some()
}
