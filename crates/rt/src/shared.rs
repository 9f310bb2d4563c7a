//! Settings of the machine that several labs want at once: the last of their users puts them back.
//!
//! A file names what was changed. Each user has a shared lock on it, which the kernel releases when the lab ends; who gets
//! the lock alone is the last. A guard is there before the file is, and leaves in the place of a lab that was killed.
//! Should lab and guard be killed at once, the next user finds the file and puts back what it names.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::starter::Starter;

/// Where the files are: root's, and gone when the machine starts anew.
const PLACE: &str = "/run/bentpipe";

/// How long a guard waits for the lock of a lab that is gone, which others may have as long as they like.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// A user of settings.
#[derive(Debug)]
pub struct Shared {
    guard: Child,
    file: File,
    name: String,
}

impl Shared {
    /// Sets what is 0 of `settings`, files below /proc/sys, to 1 for as long as this lives, and longer if others use
    /// them too. Each network namespace has its own.
    ///
    /// # Errors
    /// The settings cannot be written, or there is no place for the file.
    pub fn set(settings: &[&str]) -> io::Result<Shared> {
        let told = |error| io::Error::other(format!("{PLACE}: {error}"));
        DirBuilder::new().recursive(true).mode(0o700).create(PLACE).map_err(told)?;
        let network = fs::metadata("/proc/self/ns/net")?.ino();
        let name = format!("{PLACE}/forwarding-{network}");
        let guard = Command::new("/proc/self/exe")
            .args(["guard", &name, &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let mut file = enter(&name).map_err(told)?;
        for setting in settings {
            if fs::read_to_string(setting)?.trim() == "0" {
                // Written in one piece, and before it is true.
                file.write_all(format!("{setting}\n").as_bytes())?;
                fs::write(setting, "1")?;
            }
        }
        Ok(Shared { guard, file, name })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = lock(&self.file, FlockOperation::Unlock);
        if let Some(mut input) = self.guard.stdin.take() {
            // An end before this one is seen below.
            let _ = input.write_all(b"!");
        }
        if !self.guard.wait().is_ok_and(|status| status.success()) {
            let _ = leave(&self.name);
        }
    }
}

/// The guard of the lab that is process `lab`: waits until that has left, and puts back what is to be.
///
/// # Errors
/// A setting cannot be put back.
pub fn guard(name: &str, lab: &str) -> io::Result<u8> {
    // Signals are for those in front of a terminal.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let lab = Starter::open(Some(lab));
    if io::stdin().read_exact(&mut [0]).is_ok() {
        leave(name)?;
        return Ok(0);
    }
    // Its end of the pipe may be closed before its lock is given up.
    if let Ok(Some(lab)) = lab {
        lab.wait();
    }
    // What it was about to start has its lock until it runs.
    let mut waited = Duration::ZERO;
    while !leave(name)? && waited < PATIENCE {
        std::thread::sleep(LOOK);
        waited += LOOK;
    }
    Ok(0)
}

/// The file, with the lock of a user.
fn enter(name: &str) -> io::Result<File> {
    loop {
        let file = File::options().read(true).append(true).create(true).mode(0o600).open(name)?;
        lock(&file, FlockOperation::LockShared)?;
        if is_at(&file, name)? {
            return Ok(file);
        }
    }
}

/// The last user's end: puts back what the file names, and removes it. Whether that is done; not while there are others.
fn leave(name: &str) -> io::Result<bool> {
    let mut file = match File::options().read(true).write(true).open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        found => found?,
    };
    match lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
        other => other?,
    }
    if !is_at(&file, name)? {
        return Ok(true);
    }
    let mut changed = String::new();
    file.read_to_string(&mut changed)?;
    for setting in changed.lines() {
        fs::write(setting, "0")?;
    }
    fs::remove_file(name)?;
    Ok(true)
}

/// Whether the file is still the one of this name: the last user may have removed it meanwhile.
fn is_at(file: &File, name: &str) -> io::Result<bool> {
    Ok(fs::metadata(name).ok().map(|there| there.ino()) == Some(file.metadata()?.ino()))
}

fn lock(file: &File, operation: FlockOperation) -> io::Result<()> {
    loop {
        match flock(file, operation) {
            Err(error) if error == Errno::INTR => {}
            other => return Ok(other?),
        }
    }
}
