//! Sockets of the kernel's TCP with the options that a connection has from its start.

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

use crate::kernel::MaxSegment;

sockopt_impl!(
    /// Unsent bytes from which a socket takes no more (tcp(7)).
    Unsent, SetOnly, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, u32
);

/// Bytes that wait in a socket beyond what window and peer let pass: a FIN has no more before it. A
/// millisecond at 1 Gbit/s, the time in which this process is back.
const UNSENT_BYTES: u32 = 128 << 10;

/// Connections that wait to be accepted; beyond them the kernel asks for proof (SYN cookies).
const WAITING: i32 = 1024;

/// Where Linux lists its controllers.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Controllers that the kernel has loaded.
pub fn controllers() -> Vec<String> {
    let listed = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
    listed.split_whitespace().map(str::to_owned).collect()
}

/// Options of sockets.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// The kernel's name of the controller.
    pub congestion: String,
    /// Largest segment; none: the kernel's.
    pub mss: Option<u32>,
    /// Bytes of each of a socket's buffers, the kernel's own among them; none: as it sees fit.
    pub buffer: Option<usize>,
}

/// An option that the kernel refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The controller.
    Controller(Errno),
    /// The largest segment.
    Segment(Errno),
    /// Something else.
    Other(Errno),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Controller(error) => write!(f, "the kernel refuses the controller: {error}"),
            Refused::Segment(error) => write!(f, "the kernel refuses the segment size: {error}"),
            Refused::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

impl From<Errno> for Refused {
    fn from(error: Errno) -> Refused {
        Refused::Other(error)
    }
}

impl TcpOptions {
    /// Whether the kernel takes them.
    ///
    /// # Errors
    /// What it does not take.
    pub fn try_out(&self) -> Result<(), Refused> {
        self.apply(&open(AddressFamily::Inet).or_else(|_| open(AddressFamily::Inet6))?)
    }

    fn apply(&self, socket: &impl AsFd) -> Result<(), Refused> {
        setsockopt(socket, sockopt::TcpCongestion, &OsString::from(&self.congestion))
            .map_err(Refused::Controller)?;
        if let Some(mss) = self.mss {
            setsockopt(socket, MaxSegment, &mss).map_err(Refused::Segment)?;
        }
        if let Some(bytes) = self.buffer {
            // As root beyond the limits of the machine, else up to them. The kernel doubles what it is given,
            // for what it keeps beside the data (socket(7)).
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

    /// A socket that has begun to connect.
    ///
    /// # Errors
    /// What the kernel does not take, or that there is no way.
    pub fn connect(&self, remote: SocketAddr) -> Result<TcpStream, Refused> {
        let made = open(family(remote))?;
        self.apply(&made)?;
        match connect(made.as_raw_fd(), &SockaddrStorage::from(remote)) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(made)),
            Err(error) => Err(error.into()),
        }
    }

    /// A socket that listens; what it accepts has its options.
    ///
    /// # Errors
    /// The kernel's.
    pub fn listen(&self, local: SocketAddr) -> Result<TcpListener, Refused> {
        let made = open(family(local))?;
        setsockopt(&made, sockopt::ReuseAddr, &true)?;
        if local.is_ipv6() && local.ip().is_unspecified() {
            setsockopt(&made, sockopt::Ipv6V6Only, &false)?;
        }
        self.apply(&made)?;
        bind(made.as_raw_fd(), &SockaddrStorage::from(local))?;
        listen(&made, Backlog::new(WAITING).unwrap_or(Backlog::MAXCONN))?;
        Ok(TcpListener::from(made))
    }
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn open(family: AddressFamily) -> nix::Result<OwnedFd> {
    socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)
}

/// The controller that a socket sends with.
pub fn congestion(socket: &TcpStream) -> Option<String> {
    getsockopt(socket, sockopt::TcpCongestion).ok().map(|name| name.to_string_lossy().into_owned())
}

/// Has a socket closed at once (RST), so that its peer knows.
pub fn abort(socket: &TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // Where it cannot be set, closing says it too.
    let _ = setsockopt(socket, sockopt::Linger, &linger);
}

/// Why a socket cannot be had, as the system's errors are told.
impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        match refused {
            Refused::Other(error) => error.into(),
            other => io::Error::other(other.to_string()),
        }
    }
}
