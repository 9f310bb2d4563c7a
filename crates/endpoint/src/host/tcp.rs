//! An end whose connections are the kernel's TCP: any number that it has dialled, and as many accepted ones as it has
//! places for.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use transport::places::{Place, Way, who_gives_way};
use transport::quic::End;
use transport::{App, Notice, Order};
use units::{Span, Time, TimerQueue};

use super::connection::{Connection, Patience, Terms};
use super::stream::Keys;
use crate::tcp_info::Kernel;
use crate::tcp_socket::{self, TcpOptions};
use crate::watch::{Ready, Watch};

/// Reads of all connections go into one buffer of this length, bytes.
const BUFFER: usize = 256 << 10;

/// Connections accepted before others have their turn.
const ACCEPTS: usize = 64;

/// No accepting for so long when the process has no file left for a connection.
const PAUSE: Span = Span::from_millis(100);

/// Number of the listening socket on the watch.
const LISTENER: u64 = u64::MAX;

/// Why a connection ended that gave its place to another.
const GAVE_WAY: &str = "it was slow, and gave way to a new connection";

/// An end over TCP.
pub struct TcpPlan {
    /// Where it answers; none: it only dials.
    pub listen: Option<SocketAddr>,
    /// Options of its sockets.
    pub options: TcpOptions,
    /// For applications that ask for TLS.
    pub keys: Option<Keys>,
    /// Longest waits.
    pub patience: Patience,
    /// Accepted connections at once; slow ones give way to new ones.
    pub connections: usize,
}

/// A connection and what is kept of it.
struct Entry {
    connection: Connection,
    slot: usize,
    watched: Option<EpollFlags>,
    accepted: bool,
    place: Place,
}

/// An end over TCP that works.
pub(super) struct TcpEnd {
    listener: Option<TcpListener>,
    watch: Watch,
    plan: TcpPlan,
    terms: Terms,
    /// By number.
    live: BTreeMap<u32, Entry>,
    /// How many of them are accepted.
    accepted: usize,
    /// Numbers by their place in the schedule, and places that are free.
    slots: Vec<u32>,
    free: Vec<usize>,
    wakes: TimerQueue,
    next: u32,
    /// Accepting goes on then.
    paused: Option<Time>,
    /// Accepted, and waiting for a place.
    held: Option<(TcpStream, SocketAddr)>,
    scratch: Vec<u8>,
    said: Vec<(u32, Notice)>,
    ended: Vec<(u32, End)>,
}

/// Makes the application of an accepted connection.
pub(super) type Make<'a> = &'a mut dyn FnMut(u32) -> Box<dyn App>;

impl TcpEnd {
    pub(super) fn new(plan: TcpPlan) -> io::Result<TcpEnd> {
        let watch = Watch::new()?;
        plan.options.try_out()?;
        let listener = plan.listen.map(|at| plan.options.listen(at)).transpose()?;
        if let Some(listener) = &listener {
            watch.add(listener, LISTENER, EpollFlags::EPOLLIN)?;
        }
        let kernel = Kernel::running().map_err(io::Error::other)?;
        Ok(TcpEnd {
            listener,
            watch,
            terms: Terms { kernel, patience: plan.patience },
            plan,
            live: BTreeMap::new(),
            accepted: 0,
            slots: Vec::new(),
            free: Vec::new(),
            wakes: TimerQueue::default(),
            next: 0,
            paused: None,
            held: None,
            scratch: vec![0; BUFFER],
            said: Vec::new(),
            ended: Vec::new(),
        })
    }

    pub(super) fn local(&self) -> io::Result<SocketAddr> {
        let listener = self.listener.as_ref().ok_or(ErrorKind::NotConnected)?;
        listener.local_addr()
    }

    pub(super) fn open(&self) -> usize {
        self.live.len()
    }

    /// When it wants its turn though nothing comes.
    pub(super) fn wake_at(&mut self) -> Time {
        self.wakes.earliest().0.min(self.paused.unwrap_or(Time::MAX))
    }

    pub(super) fn peer(&self, number: u32) -> Option<SocketAddr> {
        let remote = self.live.get(&number)?.connection.remote();
        Some(SocketAddr::new(remote.ip().to_canonical(), remote.port()))
    }

    pub(super) fn dial(
        &mut self,
        now: Time,
        peer: SocketAddr,
        app: Box<dyn App>,
    ) -> Result<u32, String> {
        let socket = self.plan.options.connect(peer).map_err(|error| error.to_string())?;
        self.adopt(now, socket, peer, true, app).map_err(|error| error.to_string())
    }

    pub(super) fn say(&mut self, number: u32, order: Order) {
        let Some(entry) = self.live.get_mut(&number) else { return };
        entry.connection.hear(order);
        self.wakes.set_deadline(entry.slot, entry.connection.wake_at());
    }

    pub(super) fn abort(&mut self, now: Time, number: u32) {
        if let Some(entry) = self.live.get_mut(&number) {
            entry.connection.abort(now, End::Here);
            self.settle(now, number);
        }
    }

    /// Aborts all.
    pub(super) fn close(&mut self, now: Time) {
        let numbers: Vec<u32> = self.live.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.abort(now, number));
    }

    pub(super) fn take_said(&mut self) -> Vec<(u32, Notice)> {
        std::mem::take(&mut self.said)
    }

    pub(super) fn take_ended(&mut self) -> Vec<(u32, End)> {
        std::mem::take(&mut self.ended)
    }

    /// Does what there is to do.
    pub(super) fn work(&mut self, now: Time, make: Make<'_>) -> io::Result<()> {
        if self.paused.is_some_and(|until| until <= now) {
            self.paused = None;
            if let Some(listener) = &self.listener {
                self.watch.add(listener, LISTENER, EpollFlags::EPOLLIN)?;
            }
            if let Some((socket, remote)) = self.held.take() {
                self.admit(now, socket, remote, make)?;
            }
        }
        for Ready { number, readable, broken } in self.watch.ready()? {
            if number == LISTENER {
                self.accept(now, make)?;
            } else {
                self.run(now, number as u32, readable, broken);
            }
        }
        let mut due = Vec::new();
        while let Some(slot) = self.wakes.pop_due(now) {
            due.push(self.slots[slot]);
        }
        due.sort_unstable();
        for number in due {
            self.run(now, number, false, false);
        }
        Ok(())
    }

    fn run(&mut self, now: Time, number: u32, readable: bool, broken: bool) {
        if let Some(entry) = self.live.get_mut(&number) {
            entry.connection.run(now, readable, broken, &mut self.scratch);
            self.settle(now, number);
        }
    }

    /// What follows from a connection's work.
    fn settle(&mut self, now: Time, number: u32) {
        let Some(entry) = self.live.get_mut(&number) else { return };
        let connection = &mut entry.connection;
        self.said.extend(connection.take_said().map(|notice| (number, notice)));
        if let Some(end) = connection.end() {
            self.ended.push((number, end.clone()));
            self.wakes.set_deadline(entry.slot, Time::MAX);
            self.free.push(entry.slot);
            self.accepted -= usize::from(entry.accepted);
            // Its socket is closed with it.
            self.live.remove(&number);
            return;
        }
        entry.place.note(now, connection.moved());
        self.wakes.set_deadline(entry.slot, connection.wake_at());
        let wanted = connection.interest();
        if entry.watched != wanted {
            let socket = connection.socket();
            // That a socket cannot be watched is its own end: it comes to nothing more.
            let _ = match (entry.watched, wanted) {
                (None, Some(flags)) => self.watch.add(socket, number.into(), flags),
                (Some(_), Some(flags)) => self.watch.change(socket, number.into(), flags),
                (_, None) => self.watch.remove(socket),
            };
            entry.watched = wanted;
        }
    }

    fn adopt(
        &mut self,
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        dialled: bool,
        app: Box<dyn App>,
    ) -> io::Result<u32> {
        let number = self.next;
        self.next += 1;
        let slot = self.free.pop().unwrap_or(self.slots.len());
        self.slots.resize(self.slots.len().max(slot + 1), number);
        self.slots[slot] = number;
        self.accepted += usize::from(!dialled);
        let terms = (dialled, self.plan.keys.clone(), self.terms);
        let connection = Connection::new(now, socket, remote, app, terms);
        let (accepted, place) = (!dialled, Place::new(now));
        self.live.insert(number, Entry { connection, slot, watched: None, accepted, place });
        self.settle(now, number);
        Ok(number)
    }

    fn accept(&mut self, now: Time, make: Make<'_>) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            let Some(listener) = self.listener.as_ref().filter(|_| self.paused.is_none()) else {
                return Ok(());
            };
            let (socket, remote) = match listener.accept() {
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
            self.admit(now, socket, remote, make)?;
        }
        Ok(())
    }

    fn pause(&mut self, until: Time) -> io::Result<()> {
        if let Some(listener) = &self.listener {
            self.watch.remove(listener)?;
        }
        self.paused = Some(until);
        Ok(())
    }

    /// Gives a peer a place, if there is one for it.
    fn admit(
        &mut self,
        now: Time,
        socket: TcpStream,
        remote: SocketAddr,
        make: Make<'_>,
    ) -> io::Result<()> {
        if self.accepted >= self.plan.connections {
            let places = self.live.iter_mut().filter(|(_, entry)| entry.accepted);
            let noted = places.map(|(number, entry)| {
                entry.place.note(now, entry.connection.moved());
                (*number, entry.connection.moved() > 0, entry.place)
            });
            match who_gives_way(now, noted) {
                Way::Gives(number) => {
                    if let Some(entry) = self.live.get_mut(&number) {
                        entry.connection.abort(now, End::Lost(GAVE_WAY.to_owned()));
                        self.settle(now, number);
                    }
                }
                Way::Wait(until) => {
                    self.held = Some((socket, remote));
                    return self.pause(until);
                }
                Way::Full => {
                    tcp_socket::abort(&socket);
                    return Ok(());
                }
            }
        }
        // An error here is the connection's own.
        if socket.set_nonblocking(true).is_err() {
            return Ok(());
        }
        let number = self.adopt(now, socket, remote, false, make(self.next))?;
        if let Some(entry) = self.live.get_mut(&number) {
            entry.connection.begin(now, &mut self.scratch);
            self.settle(now, number);
        }
        Ok(())
    }
}

impl AsFd for TcpEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
