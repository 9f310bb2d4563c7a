//! Precreated files: the number of folder synchronisations, and the removal of unused files.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bundle_store::{DiskStore, IoStep, StoreBackend, StoreChange};

use crate::shaky::Folder;

/// Counts folder synchronisations.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl StoreBackend for Counting {
    fn before_step(&self, step: IoStep<'_>) -> io::Result<()> {
        let folder = matches!(step, IoStep::SyncFolder(_));
        self.0.fetch_add(u64::from(folder), Ordering::Relaxed);
        Ok(())
    }
}

fn put_change(key: u64) -> StoreChange {
    StoreChange::Put {
        key,
        metadata: b"card".to_vec(),
        payload: vec![vec![key as u8; 10_000].into()],
    }
}

/// Returns the number of payload files, and of the empty ones.
fn files(root: &Path) -> (usize, usize) {
    let folders = fs::read_dir(root.join("payloads")).unwrap();
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    let lengths: Vec<u64> = files.map(|file| file.unwrap().metadata().unwrap().len()).collect();
    (lengths.len(), lengths.iter().filter(|length| **length == 0).count())
}

/// A forwarding node assigns keys with gaps.
#[test]
fn single_entries_share_a_folder_synchronisation() {
    let folder = Folder::new("ahead");
    let medium = Counting::default();
    let (mut store, _) =
        DiskStore::open_with_backend(&folder.0, "ipn:1.0", 0, medium.clone()).unwrap();
    store.apply(vec![put_change(0)]);
    medium.0.store(0, Ordering::Relaxed);
    for number in 1..=80 {
        assert_eq!(store.apply(vec![put_change(2 * number)]), []);
    }
    let synced = medium.0.load(Ordering::Relaxed);
    assert!((8..=10).contains(&synced), "{synced} times for 80 entries over 160 numbers");
    // Files of skipped keys are removed.
    let (all, empty) = files(&folder.0);
    assert!(all - empty == 81 && empty <= 16, "{all} files, {empty} empty");
    drop(store);
    assert_eq!(files(&folder.0), (81, 0));
}

#[test]
fn precreated_files_after_a_kill_are_not_damage() {
    for damaged in [false, true] {
        let folder = Folder::new("left");
        let open =
            || DiskStore::open_with_backend(&folder.0, "ipn:1.0", 0, Counting::default()).unwrap();
        let (mut store, _) = open();
        store.apply(vec![put_change(3)]);
        // A kill removes no files.
        let left: Vec<_> = fs::read_dir(folder.0.join("payloads/0000000000000"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|path| fs::metadata(path).unwrap().len() == 0)
            .collect();
        assert!(!left.is_empty());
        drop(store);
        left.iter().for_each(|path| fs::write(path, b"").unwrap());
        if damaged {
            fs::write(folder.0.join("index.redb"), b"nonsense").unwrap();
        }
        let (store, found) = open();
        let keys: Vec<u64> = found.entries.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [3]);
        assert_eq!(found.quarantined.len(), usize::from(damaged), "{:?}", found.quarantined);
        drop(store);
        assert_eq!(files(&folder.0), (1, 0));
    }
}
