//! The watchdog process of a lab. It stops the lab when the parent process has ended, and then removes the folders of
//! both.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::poll::PollTimeout;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::parent_process::{ParentProcess, has_ended};

/// Maximum time in ms for a normal end of a lab: its commands have 3 s, and then its services.
const SHUTDOWN_TIMEOUT_MS: u16 = 10_000;

/// Interval in ms between two checks of the parent process while the lab runs.
const POLL_INTERVAL_MS: u16 = 100;

/// Interval in ms between two checks during the shutdown.
const SHUTDOWN_POLL_MS: u16 = 10;

/// Maximum wait in ms for folders that the parent process is about to create, or that cannot be removed yet.
const FOLDER_TIMEOUT_MS: u16 = 5_000;

/// Starts the watchdog. `lab` closes with the last process of the lab, `lifetime` with the watchdog.
///
/// # Errors
/// Returns the error of the kernel.
pub fn start(
    parent: &ParentProcess,
    lab: PipeReader,
    lifetime: OwnedFd,
    folders: &[&str],
) -> io::Result<()> {
    let process = std::process::id().to_string();
    // Three inherited descriptors, at the numbers of the standard streams. No process waits for the watchdog.
    let _ = Command::new("/proc/self/exe")
        .args(["warden", &process])
        .args(folders)
        .stdin(Stdio::from(lab))
        .stdout(Stdio::from(parent.try_clone_descriptor()?))
        .stderr(Stdio::from(lifetime))
        .process_group(0)
        .spawn()?;
    Ok(())
}

/// Runs the watchdog. Standard input closes with the lab, standard output is a pidfd of the parent process.
///
/// # Errors
/// Returns an error if `lab` is not a process id.
pub fn run(lab: &str, folders: &[&str]) -> io::Result<u8> {
    // Signals of the terminal are for the foreground processes.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let (input, output) = (io::stdin(), io::stdout());
    let (life, parent) = (input.as_fd(), output.as_fd());
    let exists = || folders.iter().any(|folder| Path::new(folder).exists());
    // The parent process may remove the folders as soon as the lab has ended.
    let (mut has_seen_folders, mut waited_ms) = (folders.is_empty() || exists(), 0u16);
    while !has_ended(&life, PollTimeout::from(POLL_INTERVAL_MS)) {
        has_seen_folders = has_seen_folders || exists();
        if has_ended(&parent, PollTimeout::ZERO) {
            waited_ms = waited_ms.saturating_add(POLL_INTERVAL_MS);
        }
        // The lab should have detected the end of the parent before.
        if waited_ms >= SHUTDOWN_TIMEOUT_MS && getppid().to_string() == lab {
            waited_ms = 0;
            let _ = kill(Pid::from_raw(lab.parse().map_err(io::Error::other)?), Signal::SIGKILL);
        }
    }
    waited_ms = 0;
    loop {
        let there = exists();
        has_seen_folders |= there;
        if has_ended(&parent, PollTimeout::from(SHUTDOWN_POLL_MS)) {
            remove_folders(folders);
            return Ok(0);
        }
        waited_ms = waited_ms.saturating_add(SHUTDOWN_POLL_MS);
        if !there && (has_seen_folders || waited_ms > FOLDER_TIMEOUT_MS) {
            return Ok(0);
        }
    }
}

/// Removes the folders with their content.
pub fn remove_folders(folders: &[&str]) {
    for folder in folders {
        let mut waited_ms = 0;
        // Processes that the kernel has not ended yet may still write.
        while std::fs::remove_dir_all(folder).is_err()
            && Path::new(folder).exists()
            && waited_ms < FOLDER_TIMEOUT_MS
        {
            std::thread::sleep(Duration::from_millis(SHUTDOWN_POLL_MS.into()));
            waited_ms += SHUTDOWN_POLL_MS;
        }
    }
}
