//! An [`Agent`] on real sockets under the real clock: its ends are QUIC's, the kernel's TCP or UDP, and the applications on
//! its connections are those of virtual time.
//!
//! Reading order: this file (the loop), `quic`, `tcp`, `udp` (an end of each), `connection` and `stream` (one of TCP's).

mod connection;
mod quic;
mod stream;
mod tcp;
mod udp;

pub use self::connection::Patience;
pub use self::quic::QuicPlan;
pub use self::stream::Keys;
pub use self::tcp::TcpPlan;
pub use self::udp::UdpPlan;
pub use crate::tcp_socket::TcpOptions;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transport::{Agent, App, Handle, Lines, Order};
use units::{Span, Time};

use self::quic::QuicEnd;
use self::tcp::TcpEnd;
use self::udp::UdpEnd;
use crate::Clock;
use crate::driver::sleep;

/// How often an agent may have its turn before its connections have theirs.
const TURNS: usize = 16;

/// An end of an agent.
pub enum EndPlan {
    /// Over QUIC.
    Quic(Box<QuicPlan>),
    /// Over the kernel's TCP.
    Tcp(TcpPlan),
    /// Over UDP.
    Udp(UdpPlan),
}

enum End {
    Quic(Box<QuicEnd>),
    Tcp(Box<TcpEnd>),
    Udp(Box<UdpEnd>),
}

/// What a host and its ends share: the agent, which ends ask for applications, and the clock.
struct Shared<T>(Arc<Mutex<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(self.0.clone())
    }
}

impl<T> Shared<T> {
    fn new(it: T) -> Shared<T> {
        Shared(Arc::new(Mutex::new(it)))
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An agent at work.
pub struct Host<A> {
    agent: Shared<A>,
    /// By which ends count that ask for an application.
    clock: Shared<Clock>,
    ends: Ends,
}

struct Ends {
    ends: Vec<End>,
    clock: Clock,
    /// What wakes the agent beside them.
    beside: Vec<OwnedFd>,
}

impl<A: Agent + 'static> Host<A> {
    /// Opens the sockets of `plans`, an end each.
    ///
    /// # Errors
    /// What is wrong with an end, or the kernel's.
    pub fn new(agent: A, plans: Vec<EndPlan>) -> io::Result<Host<A>> {
        // A wake-up may otherwise be 50 microseconds late (prctl(2)).
        nix::sys::prctl::set_timerslack(1)?;
        let (agent, clock) = (Shared::new(agent), Clock::start());
        let shared = Shared::new(clock);
        let mut ends = Vec::new();
        for (end, plan) in plans.into_iter().enumerate() {
            let (agent, shared) = (agent.clone(), shared.clone());
            let make = Box::new(move |connection| {
                let now = shared.lock().now();
                agent.lock().accept(now, Handle { end, connection })
            });
            ends.push(match plan {
                EndPlan::Quic(plan) => End::Quic(Box::new(QuicEnd::new(*plan, clock, make)?)),
                EndPlan::Tcp(plan) => End::Tcp(Box::new(TcpEnd::new(plan)?)),
                EndPlan::Udp(plan) => End::Udp(Box::new(UdpEnd::new(plan, make)?)),
            });
        }
        Ok(Host { agent, clock: shared, ends: Ends { ends, clock, beside: Vec::new() } })
    }

    /// Its time zero is when CLOCK_MONOTONIC shows or showed `ns`, in place of its start: before its first turn.
    pub fn set_zero(&mut self, ns: u64) {
        let clock = Clock::since(ns);
        *self.clock.lock() = clock;
        self.ends.clock = clock;
        for end in &mut self.ends.ends {
            if let End::Quic(quic) = end {
                quic.driver.clock = clock;
            }
        }
    }

    /// Has its turns while `what` can be read, too: the agent reads it.
    pub fn watch(&mut self, what: OwnedFd) {
        self.ends.beside.push(what);
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.ends.clock.now()
    }

    /// The agent, between two turns.
    pub fn agent(&self) -> MutexGuard<'_, A> {
        self.agent.lock()
    }

    /// Where an end answers.
    ///
    /// # Errors
    /// The kernel's; an end that does not answer.
    pub fn local(&self, end: usize) -> io::Result<SocketAddr> {
        match &self.ends.ends[end] {
            End::Quic(quic) => quic.driver.socket.local(),
            End::Tcp(tcp) => tcp.local(),
            End::Udp(udp) => udp.socket.local(),
        }
    }

    /// Connections of an end that are not over.
    pub fn open(&self, end: usize) -> usize {
        match &self.ends.ends[end] {
            End::Quic(quic) => quic.open(),
            End::Tcp(tcp) => tcp.open(),
            End::Udp(udp) => udp.open(),
        }
    }

    /// The other side's address of a connection; none: it is gone.
    pub fn peer(&self, handle: Handle) -> Option<SocketAddr> {
        match &self.ends.ends[handle.end] {
            End::Quic(quic) => quic.peer(handle.connection),
            End::Tcp(tcp) => tcp.peer(handle.connection),
            End::Udp(udp) => Some(udp.peer()),
        }
    }

    /// Works until `stop` is set; all connections are ended then.
    ///
    /// # Errors
    /// The kernel's.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        while !stop.load(Ordering::Relaxed) {
            self.turn(Time::MAX)?;
        }
        self.close();
        Ok(())
    }

    /// Ends all connections.
    pub fn close(&mut self) {
        let now = self.now();
        for end in &mut self.ends.ends {
            match end {
                End::Quic(quic) => quic.close(now),
                End::Tcp(tcp) => tcp.close(now),
                End::Udp(udp) => udp.close(now),
            }
        }
    }

    /// One turn: sleeps until something comes or is due, at the longest until `until`, and does it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn turn(&mut self, until: Time) -> io::Result<()> {
        let agent = self.agent.lock().wake_at();
        self.ends.sleep(agent.min(until))?;
        for (end, it) in self.ends.ends.iter_mut().enumerate() {
            match it {
                End::Quic(quic) => quic.work()?,
                End::Tcp(tcp) => {
                    let (now, agent) = (self.ends.clock.now(), &self.agent);
                    tcp.work(now, &mut |connection| {
                        agent.lock().accept(now, Handle { end, connection })
                    })?;
                }
                End::Udp(udp) => udp.work(self.ends.clock.now()),
            }
        }
        self.settle();
        Ok(())
    }

    /// Tells the agent what its connections have said, and gives it its turn.
    fn settle(&mut self) {
        let mut agent = self.agent.lock();
        for _ in 0..TURNS {
            let now = self.ends.clock.now();
            for (end, it) in self.ends.ends.iter_mut().enumerate() {
                let (said, ended) = match it {
                    End::Quic(quic) => (quic.take_said(), quic.take_ended()),
                    End::Tcp(tcp) => (tcp.take_said(), tcp.take_ended()),
                    End::Udp(udp) => (udp.take_said(), udp.take_ended()),
                };
                for (connection, notice) in said {
                    agent.hear(now, Handle { end, connection }, notice);
                }
                for (connection, why) in ended {
                    agent.ended(now, Handle { end, connection }, &why);
                }
            }
            if agent.wake_at() > now {
                return;
            }
            agent.wake(now, &mut self.ends);
        }
    }
}

impl Ends {
    /// Takes over what has come, and sleeps until something does or is due.
    fn sleep(&mut self, until: Time) -> io::Result<()> {
        let (mut any, mut due) = (false, until);
        for end in &mut self.ends {
            match end {
                End::Quic(quic) => {
                    any |= quic.driver.take_in()?;
                    due = due.min(quic.driver.wake_at());
                }
                End::Tcp(tcp) => due = due.min(tcp.wake_at()),
                End::Udp(udp) => {
                    any |= udp.take_in(self.clock.now())?;
                    due = due.min(udp.wake_at());
                }
            }
        }
        let now = self.clock.now();
        if any || due <= now {
            return Ok(());
        }
        let watched = self.ends.iter().map(|end| match end {
            End::Quic(quic) => {
                let socket = &quic.driver.socket;
                (socket as &dyn AsFd, socket.is_blocked())
            }
            End::Tcp(tcp) => (&**tcp as &dyn AsFd, false),
            End::Udp(udp) => (&udp.socket as &dyn AsFd, udp.socket.is_blocked()),
        });
        let beside = self.beside.iter().map(|one| (one as &dyn AsFd, false));
        let watched: Vec<(&dyn AsFd, bool)> = watched.chain(beside).collect();
        sleep(&watched, Span(due.0 - now.0))?;
        for end in &mut self.ends {
            match end {
                End::Quic(quic) => quic.driver.take_in().map(drop)?,
                End::Udp(udp) => udp.take_in(self.clock.now()).map(drop)?,
                End::Tcp(_) => {}
            }
        }
        Ok(())
    }
}

impl Lines for Ends {
    fn dial(&mut self, end: usize, peer: &str, app: Box<dyn App>) -> Result<Handle, String> {
        let address: SocketAddr =
            peer.parse().map_err(|_| format!("found \"{peer}\", expected ADDRESS:PORT"))?;
        let now = self.clock.now();
        let connection = match &mut self.ends[end] {
            End::Quic(quic) => quic.dial(now, address, app)?,
            End::Tcp(tcp) => tcp.dial(now, address, app)?,
            End::Udp(udp) => udp.dial(now, address, app)?,
        };
        Ok(Handle { end, connection })
    }

    fn say(&mut self, handle: Handle, order: Order) {
        match &mut self.ends[handle.end] {
            End::Quic(quic) => quic.say(handle.connection, order),
            End::Tcp(tcp) => tcp.say(handle.connection, order),
            End::Udp(udp) => udp.say(handle.connection, order),
        }
    }

    fn abort(&mut self, handle: Handle) {
        let now = self.clock.now();
        match &mut self.ends[handle.end] {
            End::Quic(quic) => quic.abort(now, handle.connection),
            End::Tcp(tcp) => tcp.abort(now, handle.connection),
            End::Udp(udp) => udp.abort(now, handle.connection),
        }
    }
}
