//! A store at start: whose it is, what is in it, what is damaged. What is damaged is named and set aside; the rest is used.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::depot::Depot;
use crate::files::{Files, sync_folder};
use crate::index::{Batch, Closed, Index, Rows};
use crate::medium::Medium;
use crate::record::Entry;

/// Says that a folder is a store, in which form, and whose.
const MARK: &str = "bentpipe-store";
const FORM: &str = "bentpipe store 1";
const LOCK: &str = "lock";
/// The next index, while it is made of what was found of a damaged one.
const NEXT_INDEX: &str = "index.next";

/// Why a store cannot be used.
#[derive(Debug)]
pub enum Unusable {
    /// Another process has it.
    InUse {
        /// Which, as it has written.
        by: String,
    },
    /// It is another node's.
    OtherNode {
        /// Whose.
        found: String,
    },
    /// The folder has something else in it.
    NotAStore,
    /// It has another form.
    OtherForm {
        /// Which.
        found: String,
    },
    /// The kernel says no.
    Kernel(io::Error),
}

impl fmt::Display for Unusable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::InUse { by } if by.is_empty() => write!(out, "another node uses it"),
            Unusable::InUse { by } => write!(out, "another node uses it (process {by})"),
            Unusable::OtherNode { found } => write!(out, "it is the store of node {found}"),
            Unusable::NotAStore => {
                write!(out, "found other files, expected a store or an empty folder")
            }
            Unusable::OtherForm { found } => {
                write!(out, "found a store of form {found:?}, expected {FORM:?}")
            }
            Unusable::Kernel(error) => write!(out, "{error}"),
        }
    }
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Unusable {
        Unusable::Kernel(error)
    }
}

/// Something that was damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// Its number, of an entry.
    pub key: Option<u64>,
    /// What it is, where that is still known.
    pub card: Option<Vec<u8>>,
    /// What is wrong.
    pub why: String,
    /// The file that was set aside, if there is one.
    pub to: Option<PathBuf>,
}

/// What was found in a store.
#[derive(Debug, Default)]
pub struct Found {
    /// Entries by their numbers; their payloads are asked for by [`Depot::payload`].
    pub entries: Vec<(u64, Entry)>,
    /// Ids to be remembered, each until when, milliseconds.
    pub ids: Vec<(Vec<u8>, u64)>,
    /// How many numbers the node has given.
    pub sequence: u64,
    /// What was damaged.
    pub aside: Vec<Aside>,
}

/// Opens the store of `node` in `root`, or begins one.
pub(crate) fn open<M: Medium>(
    root: &Path,
    node: &str,
    now_ms: u64,
    medium: M,
) -> Result<(Depot<M>, Found), Unusable> {
    fs::create_dir_all(root)?;
    let lock = lock(root)?;
    mark(root, node)?;
    let files = Files::new(root);
    let mut found = Found::default();
    let (path, next) = (Index::path(root), root.join(NEXT_INDEX));
    if next.exists() {
        // It is whole if the one before is out of its way.
        if path.exists() {
            fs::remove_file(&next)?
        } else {
            fs::rename(&next, &path)?
        }
        sync_folder(root)?;
    }
    // The index is there for certain before the folder of payloads is made.
    let had = files.payloads().exists();
    let length = fs::metadata(&path).map(|index| index.len());
    let begins = !matches!(length, Ok(1..));
    let opened = if had && begins {
        Err(Closed::Damaged(if length.is_ok() { "it is empty" } else { "it is gone" }.to_owned()))
    } else {
        Index::open(&medium, &path)
    };
    if begins && opened.is_ok() {
        sync_folder(root)?;
    }
    fs::create_dir_all(files.payloads())?;
    let opened = match opened {
        Ok(index) => index.rows().map(|rows| (index, rows)).map_err(|error| error.to_string()),
        Err(Closed::InUse) => return Err(Unusable::InUse { by: String::new() }),
        Err(Closed::Kernel(error)) => return Err(error.into()),
        Err(Closed::Damaged(why)) => Err(why),
    };
    let (opened, rows, whole) = match opened {
        Ok((index, rows)) => (Some(index), rows, true),
        Err(why) => {
            let mut rows = salvage(&path);
            // Behind any number that the node can have given.
            rows.sequence = rows.sequence.max(now_ms);
            found.aside.push(Aside {
                key: None,
                card: None,
                why: format!("the index is damaged ({why}): {} ids and {} entries of it could be read, the others are looked for in files", rows.ids.len(), rows.entries.len()),
                to: None,
            });
            (None, rows, false)
        }
    };
    if rows.damaged_ids > 0 {
        let why = format!("{} ids of bundles that were delivered are damaged", rows.damaged_ids);
        found.aside.push(Aside { key: None, card: None, why, to: None });
    }
    found.sequence = rows.sequence;
    let mut batch = Batch::default();
    let entries = sort_out(&files, rows.entries, whole, &mut batch, &mut found)?;
    let index = match opened {
        Some(index) => {
            if !batch.put.is_empty() || !batch.remove.is_empty() {
                index.commit(&batch)?;
            }
            if rows.ids.iter().any(|(_, until)| *until <= now_ms) {
                index.forget_ids(now_ms)?;
            }
            index
        }
        None => {
            let all = Batch {
                put: entries.iter().map(|(key, entry)| (*key, entry.row(*key))).collect(),
                remove: Vec::new(),
                ids: rows.ids.iter().map(|(id, until)| (id.clone(), Some(*until))).collect(),
                sequence: Some(rows.sequence),
            };
            anew(&medium, root, &files, &all, &mut found)?
        }
    };
    found.ids = rows.ids.into_iter().filter(|(_, until)| *until > now_ms).collect();
    let forget = |(key, entry): (u64, Entry)| (key, Entry { inline: None, ..entry });
    found.entries = entries.into_iter().map(forget).collect();
    let mut folders: Vec<PathBuf> = found
        .entries
        .iter()
        .map(|(key, _)| *key)
        .filter(crate::files::first_of_folder())
        .map(|key| files.folder(key))
        .collect();
    folders.retain(|folder| folder.exists());
    let folders = folders.into_iter().collect();
    Ok((Depot::new(root, files, index, folders, medium, lock), found))
}

/// Which rows have what belongs to them; what has not is set aside. Files without a row are what a kill has left of
/// batches that were never done, or, where the index was damaged, entries of their own.
fn sort_out(
    files: &Files,
    rows: Vec<(u64, Option<Entry>)>,
    whole: bool,
    batch: &mut Batch,
    found: &mut Found,
) -> io::Result<BTreeMap<u64, Entry>> {
    let mut listed = files.list()?;
    let mut entries = BTreeMap::new();
    for (key, row) in rows {
        let length = listed.remove(&key);
        match (row, length) {
            (Some(entry), _) if entry.inline.as_ref().is_some_and(|one| entry.holds(one)) => {
                entries.insert(key, entry);
            }
            (Some(entry), Some(length))
                if entry.inline.is_none() && entry.file_bytes() == length =>
            {
                entries.insert(key, entry);
            }
            (row, length) => {
                let again = length.and_then(|_| read_file(files, key));
                if let Some(entry) = again {
                    batch.put.push((key, entry.row(key)));
                    entries.insert(key, entry);
                    continue;
                }
                let why = match (&row, length) {
                    (None, _) => "its row of the index is damaged".to_owned(),
                    (Some(_), None) => "its file is gone".to_owned(),
                    (Some(entry), Some(length)) => {
                        format!("its file has {length} bytes of {}", entry.file_bytes())
                    }
                };
                let to = length.map(|_| files.set_aside(&files.path(key))).transpose()?;
                let card = row.map(|entry| entry.card);
                batch.remove.push(key);
                found.aside.push(Aside { key: Some(key), card, why, to });
            }
        }
    }
    for (key, length) in listed {
        // What is empty was made ahead of its entry.
        if whole || length == 0 {
            fs::remove_file(files.path(key))?;
            // Nothing else may be in it.
            let _ = fs::remove_dir(files.folder(key));
            continue;
        }
        match read_file(files, key) {
            Some(entry) => {
                entries.insert(key, entry);
            }
            None => {
                let to = Some(files.set_aside(&files.path(key))?);
                let why = "its file is damaged".to_owned();
                found.aside.push(Aside { key: Some(key), card: None, why, to });
            }
        }
    }
    Ok(entries)
}

fn read_file(files: &Files, key: u64) -> Option<Entry> {
    Entry::of_file(key, &files.read(key).ok()?).map(|(entry, _)| entry)
}

/// What can still be read of a damaged index.
fn salvage(path: &Path) -> Rows {
    let mut rows = Rows::default();
    let _ = catch_unwind(AssertUnwindSafe(|| Index::read_damaged(path, &mut rows)));
    // Of a tree that is damaged the same rows may be read twice.
    rows.entries.sort_by_key(|(key, entry)| (*key, entry.is_none()));
    rows.entries.dedup_by_key(|(key, _)| *key);
    rows
}

/// An index of what was found of a damaged one, which is set aside.
fn anew(
    medium: &dyn Medium,
    root: &Path,
    files: &Files,
    batch: &Batch,
    found: &mut Found,
) -> Result<Index, Unusable> {
    let (path, next) = (Index::path(root), root.join(NEXT_INDEX));
    let begun = Index::open(medium, &next).map_err(|closed| match closed {
        Closed::Kernel(error) => Unusable::Kernel(error),
        Closed::InUse => Unusable::InUse { by: String::new() },
        Closed::Damaged(why) => Unusable::Kernel(io::Error::other(why)),
    })?;
    begun.commit(batch)?;
    if path.exists() {
        let to = files.set_aside(&path)?;
        if let Some(aside) = found.aside.first_mut() {
            aside.to = Some(to);
        }
    }
    fs::rename(&next, &path)?;
    sync_folder(root)?;
    Ok(begun)
}

/// Takes a store for this process, until the file is closed.
fn lock(root: &Path) -> Result<File, Unusable> {
    let path = root.join(LOCK);
    let mut file =
        File::options().create(true).truncate(false).read(true).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let mut by = String::new();
            let _ = file.read_to_string(&mut by);
            return Err(Unusable::InUse { by: by.trim().to_owned() });
        }
        Err(fs::TryLockError::Error(error)) => return Err(error.into()),
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

/// Looks whose store it is, or says whose it is from now on.
fn mark(root: &Path, node: &str) -> Result<(), Unusable> {
    let path = root.join(MARK);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let mut lines = text.lines();
            let form = lines.next().unwrap_or_default();
            if form != FORM {
                return Err(Unusable::OtherForm { found: form.chars().take(80).collect() });
            }
            let found = lines.next().unwrap_or_default();
            if found != node {
                return Err(Unusable::OtherNode { found: found.chars().take(80).collect() });
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let new = format!("{MARK}.new");
            for entry in fs::read_dir(root)? {
                let name = entry?.file_name();
                if name != LOCK && name.to_str() != Some(&new) {
                    return Err(Unusable::NotAStore);
                }
            }
            let new = root.join(new);
            let mut file = File::create(&new)?;
            write!(file, "{FORM}\n{node}\n")?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            sync_folder(root)?;
            // Its own name too.
            if let Some(parent) = root.canonicalize()?.parent() {
                sync_folder(parent)?;
            }
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(Unusable::OtherForm { found: "that is no text".to_owned() })
        }
        Err(error) => Err(error.into()),
    }
}
