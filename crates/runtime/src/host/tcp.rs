//! A kernel TCP interface: any number of connections that it opens, and a limited number of accepted ones.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use transport::eviction::{ActivityScore, Eviction, select_eviction};
use transport::quic::CloseReason;
use transport::{App, AppCommand, AppNotification, ConnectionKey};
use units::{Span, Time, TimerQueue};

use super::connection_report::{ConnectionReport, canonical_addr};
use super::tcp_connection::KernelTcpConnection;
use super::tcp_connection_config::{
    ConnectionTimeouts, ControllerSetter, TcpConnectionConfig, TcpProtocol,
};
use crate::Clock;
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
const EVICTION_REASON: &str = "a new connection replaced this slow one";

/// Configuration of a TCP interface.
pub struct TcpHostConfig {
    /// The listening socket, `None` if the interface only opens connections.
    pub listener: Option<TcpListener>,
    /// Options of the sockets of opened connections.
    pub options: TcpSocketOptions,
    /// The protocol of the connections.
    pub protocol: TcpProtocol,
    /// Timeouts of a connection.
    pub timeouts: ConnectionTimeouts,
    /// The maximum of concurrent accepted connections; slow ones are evicted for new ones. Connections that only wait
    /// for acknowledgements do not count.
    pub max_connections: usize,
    /// Connections with data from the peer are evicted too.
    pub evicts_active_peers: bool,
    /// Installs a controller that a peer requests, `None` if peers request none.
    pub controller_setter: Option<ControllerSetter>,
    /// A connection ends when the FIN of this side is sent, not when it is acknowledged.
    pub closes_after_fin: bool,
    /// Data received before a reset is read before the connection ends.
    pub reads_before_reset: bool,
    /// The host keeps reports of changed and closed connections until they are taken.
    pub keeps_reports: bool,
}

impl TcpHostConfig {
    /// Creates the configuration of an interface without TLS and without reports.
    pub fn new(
        listener: Option<TcpListener>,
        options: TcpSocketOptions,
        timeouts: ConnectionTimeouts,
        max_connections: usize,
    ) -> TcpHostConfig {
        TcpHostConfig {
            listener,
            options,
            protocol: TcpProtocol::Plain(None),
            timeouts,
            max_connections,
            evicts_active_peers: true,
            controller_setter: None,
            closes_after_fin: false,
            reads_before_reset: false,
            keeps_reports: false,
        }
    }
}

/// A connection with its bookkeeping.
struct TcpEntry {
    connection: KernelTcpConnection,
    timer_index: usize,
    registered_flags: Option<EpollFlags>,
    is_accepted: bool,
    activity: ActivityScore,
}

/// Capacity for one more accepted connection.
enum Capacity {
    Available,
    /// Capacity is possible at this time.
    RetryAt(Time),
    Full,
}

/// An open TCP interface.
pub(super) struct TcpHostSocket {
    interface: usize,
    listener: Option<TcpListener>,
    poller: Poller,
    options: TcpSocketOptions,
    max_connections: usize,
    evicts_active_peers: bool,
    connection_config: Arc<TcpConnectionConfig>,
    /// The only peer of accepted connections, `None` for any.
    pub(super) only_peer: Option<IpAddr>,
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
    /// Connections that have worked, and the reports of closed ones, if the interface keeps them.
    changed: BTreeSet<u32>,
    closed_reports: Vec<ConnectionReport<'static>>,
}

/// Builds the application of an accepted connection.
pub(super) type AcceptFn<'a> = &'a mut dyn FnMut(Time, u32) -> Box<dyn App>;

impl TcpHostSocket {
    pub(super) fn new(interface: usize, plan: TcpHostConfig) -> io::Result<TcpHostSocket> {
        let watch = Poller::new()?;
        plan.options.validate()?;
        if let Some(listener) = &plan.listener {
            watch.add(listener, LISTENER_TOKEN, EpollFlags::EPOLLIN)?;
        }
        let connection_config = Arc::new(TcpConnectionConfig {
            info_layout: TcpInfoLayout::detect().map_err(io::Error::other)?,
            timeouts: plan.timeouts,
            protocol: plan.protocol,
            controller_setter: plan.controller_setter,
            closes_after_fin: plan.closes_after_fin,
            reads_before_reset: plan.reads_before_reset,
            keeps_reports: plan.keeps_reports,
        });
        Ok(TcpHostSocket {
            interface,
            listener: plan.listener,
            poller: watch,
            options: plan.options,
            max_connections: plan.max_connections,
            evicts_active_peers: plan.evicts_active_peers,
            connection_config,
            only_peer: None,
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
            changed: BTreeSet::new(),
            closed_reports: Vec::new(),
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
        Some(self.connections.get(&number)?.connection.remote())
    }

    pub(super) fn connect(
        &mut self,
        now: Time,
        peer: SocketAddr,
        app: Box<dyn App>,
    ) -> Result<u32, String> {
        let socket = self.options.connect(peer).map_err(|error| error.to_string())?;
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

    fn key(&self, connection: u32) -> ConnectionKey {
        ConnectionKey { interface: self.interface, connection }
    }

    /// Returns the numbers of the open connections.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.connections.keys().copied()
    }

    pub(super) fn take_changed(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.changed)
    }

    pub(super) fn take_closed_reports(&mut self) -> Vec<ConnectionReport<'static>> {
        std::mem::take(&mut self.closed_reports)
    }

    /// Queries the state of a connection from the kernel.
    pub(super) fn update_report(&mut self, number: u32) {
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.connection.update_report();
        }
    }

    pub(super) fn report(&self, number: u32) -> Option<ConnectionReport<'_>> {
        Some(self.connections.get(&number)?.connection.report(self.key(number)))
    }

    #[cfg(feature = "test-support")]
    pub(super) fn query_count(&self, number: u32) -> u64 {
        self.connections.get(&number).map_or(0, |entry| entry.connection.query_count.get())
    }

    /// Does the due work.
    pub(super) fn poll(&mut self, clock: Clock, make: AcceptFn<'_>) -> io::Result<()> {
        let now = clock.now();
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            if let Some(listener) = &self.listener {
                self.poller.add(listener, LISTENER_TOKEN, EpollFlags::EPOLLIN)?;
            }
            if let Some((socket, remote)) = self.deferred_accept.take() {
                self.accept_socket(now, socket, remote, make)?;
            }
        }
        let ready = self.poller.poll_events()?;
        // Not earlier: the ready data can have been sent since.
        let now = clock.now();
        for PollEvent { token: number, readable, failed: broken } in ready {
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
        let keeps_reports = self.connection_config.keeps_reports;
        if let Some(end) = connection.close_reason() {
            self.closed.push((number, end.clone()));
            if keeps_reports {
                let key = ConnectionKey { interface: self.interface, connection: number };
                self.closed_reports.push(connection.report(key).into_owned());
            }
            self.changed.remove(&number);
            self.timers.set_deadline(entry.timer_index, Time::MAX);
            self.free_timers.push(entry.timer_index);
            self.accepted_count -= usize::from(entry.is_accepted);
            // This closes the socket.
            self.connections.remove(&number);
            return;
        }
        if keeps_reports {
            self.changed.insert(number);
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
        let config = self.connection_config.clone();
        let connection = KernelTcpConnection::new(now, socket, remote, app, dialled, config)?;
        let number = self.next_number;
        self.next_number += 1;
        let slot = self.free_timers.pop().unwrap_or(self.numbers_by_timer.len());
        self.numbers_by_timer.resize(self.numbers_by_timer.len().max(slot + 1), number);
        self.numbers_by_timer[slot] = number;
        self.accepted_count += usize::from(!dialled);
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
        let address = canonical_addr(remote).ip();
        if self.only_peer.is_some_and(|only| only != address) {
            socket::abort(&socket);
            return Ok(());
        }
        match self.reserve_capacity(now) {
            Capacity::Available => {}
            Capacity::RetryAt(until) => {
                self.deferred_accept = Some((socket, remote));
                return self.pause_accepting(until);
            }
            Capacity::Full => {
                socket::abort(&socket);
                return Ok(());
            }
        }
        // An error here concerns this connection alone.
        if socket.set_nonblocking(true).is_err() {
            return Ok(());
        }
        let app = make(now, self.next_number);
        let Ok(number) = self.add_connection(now, socket, remote, false, app) else {
            return Ok(());
        };
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.connection.start_accepted(now, &mut self.scratch);
            self.update_connection(now, number);
        }
        Ok(())
    }

    /// Checks the capacity for one more accepted connection, and evicts a slow connection if necessary.
    fn reserve_capacity(&mut self, now: Time) -> Capacity {
        if self.accepted_count < self.max_connections {
            return Capacity::Available;
        }
        let (mut working, mut draining, mut oldest) = (0, 0, None);
        for (number, entry) in self.connections.iter_mut().filter(|(_, entry)| entry.is_accepted) {
            if entry.connection.is_draining() {
                draining += 1;
                oldest.get_or_insert(*number);
            } else {
                working += 1;
            }
            entry.activity.update(now, entry.connection.transferred_bytes());
        }
        // Draining connections need no capacity, unless there are many.
        if draining > 2 * self.max_connections
            && let Some(oldest) = oldest
        {
            self.evict(now, oldest);
        }
        if working < self.max_connections {
            return Capacity::Available;
        }
        let candidates = self.connections.iter().filter_map(|(number, entry)| {
            let responded = entry.connection.has_peer_responded();
            let is_candidate = entry.is_accepted
                && !entry.connection.is_draining()
                && (self.evicts_active_peers || !responded);
            is_candidate.then_some((*number, responded, entry.activity))
        });
        match select_eviction(now, candidates) {
            Eviction::Evict(number) => {
                self.evict(now, number);
                Capacity::Available
            }
            Eviction::RetryAt(until) => Capacity::RetryAt(until),
            Eviction::Full => Capacity::Full,
        }
    }

    fn evict(&mut self, now: Time, number: u32) {
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.connection.abort(now, CloseReason::Lost(EVICTION_REASON.to_owned()));
            self.update_connection(now, number);
        }
    }
}

impl AsFd for TcpHostSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}
