//! Whoever started this process: with it everything ends.
//!
//! `PR_SET_PDEATHSIG` speaks of the *thread* that started a process, which ends long before its program where runs are
//! started from a pool of threads. A descriptor of the process itself (pidfd) speaks of the process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{close, getppid};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The process that started this one.
#[derive(Debug)]
pub struct Starter(OwnedFd);

impl Starter {
    /// The parent, which `named` says by its number: it may be gone already. Unnamed, it is whoever is the parent now;
    /// none where that one is outside of this process's own namespace, which ends with it.
    ///
    /// # Errors
    /// It is gone; the kernel has no such descriptors (they came with Linux 5.3).
    pub fn open(named: Option<&str>) -> io::Result<Option<Starter>> {
        let number = match named {
            Some(text) => text.parse().map_err(io::Error::other)?,
            None => getppid().as_raw(),
        };
        let Some(process) = Pid::from_raw(number) else { return Ok(None) };
        let descriptor = pidfd_open(process, PidfdFlags::empty());
        // Still the parent: then its number has been nobody else's meanwhile.
        if getppid().as_raw() != number {
            return Err(io::Error::other("whoever started this lab is gone"));
        }
        Ok(Some(Starter(descriptor?)))
    }

    /// The same process, watched by another descriptor.
    ///
    /// # Errors
    /// Too many files are open.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Returns when it has ended.
    pub fn wait(&self) {
        while !ended(&self.0, PollTimeout::NONE) {}
    }
}

/// Whether what `descriptor` speaks of is over, waited for no longer than this: the process of a pidfd has ended, or
/// nobody can write into a pipe any more.
pub fn ended(descriptor: &impl AsFd, longest: PollTimeout) -> bool {
    let mut watched = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
    match poll(&mut watched, longest) {
        Ok(count) => count > 0,
        Err(Errno::EINTR) => false,
        // A descriptor that cannot be waited for says nothing any more.
        Err(_) => true,
    }
}

/// A descriptor that the starter has handed over by its number, which no process started from here inherits.
///
/// # Errors
/// It is not open.
pub fn handed(number: &str, writable: bool) -> io::Result<File> {
    let descriptor = number.parse().map_err(io::Error::other)?;
    let file = File::options()
        .read(!writable)
        .write(writable)
        .open(format!("/proc/self/fd/{number}"))
        .map_err(|error| io::Error::other(format!("descriptor {number}: {error}")))?;
    close::<i32>(descriptor)?;
    Ok(file)
}
