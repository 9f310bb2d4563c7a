//! A disk that fails or loses power at a given step. Unsynchronised data is partially stored.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use bundle_store::{IoStep, StoreBackend};
use redb::{Builder, Database, DatabaseError, StorageBackend};

/// The folder of a test, in memory if possible, removed on drop.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let shm = PathBuf::from("/dev/shm");
        let base = if shm.is_dir() { shm } else { std::env::temp_dir() };
        let path = base.join(format!("bentpipe-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The fault of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power is lost from this step on.
    Power,
    /// The step fails once.
    Error,
}

#[derive(Debug, Default)]
struct State {
    steps: u64,
    fault: Option<(u64, Fault)>,
    dead: bool,
    /// Files and names that are not durable.
    files: BTreeMap<PathBuf, bool>,
    names: Vec<PathBuf>,
    /// Writes to the index: the offset and the previous content.
    writes: Vec<(u64, Vec<u8>)>,
    length: Option<u64>,
    index: Option<PathBuf>,
    random: u64,
    free_bytes: Option<u64>,
}

/// A disk with injected faults.
#[derive(Clone, Debug, Default)]
pub struct Shaky(Arc<Mutex<State>>);

impl Shaky {
    pub fn new(seed: u64) -> Shaky {
        let shaky = Shaky::default();
        shaky.state().random = seed | 1;
        shaky
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Injects a fault at the step after `after` further ones.
    pub fn inject_fault(&self, after: u64, fault: Fault) {
        let mut state = self.state();
        state.fault = Some((state.steps + after, fault));
    }

    /// Sets the free bytes.
    pub fn set_free_bytes(&self, free_bytes: Option<u64>) {
        self.state().free_bytes = free_bytes;
    }

    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Restores the power: unsynchronised data is stored, lost, or random.
    pub fn lose_unsynced(&self) {
        let mut state = self.state();
        let mut random = state.random;
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        for (path, written) in std::mem::take(&mut state.files) {
            let Ok(file) = File::options().write(true).open(&path) else { continue };
            let length = file.metadata().unwrap().len();
            match draw(4) {
                0 => fs::remove_file(&path).unwrap(),
                1 => file.set_len(draw(length + 1)).unwrap(),
                2 if written && length > 0 => {
                    let from = draw(length);
                    let bytes = vec![0xa5; (length - from).min(4096) as usize];
                    file.write_all_at(&bytes, from).unwrap();
                }
                _ => {}
            }
        }
        for path in std::mem::take(&mut state.names) {
            if draw(2) == 0 {
                let _ = fs::remove_file(path);
            }
        }
        let writes = std::mem::take(&mut state.writes);
        if let Some(path) = state.index.take() {
            let file = File::options().write(true).open(&path).unwrap();
            let all = draw(3) == 0;
            for (at, before) in writes.into_iter().rev() {
                // A sector is written atomically.
                for (sector, part) in before.chunks(512).enumerate() {
                    if all || draw(2) == 0 {
                        file.write_all_at(part, at + sector as u64 * 512).unwrap();
                    }
                }
            }
            if let Some(length) = state.length.take()
                && all
            {
                file.set_len(length).unwrap();
            }
        }
    }

    fn step(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if state.dead {
            return Err(io::Error::other("the power is gone"));
        }
        state.steps += 1;
        let steps = state.steps;
        if let Some((_, fault)) = state.fault.take_if(|(at, _)| *at < steps) {
            state.dead = fault == Fault::Power;
            return Err(io::Error::other("a step fails"));
        }
        Ok(state)
    }
}

impl StoreBackend for Shaky {
    fn before_step(&self, step: IoStep<'_>) -> io::Result<()> {
        let mut state = self.step()?;
        match step {
            IoStep::Create(path) => {
                state.names.push(path.to_owned());
                state.files.insert(path.to_owned(), false);
            }
            IoStep::Write(path) => {
                state.files.insert(path.to_owned(), true);
            }
            IoStep::Sync(path) => {
                state.files.remove(path);
            }
            IoStep::SyncFolder(path) => {
                state.names.retain(|name| !name.starts_with(path));
            }
            IoStep::Commit | IoStep::Remove(_) => {}
        }
        Ok(())
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(self.state().free_bytes.unwrap_or(u64::MAX))
    }

    fn open_index(&self, path: &Path, builder: &Builder) -> Result<Database, DatabaseError> {
        let file =
            File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        let mut state = self.state();
        (state.index, state.length) = (Some(path.to_owned()), None);
        state.writes.clear();
        drop(state);
        builder.create_with_backend(ShakyFile { shaky: self.clone(), file })
    }
}

#[derive(Debug)]
struct ShakyFile {
    shaky: Shaky,
    file: File,
}

impl StorageBackend for ShakyFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.shaky.step()?;
        let before = self.file.metadata()?.len();
        state.length.get_or_insert(before);
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.shaky.step()?;
        state.writes.clear();
        state.length = None;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.shaky.step()?;
        let length = self.file.metadata()?.len();
        let known = (data.len() as u64).min(length.saturating_sub(offset)) as usize;
        let mut before = vec![0; known];
        self.file.read_exact_at(&mut before, offset)?;
        state.writes.push((offset, before));
        self.file.write_all_at(data, offset)
    }
}
