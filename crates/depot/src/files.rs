//! Payloads in files: where each lies, and how it gets there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::medium::{Medium, Step};
use crate::record::Entry;

/// Entries whose files share a folder: numbers that follow one another, so that a batch makes few folders durable.
const PER_FOLDER_BITS: u32 = 12;

/// Where files of damaged entries go.
const ASIDE: &str = "damaged";
const PAYLOADS: &str = "payloads";

/// The folder of a store.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    root: PathBuf,
}

impl Files {
    pub fn new(root: &Path) -> Files {
        Files { root: root.to_owned() }
    }

    pub fn payloads(&self) -> PathBuf {
        self.root.join(PAYLOADS)
    }

    /// The folder of an entry's file.
    pub fn folder(&self, key: u64) -> PathBuf {
        self.payloads().join(format!("{:013x}", key >> PER_FOLDER_BITS))
    }

    /// An entry's file.
    pub fn path(&self, key: u64) -> PathBuf {
        self.folder(key).join(format!("{key:016x}"))
    }

    /// Makes an entry's file, which is there for certain when its folder is durable.
    pub fn create(&self, medium: &dyn Medium, key: u64) -> io::Result<File> {
        let path = self.path(key);
        medium.before(Step::Create(&path))?;
        File::create(&path)
    }

    /// The file that was made before.
    pub fn named(&self, key: u64) -> io::Result<File> {
        File::options().write(true).open(self.path(key))
    }

    /// Writes an entry into its file, which is empty.
    pub fn write(
        &self,
        medium: &dyn Medium,
        key: u64,
        (entry, payload): (&Entry, &[Bytes]),
        mut file: File,
    ) -> io::Result<File> {
        medium.before(Step::Write(&self.path(key)))?;
        let head = entry.file_head(key);
        let parts = std::iter::once(&head[..]).chain(payload.iter().map(|part| &part[..]));
        let mut slices: Vec<IoSlice<'_>> = parts.map(IoSlice::new).collect();
        let mut left = &mut slices[..];
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut left, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(file)
    }

    /// All entries that have a file, with its length.
    ///
    /// # Errors
    /// The kernel's.
    pub fn list(&self) -> io::Result<BTreeMap<u64, u64>> {
        let mut found = BTreeMap::new();
        for folder in fs::read_dir(self.payloads())? {
            let folder = folder?;
            if !folder.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(folder.path())? {
                let file = file?;
                let name = file.file_name();
                let key = name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok());
                if let Some(key) = key.filter(|key| self.path(*key) == file.path()) {
                    found.insert(key, file.metadata()?.len());
                }
            }
        }
        Ok(found)
    }

    /// An entry's file, all of it.
    pub fn read(&self, key: u64) -> io::Result<Bytes> {
        fs::read(self.path(key)).map(Bytes::from)
    }

    /// Moves a damaged file to where it can be looked at; where it is then.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_aside(&self, file: &Path) -> io::Result<PathBuf> {
        let folder = self.root.join(ASIDE);
        fs::create_dir_all(&folder)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let free = |number: &u32| !folder.join(format!("{name}.{number}")).exists();
        let number = (1..u32::MAX).find(free).unwrap_or(u32::MAX);
        let to = folder.join(format!("{name}.{number}"));
        fs::rename(file, &to)?;
        Ok(to)
    }

    /// Removes an entry's file, if it has one.
    pub fn remove(&self, medium: &dyn Medium, key: u64) -> io::Result<()> {
        let path = self.path(key);
        medium.before(Step::Remove(&path))?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Which of keys in order are the first of their folders.
pub(crate) fn first_of_folder() -> impl FnMut(&u64) -> bool {
    let mut last = None;
    move |key| last.replace(key >> PER_FOLDER_BITS) != Some(key >> PER_FOLDER_BITS)
}

/// Makes what a folder lists durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
