//! Kernel TCP sockets with options that apply from the start of a connection.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::setsockopt_impl;
use nix::sockopt_impl;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, getsockopt, listen,
    setsockopt, socket, sockopt,
};

use super::kernel::MaxSegment;

sockopt_impl!(
    /// The limit of unsent bytes above which a socket is not writable (tcp(7)).
    Unsent, SetOnly, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, u32
);

/// The maximum of unsent bytes in a socket, and thus before a FIN: one millisecond at 1 Gbit/s, enough until the next
/// poll.
const UNSENT_BYTES: u32 = 128 << 10;

/// The listen backlog; beyond it the kernel uses SYN cookies.
const LISTEN_BACKLOG: i32 = 1024;

/// The file in which Linux lists its controllers.
const AVAILABLE_CONTROLLERS: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Returns the controllers that the kernel has loaded.
pub fn available_controllers() -> Vec<String> {
    let listed = std::fs::read_to_string(AVAILABLE_CONTROLLERS).unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}

/// Options of sockets.
#[derive(Clone, Debug)]
pub struct TcpSocketOptions {
    /// The kernel's name of the controller.
    pub congestion: String,
    /// The maximum segment size, `None` for the kernel's default.
    pub mss: Option<u32>,
    /// The size of each socket buffer in bytes, including kernel overhead; `None` for the kernel's default.
    pub buffer: Option<usize>,
}

/// An option that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOptionError {
    /// The controller.
    Controller(Errno),
    /// The maximum segment size.
    SegmentSize(Errno),
    /// Another option.
    Other(Errno),
}

impl fmt::Display for SocketOptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketOptionError::Controller(error) => {
                write!(f, "the kernel refuses the controller: {error}")
            }
            SocketOptionError::SegmentSize(error) => {
                write!(f, "the kernel refuses the segment size: {error}")
            }
            SocketOptionError::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SocketOptionError {}

impl From<Errno> for SocketOptionError {
    fn from(error: Errno) -> SocketOptionError {
        SocketOptionError::Other(error)
    }
}

impl TcpSocketOptions {
    /// Checks that the kernel accepts the options.
    ///
    /// # Errors
    /// The refused option.
    pub fn validate(&self) -> Result<(), SocketOptionError> {
        self.apply(&open(AddressFamily::Inet).or_else(|_| open(AddressFamily::Inet6))?)
    }

    fn apply(&self, socket: &impl AsFd) -> Result<(), SocketOptionError> {
        setsockopt(socket, sockopt::TcpCongestion, &OsString::from(&self.congestion))
            .map_err(SocketOptionError::Controller)?;
        if let Some(mss) = self.mss {
            setsockopt(socket, MaxSegment, &mss).map_err(SocketOptionError::SegmentSize)?;
        }
        if let Some(bytes) = self.buffer {
            // Root exceeds the limits of the machine; other users are limited by them. The kernel doubles the value to
            // account for its overhead (socket(7)).
            let half = bytes / 2;
            if setsockopt(socket, sockopt::SndBufForce, &half).is_err() {
                setsockopt(socket, sockopt::SndBuf, &half)?;
            }
            if setsockopt(socket, sockopt::RcvBufForce, &half).is_err() {
                setsockopt(socket, sockopt::RcvBuf, &half)?;
            }
        }
        setsockopt(socket, Unsent, &UNSENT_BYTES)?;
        setsockopt(socket, sockopt::TcpNoDelay, &true)?;
        Ok(())
    }

    /// Opens a socket and starts to connect.
    ///
    /// # Errors
    /// The refused option, or a missing route.
    pub fn connect(&self, remote: SocketAddr) -> Result<TcpStream, SocketOptionError> {
        let made = open(family(remote))?;
        self.apply(&made)?;
        match connect(made.as_raw_fd(), &SockaddrStorage::from(remote)) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(made)),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a listening socket. Accepted sockets inherit its options.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn listen(&self, local: SocketAddr) -> Result<TcpListener, SocketOptionError> {
        let made = open(family(local))?;
        setsockopt(&made, sockopt::ReuseAddr, &true)?;
        if local.is_ipv6() && local.ip().is_unspecified() {
            setsockopt(&made, sockopt::Ipv6V6Only, &false)?;
        }
        self.apply(&made)?;
        bind(made.as_raw_fd(), &SockaddrStorage::from(local))?;
        listen(&made, Backlog::new(LISTEN_BACKLOG).unwrap_or(Backlog::MAXCONN))?;
        Ok(TcpListener::from(made))
    }
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn open(family: AddressFamily) -> nix::Result<OwnedFd> {
    socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)
}

/// Returns the controller of a socket.
pub fn controller_name(socket: &TcpStream) -> Option<String> {
    getsockopt(socket, sockopt::TcpCongestion).ok().map(|name| name.to_string_lossy().into_owned())
}

/// Makes a later close of the socket send RST, so that the peer learns of it.
pub fn abort(socket: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // If the option cannot be set, the close still informs the peer.
    let _ = setsockopt(socket, sockopt::Linger, &linger);
}

/// Converts a socket error to the form of system errors.
impl From<SocketOptionError> for io::Error {
    fn from(refused: SocketOptionError) -> io::Error {
        match refused {
            SocketOptionError::Other(error) => error.into(),
            other => io::Error::other(other.to_string()),
        }
    }
}
