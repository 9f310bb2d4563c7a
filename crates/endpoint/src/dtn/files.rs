//! Files that clients send in bundles: a folder gets each when it is whole. What a client says of itself chooses no other place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use bundle::FilePart;
use nix::errno::Errno;
use serde_json::{Value, json};
use units::Time;

/// Files on the way at once; the one that was begun first is given up for another.
const FILES: usize = 64;

/// Pieces of one of them with gaps between: who leaves more gives it up.
const PIECES: usize = 1 << 16;

/// Longest part of a path.
const NAME: usize = 200;

/// A file on the way.
struct Incoming {
    name: String,
    size: u64,
    file: File,
    path: PathBuf,
    /// Where each piece that is there begins and ends; none touches another.
    pieces: BTreeMap<u64, u64>,
}

impl Incoming {
    /// Enters `from..to`.
    fn enter(&mut self, mut from: u64, mut to: u64) {
        while let Some((&begin, &end)) = self.pieces.range(..=to).next_back()
            && end >= from
        {
            (from, to) = (from.min(begin), to.max(end));
            self.pieces.remove(&begin);
        }
        self.pieces.insert(from, to);
    }

    fn is_whole(&self) -> bool {
        self.pieces.get(&0) == Some(&self.size)
    }
}

/// The files of a folder.
pub(super) struct Files {
    folder: PathBuf,
    open: BTreeMap<(String, u64), Incoming>,
    /// The same in the order of their beginnings.
    order: BTreeSet<(u64, (String, u64))>,
    begun: u64,
    told: Vec<Value>,
}

impl Files {
    /// Those that `folder` is to get.
    pub(super) fn new(folder: &Path) -> io::Result<Files> {
        fs::create_dir_all(folder)?;
        Ok(Files {
            folder: folder.to_owned(),
            open: BTreeMap::new(),
            order: BTreeSet::new(),
            begun: 0,
            told: Vec::new(),
        })
    }

    /// What has become of files since the last call.
    pub(super) fn take_told(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.told)
    }

    /// A part has come.
    pub(super) fn take(&mut self, now: Time, part: &FilePart) {
        let key = (part.source.clone(), part.sending);
        match self.write(&key, part) {
            Ok(None) => {}
            Ok(Some(path)) => self.tell(now, part, json!(path), Value::Null),
            Err(error) => {
                self.drop(&key);
                self.tell(now, part, Value::Null, json!(error.to_string()));
            }
        }
    }

    fn tell(&mut self, now: Time, part: &FilePart, path: Value, problem: Value) {
        self.told.push(json!({
            "table": "files", "time_s": now.seconds(), "source": part.source, "name": part.name,
            "bytes": part.size, "path": path, "problem": problem,
        }));
    }

    /// Writes a part; where it is then if it is whole.
    fn write(&mut self, key: &(String, u64), part: &FilePart) -> io::Result<Option<PathBuf>> {
        if !self.open.contains_key(key) {
            self.begin(key, part)?;
        }
        let Some(one) = self.open.get_mut(key) else { return Ok(None) };
        if (&one.name, one.size) != (&part.name, part.size) {
            return Err(io::Error::other("its parts contradict each other"));
        }
        let mut at = part.offset;
        for data in &part.data {
            one.file.write_all_at(data, at)?;
            at += data.len() as u64;
        }
        one.enter(part.offset, at);
        if one.pieces.len() > PIECES {
            return Err(io::Error::other("it comes in too many pieces"));
        }
        if !one.is_whole() {
            return Ok(None);
        }
        let path = vacant(&one.path.with_file_name(safe(&one.name)))?;
        one.file.sync_all()?;
        fs::rename(&one.path, &path)?;
        if let Some(folder) = path.parent() {
            synchronise_names(folder)?;
        }
        self.open.remove(key);
        self.order.retain(|(_, of)| of != key);
        Ok(Some(path))
    }

    fn begin(&mut self, key: &(String, u64), part: &FilePart) -> io::Result<()> {
        if self.open.len() >= FILES
            && let Some((_, oldest)) = self.order.first().cloned()
        {
            self.drop(&oldest);
        }
        let folder = self.folder.join(safe(&part.source));
        if !folder.exists() {
            fs::create_dir_all(&folder)?;
            synchronise_names(&self.folder)?;
        }
        // No name that is safe begins with a dot.
        let path = folder.join(format!(".{}.part", part.sending));
        let file = File::create(&path)?;
        let (name, size) = (part.name.clone(), part.size);
        let one = Incoming { name, size, file, path, pieces: BTreeMap::new() };
        self.open.insert(key.clone(), one);
        self.order.insert((self.begun, key.clone()));
        self.begun += 1;
        Ok(())
    }

    /// Gives one up.
    fn drop(&mut self, key: &(String, u64)) {
        if let Some(one) = self.open.remove(key) {
            let _ = fs::remove_file(one.path);
        }
        self.order.retain(|(_, of)| of != key);
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for one in self.open.values() {
            let _ = fs::remove_file(&one.path);
        }
    }
}

/// Hands a folder's names to the disk, where its file system and its permissions let one do so. Its files are whole either way.
fn synchronise_names(folder: &Path) -> io::Result<()> {
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

/// A name that a stranger said, as a part of a path: letters, digits and a few signs, no dot at its beginning.
fn safe(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or_default();
    let last = if last.is_empty() { name } else { last };
    let kept = |sign: char| {
        let good = sign.is_alphanumeric() || matches!(sign, '.' | '-' | '_' | '+' | ' ');
        if good { sign } else { '_' }
    };
    let mut found: String = last.chars().map(kept).collect();
    while found.len() > NAME {
        found.pop();
    }
    if found.is_empty() || found.starts_with('.') {
        found.insert(0, '_');
    }
    found
}

/// `path`, or the first of `path.1`, `path.2`... that is not there.
fn vacant(path: &Path) -> io::Result<PathBuf> {
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
        FilePart { source, sending, name, size, offset, data: vec![data.into()] }
    }

    fn folder(case: &str) -> PathBuf {
        std::env::temp_dir().join(format!("bentpipe-files-{case}-{}", std::process::id()))
    }

    /// procfs synchronises nothing (EINVAL), as some network file systems.
    #[test]
    fn a_folder_that_cannot_be_synchronised_does_not_lose_its_file() {
        let folder = Path::new("/proc/self/net");
        assert!(File::open(folder).and_then(|folder| folder.sync_all()).is_err());
        synchronise_names(folder).unwrap();
        assert!(synchronise_names(Path::new("/proc/self/none")).is_err());
    }

    #[test]
    fn parts_in_any_order_make_the_file_once() {
        let place = folder("order");
        let mut files = Files::new(&place).unwrap();
        for (offset, data) in [(6, &b"67"[..]), (0, b"012"), (2, b"2345")] {
            assert!(files.take_told().is_empty());
            files.take(Time::ZERO, &part(1, "count", 8, offset, data));
        }
        // What comes when it was whole begins another one.
        files.take(Time::ZERO, &part(1, "count", 8, 0, b"0"));
        let told = files.take_told();
        assert_eq!(told.len(), 1, "{told:?}");
        let path = place.join("ipn_1.3000/count");
        assert_eq!(told[0]["path"], json!(path));
        assert_eq!(fs::read(&path).unwrap(), b"01234567");
        // Another sending of the same name lies beside it.
        files.take(Time::ZERO, &part(2, "count", 1, 0, b"x"));
        assert_eq!(fs::read(place.join("ipn_1.3000/count.1")).unwrap(), b"x");
        assert_eq!(fs::read(&path).unwrap(), b"01234567");
        drop(files);
        assert_eq!(fs::read_dir(place.join("ipn_1.3000")).unwrap().count(), 2, "no part is left");
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_strangers_name_leads_nowhere_else() {
        for (said, kept) in [
            ("../../etc/passwd", "passwd"),
            ("/", "_"),
            ("..", "_.."),
            (".bashrc", "_.bashrc"),
            ("", "_"),
            ("a\0b\n", "a_b_"),
            ("dtn://one/x/", "dtn___one_x_"),
            ("ipn:1.3000", "ipn_1.3000"),
        ] {
            assert_eq!(safe(said), kept, "{said:?}");
        }
        assert!(safe(&"ü".repeat(300)).len() <= NAME);
    }

    #[test]
    fn what_contradicts_itself_and_what_is_too_much_is_given_up() {
        let place = folder("wrong");
        let mut files = Files::new(&place).unwrap();
        files.take(Time::ZERO, &part(1, "a", 8, 0, b"0"));
        files.take(Time::ZERO, &part(1, "a", 9, 0, b"0"));
        let told = files.take_told();
        assert_eq!(told[0]["problem"], json!("its parts contradict each other"));
        for sending in 0..3 * FILES as u64 {
            files.take(Time::ZERO, &part(sending, "a", 8, 0, b"0"));
        }
        assert_eq!((files.open.len(), files.order.len()), (FILES, FILES));
        for place in 0..=PIECES as u64 {
            files.take(Time::ZERO, &part(999, "a", 1 << 40, 2 * place, b"0"));
        }
        assert_eq!(files.take_told()[0]["problem"], json!("it comes in too many pieces"));
        drop(files);
        assert_eq!(fs::read_dir(place.join("ipn_1.3000")).unwrap().count(), 0);
        fs::remove_dir_all(place).unwrap();
    }
}
