//! Payload files: their paths and their creation.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::backend::{IoStep, StoreBackend};
use crate::entry::StoreEntry;

/// The low key bits within one folder. Consecutive keys share a folder, so that a batch synchronises few folders.
const PER_FOLDER_BITS: u32 = 12;

/// The folder for files of damaged entries.
const QUARANTINE: &str = "damaged";
const PAYLOADS: &str = "payloads";

/// The folder of a store.
#[derive(Clone, Debug)]
pub(crate) struct PayloadFiles {
    root: PathBuf,
}

impl PayloadFiles {
    pub fn new(root: &Path) -> PayloadFiles {
        PayloadFiles { root: root.to_owned() }
    }

    pub fn payload_root(&self) -> PathBuf {
        self.root.join(PAYLOADS)
    }

    /// Returns the folder of a payload file.
    pub fn folder(&self, key: u64) -> PathBuf {
        self.payload_root().join(format!("{:013x}", key >> PER_FOLDER_BITS))
    }

    /// Returns the path of a payload file.
    pub fn path(&self, key: u64) -> PathBuf {
        self.folder(key).join(format!("{key:016x}"))
    }

    /// Creates a payload file. It is durable after the synchronisation of its folder.
    pub fn create(&self, backend: &dyn StoreBackend, key: u64) -> io::Result<File> {
        let path = self.path(key);
        backend.before_step(IoStep::Create(&path))?;
        File::create(&path)
    }

    /// Opens a precreated file.
    pub fn open_precreated(&self, key: u64) -> io::Result<File> {
        File::options().write(true).open(self.path(key))
    }

    /// Writes an entry into its empty file.
    pub fn write(
        &self,
        backend: &dyn StoreBackend,
        key: u64,
        (entry, payload): (&StoreEntry, &[Bytes]),
        mut file: File,
    ) -> io::Result<File> {
        backend.before_step(IoStep::Write(&self.path(key)))?;
        let head = entry.to_file_head(key);
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

    /// Returns all keys with a payload file, and the file lengths.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn list(&self) -> io::Result<BTreeMap<u64, u64>> {
        let mut found = BTreeMap::new();
        for folder in fs::read_dir(self.payload_root())? {
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

    /// Reads a payload file completely.
    pub fn read(&self, key: u64) -> io::Result<Bytes> {
        fs::read(self.path(key)).map(Bytes::from)
    }

    /// Moves a damaged file to the quarantine folder. Returns its new path.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn quarantine(&self, file: &Path) -> io::Result<PathBuf> {
        let folder = self.root.join(QUARANTINE);
        fs::create_dir_all(&folder)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let free = |number: &u32| !folder.join(format!("{name}.{number}")).exists();
        let number = (1..u32::MAX).find(free).unwrap_or(u32::MAX);
        let to = folder.join(format!("{name}.{number}"));
        fs::rename(file, &to)?;
        Ok(to)
    }

    /// Removes a payload file if it exists.
    pub fn remove(&self, backend: &dyn StoreBackend, key: u64) -> io::Result<()> {
        let path = self.path(key);
        backend.before_step(IoStep::Remove(&path))?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Selects the first key of each folder from sorted keys.
pub(crate) fn first_of_folder() -> impl FnMut(&u64) -> bool {
    let mut last = None;
    move |key| last.replace(key >> PER_FOLDER_BITS) != Some(key >> PER_FOLDER_BITS)
}

/// Synchronises the entries of a folder.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
