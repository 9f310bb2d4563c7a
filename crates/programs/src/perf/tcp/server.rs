//! The TCP part of the measuring server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use runtime::tcp::{TcpInfoLayout, socket};
use runtime::{Clock, Poller, sleep_until_ready};
use rustls::ServerConfig;
use transport::eviction::{ActivityScore, Eviction, select_eviction};
use transport::perf_load::PerfServer;
use transport::quic::CloseReason;
use units::{Span, Time, TimerQueue};

use super::PerfTcpOptions;
use super::connection::{AcceptConfig, PerfTcpConnection};
use crate::ProgramError;
use crate::perf::frames::FrameWriter;
use crate::perf::frames::ReportOutput;
use crate::perf::peer::canonical_addr;
use crate::perf::quic_server::report_summary;
use crate::perf::report::ReportScope;
use crate::perf::summary::{SummaryInput, cpu_seconds};
use crate::perf::{PerfServerPlan, PerfSummary};

/// The timeout for the first byte or the TLS handshake of a client: the default timeout of `bentpipe perf client`.
const HELLO_TIMEOUT: Span = Span::from_secs(10);

/// The length in bytes of the read buffer, which all connections share.
const READ_BUFFER_BYTES: usize = 256 << 10;

/// The maximum of connections accepted per poll.
const MAX_ACCEPTS_PER_POLL: usize = 64;

/// The pause of accepting when the process has no free file descriptor.
const ACCEPT_PAUSE: Span = Span::from_millis(100);

/// The token of the listening socket in the poller.
const LISTENER_TOKEN: u64 = u64::MAX;

/// With `--once` the client's next connection arrives one RTT after the end of the previous one. The server waits three
/// RTTs plus this margin.
const NEXT_CONNECTION_MARGIN: Span = Span::from_millis(200);

/// A connection with its bookkeeping.
struct ServerEntry {
    connection: PerfTcpConnection,
    timer_index: usize,
    /// The number in reports, `None` before the first byte of the client.
    number: Option<u32>,
    registered_flags: EpollFlags,
    cpu_at_start: f64,
    activity: ActivityScore,
}

impl ServerEntry {
    /// Returns the next deadline without input.
    fn poll_at(&self) -> Time {
        let connection = &self.connection;
        let fresh = connection.closed().is_none() && connection.connected_at().is_none();
        let hello = if fresh { connection.started_at() + HELLO_TIMEOUT } else { Time::MAX };
        connection.poll_at().min(hello)
    }
}

/// The capacity for a new client.
enum Capacity {
    Available,
    /// Capacity is possible at this time.
    RetryAt(Time),
    Full,
}

/// The TCP part of a server.
pub struct TcpPerfListener {
    listener: TcpListener,
    poller: Poller,
    options: PerfTcpOptions,
    /// The reason why clients are refused, `None` if they are accepted.
    refusal: Option<String>,
    accept_config: AcceptConfig,
    info_layout: TcpInfoLayout,
    max_connections: usize,
    idle_timeout: Span,
    once: bool,
    /// Connections by sequence of acceptance.
    connections: BTreeMap<u64, ServerEntry>,
    accepted_count: u64,
    /// Connection numbers by timer index, and free timer indices.
    numbers_by_timer: Vec<u64>,
    free_timers: Vec<usize>,
    timers: TimerQueue,
    /// Connections that have changed since the last report of changes.
    changed: BTreeSet<u64>,
    /// Connections that have changed since the last sample, or had data to send then.
    unsampled: BTreeSet<u64>,
    /// The end of a pause of accepting.
    paused_until: Option<Time>,
    /// An accepted socket that waits for capacity.
    deferred_accept: Option<(TcpStream, SocketAddr)>,
    /// With `--once`: the first client, and the time at which it is considered gone.
    once_client: Option<IpAddr>,
    client_timeout_at: Option<Time>,
    scratch: Vec<u8>,
}

impl TcpPerfListener {
    /// Serves connections of `listener`.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn new(
        plan: &PerfServerPlan,
        tls: Arc<ServerConfig>,
        options: PerfTcpOptions,
        listener: TcpListener,
    ) -> Result<TcpPerfListener, ProgramError> {
        let kernel = TcpInfoLayout::detect().map_err(ProgramError::Input)?;
        let watch = Poller::new()?;
        watch.add(&listener, LISTENER_TOKEN, EpollFlags::EPOLLIN)?;
        Ok(TcpPerfListener {
            listener,
            poller: watch,
            options,
            refusal: None,
            accept_config: AcceptConfig {
                transport: plan.transport,
                tls,
                controller_policy: plan.controller_policy,
            },
            info_layout: kernel,
            max_connections: plan.limits.connections,
            idle_timeout: Span(plan.tcp.idle_timeout_ns),
            once: plan.once,
            connections: BTreeMap::new(),
            accepted_count: 0,
            numbers_by_timer: Vec::new(),
            free_timers: Vec::new(),
            timers: TimerQueue::default(),
            changed: BTreeSet::new(),
            unsampled: BTreeSet::new(),
            paused_until: None,
            deferred_accept: None,
            once_client: None,
            client_timeout_at: None,
            scratch: vec![0; READ_BUFFER_BYTES],
        })
    }

    /// Refuses every client with the reason `why`. A refusal is not a measurement, so the server does not end with it.
    pub fn refusing(mut self, why: &str) -> TcpPerfListener {
        (self.refusal, self.once) = (Some(why.to_owned()), false);
        self
    }

    /// Returns the kernel's name of the controller.
    pub fn congestion(&self) -> &str {
        self.options.congestion()
    }

    /// Returns the listening address.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns whether there is no connection.
    pub fn is_idle(&self) -> bool {
        self.connections.is_empty()
            && self.client_timeout_at.is_none()
            && self.paused_until.is_none()
    }

    /// Returns the next deadline without input.
    pub fn poll_at(&mut self) -> Time {
        let other = self.client_timeout_at.into_iter().chain(self.paused_until);
        other.fold(self.timers.earliest().0, Time::min)
    }

    /// Sleeps until there is an event, at most for `span`.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn sleep(&self, span: Span) -> io::Result<()> {
        sleep_until_ready(&[(self, false)], span)
    }

    /// Does the due work.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn poll_once(&mut self, clock: Clock) -> io::Result<()> {
        if self.paused_until.is_some_and(|until| until <= clock.now()) {
            self.paused_until = None;
            self.poller.add(&self.listener, LISTENER_TOKEN, EpollFlags::EPOLLIN)?;
            if let Some((socket, remote)) = self.deferred_accept.take() {
                self.accept_socket(clock.now(), socket, remote)?;
            }
        }
        let ready = self.poller.poll_events()?;
        // Not earlier: the ready data can have been sent since.
        let now = clock.now();
        let mut due = Vec::new();
        while let Some(slot) = self.timers.pop_due(now) {
            due.push(self.numbers_by_timer[slot]);
        }
        due.sort_unstable();
        due.retain(|number| ready.iter().all(|ready| ready.token != *number));
        for ready in ready {
            if ready.token == LISTENER_TOKEN {
                self.accept(now)?;
            } else {
                self.run_connection(now, ready.token, ready.readable)?;
            }
        }
        for number in due {
            self.run_due(now, number)?;
        }
        Ok(())
    }

    /// Runs or checks a connection with a due timer.
    fn run_due(&mut self, now: Time, number: u64) -> io::Result<()> {
        let Some(entry) = self.connections.get_mut(&number) else { return Ok(()) };
        if entry.connection.run_at() <= now {
            return self.run_connection(now, number, false);
        }
        entry.connection.check(now);
        let connection = &mut entry.connection;
        let fresh = connection.closed().is_none() && connection.connected_at().is_none();
        if fresh && now.since(connection.started_at()) >= HELLO_TIMEOUT {
            connection.abort(now);
        }
        self.mark_changed(number);
        Ok(())
    }

    /// Updates the timer of connection `number` and marks it as changed.
    fn mark_changed(&mut self, number: u64) {
        if let Some(entry) = self.connections.get(&number) {
            self.timers.set_deadline(entry.timer_index, entry.poll_at());
            self.changed.insert(number);
            self.unsampled.insert(number);
        }
    }

    fn run_connection(&mut self, now: Time, number: u64, readable: bool) -> io::Result<()> {
        let Some(entry) = self.connections.get_mut(&number) else { return Ok(()) };
        entry.connection.run(now, readable, &mut self.scratch);
        entry.activity.update(now, entry.connection.transferred_bytes());
        self.mark_changed(number);
        let Some(entry) = self.connections.get_mut(&number) else { return Ok(()) };
        let flags = entry.connection.interest();
        let Some(socket) = entry.connection.socket() else { return Ok(()) };
        if entry.connection.closed().is_some() || entry.registered_flags == flags {
            return Ok(());
        }
        // A socket closed by both sides would report EPOLLHUP forever.
        if entry.connection.is_draining() {
            self.poller.remove(socket)?;
        } else {
            self.poller.modify(socket, number, flags)?;
        }
        entry.registered_flags = flags;
        Ok(())
    }

    fn accept(&mut self, now: Time) -> io::Result<()> {
        for _ in 0..MAX_ACCEPTS_PER_POLL {
            if self.paused_until.is_some() {
                return Ok(());
            }
            let (socket, remote) = match self.listener.accept() {
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
            self.accept_socket(now, socket, remote)?;
        }
        Ok(())
    }

    fn pause_accepting(&mut self, until: Time) -> io::Result<()> {
        self.poller.remove(&self.listener)?;
        self.paused_until = Some(until);
        Ok(())
    }

    /// Accepts a client if there is capacity.
    fn accept_socket(
        &mut self,
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
    ) -> io::Result<()> {
        let address = canonical_addr(remote).ip();
        if self.once_client.is_some_and(|client| client != address) {
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
        socket.set_nonblocking(true)?;
        let app = Box::new(match &self.refusal {
            Some(why) => PerfServer::refusing(why),
            None => PerfServer::negotiating(),
        });
        let (accepting, kernel, idle) =
            (self.accept_config.clone(), self.info_layout, self.idle_timeout);
        // An error here concerns this connection alone.
        let Ok(connection) =
            PerfTcpConnection::accept(now, socket, remote, accepting, app, kernel, idle)
        else {
            return Ok(());
        };
        let number = self.accepted_count;
        self.accepted_count += 1;
        let watched = connection.interest();
        if let Some(socket) = connection.socket() {
            self.poller.add(socket, number, watched)?;
        }
        let slot = self.free_timers.pop().unwrap_or(self.numbers_by_timer.len());
        self.numbers_by_timer.resize(self.numbers_by_timer.len().max(slot + 1), number);
        self.numbers_by_timer[slot] = number;
        let (cpu, activity) = (cpu_seconds(), ActivityScore::new(now));
        self.connections.insert(
            number,
            ServerEntry {
                connection,
                timer_index: slot,
                number: None,
                registered_flags: watched,
                cpu_at_start: cpu,
                activity,
            },
        );
        self.mark_changed(number);
        Ok(())
    }

    /// Checks the capacity for one more connection, and evicts a slow connection if necessary. With `--once` it evicts
    /// no measured connection.
    fn reserve_capacity(&mut self, now: Time) -> Capacity {
        if self.connections.len() < self.max_connections {
            return Capacity::Available;
        }
        let (mut working, mut draining, mut oldest) = (0, 0, None);
        for (number, entry) in &mut self.connections {
            let connection = &entry.connection;
            if connection.closed().is_some() {
                continue;
            }
            if connection.is_draining() {
                draining += 1;
                oldest.get_or_insert(*number);
            } else {
                working += 1;
            }
            entry.activity.update(now, connection.transferred_bytes());
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
            let connection = &entry.connection;
            let takes = connection.closed().is_none() && !connection.is_draining();
            let speaks = connection.connected_at().is_some();
            (takes && !(self.once && speaks)).then_some((*number, speaks, entry.activity))
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

    fn evict(&mut self, now: Time, number: u64) {
        if let Some(entry) = self.connections.get_mut(&number) {
            entry.connection.evict(now);
        }
        self.mark_changed(number);
    }

    fn measured(&self) -> impl Iterator<Item = (u32, &PerfTcpConnection)> {
        self.connections.values().filter_map(|entry| Some((entry.number?, &entry.connection)))
    }

    /// Returns the report scopes of all connections, or of those that may have changed.
    pub fn report_scopes(&mut self, all: bool) -> Vec<ReportScope<'_>> {
        let mut moved = std::mem::take(&mut self.unsampled);
        if all {
            moved.extend(self.connections.keys());
        }
        for number in &moved {
            let Some(entry) = self.connections.get_mut(number) else { continue };
            entry.connection.update_report();
            if entry.connection.is_sending() {
                self.unsampled.insert(*number);
            }
        }
        let looked_at = moved.iter().filter_map(|number| self.connections.get(number));
        let views = looked_at.filter_map(|entry| {
            let connection = &entry.connection;
            let (streams, names) = (connection.stream_reports(), connection.controllers());
            Some(ReportScope::single(
                entry.number?,
                connection.started_at(),
                streams,
                connection.last_report(),
                names,
            ))
        });
        views.collect()
    }

    /// Writes samples of the measured connections.
    pub fn write_samples(&mut self, now: Time, frames: &mut FrameWriter) {
        for entry in self.connections.values_mut() {
            entry.connection.update_report();
        }
        for (number, connection) in self.measured() {
            frames.write_sample(
                now,
                number,
                &connection.last_report(),
                connection.stream_reports(),
            );
        }
    }

    /// Reports changes. Returns whether the only requested client has finished.
    ///
    /// # Errors
    /// An error of the screen.
    pub(in crate::perf) fn report_changes(
        &mut self,
        now: Time,
        out: &mut ReportOutput,
    ) -> Result<bool, ProgramError> {
        let worked = std::mem::take(&mut self.changed);
        for number in &worked {
            let Some(entry) = self.connections.get_mut(number) else { continue };
            let Some(connected) = entry.connection.connected_at() else { continue };
            if entry.number.is_some() {
                continue;
            }
            entry.connection.update_report();
            let (number, connection) = (out.allocate_number(), &entry.connection);
            entry.number = Some(number);
            if self.once {
                self.once_client = Some(connection.remote().ip());
            }
            out.reporter.start_intervals(now);
            let over = match connection.alpn() {
                Some(alpn) => format!("TLS, ALPN {alpn}"),
                None => connection.transport().to_uppercase(),
            };
            out.reporter.print(&format!("[{number}] from {}, {over}", connection.remote()))?;
            let opening = connection.connection_frame(number, connected);
            out.frames.write_connection(now, &opening);
        }
        for key in worked {
            if self.connections.get(&key).is_none_or(|entry| entry.connection.closed().is_none()) {
                continue;
            }
            let Some(entry) = self.connections.remove(&key) else { continue };
            self.timers.set_deadline(entry.timer_index, Time::MAX);
            self.free_timers.push(entry.timer_index);
            // A connection without a request is not a measurement.
            let Some(number) = entry.number else { continue };
            let end = entry.connection.closed().map(|(end, _)| end.clone());
            self.report_closed(number, &entry, end.as_ref(), out)?;
            let rtt = entry.connection.last_report().smoothed_rtt_ms.unwrap_or(0.0);
            self.client_timeout_at =
                Some(now + Span::from_seconds(rtt * 3e-3) + NEXT_CONNECTION_MARGIN);
        }
        if !self.once || !self.connections.is_empty() {
            self.client_timeout_at = None;
        }
        Ok(self.client_timeout_at.is_some_and(|at| at <= now))
    }

    fn report_closed(
        &self,
        number: u32,
        entry: &ServerEntry,
        end: Option<&CloseReason>,
        out: &mut ReportOutput,
    ) -> Result<(), ProgramError> {
        let connection = &entry.connection;
        let Some((_, at)) = connection.closed() else { return Ok(()) };
        let (began, sender) = (connection.started_at(), connection.last_report());
        let names = connection.controllers();
        out.reporter.write_totals(
            at,
            &ReportScope::single(number, began, connection.stream_reports(), sender, names),
        )?;
        out.frames.write_end_connection(
            at,
            number,
            end,
            &sender,
            connection.stream_reports(),
            names,
        );
        let alpn = connection.alpn();
        let closing = SummaryInput {
            role: "server",
            peer: connection.remote().to_string(),
            close_reason: end,
            transport: connection.transport(),
            connections: 1,
            alpn: alpn.as_deref().unwrap_or_default(),
            controllers: names,
            mtu: connection.mss(),
            handshake: connection.connected_at().map(|at| at.since(began)),
            streams: connection.stream_reports().iter().collect(),
            sender,
            cpu_s: cpu_seconds() - entry.cpu_at_start,
        };
        report_summary(number, &PerfSummary::new(at, &closing), out)
    }

    /// Closes all connections and reports their results.
    ///
    /// # Errors
    /// An error of the screen.
    pub(in crate::perf) fn interrupt(
        &mut self,
        now: Time,
        out: &mut ReportOutput,
    ) -> Result<(), ProgramError> {
        for entry in std::mem::take(&mut self.connections).into_values() {
            let mut entry = entry;
            entry.connection.abort(now);
            if let Some(number) = entry.number {
                self.report_closed(number, &entry, None, out)?;
            }
        }
        Ok(())
    }
}

impl AsFd for TcpPerfListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
