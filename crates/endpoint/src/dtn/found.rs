//! What a store had at a node's start: bundles that are decided on again, ids, and what was damaged.

use std::path::{Path, PathBuf};
use std::thread::{available_parallelism, scope};

use bundle::wire::{Bundle, Id};
use bundle::{Agent, Name, Stored};
use bytes::Bytes;
use depot::{Aside, Depot, Entry, Shelf};
use units::Time;

use super::Disk;
use crate::perf::Failure;

/// Something damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The bundle, where it is known.
    pub bundle: Option<Name>,
    /// What is wrong.
    pub why: String,
    /// The file that was set aside.
    pub file: Option<PathBuf>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundStore {
    /// Bundles.
    pub bundles: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Ids of bundles that were delivered.
    pub delivered: usize,
    /// What was damaged.
    pub damaged: Vec<Damage>,
}

type Read = (u64, Result<(Bundle, Stored), String>);

/// Opens the store of `agent` in a folder, and gives it what is there.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn open(
    folder: &Path,
    agent: &mut Agent,
    now_ms: u64,
) -> Result<(Disk, FoundStore), Failure> {
    let words =
        |why: &dyn std::fmt::Display| Failure::Input(format!("{}: {why}", folder.display()));
    let node = agent.eid().to_string();
    let (depot, found) = Depot::open(folder, &node, now_ms).map_err(|why| words(&why))?;
    let mut tells = FoundStore::default();
    let aside = found.aside.iter().filter_map(|one| one.key);
    let last = found.entries.iter().map(|(key, _)| *key).chain(aside).max();
    agent.outlive(found.sequence, last.map_or(0, |last| last + 1));
    tells.damaged.extend(found.aside.into_iter().map(damage));
    for (id, until_ms) in &found.ids {
        match std::str::from_utf8(id).ok().and_then(|id| Id::from_key(id).ok()) {
            Some(id) => {
                agent.recall(&id, *until_ms);
                tells.delivered += 1;
            }
            None => tells.damaged.push(named(None, "an id is none".to_owned(), None)),
        }
    }
    for (key, read) in read(&found.entries, &depot.shelf()) {
        match read {
            Ok((bundle, stored)) => {
                tells.bundles += 1;
                tells.bytes += bundle.bytes();
                agent.find(Time::ZERO, key, bundle, stored.came_ms, stored.kind);
            }
            Err(why) => {
                tells.damaged.push(named(None, format!("bundle {key} is none: {why}"), None))
            }
        }
    }
    let disk = Disk::new(depot, found.sequence).map_err(|error| words(&error))?;
    Ok((disk, tells))
}

/// Reads bundles without their payloads, on all processors.
fn read(entries: &[(u64, Entry)], shelf: &Shelf) -> Vec<Read> {
    let threads = available_parallelism().map_or(1, |count| count.get().min(8));
    let each = entries.len().div_ceil(threads).max(1);
    let one = |(key, entry): &(u64, Entry)| (*key, bundle_of(*key, entry, shelf));
    scope(|scope| {
        let parts = entries.chunks(each);
        let threads: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().map(one).collect::<Vec<Read>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

fn bundle_of(key: u64, entry: &Entry, shelf: &Shelf) -> Result<(Bundle, Stored), String> {
    let stored = Stored::of_bytes(&entry.card, entry.payload_bytes).ok_or("another form")?;
    if let Ok(bundle) = stored.read() {
        return Ok((bundle, stored));
    }
    // Some are read with their payload only.
    let payload: Bytes = shelf.payload(key)?;
    let mut bundle = stored.read_with(payload).map_err(|why| why.0)?;
    bundle.put_away();
    Ok((bundle, stored))
}

fn damage(aside: Aside) -> Damage {
    let stored = aside.card.as_deref().and_then(|card| Stored::of_bytes(card, 0));
    let bundle = stored.and_then(|stored| stored.read().ok()).map(|bundle| Name::of(&bundle));
    let why = match aside.key {
        Some(key) if bundle.is_none() => format!("number {key}: {}", aside.why),
        _ => aside.why,
    };
    named(bundle, why, aside.to)
}

fn named(bundle: Option<Name>, why: String, file: Option<PathBuf>) -> Damage {
    Damage { bundle, why, file }
}
