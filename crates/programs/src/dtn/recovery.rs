//! The content of a store at the start of a node: bundles to forward again, delivered ids, and damaged items.

use std::path::{Path, PathBuf};
use std::thread::{available_parallelism, scope};

use bundle::wire::{Bundle, Id};
use bundle::{BundleLabel, BundleMetadata, BundleProtocolAgent};
use bundle_store::{DiskStore, PayloadReader, QuarantinedEntry, StoreEntry};
use bytes::Bytes;
use units::Time;

use super::DiskStoreWorker;
use crate::ProgramError;

/// A damaged item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedItem {
    /// The bundle, if known.
    pub bundle: Option<BundleLabel>,
    /// The defect.
    pub reason: String,
    /// The quarantined file.
    pub file: Option<PathBuf>,
}

/// The recovered content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredStore {
    /// The number of bundles.
    pub bundles: usize,
    /// The bytes of the bundles.
    pub bytes: u64,
    /// The number of ids of delivered bundles.
    pub delivered: usize,
    /// The damaged items.
    pub damaged: Vec<DamagedItem>,
}

type ReadResult = (u64, Result<(Bundle, BundleMetadata), String>);

/// Opens the store of `agent` in a folder and restores its content.
///
/// # Errors
/// The reason why the store cannot be used.
pub(super) fn recover(
    folder: &Path,
    agent: &mut BundleProtocolAgent,
    now_ms: u64,
) -> Result<(DiskStoreWorker, RecoveredStore), ProgramError> {
    let words =
        |why: &dyn std::fmt::Display| ProgramError::Input(format!("{}: {why}", folder.display()));
    let node = agent.eid().to_string();
    let (store, found) = DiskStore::open(folder, &node, now_ms).map_err(|why| words(&why))?;
    let mut recovered = RecoveredStore::default();
    let aside = found.quarantined.iter().filter_map(|one| one.key);
    let last = found.entries.iter().map(|(key, _)| *key).chain(aside).max();
    agent.enable_persistence(found.sequence, last.map_or(0, |last| last + 1));
    recovered.damaged.extend(found.quarantined.into_iter().map(quarantined_item));
    for (id, until_ms) in &found.ids {
        match std::str::from_utf8(id).ok().and_then(|id| Id::from_key(id).ok()) {
            Some(id) => {
                agent.restore_delivered_id(&id, *until_ms);
                recovered.delivered += 1;
            }
            None => recovered.damaged.push(damaged_item(
                None,
                "found an invalid bundle id".to_owned(),
                None,
            )),
        }
    }
    for (key, read) in read_bundles(&found.entries, &store.payload_reader()) {
        match read {
            Ok((bundle, stored)) => {
                recovered.bundles += 1;
                recovered.bytes += bundle.estimated_bytes();
                agent.restore_bundle(Time::ZERO, key, bundle, stored.received_ms, stored.kind);
            }
            Err(why) => recovered.damaged.push(damaged_item(
                None,
                format!("bundle {key} is invalid: {why}"),
                None,
            )),
        }
    }
    let disk = DiskStoreWorker::new(store, found.sequence).map_err(|error| words(&error))?;
    Ok((disk, recovered))
}

/// Reads bundles without payloads, in parallel.
fn read_bundles(entries: &[(u64, StoreEntry)], reader: &PayloadReader) -> Vec<ReadResult> {
    let threads = available_parallelism().map_or(1, |count| count.get().min(8));
    let each = entries.len().div_ceil(threads).max(1);
    let one = |(key, entry): &(u64, StoreEntry)| (*key, read_bundle(*key, entry, reader));
    scope(|scope| {
        let parts = entries.chunks(each);
        let threads: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().map(one).collect::<Vec<ReadResult>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

fn read_bundle(
    key: u64,
    entry: &StoreEntry,
    reader: &PayloadReader,
) -> Result<(Bundle, BundleMetadata), String> {
    let stored = BundleMetadata::from_bytes(&entry.metadata, entry.payload_bytes)
        .ok_or("unknown metadata format")?;
    if let Ok(bundle) = stored.decode() {
        return Ok((bundle, stored));
    }
    // Some bundles can only be decoded with their payload.
    let payload: Bytes = reader.read_payload(key)?;
    let mut bundle = stored.decode_with_payload(payload).map_err(|why| why.0)?;
    bundle.detach_payload();
    Ok((bundle, stored))
}

fn quarantined_item(aside: QuarantinedEntry) -> DamagedItem {
    let stored = aside.metadata.as_deref().and_then(|card| BundleMetadata::from_bytes(card, 0));
    let bundle = stored
        .and_then(|stored| stored.decode().ok())
        .map(|bundle| BundleLabel::from_bundle(&bundle));
    let why = match aside.key {
        Some(key) if bundle.is_none() => format!("entry {key}: {}", aside.reason),
        _ => aside.reason,
    };
    damaged_item(bundle, why, aside.moved_to)
}

fn damaged_item(bundle: Option<BundleLabel>, why: String, file: Option<PathBuf>) -> DamagedItem {
    DamagedItem { bundle, reason: why, file }
}
