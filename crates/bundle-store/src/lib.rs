//! A bundle store on disk: large payloads in files, all other data in an index. The changes of [`DiskStore::apply`]
//! survive a kill or a power loss. An interrupted batch has no effect.
//!
//! The store is independent of bundles: an entry has a key, metadata (opaque bytes) and a payload.
//!
//! Reading order: `entry` (encoding of an entry), `index`, `payload_files`, `recovery` (state and damage at start),
//! `store` (changes), `backend` (fallible steps).

mod backend;
mod entry;
mod index;
mod payload_files;
mod recovery;
mod store;

pub use backend::{FileSystem, IoStep, StoreBackend};
pub use entry::StoreEntry;
pub use recovery::{OpenError, QuarantinedEntry, RecoveredState};
pub use store::{DiskStore, PayloadReader, RejectedEntry, StoreChange};
