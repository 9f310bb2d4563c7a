//! A kernel TCP interface: any number of connections that it opens, and a limited number of accepted ones.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use transport::eviction::{ActivityScore, Eviction, select_eviction};
use transport::quic::CloseReason;
use transport::{App, AppCommand, AppNotification};
use units::{Span, Time, TimerQueue};

use super::tcp_connection::{ConnectionTimeouts, TcpConnection, TcpConnectionConfig};
use super::tcp_stream::TlsKeys;
use crate::poller::{PollEvent, Poller};
use crate::tcp::{TcpInfoLayout, TcpSocketOptions, socket};

/// The length in bytes of the read buffer, which all connections share.
const READ_BUFFER_BYTES: usize = 256 << 10;

/// The maximum of connections accepted per poll.
const MAX_ACCEPTS_PER_POLL: usize = 64;

/// The pause of accepting when the process has no free file descriptor.
const ACCEPT_PAUSE: Span = Span::from_millis(100);

/// The token of the listening socket in the poller.
const LISTENER_TOKEN: u64 = u64::MAX;

/// The close reason of an evicted connection.
const EVICTION_REASON: &str = "it was slow, and gave way to a new connection";

/// Configuration of a TCP interface.
pub struct TcpHostConfig {
    /// The listening address, `None` if the interface only opens connections.
    pub listen: Option<SocketAddr>,
    /// Options of the sockets.
    pub options: TcpSocketOptions,
    /// TLS keys for applications that start TLS.
    pub tls_keys: Option<TlsKeys>,
    /// Timeouts of a connection.
    pub timeouts: ConnectionTimeouts,
    /// The maximum of concurrent accepted connections; slow ones are evicted for new ones.
    pub max_connections: usize,
}

/// A connection with its bookkeeping.
struct TcpEntry {
    connection: TcpConnection,
    timer_index: usize,
    registered_flags: Option<EpollFlags>,
    is_accepted: bool,
    activity: ActivityScore,
}

/// An open TCP interface.
pub(super) struct TcpHostSocket {
    listener: Option<TcpListener>,
    poller: Poller,
    config: TcpHostConfig,
    connection_config: TcpConnectionConfig,
    /// Connections by number.
    connections: BTreeMap<u32, TcpEntry>,
    /// The number of accepted connections among them.
    accepted_count: usize,
    /// Connection numbers by timer index, and free timer indices.
    numbers_by_timer: Vec<u32>,
    free_timers: Vec<usize>,
    timers: TimerQueue,
    next_number: u32,
    /// The end of a pause of accepting.
    paused_until: Option<Time>,
    /// An accepted socket that waits for capacity.
    deferred_accept: Option<(TcpStream, SocketAddr)>,
    scratch: Vec<u8>,
    notifications: Vec<(u32, AppNotification)>,
    closed: Vec<(u32, CloseReason)>,
}

/// Builds the application of an accepted connection.
pub(super) type AcceptFn<'a> = &'a mut dyn FnMut(u32) -> Box<dyn App>;

impl TcpHostSocket {
    pub(super) fn new(plan: TcpHostConfig) -> io::Result<TcpHostSocket> {
        let watch = Poller::new()?;
        plan.options.validate()?;
        let listener = plan.listen.map(|at| plan.options.listen(at)).transpose()?;
        if let Some(listener) = &listener {
            watch.add(listener, LISTENER_TOKEN, EpollFlags::EPOLLIN)?;
        }
        let kernel = TcpInfoLayout::detect().map_err(io::Error::other)?;
        Ok(TcpHostSocket {
            listener,
            poller: watch,
            connection_config: TcpConnectionConfig { info_layout: kernel, timeouts: plan.timeouts },
            config: plan,
            connections: BTreeMap::new(),
            accepted_count: 0,
            numbers_by_timer: Vec::new(),
            free_timers: Vec::new(),
            timers: TimerQueue::default(),
            next_number: 0,
            paused_until: None,
            deferred_accept: None,
            scratch: vec![0; READ_BUFFER_BYTES],
            notifications: Vec::new(),
            closed: Vec::new(),
        })
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        let listener = self.listener.as_ref().ok_or(ErrorKind::NotConnected)?;
        listener.local_addr()
    }

    pub(super) fn open_connections(&self) -> usize {
        self.connections.len()
    }

    /// Returns the next deadline without input.
    pub(super) fn poll_at(&mut self) -> Time {
        self.timers.earliest().0.min(self.paused_until.unwrap_or(Time::MAX))
    }

    pub(super) fn peer_addr(&self, number: u32) -> Option<SocketAddr> {
        let remote = self.connections.get(&number)?.connection.remote();
        Some(SocketAddr::new(remote.ip().to_canonical(), remote.port()))
    }

    pub(super) fn connect(
        &mut self,
        now: Time,
        peer: SocketAddr,
        app: Box<dyn App>,
    ) -> Result<u32, String> {
        let socket = self.config.options.connect(peer).map_err(|error| error.to_string())?;
        self.add_connection(now, socket, peer, true, app).map_err(|error| error.to_string())
    }

    pub(super) fn send_command(&mut self, number: u32, order: AppCommand) {
        let Some(entry) = self.connections.get_mut(&number) else { return };
        entry.connection.on_command(order);
        self.timers.set_deadline(entry.timer_index, entry.connection.poll_at());
    }

    pub(super) fn abort(&mut self, now: Time, number: u32) {
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.connection.abort(now, CloseReason::Local);
            self.update_connection(now, number);
        }
    }

    /// Aborts all connections.
    pub(super) fn close(&mut self, now: Time) {
        let numbers: Vec<u32> = self.connections.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.abort(now, number));
    }

    pub(super) fn take_notifications(&mut self) -> Vec<(u32, AppNotification)> {
        std::mem::take(&mut self.notifications)
    }

    pub(super) fn take_closed(&mut self) -> Vec<(u32, CloseReason)> {
        std::mem::take(&mut self.closed)
    }

    /// Does the due work.
    pub(super) fn poll(&mut self, now: Time, make: AcceptFn<'_>) -> io::Result<()> {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            if let Some(listener) = &self.listener {
                self.poller.add(listener, LISTENER_TOKEN, EpollFlags::EPOLLIN)?;
            }
            if let Some((socket, remote)) = self.deferred_accept.take() {
                self.accept_socket(now, socket, remote, make)?;
            }
        }
        for PollEvent { token: number, readable, failed: broken } in self.poller.poll_events()? {
            if number == LISTENER_TOKEN {
                self.accept(now, make)?;
            } else {
                self.run_connection(now, number as u32, readable, broken);
            }
        }
        let mut due = Vec::new();
        while let Some(slot) = self.timers.pop_due(now) {
            due.push(self.numbers_by_timer[slot]);
        }
        due.sort_unstable();
        for number in due {
            self.run_connection(now, number, false, false);
        }
        Ok(())
    }

    fn run_connection(&mut self, now: Time, number: u32, readable: bool, broken: bool) {
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.connection.run(now, readable, broken, &mut self.scratch);
            self.update_connection(now, number);
        }
    }

    /// Updates bookkeeping, timer and poller after work of a connection.
    fn update_connection(&mut self, now: Time, number: u32) {
        let Some(entry) = self.connections.get_mut(&number) else { return };
        let connection = &mut entry.connection;
        self.notifications.extend(connection.take_notifications().map(|notice| (number, notice)));
        if let Some(end) = connection.close_reason() {
            self.closed.push((number, end.clone()));
            self.timers.set_deadline(entry.timer_index, Time::MAX);
            self.free_timers.push(entry.timer_index);
            self.accepted_count -= usize::from(entry.is_accepted);
            // This closes the socket.
            self.connections.remove(&number);
            return;
        }
        entry.activity.update(now, connection.transferred_bytes());
        self.timers.set_deadline(entry.timer_index, connection.poll_at());
        let wanted = connection.interest();
        if entry.registered_flags != wanted {
            let socket = connection.socket();
            // An error is not handled: an unregistered socket gets no events, so its connection times out.
            let _ = match (entry.registered_flags, wanted) {
                (None, Some(flags)) => self.poller.add(socket, number.into(), flags),
                (Some(_), Some(flags)) => self.poller.modify(socket, number.into(), flags),
                (_, None) => self.poller.remove(socket),
            };
            entry.registered_flags = wanted;
        }
    }

    fn add_connection(
        &mut self,
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        dialled: bool,
        app: Box<dyn App>,
    ) -> io::Result<u32> {
        let number = self.next_number;
        self.next_number += 1;
        let slot = self.free_timers.pop().unwrap_or(self.numbers_by_timer.len());
        self.numbers_by_timer.resize(self.numbers_by_timer.len().max(slot + 1), number);
        self.numbers_by_timer[slot] = number;
        self.accepted_count += usize::from(!dialled);
        let terms = (dialled, self.config.tls_keys.clone(), self.connection_config);
        let connection = TcpConnection::new(now, socket, remote, app, terms);
        let (accepted, activity) = (!dialled, ActivityScore::new(now));
        self.connections.insert(
            number,
            TcpEntry {
                connection,
                timer_index: slot,
                registered_flags: None,
                is_accepted: accepted,
                activity,
            },
        );
        self.update_connection(now, number);
        Ok(number)
    }

    fn accept(&mut self, now: Time, make: AcceptFn<'_>) -> io::Result<()> {
        for _ in 0..MAX_ACCEPTS_PER_POLL {
            let Some(listener) = self.listener.as_ref().filter(|_| self.paused_until.is_none())
            else {
                return Ok(());
            };
            let (socket, remote) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM) => {
                        return self.pause_accepting(now + ACCEPT_PAUSE);
                    }
                    // The connection has failed already (accept(2)).
                    _ => continue,
                },
            };
            self.accept_socket(now, socket, remote, make)?;
        }
        Ok(())
    }

    fn pause_accepting(&mut self, until: Time) -> io::Result<()> {
        if let Some(listener) = &self.listener {
            self.poller.remove(listener)?;
        }
        self.paused_until = Some(until);
        Ok(())
    }

    /// Accepts a socket if there is capacity.
    fn accept_socket(
        &mut self,
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        make: AcceptFn<'_>,
    ) -> io::Result<()> {
        if self.accepted_count >= self.config.max_connections {
            let accepted = self.connections.iter_mut().filter(|(_, entry)| entry.is_accepted);
            let noted = accepted.map(|(number, entry)| {
                entry.activity.update(now, entry.connection.transferred_bytes());
                (*number, entry.connection.transferred_bytes() > 0, entry.activity)
            });
            match select_eviction(now, noted) {
                Eviction::Evict(number) => {
                    if let Some(entry) = self.connections.get_mut(&number) {
                        entry.connection.abort(now, CloseReason::Lost(EVICTION_REASON.to_owned()));
                        self.update_connection(now, number);
                    }
                }
                Eviction::RetryAt(until) => {
                    self.deferred_accept = Some((socket, remote));
                    return self.pause_accepting(until);
                }
                Eviction::Full => {
                    socket::abort(&socket);
                    return Ok(());
                }
            }
        }
        // An error here concerns this connection alone.
        if socket.set_nonblocking(true).is_err() {
            return Ok(());
        }
        let number = self.add_connection(now, socket, remote, false, make(self.next_number))?;
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.connection.start_accepted(now, &mut self.scratch);
            self.update_connection(now, number);
        }
        Ok(())
    }
}

impl AsFd for TcpHostSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}
