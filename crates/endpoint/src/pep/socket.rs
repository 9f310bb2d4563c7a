//! Sockets of a proxy: transparent listeners, connections from somebody else's address.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt,
    socket, sockopt,
};
use nix::{setsockopt_impl, sockopt_impl};

use super::Leg;
use crate::kernel::MaxSegment;

sockopt_impl!(
    /// IPv6 twin of `IpTransparent` (ip(7)).
    Ipv6Transparent, SetOnly, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, bool
);
sockopt_impl!(
    /// Highest pacing rate, bytes a second (socket(7)); setting it switches pacing on.
    MaxPacing, SetOnly, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64
);
/// Connections that wait to be accepted.
const WAITING: i32 = 4096;

fn open(address: SocketAddr, leg: &Leg) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let made = socket(family, SockType::Stream, flags, None)?;
    setsockopt(&made, sockopt::ReuseAddr, &true)?;
    setsockopt(&made, sockopt::TcpCongestion, &OsString::from(&leg.congestion))?;
    setsockopt(&made, sockopt::TcpNoDelay, &true)?;
    setsockopt(&made, MaxSegment, &leg.mss)?;
    if let Some(rate) = leg.pacing {
        setsockopt(&made, MaxPacing, &rate)?;
    }
    // Only root of the machine may; others have the namespace's (see `bounds_send_buffers`).
    let _ = setsockopt(&made, sockopt::SndBufForce, &(leg.send_bytes as usize));
    Ok(made)
}

/// Whether each socket's send buffer can be bounded by itself.
pub fn bounds_send_buffers() -> io::Result<bool> {
    let made = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    Ok(setsockopt(&made, sockopt::SndBufForce, &65_536).is_ok())
}

fn transparent(socket: &impl AsFd, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv4() {
        setsockopt(socket, sockopt::IpTransparent, &true)?;
    } else {
        setsockopt(socket, Ipv6Transparent, &true)?;
    }
    Ok(())
}

/// A socket that listens at `address`; what it accepts has the options of `leg`.
///
/// # Errors
/// The kernel's.
pub fn listener(address: SocketAddr, leg: &Leg, is_transparent: bool) -> io::Result<TcpListener> {
    let made = open(address, leg)?;
    if is_transparent {
        transparent(&made, address)?;
    }
    bind(made.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&made, Backlog::new(WAITING)?)?;
    Ok(TcpListener::from(made))
}

/// A connection that has begun, which leaves through `device` alone.
#[derive(Debug)]
pub struct Begun {
    /// The connection.
    pub stream: TcpStream,
    /// It comes from the port asked for.
    pub same_port: bool,
}

/// Begins a connection to `to`; from address and port `from`, if given: another's (transparent).
///
/// # Errors
/// The kernel's.
pub fn begin(
    to: SocketAddr,
    from: Option<SocketAddr>,
    device: &str,
    leg: &Leg,
) -> io::Result<Begun> {
    let attempt = |from: Option<SocketAddr>| -> Result<TcpStream, Errno> {
        let made =
            open(to, leg).map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
        setsockopt(&made, sockopt::BindToDevice, &OsString::from(device))?;
        if let Some(from) = from {
            transparent(&made, to).map_err(|_| Errno::EPERM)?;
            bind(made.as_raw_fd(), &SockaddrStorage::from(from))?;
        }
        match connect(made.as_raw_fd(), &SockaddrStorage::from(to)) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(made)),
            Err(error) => Err(error),
        }
    };
    match attempt(from) {
        // The port is held by an earlier connection between the same ends that is not quite over.
        Err(Errno::EADDRINUSE | Errno::EADDRNOTAVAIL) if from.is_some() => {
            let stream = attempt(from.map(|from| SocketAddr::new(from.ip(), 0)))?;
            Ok(Begun { stream, same_port: false })
        }
        made => Ok(Begun { stream: made?, same_port: true }),
    }
}

/// Ends a connection by a reset.
pub fn reset(stream: TcpStream) {
    // Closed without waiting, what is unsent is thrown away and a reset leaves (socket(7), SO_LINGER).
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = setsockopt(&stream, sockopt::Linger, &at_once);
}
