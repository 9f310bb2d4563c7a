//! Files from clients in bundles. A complete file is moved into a folder; client data cannot select a path outside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bundle::FilePart;
use nix::errno::Errno;
use serde_json::{Value, json};
use units::Time;

/// The maximum of incomplete files; a new one replaces the oldest.
const MAX_OPEN_FILES: usize = 64;

/// The maximum of separate ranges of a file; a file with more is discarded.
const MAX_RANGES: usize = 1 << 16;

/// The maximum length of a path component in bytes.
const MAX_NAME_BYTES: usize = 200;

/// An incomplete file.
struct IncomingFile {
    name: String,
    size: u64,
    file: File,
    path: PathBuf,
    /// The start and end of each received range; ranges do not touch.
    ranges: BTreeMap<u64, u64>,
}

impl IncomingFile {
    /// Adds the range `from..to`.
    fn add_range(&mut self, mut from: u64, mut to: u64) {
        while let Some((&begin, &end)) = self.ranges.range(..=to).next_back()
            && end >= from
        {
            (from, to) = (from.min(begin), to.max(end));
            self.ranges.remove(&begin);
        }
        self.ranges.insert(from, to);
    }

    fn is_whole(&self) -> bool {
        self.ranges.get(&0) == Some(&self.size)
    }
}

/// The files of a folder.
pub(super) struct ReceivedFiles {
    folder: PathBuf,
    open: BTreeMap<(String, u64), IncomingFile>,
    /// The keys in the order of the first parts.
    order: BTreeSet<(u64, (String, u64))>,
    started: u64,
    rows: Vec<Value>,
}

impl ReceivedFiles {
    /// Creates a receiver with the target `folder`.
    pub(super) fn new(folder: &Path) -> io::Result<ReceivedFiles> {
        fs::create_dir_all(folder)?;
        Ok(ReceivedFiles {
            folder: folder.to_owned(),
            open: BTreeMap::new(),
            order: BTreeSet::new(),
            started: 0,
            rows: Vec::new(),
        })
    }

    /// Takes the rows about files since the last call.
    pub(super) fn take_rows(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.rows)
    }

    /// Receives a part of a file.
    pub(super) fn receive(&mut self, now: Time, part: &FilePart) {
        let key = (part.source.clone(), part.send_id);
        match self.write(&key, part) {
            Ok(None) => {}
            Ok(Some(path)) => self.add_row(now, part, json!(path), Value::Null),
            Err(error) => {
                self.discard(&key);
                self.add_row(now, part, Value::Null, json!(error.to_string()));
            }
        }
    }

    fn add_row(&mut self, now: Time, part: &FilePart, path: Value, problem: Value) {
        self.rows.push(json!({
            "table": "files", "time_s": now.seconds(), "source": part.source, "name": part.name,
            "bytes": part.size, "path": path, "problem": problem,
        }));
    }

    /// Writes a part. Returns the final path of a complete file.
    fn write(&mut self, key: &(String, u64), part: &FilePart) -> io::Result<Option<PathBuf>> {
        if !self.open.contains_key(key) {
            self.start_file(key, part)?;
        }
        let Some(one) = self.open.get_mut(key) else { return Ok(None) };
        if (&one.name, one.size) != (&part.name, part.size) {
            return Err(io::Error::other("its parts differ in name or size"));
        }
        let mut at = part.offset;
        for data in &part.data {
            one.file.write_all_at(data, at)?;
            at += data.len() as u64;
        }
        one.add_range(part.offset, at);
        if one.ranges.len() > MAX_RANGES {
            return Err(io::Error::other("it has too many separate parts"));
        }
        if !one.is_whole() {
            return Ok(None);
        }
        let path = unused_path(&one.path.with_file_name(safe_file_name(&one.name)))?;
        one.file.sync_all()?;
        fs::rename(&one.path, &path)?;
        if let Some(folder) = path.parent() {
            sync_folder(folder)?;
        }
        self.open.remove(key);
        self.order.retain(|(_, of)| of != key);
        Ok(Some(path))
    }

    fn start_file(&mut self, key: &(String, u64), part: &FilePart) -> io::Result<()> {
        if self.open.len() >= MAX_OPEN_FILES
            && let Some((_, oldest)) = self.order.first().cloned()
        {
            self.discard(&oldest);
        }
        let folder = self.folder.join(safe_file_name(&part.source));
        if !folder.exists() {
            fs::create_dir_all(&folder)?;
            sync_folder(&self.folder)?;
        }
        // No safe name starts with a dot.
        let path = folder.join(format!(".{}.part", part.send_id));
        let file = File::create(&path)?;
        let (name, size) = (part.name.clone(), part.size);
        let one = IncomingFile { name, size, file, path, ranges: BTreeMap::new() };
        self.open.insert(key.clone(), one);
        self.order.insert((self.started, key.clone()));
        self.started += 1;
        Ok(())
    }

    /// Discards an incomplete file.
    fn discard(&mut self, key: &(String, u64)) {
        if let Some(one) = self.open.remove(key) {
            let _ = fs::remove_file(one.path);
        }
        self.order.retain(|(_, of)| of != key);
    }
}

impl Drop for ReceivedFiles {
    fn drop(&mut self) {
        for one in self.open.values() {
            let _ = fs::remove_file(&one.path);
        }
    }
}

/// Synchronises a folder to the disk, if file system and permissions allow it. Its files are complete in either case.
fn sync_folder(folder: &Path) -> io::Result<()> {
    let refused = [Errno::EINVAL, Errno::ENOTSUP, Errno::EACCES, Errno::EPERM];
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(error)
            if error
                .raw_os_error()
                .is_some_and(|code| refused.contains(&Errno::from_raw(code))) =>
        {
            Ok(())
        }
        done => done,
    }
}

/// Converts an untrusted name to a path component: alphanumeric characters and a few symbols, without a leading dot.
fn safe_file_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or_default();
    let last = if last.is_empty() { name } else { last };
    let permitted = |sign: char| {
        let good = sign.is_alphanumeric() || matches!(sign, '.' | '-' | '_' | '+' | ' ');
        if good { sign } else { '_' }
    };
    let mut found: String = last.chars().map(permitted).collect();
    while found.len() > MAX_NAME_BYTES {
        found.pop();
    }
    if found.is_empty() || found.starts_with('.') {
        found.insert(0, '_');
    }
    found
}

/// Returns `path`, or the first unused one of `path.1`, `path.2`...
fn unused_path(path: &Path) -> io::Result<PathBuf> {
    for number in 0..u32::MAX {
        let mut name = path.as_os_str().to_owned();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        if fs::symlink_metadata(&name).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(name.into());
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(sending: u64, name: &str, size: u64, offset: u64, data: &'static [u8]) -> FilePart {
        let (source, name) = ("ipn:1.3000".to_owned(), name.to_owned());
        FilePart { source, send_id: sending, name, size, offset, data: vec![data.into()] }
    }

    fn folder(case: &str) -> PathBuf {
        std::env::temp_dir().join(format!("bentpipe-files-{case}-{}", std::process::id()))
    }

    /// procfs does not support synchronisation (EINVAL), like some network file systems.
    #[test]
    fn a_folder_that_cannot_be_synchronised_does_not_lose_its_file() {
        let folder = Path::new("/proc/self/net");
        assert!(File::open(folder).and_then(|folder| folder.sync_all()).is_err());
        sync_folder(folder).unwrap();
        assert!(sync_folder(Path::new("/proc/self/none")).is_err());
    }

    #[test]
    fn parts_in_any_order_make_the_file_once() {
        let directory = folder("order");
        let mut files = ReceivedFiles::new(&directory).unwrap();
        for (offset, data) in [(6, &b"67"[..]), (0, b"012"), (2, b"2345")] {
            assert!(files.take_rows().is_empty());
            files.receive(Time::ZERO, &part(1, "count", 8, offset, data));
        }
        // A part after the complete file starts another file.
        files.receive(Time::ZERO, &part(1, "count", 8, 0, b"0"));
        let rows = files.take_rows();
        assert_eq!(rows.len(), 1, "{rows:?}");
        let path = directory.join("ipn_1.3000/count");
        assert_eq!(rows[0]["path"], json!(path));
        assert_eq!(fs::read(&path).unwrap(), b"01234567");
        // Another transfer with the same name gets a separate path.
        files.receive(Time::ZERO, &part(2, "count", 1, 0, b"x"));
        assert_eq!(fs::read(directory.join("ipn_1.3000/count.1")).unwrap(), b"x");
        assert_eq!(fs::read(&path).unwrap(), b"01234567");
        drop(files);
        assert_eq!(
            fs::read_dir(directory.join("ipn_1.3000")).unwrap().count(),
            2,
            "no part is left"
        );
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn an_untrusted_name_stays_in_its_folder() {
        for (name, expected) in [
            ("../../etc/passwd", "passwd"),
            ("/", "_"),
            ("..", "_.."),
            (".bashrc", "_.bashrc"),
            ("", "_"),
            ("a\0b\n", "a_b_"),
            ("dtn://one/x/", "dtn___one_x_"),
            ("ipn:1.3000", "ipn_1.3000"),
        ] {
            assert_eq!(safe_file_name(name), expected, "{name:?}");
        }
        assert!(safe_file_name(&"ü".repeat(300)).len() <= MAX_NAME_BYTES);
    }

    #[test]
    fn contradictory_and_excessive_files_are_discarded() {
        let directory = folder("wrong");
        let mut files = ReceivedFiles::new(&directory).unwrap();
        files.receive(Time::ZERO, &part(1, "a", 8, 0, b"0"));
        files.receive(Time::ZERO, &part(1, "a", 9, 0, b"0"));
        let rows = files.take_rows();
        assert_eq!(rows[0]["problem"], json!("its parts differ in name or size"));
        for sending in 0..3 * MAX_OPEN_FILES as u64 {
            files.receive(Time::ZERO, &part(sending, "a", 8, 0, b"0"));
        }
        assert_eq!((files.open.len(), files.order.len()), (MAX_OPEN_FILES, MAX_OPEN_FILES));
        for index in 0..=MAX_RANGES as u64 {
            files.receive(Time::ZERO, &part(999, "a", 1 << 40, 2 * index, b"0"));
        }
        assert_eq!(files.take_rows()[0]["problem"], json!("it has too many separate parts"));
        drop(files);
        assert_eq!(fs::read_dir(directory.join("ipn_1.3000")).unwrap().count(), 0);
        fs::remove_dir_all(directory).unwrap();
    }
}
