//! The process that started this one. This process ends with it.
//!
//! `PR_SET_PDEATHSIG` refers to the *thread* that started a process. This thread can end long before its program, for
//! instance in a thread pool. A process descriptor (pidfd) refers to the process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{close, getppid};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The process that started this one.
#[derive(Debug)]
pub struct ParentProcess(OwnedFd);

impl ParentProcess {
    /// Opens the parent process, checked against `process_id` if given, because the parent may have ended. Returns
    /// `None` if the parent is outside the PID namespace of this process, which ends with it.
    ///
    /// # Errors
    /// Returns an error if the parent has ended, or if the kernel has no pidfd (before Linux 5.3).
    pub fn open(process_id: Option<&str>) -> io::Result<Option<ParentProcess>> {
        let number = match process_id {
            Some(text) => text.parse().map_err(io::Error::other)?,
            None => getppid().as_raw(),
        };
        let Some(process) = Pid::from_raw(number) else { return Ok(None) };
        let descriptor = pidfd_open(process, PidfdFlags::empty());
        // The process id is still that of the parent, so no other process has taken it.
        if getppid().as_raw() != number {
            return Err(io::Error::other("the process that started this lab has ended"));
        }
        Ok(Some(ParentProcess(descriptor?)))
    }

    /// Returns another descriptor of the same process.
    ///
    /// # Errors
    /// Returns an error if too many files are open.
    pub fn try_clone_descriptor(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Waits until the process has ended.
    pub fn wait(&self) {
        while !has_ended(&self.0, PollTimeout::NONE) {}
    }
}

/// Returns whether the object of `descriptor` has ended, after at most `timeout`: the process of a pidfd, or all
/// writers of a pipe.
pub fn has_ended(descriptor: &impl AsFd, timeout: PollTimeout) -> bool {
    let mut watched = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    match poll(&mut watched, timeout) {
        Ok(count) => count > 0,
        Err(Errno::EINTR) => false,
        // A descriptor that cannot be polled reports no further events.
        Err(_) => true,
    }
}

/// Opens a descriptor that the parent has passed by number. Child processes do not inherit it.
///
/// # Errors
/// Returns an error if the descriptor is not open.
pub fn take_descriptor(number: &str, writable: bool) -> io::Result<File> {
    let descriptor = number.parse().map_err(io::Error::other)?;
    let file = File::options()
        .read(!writable)
        .write(writable)
        .open(format!("/proc/self/fd/{number}"))
        .map_err(|error| io::Error::other(format!("descriptor {number}: {error}")))?;
    close::<i32>(descriptor)?;
    Ok(file)
}
