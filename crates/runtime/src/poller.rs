//! Readiness of many sockets by epoll.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// The maximum of events per call.
const MAX_EVENTS: usize = 64;

/// The registered sockets, each with a token.
pub struct Poller {
    epoll: Epoll,
}

/// The readiness of a socket.
#[derive(Clone, Copy, Debug)]
pub struct PollEvent {
    /// The token of the socket.
    pub token: u64,
    /// The socket is readable or has failed.
    pub readable: bool,
    /// The socket has failed, or both sides have finished.
    pub failed: bool,
}

impl Poller {
    /// Creates a poller without sockets.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller { epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)? })
    }

    /// Registers a socket for `flags`.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn add(&self, socket: impl AsFd, number: u64, flags: EpollFlags) -> io::Result<()> {
        Ok(self.epoll.add(socket, EpollEvent::new(flags, number))?)
    }

    /// Changes the flags of a registered socket.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn modify(&self, socket: &TcpStream, number: u64, flags: EpollFlags) -> io::Result<()> {
        Ok(self.epoll.modify(socket, &mut EpollEvent::new(flags, number))?)
    }

    /// Removes a socket.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(self.epoll.delete(socket)?)
    }

    /// Returns the sockets that are ready now, without waiting.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn poll_events(&self) -> io::Result<Vec<PollEvent>> {
        let mut events = [EpollEvent::empty(); MAX_EVENTS];
        let count = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Ok(count) => count,
            Err(Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let readable = EpollFlags::EPOLLIN | EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP;
        let ready = |event: &EpollEvent| PollEvent {
            token: event.data(),
            readable: event.events().intersects(readable),
            failed: event.events().intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP),
        };
        Ok(events[..count].iter().map(ready).collect())
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
