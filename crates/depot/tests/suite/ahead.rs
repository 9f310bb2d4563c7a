//! Names that are made durable ahead: how often a folder is synchronised, and what is left of names that nobody used.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use depot::{Change, Depot, Medium, Step};

use crate::shaky::Folder;

/// Counts how often folders are synchronised.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl Medium for Counting {
    fn before(&self, step: Step<'_>) -> io::Result<()> {
        let folder = matches!(step, Step::SyncFolder(_));
        self.0.fetch_add(u64::from(folder), Ordering::Relaxed);
        Ok(())
    }
}

fn keep(key: u64) -> Change {
    Change::Keep { key, card: b"card".to_vec(), payload: vec![vec![key as u8; 10_000].into()] }
}

/// Files of payloads, and how many of them are empty.
fn files(root: &Path) -> (usize, usize) {
    let folders = fs::read_dir(root.join("payloads")).unwrap();
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    let lengths: Vec<u64> = files.map(|file| file.unwrap().metadata().unwrap().len()).collect();
    (lengths.len(), lengths.iter().filter(|length| **length == 0).count())
}

/// A node that passes bundles on numbers them with gaps.
#[test]
fn entries_that_come_alone_share_a_folders_synchronisation() {
    let folder = Folder::new("ahead");
    let medium = Counting::default();
    let (mut depot, _) = Depot::open_on(&folder.0, "ipn:1.0", 0, medium.clone()).unwrap();
    depot.apply(vec![keep(0)]);
    medium.0.store(0, Ordering::Relaxed);
    for number in 1..=80 {
        assert_eq!(depot.apply(vec![keep(2 * number)]), []);
    }
    let synced = medium.0.load(Ordering::Relaxed);
    assert!((8..=10).contains(&synced), "{synced} times for 80 entries over 160 numbers");
    // What is passed over does not stay.
    let (all, empty) = files(&folder.0);
    assert!(all - empty == 81 && empty <= 16, "{all} files, {empty} empty");
    drop(depot);
    assert_eq!(files(&folder.0), (81, 0));
}

#[test]
fn names_that_a_kill_has_left_are_nobodys_damage() {
    for damaged in [false, true] {
        let folder = Folder::new("left");
        let open = || Depot::open_on(&folder.0, "ipn:1.0", 0, Counting::default()).unwrap();
        let (mut depot, _) = open();
        depot.apply(vec![keep(3)]);
        // A kill tidies nothing.
        let left: Vec<_> = fs::read_dir(folder.0.join("payloads/0000000000000"))
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|path| fs::metadata(path).unwrap().len() == 0)
            .collect();
        assert!(!left.is_empty());
        drop(depot);
        left.iter().for_each(|path| fs::write(path, b"").unwrap());
        if damaged {
            fs::write(folder.0.join("index.redb"), b"nonsense").unwrap();
        }
        let (depot, found) = open();
        let keys: Vec<u64> = found.entries.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [3]);
        assert_eq!(found.aside.len(), usize::from(damaged), "{:?}", found.aside);
        drop(depot);
        assert_eq!(files(&folder.0), (1, 0));
    }
}
