//! The fallible steps of a store, separated so that tests can inject faults.

use std::io;
use std::path::Path;

use redb::{Builder, Database, DatabaseError};

/// A step of disk access, reported before its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoStep<'a> {
    /// Creation of a payload file.
    Create(&'a Path),
    /// Writing of the file.
    Write(&'a Path),
    /// Synchronisation of the file data.
    Sync(&'a Path),
    /// Synchronisation of the folder with the file name.
    SyncFolder(&'a Path),
    /// The commit of a batch in the index.
    Commit,
    /// Removal of an obsolete file.
    Remove(&'a Path),
}

/// The storage below a store.
pub trait StoreBackend: Send + Sync + 'static {
    /// Runs before each step.
    ///
    /// # Errors
    /// The step must fail with this error.
    fn before_step(&self, _step: IoStep<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Returns the free bytes.
    ///
    /// # Errors
    /// The error of the operating system.
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let found = nix::sys::statvfs::statvfs(path)?;
        Ok(found.blocks_available().saturating_mul(found.fragment_size()))
    }

    /// Opens or creates the index.
    ///
    /// # Errors
    /// The error of the database.
    fn open_index(&self, path: &Path, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.create(path)
    }
}

/// The file system without faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileSystem;

impl StoreBackend for FileSystem {}
