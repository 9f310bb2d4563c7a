//! Sockets of the kernel's TCP: controllers by the names of the catalogue, sizes, addresses.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::setsockopt_impl;
use nix::sockopt_impl;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, getsockopt, listen,
    setsockopt, socket, sockopt,
};
use transport::load::Wish;

use crate::kernel::{MaxSegment, kernel_name};
use crate::perf::{Choose, CongestionPlan, Failure, TcpPlan};

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

/// Options of sockets.
#[derive(Clone, Debug)]
pub struct Options {
    /// The kernel's name of the controller.
    pub congestion: String,
    mss: Option<u32>,
    buffer: Option<usize>,
}

impl Options {
    /// Options as the plan wants them, tried on a socket.
    ///
    /// # Errors
    /// What the kernel has not, or does not allow.
    pub fn new(plan: &TcpPlan, congestion: &CongestionPlan) -> Result<Options, Failure> {
        if congestion.options.as_object().is_some_and(|options| !options.is_empty()) {
            return Err(Failure::Input(format!(
                "--congestion {}: controllers of the kernel take no options here",
                congestion.name
            )));
        }
        let name = kernel_name(&congestion.name)
            .map_err(|why| Failure::Input(format!("--congestion: {why}")))?
            .to_owned();
        let options = Options { congestion: name, mss: plan.mss_bytes, buffer: plan.buffer_bytes };
        let tried = open(AddressFamily::Inet).or_else(|_| open(AddressFamily::Inet6))?;
        options.controller(&tried).map_err(|error| refused(&options.congestion, error))?;
        options.sizes(&tried)?;
        Ok(options)
    }

    fn controller(&self, socket: &impl AsFd) -> nix::Result<()> {
        setsockopt(socket, sockopt::TcpCongestion, &OsString::from(&self.congestion))
    }

    fn sizes(&self, socket: &impl AsFd) -> Result<(), Failure> {
        if let Some(mss) = self.mss {
            setsockopt(socket, MaxSegment, &mss).map_err(|error| {
                Failure::Input(format!("--mss {mss}: the kernel refuses it: {error}"))
            })?;
        }
        if let Some(bytes) = self.buffer {
            // As root beyond the limits of the machine, else up to them. The kernel doubles what it is given,
            // for what it keeps beside the data (socket(7)).
            let half = bytes / 2;
            if setsockopt(socket, sockopt::SndBufForce, &half).is_err() {
                setsockopt(socket, sockopt::SndBuf, &half).map_err(io::Error::from)?;
            }
            if setsockopt(socket, sockopt::RcvBufForce, &half).is_err() {
                setsockopt(socket, sockopt::RcvBuf, &half).map_err(io::Error::from)?;
            }
        }
        setsockopt(socket, Unsent, &UNSENT_BYTES).map_err(io::Error::from)?;
        setsockopt(socket, sockopt::TcpNoDelay, &true).map_err(io::Error::from)?;
        Ok(())
    }

    fn apply(&self, socket: &impl AsFd) -> Result<(), Failure> {
        self.controller(socket).map_err(|error| refused(&self.congestion, error))?;
        self.sizes(socket)
    }

    /// A socket that has begun to connect.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect(&self, remote: SocketAddr) -> Result<TcpStream, Failure> {
        let made = open(family(remote))?;
        self.apply(&made)?;
        match connect(std::os::fd::AsRawFd::as_raw_fd(&made), &SockaddrStorage::from(remote)) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(made)),
            Err(error) => Err(Failure::Run(format!("{remote} cannot be reached: {error}"))),
        }
    }

    /// A socket that listens; what it accepts has its options.
    ///
    /// # Errors
    /// The kernel's.
    pub fn listen(&self, local: SocketAddr) -> io::Result<TcpListener> {
        let made = open(family(local))?;
        setsockopt(&made, sockopt::ReuseAddr, &true)?;
        if local.is_ipv6() && local.ip().is_unspecified() {
            setsockopt(&made, sockopt::Ipv6V6Only, &false)?;
        }
        self.apply(&made).map_err(|failure| io::Error::other(failure.to_string()))?;
        bind(std::os::fd::AsRawFd::as_raw_fd(&made), &SockaddrStorage::from(local))?;
        listen(&made, Backlog::new(WAITING).unwrap_or(Backlog::MAXCONN))?;
        Ok(TcpListener::from(made))
    }
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn open(family: AddressFamily) -> Result<OwnedFd, io::Error> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    Ok(socket(family, SockType::Stream, flags, None)?)
}

/// The controller that a socket sends with.
pub fn congestion(socket: &TcpStream) -> Option<String> {
    getsockopt(socket, sockopt::TcpCongestion).ok().map(|name| name.to_string_lossy().into_owned())
}

/// Gives a socket the controller that a client wishes for: one that the kernel has loaded, since asking for another
/// would have it load a module.
///
/// # Errors
/// Why not, in words.
pub fn choose(socket: &TcpStream, wish: &Wish, choose: Choose) -> Result<(), String> {
    choose.allows(wish)?;
    if wish.options.as_object().is_some_and(|options| !options.is_empty()) {
        return Err("controllers of the kernel take no options".to_owned());
    }
    let name = kernel_name(&wish.name)?;
    let listed = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
    if !listed.split_whitespace().any(|known| known == name) {
        let listed = listed.split_whitespace().collect::<Vec<_>>().join(", ");
        return Err(format!("its kernel has no controller \"{name}\" for TCP; it has {listed}"));
    }
    setsockopt(socket, sockopt::TcpCongestion, &OsString::from(name)).map_err(|error| match error {
        Errno::EPERM | Errno::EACCES => {
            format!("its kernel has \"{name}\" but does not allow it to ordinary users")
        }
        error => error.desc().to_owned(),
    })
}

/// Why the kernel does not take a controller, and what to do.
fn refused(name: &str, error: Errno) -> Failure {
    let listed = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
    let listed = listed.trim();
    Failure::Input(match error {
        Errno::EPERM | Errno::EACCES => format!(
            "--congestion: the kernel has \"{name}\" but does not allow it to ordinary users; as root: \
             sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{listed}\""
        ),
        Errno::ENOENT => format!(
            "--congestion: the kernel has no controller \"{name}\" for TCP; it has {}; others are \
             modules: modprobe tcp_{name}",
            listed.split_whitespace().collect::<Vec<_>>().join(", ")
        ),
        other => format!("--congestion {name}: {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_the_kernel_has_not_is_refused_with_those_it_has() {
        let plan = TcpPlan { mss_bytes: None, buffer_bytes: None, idle_timeout_ns: 1 };
        let named = |name: &str| CongestionPlan { name: name.to_owned(), options: "".into() };
        let message = Options::new(&plan, &named("fast")).unwrap_err().to_string();
        assert!(message.contains("no controller \"fast\" for TCP; it has "), "{message}");
        assert!(message.contains("reno"), "{message}");
        assert_eq!(Options::new(&plan, &named("newreno")).unwrap().congestion, "reno");
        let message = Options::new(&plan, &named("bbr")).unwrap_err().to_string();
        let said = "found \"bbr\", which is BBRv3; the kernel's is BBR version 1 (tcp_bbr.c), expected \"bbr1\"";
        assert_eq!(message, format!("--congestion: {said}"));
    }
}
