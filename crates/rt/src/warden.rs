//! The process that outlives a lab. It sees to it that the lab ends when its starter has ended, and that the
//! folders of both are gone with them.

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

use crate::starter::{Starter, ended};

/// Longest that a lab may take to end by itself, ms: its commands get 3 s, and then its services.
const PATIENCE_MS: u16 = 10_000;

/// Between two looks at the starter while the lab runs, ms.
const CALM_MS: u16 = 100;

/// Between two looks at what is about to end, ms.
const LOOK_MS: u16 = 10;

/// Longest that folders are waited for which the starter is about to make, or which cannot be removed yet, ms.
const FOLDERS_MS: u16 = 5_000;

/// Starts it: `lab` ends with the last process of the lab, `rest` is open for as long as the warden lives.
///
/// # Errors
/// The kernel's.
pub fn start(
    starter: &Starter,
    lab: PipeReader,
    rest: OwnedFd,
    folders: &[&str],
) -> io::Result<()> {
    let process = std::process::id().to_string();
    // Three descriptors that it inherits, in the places that every program has. Nobody waits for it.
    let _ = Command::new("/proc/self/exe")
        .args(["warden", &process])
        .args(folders)
        .stdin(Stdio::from(lab))
        .stdout(Stdio::from(starter.share()?))
        .stderr(Stdio::from(rest))
        .process_group(0)
        .spawn()?;
    Ok(())
}

/// Its life. Standard input ends with the lab, standard output is the starter's process.
///
/// # Errors
/// `lab` is no process.
pub fn watch(lab: &str, folders: &[&str]) -> io::Result<u8> {
    // Signals of a terminal are for those in front of it.
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let (input, output) = (io::stdin(), io::stdout());
    let (life, starter) = (input.as_fd(), output.as_fd());
    let there = || folders.iter().any(|folder| Path::new(folder).exists());
    // The starter may remove them as soon as the lab has ended.
    let (mut seen, mut waited_ms) = (folders.is_empty(), 0u16);
    while !ended(&life, PollTimeout::from(CALM_MS)) {
        seen = seen || there();
        if ended(&starter, PollTimeout::ZERO) {
            waited_ms = waited_ms.saturating_add(CALM_MS);
        }
        // The lab itself should have seen it.
        if waited_ms >= PATIENCE_MS && getppid().to_string() == lab {
            waited_ms = 0;
            let _ = kill(Pid::from_raw(lab.parse().map_err(io::Error::other)?), Signal::SIGKILL);
        }
    }
    waited_ms = 0;
    loop {
        let there = there();
        seen |= there;
        if ended(&starter, PollTimeout::from(LOOK_MS)) {
            remove(folders);
            return Ok(0);
        }
        waited_ms = waited_ms.saturating_add(LOOK_MS);
        if !there && (seen || waited_ms > FOLDERS_MS) {
            return Ok(0);
        }
    }
}

/// Removes the folders, with what is in them.
pub fn remove(folders: &[&str]) {
    for folder in folders {
        let mut waited_ms = 0;
        // What the kernel has yet to end may still write.
        while std::fs::remove_dir_all(folder).is_err()
            && Path::new(folder).exists()
            && waited_ms < FOLDERS_MS
        {
            std::thread::sleep(Duration::from_millis(LOOK_MS.into()));
            waited_ms += LOOK_MS;
        }
    }
}
