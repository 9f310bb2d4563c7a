//! Recovery from a damaged store, and its report.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bundle_store::{DiskStore, OpenError, RecoveredState, StoreChange};
use bytes::Bytes;

use crate::shaky::Folder;

const NODE: &str = "ipn:1.0";

/// Returns the payload of a key. Even keys have payloads in files.
fn content(key: u64) -> Bytes {
    let bytes = if key.is_multiple_of(2) { 20_000 } else { 300 };
    (0..bytes).map(|at| (key * 7 + at) as u8).collect::<Vec<u8>>().into()
}

fn filled(root: &Path, entries: u64) {
    let (mut store, _) = DiskStore::open(root, NODE, 0).unwrap();
    let keep = |key| StoreChange::Put {
        key,
        metadata: format!("card {key}").into_bytes(),
        payload: vec![content(key)],
    };
    let mut changes: Vec<StoreChange> = (0..entries).map(keep).collect();
    changes.push(StoreChange::RecordId { id: b"id".to_vec(), until_ms: 100 });
    changes.push(StoreChange::SetSequence(5));
    assert_eq!(store.apply(changes), []);
}

fn opened(root: &Path) -> (DiskStore, RecoveredState) {
    DiskStore::open(root, NODE, 50).unwrap()
}

/// Returns the intact entries; all others must be reported, at the start or by the read.
fn whole(store: &DiskStore, found: &RecoveredState) -> Vec<u64> {
    let reader = store.payload_reader();
    let good = |key: &u64| match reader.read_payload(*key) {
        Ok(payload) => {
            assert_eq!(payload, content(*key));
            true
        }
        Err(why) => {
            assert!(why.contains("damaged"), "{why}");
            false
        }
    };
    found.entries.iter().map(|(key, _)| *key).filter(good).collect()
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in fs::read_dir(root.join("payloads")).unwrap() {
        found.extend(fs::read_dir(folder.unwrap().path()).unwrap().map(|one| one.unwrap().path()));
    }
    found.sort();
    found
}

#[test]
fn a_store_belongs_to_one_node_and_one_process() {
    let folder = Folder::new("shared");
    let (store, found) = opened(&folder.0);
    assert_eq!((found.entries.len(), found.sequence), (0, 0));
    let second = DiskStore::open(&folder.0, NODE, 0).err().unwrap();
    assert_eq!(
        second.to_string(),
        format!("another node uses it (process {})", std::process::id())
    );
    drop(store);
    let other = DiskStore::open(&folder.0, "ipn:2.0", 0).err().unwrap();
    assert_eq!(other.to_string(), "the store belongs to node ipn:1.0");
    fs::write(folder.0.join("bentpipe-store"), "bentpipe store 9\nipn:1.0\n").unwrap();
    let other = DiskStore::open(&folder.0, NODE, 0).err().unwrap();
    assert!(matches!(other, OpenError::OtherFormat { .. }), "{other}");
    let strange = Folder::new("strange");
    fs::write(strange.0.join("letters.txt"), "mine").unwrap();
    let other = DiskStore::open(&strange.0, NODE, 0).err().unwrap();
    assert_eq!(other.to_string(), "found other files, expected a store or an empty folder");
}

#[test]
fn expired_ids_are_removed() {
    let folder = Folder::new("ids");
    filled(&folder.0, 1);
    assert_eq!(DiskStore::open(&folder.0, NODE, 99).unwrap().1.ids, [(b"id".to_vec(), 100)]);
    assert_eq!(DiskStore::open(&folder.0, NODE, 100).unwrap().1.ids, Vec::new());
}

#[test]
fn damaged_files_are_reported_and_the_others_remain() {
    let folder = Folder::new("files");
    filled(&folder.0, 8);
    let all = files(&folder.0);
    assert_eq!(all.len(), 4);
    fs::remove_file(&all[0]).unwrap();
    File::options().write(true).open(&all[1]).unwrap().set_len(700).unwrap();
    File::options().write(true).open(&all[2]).unwrap().write_all_at(b"x", 10_000).unwrap();
    let (store, found) = opened(&folder.0);
    let quarantined: Vec<(Option<u64>, &str)> =
        found.quarantined.iter().map(|one| (one.key, &*one.reason)).collect();
    assert_eq!(
        quarantined,
        [(Some(0), "its file is missing"), (Some(2), "its file has 700 bytes, expected 20042")]
    );
    assert_eq!(found.quarantined[1].metadata.as_deref(), Some(&b"card 2"[..]));
    assert!(found.quarantined[1].moved_to.as_ref().unwrap().exists());
    // A bit error is only detected by a read.
    assert_eq!(whole(&store, &found), [1, 3, 5, 6, 7]);
    drop(store);
    let (_, found) = opened(&folder.0);
    let quarantined: Vec<Option<u64>> = found.quarantined.iter().map(|one| one.key).collect();
    assert_eq!(quarantined, [Some(4)], "what was set aside is named once, and its file is gone");
}

/// A bit error at any position of the index is detected. The store opens with all files and most of the other entries.
#[test]
fn an_index_with_a_bit_error_is_rebuilt() {
    let base = Folder::new("index-base");
    filled(&base.0, 40);
    let length = fs::metadata(base.0.join("index.redb")).unwrap().len();
    let mut noticed = 0;
    for (number, at) in (0..length).step_by(length as usize / 60).chain([0, 64, 320]).enumerate() {
        let folder = Folder::new(&format!("index-{number}"));
        copy(&base.0, &folder.0);
        let file = File::options().write(true).open(folder.0.join("index.redb")).unwrap();
        file.write_all_at(&[0xa5; 16], at).unwrap();
        drop(file);
        let (store, found) = opened(&folder.0);
        let there = whole(&store, &found);
        let in_files = there.iter().filter(|key| key.is_multiple_of(2)).count();
        assert_eq!(in_files, 20, "at {at}: {:?}", found.quarantined);
        if there.len() < 40 || found.sequence != 5 {
            assert!(!found.quarantined.is_empty());
            assert!(found.sequence >= 5, "no number is given twice");
        }
        noticed += usize::from(!found.quarantined.is_empty());
        drop(store);
        let (store, again) = opened(&folder.0);
        assert_eq!((whole(&store, &again), again.quarantined), (there, vec![]));
    }
    assert!(noticed > 5, "{noticed}");
}

#[test]
fn a_truncated_or_random_index_is_rebuilt() {
    let base = Folder::new("nonsense-base");
    filled(&base.0, 10);
    let length = fs::metadata(base.0.join("index.redb")).unwrap().len();
    for (number, keep) in [1, 100, 4096, length / 2, length - 1].into_iter().enumerate() {
        for nonsense in [false, true] {
            let folder = Folder::new(&format!("nonsense-{number}-{nonsense}"));
            copy(&base.0, &folder.0);
            let index = folder.0.join("index.redb");
            if nonsense {
                fs::write(&index, vec![0x5a; keep as usize]).unwrap();
            } else {
                File::options().write(true).open(&index).unwrap().set_len(keep).unwrap();
            }
            let (store, found) = opened(&folder.0);
            let there = whole(&store, &found);
            assert_eq!(there.iter().filter(|key| key.is_multiple_of(2)).count(), 5);
            assert!(!found.quarantined.is_empty(), "{keep} {nonsense}");
            assert!(found.sequence >= 5);
        }
    }
}

/// Payload files survive the loss of the index, and the loss is reported.
#[test]
fn a_missing_or_empty_index_is_rebuilt() {
    for missing in [false, true] {
        let folder = Folder::new(&format!("gone-{missing}"));
        filled(&folder.0, 10);
        let index = folder.0.join("index.redb");
        if missing { fs::remove_file(&index) } else { fs::write(&index, b"") }.unwrap();
        let (store, found) = opened(&folder.0);
        assert_eq!(whole(&store, &found), [0, 2, 4, 6, 8]);
        let [aside] = &found.quarantined[..] else { panic!("{:?}", found.quarantined) };
        assert!(
            aside.reason.contains(if missing { "it is missing" } else { "it is empty" }),
            "{aside:?}"
        );
        assert!(found.sequence >= 5, "no number is given twice");
        drop(store);
        let (store, again) = opened(&folder.0);
        assert_eq!((whole(&store, &again), again.quarantined), (vec![0, 2, 4, 6, 8], vec![]));
    }
}

/// A kill during the creation of a store results in an empty store without damage.
#[test]
fn an_interrupted_creation_of_a_store_is_repeated() {
    let folder = Folder::new("begun");
    drop(opened(&folder.0));
    fs::remove_file(folder.0.join("index.redb")).unwrap();
    fs::remove_dir(folder.0.join("payloads")).unwrap();
    let (_, found) = opened(&folder.0);
    assert_eq!((found.entries.len(), found.quarantined), (0, vec![]));
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let there = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&there).unwrap();
            copy(&entry.path(), &there);
        } else {
            fs::copy(entry.path(), &there).unwrap();
        }
    }
}
