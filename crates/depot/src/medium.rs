//! The steps of a store that can fail, each by itself: tests have them fail.

use std::io;
use std::path::Path;

use redb::{Builder, Database, DatabaseError};

/// A step on disk, before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A payload's file is made.
    Create(&'a Path),
    /// It is written.
    Write(&'a Path),
    /// What was written is made durable.
    Sync(&'a Path),
    /// Its name is.
    SyncFolder(&'a Path),
    /// The index takes a batch.
    Commit,
    /// A file that is of no use any more is removed.
    Remove(&'a Path),
}

/// What a store lies on.
pub trait Medium: Send + Sync + 'static {
    /// A step is about to be done.
    ///
    /// # Errors
    /// It is not to be done, and why.
    fn before(&self, _step: Step<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Bytes that are free.
    ///
    /// # Errors
    /// The kernel's.
    fn room(&self, path: &Path) -> io::Result<u64> {
        let found = nix::sys::statvfs::statvfs(path)?;
        Ok(found.blocks_available().saturating_mul(found.fragment_size()))
    }

    /// Opens the index, or begins one.
    ///
    /// # Errors
    /// The database's.
    fn index(&self, path: &Path, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.create(path)
    }
}

/// A disk as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Medium for Plain {}
