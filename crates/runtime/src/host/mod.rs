//! A [`ConnectionManager`] on real sockets and the real clock. Interfaces use QUIC, kernel TCP or UDP; applications are
//! those of the simulation.
//!
//! Reading order: this file (the loop), `quic`, `tcp`, `udp` (interfaces), `tcp_connection_config`,
//! `tcp_connection`, `tcp_stream` (a connection), `connection_report` (its state, for measurements).

mod connection_report;
mod quic;
mod tcp;
mod tcp_connection;
mod tcp_connection_config;
mod tcp_stream;
mod udp;

pub use self::connection_report::{ConnectionReport, canonical_addr};
pub use self::quic::QuicHostConfig;
pub use self::tcp::TcpHostConfig;
#[cfg(feature = "test-support")]
#[doc(hidden)]
pub use self::tcp_connection::KernelTcpConnection;
pub use self::tcp_connection::TLS_RECORD;
pub use self::tcp_connection_config::ConnectionTimeouts;
#[cfg(feature = "test-support")]
#[doc(hidden)]
pub use self::tcp_connection_config::TcpConnectionConfig;
pub use self::tcp_connection_config::{ControllerSetter, TcpProtocol, TlsKeys};
pub use self::udp::UdpHostConfig;
pub use crate::tcp::TcpSocketOptions;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transport::{App, AppCommand, ConnectionControl, ConnectionKey, ConnectionManager};
use units::{Span, Time};

use self::quic::QuicHostSocket;
use self::tcp::TcpHostSocket;
use self::udp::UdpHostSocket;
use crate::Clock;
use crate::quic_driver::sleep_until_ready;

/// The maximum of manager polls before the connections are polled.
const MAX_DISPATCH_ROUNDS: usize = 16;

/// An interface of a connection manager.
pub enum HostSocketConfig {
    /// QUIC.
    Quic(Box<QuicHostConfig>),
    /// Kernel TCP.
    Tcp(TcpHostConfig),
    /// UDP.
    Udp(UdpHostConfig),
}

enum HostSocket {
    Quic(Box<QuicHostSocket>),
    Tcp(Box<TcpHostSocket>),
    Udp(Box<UdpHostSocket>),
}

/// State shared by a host and its sockets: the manager, which builds applications, and the clock.
struct SharedMutex<T>(Arc<Mutex<T>>);

impl<T> Clone for SharedMutex<T> {
    fn clone(&self) -> SharedMutex<T> {
        SharedMutex(self.0.clone())
    }
}

impl<T> SharedMutex<T> {
    fn new(it: T) -> SharedMutex<T> {
        SharedMutex(Arc::new(Mutex::new(it)))
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection manager with its sockets.
pub struct Host<A> {
    manager: SharedMutex<A>,
    /// The clock of sockets that request an application.
    clock: SharedMutex<Clock>,
    sockets: HostSockets,
}

struct HostSockets {
    sockets: Vec<HostSocket>,
    clock: Clock,
    /// Other descriptors that wake the manager.
    wakeup_fds: Vec<OwnedFd>,
}

impl<A: ConnectionManager + 'static> Host<A> {
    /// Opens the sockets of `plans`, one interface each.
    ///
    /// # Errors
    /// A defect of a plan, or an error of the kernel.
    pub fn new(agent: A, plans: Vec<HostSocketConfig>) -> io::Result<Host<A>> {
        // The default timer slack delays a wake-up by up to 50 microseconds (prctl(2)).
        nix::sys::prctl::set_timerslack(1)?;
        let (agent, clock) = (SharedMutex::new(agent), Clock::start());
        let shared = SharedMutex::new(clock);
        let mut ends = Vec::new();
        for (end, plan) in plans.into_iter().enumerate() {
            let (agent, shared) = (agent.clone(), shared.clone());
            let make = Box::new(move |connection| {
                let now = shared.lock().now();
                agent.lock().on_accept(now, ConnectionKey { interface: end, connection })
            });
            ends.push(match plan {
                HostSocketConfig::Quic(plan) => {
                    HostSocket::Quic(Box::new(QuicHostSocket::new(end, *plan, clock, make)?))
                }
                HostSocketConfig::Tcp(plan) => {
                    HostSocket::Tcp(Box::new(TcpHostSocket::new(end, plan)?))
                }
                HostSocketConfig::Udp(plan) => {
                    HostSocket::Udp(Box::new(UdpHostSocket::new(plan, make)?))
                }
            });
        }
        Ok(Host {
            manager: agent,
            clock: shared,
            sockets: HostSockets { sockets: ends, clock, wakeup_fds: Vec::new() },
        })
    }

    /// Sets the clock. Has to be called before the first poll.
    pub fn set_clock(&mut self, clock: Clock) {
        *self.clock.lock() = clock;
        self.sockets.clock = clock;
        for end in &mut self.sockets.sockets {
            if let HostSocket::Quic(quic) = end {
                quic.driver.clock = clock;
            }
        }
    }

    /// Adds a descriptor that wakes the host while it is readable. The manager reads from it.
    pub fn add_wakeup_fd(&mut self, what: OwnedFd) {
        self.sockets.wakeup_fds.push(what);
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.sockets.clock.now()
    }

    /// Returns the connection manager, between two polls.
    pub fn manager(&self) -> MutexGuard<'_, A> {
        self.manager.lock()
    }

    /// Returns the local address of an interface.
    ///
    /// # Errors
    /// An error of the kernel, or an interface that does not listen.
    pub fn local_addr(&self, end: usize) -> io::Result<SocketAddr> {
        match &self.sockets.sockets[end] {
            HostSocket::Quic(quic) => quic.driver.socket.local_addr(),
            HostSocket::Tcp(tcp) => tcp.local_addr(),
            HostSocket::Udp(udp) => udp.socket.local_addr(),
        }
    }

    /// Returns the number of open connections of an interface.
    pub fn open_connections(&self, end: usize) -> usize {
        match &self.sockets.sockets[end] {
            HostSocket::Quic(quic) => quic.open_connections(),
            HostSocket::Tcp(tcp) => tcp.open_connections(),
            HostSocket::Udp(udp) => udp.open_connections(),
        }
    }

    /// Returns whether there is a connection, or a closed one that waits for late packets.
    pub fn has_connections(&self) -> bool {
        self.sockets.sockets.iter().any(|socket| match socket {
            HostSocket::Quic(quic) => quic.driver.endpoint.live_connections().next().is_some(),
            HostSocket::Tcp(tcp) => tcp.open_connections() > 0,
            HostSocket::Udp(udp) => udp.open_connections() > 0,
        })
    }

    /// Restricts a TCP interface to connections of one peer.
    pub fn set_only_peer(&mut self, end: usize, peer: IpAddr) {
        if let HostSocket::Tcp(tcp) = &mut self.sockets.sockets[end] {
            tcp.only_peer = Some(peer);
        }
    }

    /// Returns the length in bytes of a datagram that exceeded the MTU of a QUIC interface.
    pub fn too_large(&self, end: usize) -> Option<usize> {
        match &self.sockets.sockets[end] {
            HostSocket::Quic(quic) => quic.driver.socket.too_large(),
            HostSocket::Tcp(_) | HostSocket::Udp(_) => None,
        }
    }

    /// Returns the open connections of the interfaces of QUIC and TCP.
    pub fn connections(&self) -> BTreeSet<ConnectionKey> {
        let mut keys = BTreeSet::new();
        for (interface, socket) in self.sockets.sockets.iter().enumerate() {
            let key = |connection| ConnectionKey { interface, connection };
            match socket {
                HostSocket::Quic(quic) => keys.extend(quic.numbers().map(key)),
                HostSocket::Tcp(tcp) => keys.extend(tcp.numbers().map(key)),
                HostSocket::Udp(_) => {}
            }
        }
        keys
    }

    /// Takes the open connections that have worked since the last call, of interfaces that keep reports. They are in
    /// ascending order.
    pub fn take_changed(&mut self) -> Vec<ConnectionKey> {
        let mut keys = Vec::new();
        for (interface, socket) in self.sockets.sockets.iter_mut().enumerate() {
            let numbers = match socket {
                HostSocket::Quic(quic) => quic.take_changed(),
                HostSocket::Tcp(tcp) => tcp.take_changed(),
                HostSocket::Udp(_) => continue,
            };
            keys.extend(
                numbers.into_iter().map(|connection| ConnectionKey { interface, connection }),
            );
        }
        keys
    }

    /// Takes the final reports of connections closed since the last call, of interfaces that keep reports.
    pub fn take_closed(&mut self) -> Vec<ConnectionReport<'static>> {
        let mut reports = Vec::new();
        for socket in &mut self.sockets.sockets {
            match socket {
                HostSocket::Quic(quic) => reports.extend(quic.take_closed_reports()),
                HostSocket::Tcp(tcp) => reports.extend(tcp.take_closed_reports()),
                HostSocket::Udp(_) => {}
            }
        }
        reports
    }

    /// Queries the state of an open connection of kernel TCP.
    pub fn update_report(&mut self, key: ConnectionKey) {
        if let HostSocket::Tcp(tcp) = &mut self.sockets.sockets[key.interface] {
            tcp.update_report(key.connection);
        }
    }

    /// Returns the state of an open connection of QUIC or TCP.
    pub fn report(&self, key: ConnectionKey) -> Option<ConnectionReport<'_>> {
        match &self.sockets.sockets[key.interface] {
            HostSocket::Quic(quic) => quic.report(key.connection),
            HostSocket::Tcp(tcp) => tcp.report(key.connection),
            HostSocket::Udp(_) => None,
        }
    }

    /// Returns the number of queries of an open connection of kernel TCP.
    #[cfg(feature = "test-support")]
    #[doc(hidden)]
    pub fn query_count(&self, key: ConnectionKey) -> u64 {
        match &self.sockets.sockets[key.interface] {
            HostSocket::Tcp(tcp) => tcp.query_count(key.connection),
            HostSocket::Quic(_) | HostSocket::Udp(_) => 0,
        }
    }

    /// Returns the peer address of a connection, `None` if it is closed.
    pub fn peer_addr(&self, handle: ConnectionKey) -> Option<SocketAddr> {
        match &self.sockets.sockets[handle.interface] {
            HostSocket::Quic(quic) => quic.peer_addr(handle.connection),
            HostSocket::Tcp(tcp) => tcp.peer_addr(handle.connection),
            HostSocket::Udp(udp) => Some(udp.peer_addr()),
        }
    }

    /// Runs until `stop` is set, then closes all connections.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            self.poll_once(Time::MAX)?;
        }
        self.close();
        Ok(())
    }

    /// Closes all connections.
    pub fn close(&mut self) {
        let now = self.now();
        for end in &mut self.sockets.sockets {
            match end {
                HostSocket::Quic(quic) => quic.close(now),
                HostSocket::Tcp(tcp) => tcp.close(now),
                HostSocket::Udp(udp) => udp.close(now),
            }
        }
    }

    /// Sleeps until input, a deadline or `until`, then does the due work.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn poll_once(&mut self, until: Time) -> io::Result<()> {
        let agent = self.manager.lock().poll_at();
        self.sockets.wait(agent.min(until))?;
        for (end, it) in self.sockets.sockets.iter_mut().enumerate() {
            match it {
                HostSocket::Quic(quic) => quic.poll()?,
                HostSocket::Tcp(tcp) => {
                    let agent = &self.manager;
                    tcp.poll(self.sockets.clock, &mut |now, connection| {
                        agent.lock().on_accept(now, ConnectionKey { interface: end, connection })
                    })?;
                }
                HostSocket::Udp(udp) => udp.poll(self.sockets.clock.now()),
            }
        }
        self.dispatch();
        Ok(())
    }

    /// Delivers notifications and closures to the manager, then polls it.
    fn dispatch(&mut self) {
        let mut agent = self.manager.lock();
        for _ in 0..MAX_DISPATCH_ROUNDS {
            let now = self.sockets.clock.now();
            for (end, it) in self.sockets.sockets.iter_mut().enumerate() {
                let (notifications, ended) = match it {
                    HostSocket::Quic(quic) => (quic.take_notifications(), quic.take_closed()),
                    HostSocket::Tcp(tcp) => (tcp.take_notifications(), tcp.take_closed()),
                    HostSocket::Udp(udp) => (udp.take_notifications(), udp.take_closed()),
                };
                for (connection, notice) in notifications {
                    agent.on_app_notification(
                        now,
                        ConnectionKey { interface: end, connection },
                        notice,
                    );
                }
                for (connection, why) in ended {
                    agent.on_close(now, ConnectionKey { interface: end, connection }, &why);
                }
            }
            if agent.poll_at() > now {
                return;
            }
            agent.poll(now, &mut self.sockets);
        }
    }
}

impl HostSockets {
    /// Receives pending input, and sleeps if there is none and nothing is due.
    fn wait(&mut self, until: Time) -> io::Result<()> {
        let (mut any, mut due) = (false, until);
        for end in &mut self.sockets {
            match end {
                HostSocket::Quic(quic) => {
                    any |= quic.driver.receive_pending()?;
                    due = due.min(quic.driver.poll_at());
                }
                HostSocket::Tcp(tcp) => due = due.min(tcp.poll_at()),
                HostSocket::Udp(udp) => {
                    any |= udp.receive_pending(self.clock.now())?;
                    due = due.min(udp.poll_at());
                }
            }
        }
        let now = self.clock.now();
        if any || due <= now {
            return Ok(());
        }
        let watched = self.sockets.iter().map(|end| match end {
            HostSocket::Quic(quic) => {
                let socket = &quic.driver.socket;
                (socket as &dyn AsFd, socket.is_blocked())
            }
            HostSocket::Tcp(tcp) => (&**tcp as &dyn AsFd, false),
            HostSocket::Udp(udp) => (&udp.socket as &dyn AsFd, udp.socket.is_blocked()),
        });
        let beside = self.wakeup_fds.iter().map(|one| (one as &dyn AsFd, false));
        let watched: Vec<(&dyn AsFd, bool)> = watched.chain(beside).collect();
        sleep_until_ready(&watched, Span(due.0 - now.0))?;
        for end in &mut self.sockets {
            match end {
                HostSocket::Quic(quic) => quic.driver.receive_pending().map(drop)?,
                HostSocket::Udp(udp) => udp.receive_pending(self.clock.now()).map(drop)?,
                HostSocket::Tcp(_) => {}
            }
        }
        Ok(())
    }
}

impl ConnectionControl for HostSockets {
    fn connect(
        &mut self,
        end: usize,
        peer: &str,
        app: Box<dyn App>,
    ) -> Result<ConnectionKey, String> {
        let address: SocketAddr =
            peer.parse().map_err(|_| format!("found \"{peer}\", expected ADDRESS:PORT"))?;
        let now = self.clock.now();
        let connection = match &mut self.sockets[end] {
            HostSocket::Quic(quic) => quic.connect(now, address, app)?,
            HostSocket::Tcp(tcp) => tcp.connect(now, address, app)?,
            HostSocket::Udp(udp) => udp.connect(now, address, app)?,
        };
        Ok(ConnectionKey { interface: end, connection })
    }

    fn send_command(&mut self, handle: ConnectionKey, order: AppCommand) {
        match &mut self.sockets[handle.interface] {
            HostSocket::Quic(quic) => quic.send_command(handle.connection, order),
            HostSocket::Tcp(tcp) => tcp.send_command(handle.connection, order),
            HostSocket::Udp(udp) => udp.send_command(handle.connection, order),
        }
    }

    fn abort(&mut self, handle: ConnectionKey) {
        let now = self.clock.now();
        match &mut self.sockets[handle.interface] {
            HostSocket::Quic(quic) => quic.abort(now, handle.connection),
            HostSocket::Tcp(tcp) => tcp.abort(now, handle.connection),
            HostSocket::Udp(udp) => udp.abort(now, handle.connection),
        }
    }
}
