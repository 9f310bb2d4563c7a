//! The TCP side of the measuring server.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use rustls::ServerConfig;
use transport::load::PerfServer;
use transport::places::{Place, Way, who_gives_way};
use transport::quic::End;
use units::{Span, Time, TimerQueue};

use super::Options;
use super::connection::{Accepting, Connection};
use crate::Clock;
use crate::driver::sleep;
use crate::perf::frames::Frames;
use crate::perf::quic_server::tell_summary;
use crate::perf::report::View;
use crate::perf::server::{Out, canonical};
use crate::perf::summary::{Closing, cpu_seconds};
use crate::perf::{Failure, ServerPlan, Summary};
use crate::tcp_info::Kernel;
use crate::tcp_socket;
use crate::watch::Watch;

/// A client has so long to say its first byte, or to do TLS's handshake: what `bentpipe perf client` waits
/// by default.
const HELLO: Span = Span::from_secs(10);

/// Reads of all connections go into one buffer of this length, bytes.
const BUFFER: usize = 256 << 10;

/// Connections accepted before others have their turn.
const ACCEPTS: usize = 64;

/// No accepting for so long when the process has no file left for a connection.
const PAUSE: Span = Span::from_millis(100);

/// Number of the listening socket on the watch.
const LISTENER: u64 = u64::MAX;

/// With `--once`: the client's next connection comes a round trip after the end of the one it waits for;
/// so long is waited for it beyond three of them.
const MARGIN: Span = Span::from_millis(200);

/// A connection and what is kept of it.
struct Entry {
    connection: Connection,
    slot: usize,
    /// Its number for people; none before its client has said anything.
    number: Option<u32>,
    watched: EpollFlags,
    cpu: f64,
    place: Place,
}

impl Entry {
    /// When it wants its turn whatever comes.
    fn turn_at(&self) -> Time {
        let connection = &self.connection;
        let fresh = connection.ended().is_none() && connection.connected_at().is_none();
        let hello = if fresh { connection.began() + HELLO } else { Time::MAX };
        connection.turn_at().min(hello)
    }
}

/// Whether a client can have a place.
enum Room {
    Free,
    /// Perhaps then.
    At(Time),
    None,
}

/// TCP's part of a server.
pub struct Side {
    listener: TcpListener,
    watch: Watch,
    options: Options,
    /// Why it takes nothing; none: it does.
    refusal: Option<String>,
    accepting: Accepting,
    kernel: Kernel,
    limit: usize,
    idle: Span,
    once: bool,
    /// By number of acceptance.
    live: BTreeMap<u64, Entry>,
    accepted: u64,
    /// Numbers by their place in the schedule, and places that are free.
    slots: Vec<u64>,
    free: Vec<usize>,
    wakes: TimerQueue,
    /// Those that have worked since there was last told of it.
    worked: BTreeSet<u64>,
    /// Those that have worked since they were last looked at, or whose kernel was sending then.
    moved: BTreeSet<u64>,
    /// Accepting goes on then.
    paused: Option<Time>,
    /// Accepted, and waiting for a place.
    held: Option<(TcpStream, SocketAddr)>,
    /// With `--once`: the first client, and when it is taken to be gone.
    client: Option<IpAddr>,
    gone_at: Option<Time>,
    scratch: Vec<u8>,
}

impl Side {
    /// Answers what `listener` hears.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(
        plan: &ServerPlan,
        tls: Arc<ServerConfig>,
        options: Options,
        listener: TcpListener,
    ) -> Result<Side, Failure> {
        let kernel = Kernel::running().map_err(Failure::Input)?;
        let watch = Watch::new()?;
        watch.add(&listener, LISTENER, EpollFlags::EPOLLIN)?;
        Ok(Side {
            listener,
            watch,
            options,
            refusal: None,
            accepting: Accepting { transport: plan.transport, tls, choose: plan.choose },
            kernel,
            limit: plan.limits.connections,
            idle: Span(plan.tcp.idle_timeout_ns),
            once: plan.once,
            live: BTreeMap::new(),
            accepted: 0,
            slots: Vec::new(),
            free: Vec::new(),
            wakes: TimerQueue::default(),
            worked: BTreeSet::new(),
            moved: BTreeSet::new(),
            paused: None,
            held: None,
            client: None,
            gone_at: None,
            scratch: vec![0; BUFFER],
        })
    }

    /// The same that tells every client why nothing is taken over TCP. It is no measurement, so that the server does not end
    /// with it.
    pub fn refusing(mut self, why: &str) -> Side {
        (self.refusal, self.once) = (Some(why.to_owned()), false);
        self
    }

    /// The kernel's name of its controller.
    pub fn congestion(&self) -> &str {
        self.options.congestion()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Whether there is no connection.
    pub fn is_idle(&self) -> bool {
        self.live.is_empty() && self.gone_at.is_none() && self.paused.is_none()
    }

    /// When it wants its turn whatever comes.
    pub fn wake_at(&mut self) -> Time {
        let other = self.gone_at.into_iter().chain(self.paused);
        other.fold(self.wakes.earliest().0, Time::min)
    }

    /// Sleeps until there is something, at the longest for `span`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn sleep(&self, span: Span) -> io::Result<()> {
        sleep(&[(self, false)], span)
    }

    /// Does what there is to do.
    ///
    /// # Errors
    /// The kernel's.
    pub fn turn(&mut self, clock: Clock) -> io::Result<()> {
        if self.paused.is_some_and(|until| until <= clock.now()) {
            self.paused = None;
            self.watch.add(&self.listener, LISTENER, EpollFlags::EPOLLIN)?;
            if let Some((socket, remote)) = self.held.take() {
                self.admit(clock.now(), socket, remote)?;
            }
        }
        let ready = self.watch.ready()?;
        // Not before: what is ready may have been sent since.
        let now = clock.now();
        let mut due = Vec::new();
        while let Some(slot) = self.wakes.pop_due(now) {
            due.push(self.slots[slot]);
        }
        due.sort_unstable();
        due.retain(|number| ready.iter().all(|ready| ready.number != *number));
        for ready in ready {
            if ready.number == LISTENER {
                self.accept(now)?;
            } else {
                self.run(now, ready.number, ready.readable)?;
            }
        }
        for number in due {
            self.run_due(now, number)?;
        }
        Ok(())
    }

    /// Does what a connection has to do though nothing has come.
    fn run_due(&mut self, now: Time, number: u64) -> io::Result<()> {
        let Some(entry) = self.live.get_mut(&number) else { return Ok(()) };
        if entry.connection.wake_at() <= now {
            return self.run(now, number, false);
        }
        entry.connection.check(now);
        let connection = &mut entry.connection;
        let fresh = connection.ended().is_none() && connection.connected_at().is_none();
        if fresh && now.since(connection.began()) >= HELLO {
            connection.abort(now);
        }
        self.worked(number);
        Ok(())
    }

    /// Connection `number` may have another wake-up, and something to tell.
    fn worked(&mut self, number: u64) {
        if let Some(entry) = self.live.get(&number) {
            self.wakes.set_deadline(entry.slot, entry.turn_at());
            self.worked.insert(number);
            self.moved.insert(number);
        }
    }

    fn run(&mut self, now: Time, number: u64, readable: bool) -> io::Result<()> {
        let Some(entry) = self.live.get_mut(&number) else { return Ok(()) };
        entry.connection.run(now, readable, &mut self.scratch);
        entry.place.note(now, entry.connection.moved());
        self.worked(number);
        let Some(entry) = self.live.get_mut(&number) else { return Ok(()) };
        let flags = entry.connection.interest();
        let Some(socket) = entry.connection.socket() else { return Ok(()) };
        if entry.connection.ended().is_some() || entry.watched == flags {
            return Ok(());
        }
        // A socket that both ends have finished would call for ever (EPOLLHUP).
        if entry.connection.is_draining() {
            self.watch.remove(socket)?;
        } else {
            self.watch.change(socket, number, flags)?;
        }
        entry.watched = flags;
        Ok(())
    }

    fn accept(&mut self, now: Time) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            if self.paused.is_some() {
                return Ok(());
            }
            let (socket, remote) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                    Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM) => {
                        return self.pause(now + PAUSE);
                    }
                    // The connection has failed already (accept(2)).
                    _ => continue,
                },
            };
            self.admit(now, socket, remote)?;
        }
        Ok(())
    }

    fn pause(&mut self, until: Time) -> io::Result<()> {
        self.watch.remove(&self.listener)?;
        self.paused = Some(until);
        Ok(())
    }

    /// Gives a client a place, if there is one for it.
    fn admit(&mut self, now: Time, socket: TcpStream, remote: SocketAddr) -> io::Result<()> {
        let address = canonical(remote).ip();
        if self.client.is_some_and(|client| client != address) {
            tcp_socket::abort(&socket);
            return Ok(());
        }
        match self.room(now) {
            Room::Free => {}
            Room::At(until) => {
                self.held = Some((socket, remote));
                return self.pause(until);
            }
            Room::None => {
                tcp_socket::abort(&socket);
                return Ok(());
            }
        }
        socket.set_nonblocking(true)?;
        let app = Box::new(match &self.refusal {
            Some(why) => PerfServer::refusing(why),
            None => PerfServer::listening(),
        });
        let (accepting, kernel, idle) = (self.accepting.clone(), self.kernel, self.idle);
        // An error here is the connection's own.
        let Ok(connection) = Connection::accept(now, socket, remote, accepting, app, kernel, idle)
        else {
            return Ok(());
        };
        let number = self.accepted;
        self.accepted += 1;
        let watched = connection.interest();
        if let Some(socket) = connection.socket() {
            self.watch.add(socket, number, watched)?;
        }
        let slot = self.free.pop().unwrap_or(self.slots.len());
        self.slots.resize(self.slots.len().max(slot + 1), number);
        self.slots[slot] = number;
        let (cpu, place) = (cpu_seconds(), Place::new(now));
        self.live.insert(number, Entry { connection, slot, number: None, watched, cpu, place });
        self.worked(number);
        Ok(())
    }

    /// Looks for room for one more, and makes it where somebody has to give way: not, with `--once`, a part of what
    /// is measured.
    fn room(&mut self, now: Time) -> Room {
        if self.live.len() < self.limit {
            return Room::Free;
        }
        let (mut working, mut leaving, mut oldest) = (0, 0, None);
        for (number, entry) in &mut self.live {
            let connection = &entry.connection;
            if connection.ended().is_some() {
                continue;
            }
            if connection.is_draining() {
                leaving += 1;
                oldest.get_or_insert(*number);
            } else {
                working += 1;
            }
            entry.place.note(now, connection.moved());
        }
        // Those that only wait for the last acknowledgement take no place, unless they are many.
        if leaving > 2 * self.limit
            && let Some(oldest) = oldest
        {
            self.give_way(now, oldest);
        }
        if working < self.limit {
            return Room::Free;
        }
        let places = self.live.iter().filter_map(|(number, entry)| {
            let connection = &entry.connection;
            let takes = connection.ended().is_none() && !connection.is_draining();
            let speaks = connection.connected_at().is_some();
            (takes && !(self.once && speaks)).then_some((*number, speaks, entry.place))
        });
        match who_gives_way(now, places) {
            Way::Gives(number) => {
                self.give_way(now, number);
                Room::Free
            }
            Way::Wait(until) => Room::At(until),
            Way::Full => Room::None,
        }
    }

    fn give_way(&mut self, now: Time, number: u64) {
        if let Some(entry) = self.live.get_mut(&number) {
            entry.connection.give_way(now);
        }
        self.worked(number);
    }

    fn measured(&self) -> impl Iterator<Item = (u32, &Connection)> {
        self.live.values().filter_map(|entry| Some((entry.number?, &entry.connection)))
    }

    /// Connections as they stand: all, or those of which there may be something new.
    pub fn look(&mut self, all: bool) -> Vec<View<'_>> {
        let mut moved = std::mem::take(&mut self.moved);
        if all {
            moved.extend(self.live.keys());
        }
        for number in &moved {
            let Some(entry) = self.live.get_mut(number) else { continue };
            entry.connection.sample();
            if entry.connection.is_sending() {
                self.moved.insert(*number);
            }
        }
        let looked_at = moved.iter().filter_map(|number| self.live.get(number));
        let views = looked_at.filter_map(|entry| {
            let connection = &entry.connection;
            let (streams, names) = (connection.streams(), connection.names());
            Some(View::one(entry.number?, connection.began(), streams, connection.last(), names))
        });
        views.collect()
    }

    /// Samples of them.
    pub fn frames(&mut self, now: Time, frames: &mut Frames) {
        for entry in self.live.values_mut() {
            entry.connection.sample();
        }
        for (number, connection) in self.measured() {
            frames.sample(now, number, &connection.last(), connection.streams());
        }
    }

    /// Tells what has changed; whether the one client that is wanted has ended.
    ///
    /// # Errors
    /// The screen's.
    pub fn settle(&mut self, now: Time, out: &mut Out) -> Result<bool, Failure> {
        let worked = std::mem::take(&mut self.worked);
        for number in &worked {
            let Some(entry) = self.live.get_mut(number) else { continue };
            let Some(connected) = entry.connection.connected_at() else { continue };
            if entry.number.is_some() {
                continue;
            }
            entry.connection.sample();
            let (number, connection) = (out.number(), &entry.connection);
            entry.number = Some(number);
            if self.once {
                self.client = Some(connection.remote().ip());
            }
            out.reporter.begin(now);
            let over = match connection.alpn() {
                Some(alpn) => format!("TLS, ALPN {alpn}"),
                None => connection.transport().to_uppercase(),
            };
            out.reporter.say(&format!("[{number}] from {}, {over}", connection.remote()))?;
            let opening = connection.opening(number, connected);
            out.frames.connection(now, &opening);
        }
        for key in worked {
            if self.live.get(&key).is_none_or(|entry| entry.connection.ended().is_none()) {
                continue;
            }
            let Some(entry) = self.live.remove(&key) else { continue };
            self.wakes.set_deadline(entry.slot, Time::MAX);
            self.free.push(entry.slot);
            // What came to nothing is no measurement.
            let Some(number) = entry.number else { continue };
            let end = entry.connection.ended().map(|(end, _)| end.clone());
            self.tell(number, &entry, end.as_ref(), out)?;
            let rtt = entry.connection.last().smoothed_rtt_ms.unwrap_or(0.0);
            self.gone_at = Some(now + Span::from_seconds(rtt * 3e-3) + MARGIN);
        }
        if !self.once || !self.live.is_empty() {
            self.gone_at = None;
        }
        Ok(self.gone_at.is_some_and(|at| at <= now))
    }

    fn tell(
        &self,
        number: u32,
        entry: &Entry,
        end: Option<&End>,
        out: &mut Out,
    ) -> Result<(), Failure> {
        let connection = &entry.connection;
        let Some((_, at)) = connection.ended() else { return Ok(()) };
        let (began, sender) = (connection.began(), connection.last());
        let names = connection.names();
        out.reporter.end(at, &View::one(number, began, connection.streams(), sender, names))?;
        out.frames.end_connection(at, number, end, &sender, connection.streams(), names);
        let alpn = connection.alpn();
        let closing = Closing {
            role: "server",
            peer: connection.remote().to_string(),
            end,
            transport: connection.transport(),
            connections: 1,
            alpn: alpn.as_deref().unwrap_or_default(),
            names,
            mtu: connection.mss(),
            handshake: connection.connected_at().map(|at| at.since(began)),
            streams: connection.streams().iter().collect(),
            sender,
            cpu: cpu_seconds() - entry.cpu,
        };
        tell_summary(number, &Summary::new(at, &closing), out)
    }

    /// Closes everything, and tells what there was.
    ///
    /// # Errors
    /// The screen's.
    pub fn interrupt(&mut self, now: Time, out: &mut Out) -> Result<(), Failure> {
        for entry in std::mem::take(&mut self.live).into_values() {
            let mut entry = entry;
            entry.connection.abort(now);
            if let Some(number) = entry.number {
                self.tell(number, &entry, None, out)?;
            }
        }
        Ok(())
    }
}

impl AsFd for Side {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
