//! Settings of the machine that several labs want at once: the last of their users puts them back.
//!
//! A file names what was changed. Each user has a shared lock on it, which the kernel releases with the last process
//! that has the file open: the lab, and a guard that does what is to be done when the lab was killed. Who gets the
//! lock alone is the last. Should lab and guard be killed at once, the next user finds the file and puts back what
//! it names.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use nix::poll::PollTimeout;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::starter::ended;

/// Where the files are: root's, and gone when the machine starts anew.
const PLACE: &str = "/run/bentpipe";

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
        let mut file = enter(&name).map_err(told)?;
        let guard = Command::new("/proc/self/exe")
            .args(["guard", &name])
            .stdin(Stdio::piped())
            // The same lock as this process's.
            .stdout(Stdio::from(file.try_clone()?))
            .process_group(0)
            .spawn()?;
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
        // Its standard input ends, and it leaves in our place.
        drop(self.guard.stdin.take());
        if !self.guard.wait().is_ok_and(|status| status.success())
            && let Ok(file) = self.file.try_clone()
        {
            let _ = leave(file, &self.name);
        }
    }
}

/// The guard of a lab: waits until that is gone, and leaves in its place. Standard output is the file.
///
/// # Errors
/// A setting cannot be put back.
pub fn guard(name: &str) -> io::Result<u8> {
    // Signals are for those in front of a terminal.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    while !ended(&io::stdin(), PollTimeout::NONE) {}
    let file = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    leave(file, name)?;
    Ok(0)
}

/// The file, with the lock of a user.
fn enter(name: &str) -> io::Result<File> {
    loop {
        let file = File::options().read(true).append(true).create(true).mode(0o600).open(name)?;
        lock(&file, FlockOperation::LockShared)?;
        // The last user may have removed it meanwhile.
        if fs::metadata(name).ok().map(|there| there.ino()) == Some(file.metadata()?.ino()) {
            return Ok(file);
        }
    }
}

/// Gives up the lock of a user; the last one puts back what the file names, and removes it.
fn leave(mut file: File, name: &str) -> io::Result<()> {
    match lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
        other => other?,
    }
    let mut changed = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut changed)?;
    for setting in changed.lines() {
        fs::write(setting, "0")?;
    }
    fs::remove_file(name)
}

fn lock(file: &File, operation: FlockOperation) -> io::Result<()> {
    loop {
        match flock(file, operation) {
            Err(error) if error == Errno::INTR => {}
            other => return Ok(other?),
        }
    }
}
