//! Many sockets and one sleep.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// Events taken over at once.
const EVENTS: usize = 64;

/// The sockets that are watched, each with a number.
pub struct Watch {
    epoll: Epoll,
}

/// A socket that has something to say.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Its number.
    pub number: u64,
    /// It can be read, or has failed.
    pub readable: bool,
    /// It has failed, or both sides have finished.
    pub broken: bool,
}

impl Watch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new() -> io::Result<Watch> {
        Ok(Watch { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    /// Watches a socket for `flags`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add(&self, socket: impl AsFd, number: u64, flags: EpollFlags) -> io::Result<()> {
        Ok(self.epoll.add(socket, EpollEvent::new(flags, number))?)
    }

    /// Watches it for something else.
    ///
    /// # Errors
    /// The kernel's.
    pub fn change(&self, socket: &TcpStream, number: u64, flags: EpollFlags) -> io::Result<()> {
        Ok(self.epoll.modify(socket, &mut EpollEvent::new(flags, number))?)
    }

    /// Watches it no more.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(self.epoll.delete(socket)?)
    }

    /// What has something to say now, without waiting.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ready(&self) -> io::Result<Vec<Ready>> {
        let mut events = [EpollEvent::empty(); EVENTS];
        let count = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let said = EpollFlags::EPOLLIN | EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP;
        let ready = |event: &EpollEvent| Ready {
            number: event.data(),
            readable: event.events().intersects(said),
            broken: event.events().intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP),
        };
        Ok(events[..count].iter().map(ready).collect())
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
