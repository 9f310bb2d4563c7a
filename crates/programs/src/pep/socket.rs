//! Sockets of a proxy: transparent listeners, and connections from a foreign address.

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
use runtime::tcp::kernel::MaxSegment;

use super::SideSocketOptions;

sockopt_impl!(
    /// The IPv6 counterpart of `IpTransparent` (ip(7)).
    Ipv6Transparent, SetOnly, libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT, bool
);
sockopt_impl!(
    /// The maximum pacing rate in bytes/s (socket(7)); setting it enables pacing.
    MaxPacing, SetOnly, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u64
);
/// The listen backlog.
const LISTEN_BACKLOG: i32 = 4096;

fn open_socket(address: SocketAddr, options: &SideSocketOptions) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let made = socket(family, SockType::Stream, flags, None)?;
    setsockopt(&made, sockopt::ReuseAddr, &true)?;
    setsockopt(&made, sockopt::TcpCongestion, &OsString::from(&options.congestion))?;
    setsockopt(&made, sockopt::TcpNoDelay, &true)?;
    setsockopt(&made, MaxSegment, &options.mss)?;
    if let Some(rate) = options.max_pacing_rate {
        setsockopt(&made, MaxPacing, &rate)?;
    }
    // Permitted for root of the machine alone; others use the sysctl of the namespace (see `bounds_send_buffers`).
    let _ = setsockopt(&made, sockopt::SndBufForce, &(options.send_buffer_bytes as usize));
    Ok(made)
}

/// Returns whether the send buffer of each socket can be set separately.
pub fn bounds_send_buffers() -> io::Result<bool> {
    let made = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    Ok(setsockopt(&made, sockopt::SndBufForce, &65_536).is_ok())
}

fn set_transparent(socket: &impl AsFd, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv4() {
        setsockopt(socket, sockopt::IpTransparent, &true)?;
    } else {
        setsockopt(socket, Ipv6Transparent, &true)?;
    }
    Ok(())
}

/// Opens a socket that listens at `address`. Accepted sockets inherit the options.
///
/// # Errors
/// An error of the kernel.
pub fn open_listener(
    address: SocketAddr,
    options: &SideSocketOptions,
    is_transparent: bool,
) -> io::Result<TcpListener> {
    let made = open_socket(address, options)?;
    if is_transparent {
        set_transparent(&made, address)?;
    }
    bind(made.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&made, Backlog::new(LISTEN_BACKLOG)?)?;
    Ok(TcpListener::from(made))
}

/// A connection in progress that uses `device` alone.
#[derive(Debug)]
pub struct PendingConnect {
    /// The connection.
    pub stream: TcpStream,
    /// Whether the source port is the requested one.
    pub is_same_port: bool,
}

/// Starts a connection to `to`, from the foreign address and port `from` if given (transparent).
///
/// # Errors
/// An error of the kernel.
pub fn start_connect(
    to: SocketAddr,
    from: Option<SocketAddr>,
    device: &str,
    options: &SideSocketOptions,
) -> io::Result<PendingConnect> {
    let attempt = |from: Option<SocketAddr>| -> Result<TcpStream, Errno> {
        let made = open_socket(to, options)
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
        setsockopt(&made, sockopt::BindToDevice, &OsString::from(device))?;
        if let Some(from) = from {
            set_transparent(&made, to).map_err(|_| Errno::EPERM)?;
            bind(made.as_raw_fd(), &SockaddrStorage::from(from))?;
        }
        match connect(made.as_raw_fd(), &SockaddrStorage::from(to)) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(made)),
            Err(error) => Err(error),
        }
    };
    match attempt(from) {
        // An earlier connection with the same addresses that is not yet closed uses the port.
        Err(Errno::EADDRINUSE | Errno::EADDRNOTAVAIL) if from.is_some() => {
            let stream = attempt(from.map(|from| SocketAddr::new(from.ip(), 0)))?;
            Ok(PendingConnect { stream, is_same_port: false })
        }
        made => Ok(PendingConnect { stream: made?, is_same_port: true }),
    }
}

/// Closes a connection with RST.
pub fn reset(stream: TcpStream) {
    // With a linger time of 0 the close discards unsent data and sends RST (socket(7), SO_LINGER).
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = setsockopt(&stream, sockopt::Linger, &at_once);
}
