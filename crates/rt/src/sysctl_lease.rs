//! Machine settings that several labs change at the same time. The last user restores them.
//!
//! A file lists the changed settings. Each user holds a shared lock on it, which the kernel releases when the lab ends.
//! The user that gets an exclusive lock is the last. A restorer process, which starts before the file exists, acts for
//! a killed lab. If lab and restorer are killed together, the next user finds the file and restores its settings.

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

use crate::parent_process::ParentProcess;

/// The directory of the files. It belongs to root and is empty after a restart of the machine.
const LEASE_DIRECTORY: &str = "/run/bentpipe";

/// Maximum time that a restorer waits for the lock of an ended lab. Other labs may hold the lock without limit.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between two attempts.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A lease of settings.
#[derive(Debug)]
pub struct SysctlLease {
    restorer: Child,
    file: File,
    name: String,
}

impl SysctlLease {
    /// Sets those of `settings`, files below /proc/sys, that are 0 to 1. They stay set as long as this or another user
    /// exists. Each network namespace has separate settings.
    ///
    /// # Errors
    /// Returns an error if the settings or the file cannot be written.
    pub fn acquire(settings: &[&str]) -> io::Result<SysctlLease> {
        let context = |error| io::Error::other(format!("{LEASE_DIRECTORY}: {error}"));
        DirBuilder::new().recursive(true).mode(0o700).create(LEASE_DIRECTORY).map_err(context)?;
        let network = fs::metadata("/proc/self/ns/net")?.ino();
        let name = format!("{LEASE_DIRECTORY}/forwarding-{network}");
        let restorer = Command::new("/proc/self/exe")
            .args(["guard", &name, &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        let mut file = open_locked(&name).map_err(context)?;
        for setting in settings {
            if fs::read_to_string(setting)?.trim() == "0" {
                // Written in one call, and before the setting changes.
                file.write_all(format!("{setting}\n").as_bytes())?;
                fs::write(setting, "1")?;
            }
        }
        Ok(SysctlLease { restorer, file, name })
    }
}

impl Drop for SysctlLease {
    fn drop(&mut self) {
        let _ = lock(&self.file, FlockOperation::Unlock);
        if let Some(mut input) = self.restorer.stdin.take() {
            // An earlier end of the restorer is detected below.
            let _ = input.write_all(b"!");
        }
        if !self.restorer.wait().is_ok_and(|status| status.success()) {
            let _ = restore_if_last(&self.name);
        }
    }
}

/// Runs the restorer of the process `lab`: waits for its end and restores the settings.
///
/// # Errors
/// Returns an error if a setting cannot be restored.
pub fn restore_on_exit(name: &str, lab: &str) -> io::Result<u8> {
    // Signals of the terminal are for the foreground processes.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let lab = ParentProcess::open(Some(lab));
    if io::stdin().read_exact(&mut [0]).is_ok() {
        restore_if_last(name)?;
        return Ok(0);
    }
    // The kernel may close the pipe of the lab before it releases the lock.
    if let Ok(Some(lab)) = lab {
        lab.wait();
    }
    // A child process that the lab was about to start holds the lock until its exec.
    let mut waited = Duration::ZERO;
    while !restore_if_last(name)? && waited < LOCK_TIMEOUT {
        std::thread::sleep(POLL_INTERVAL);
        waited += POLL_INTERVAL;
    }
    Ok(0)
}

/// Opens the file and takes a shared lock.
fn open_locked(name: &str) -> io::Result<File> {
    loop {
        let file = File::options().read(true).append(true).create(true).mode(0o600).open(name)?;
        lock(&file, FlockOperation::LockShared)?;
        if is_same_file(&file, name)? {
            return Ok(file);
        }
    }
}

/// Restores the settings in the file and removes it. Returns whether this is done, which needs the last user.
fn restore_if_last(name: &str) -> io::Result<bool> {
    let mut file = match File::options().read(true).write(true).open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        found => found?,
    };
    match lock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
        other => other?,
    }
    if !is_same_file(&file, name)? {
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

/// Returns whether `file` still has this name. The last user may have removed it in the meantime.
fn is_same_file(file: &File, name: &str) -> io::Result<bool> {
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
