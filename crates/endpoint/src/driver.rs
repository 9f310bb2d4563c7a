//! The poll loop: what arrives goes to the endpoint, the endpoint works, what leaves goes to the socket,
//! and the loop sleeps until the next of all that.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::BytesMut;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use transport::Endpoint as _;
use transport::quic::{Arrival, Endpoint};
use units::{Span, Time};

use crate::{Clock, Socket};

/// Calls to the kernel for arrivals before the endpoint has its turn, so that ACKs are not held up.
const ROUNDS: usize = 4;

/// Longest sleep, so that a signal that came just before it is noticed.
const NAP: Span = Span(50_000_000);

/// An endpoint on its socket, under the real clock.
pub struct Driver {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its socket.
    pub socket: Socket,
    /// The clock.
    pub clock: Clock,
}

impl Driver {
    /// A driver that has not begun.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(endpoint: Endpoint, socket: Socket) -> io::Result<Driver> {
        // A wake-up may otherwise be 50 microseconds late (prctl(2)), which the pacer would feel.
        nix::sys::prctl::set_timerslack(1)?;
        Ok(Driver { endpoint, socket, clock: Clock::start() })
    }

    /// One turn: sleeps until something arrives or is due, at the longest until `until`, and does it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn turn(&mut self, until: Time) -> io::Result<()> {
        self.turn_beside(until, None)
    }

    /// The same, and sleeps no longer when `beside` can be read.
    ///
    /// # Errors
    /// The kernel's.
    pub fn turn_beside(&mut self, until: Time, beside: Option<&dyn AsFd>) -> io::Result<()> {
        let any = self.take_in()?;
        if !any {
            let now = self.clock.now();
            let due = self.wake_at().min(until);
            if due > now {
                self.sleep(due.since(now), beside)?;
                self.receive()?;
            }
        }
        self.work()
    }

    /// Takes over what has come, as much as one turn may; whether there was anything.
    pub(crate) fn take_in(&mut self) -> io::Result<bool> {
        let mut any = false;
        for _ in 0..ROUNDS {
            if !self.receive()? {
                break;
            }
            any = true;
        }
        Ok(any)
    }

    /// When it has something to do though nothing comes.
    pub(crate) fn wake_at(&mut self) -> Time {
        if self.socket.is_blocked() { Time::MAX } else { self.endpoint.wake_at() }
    }

    /// Lets those work that have been fed or are due, and sends.
    pub(crate) fn work(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        // A blocked socket holds the endpoint back too: what it would send now would only be dropped.
        if self.socket.flush() {
            self.endpoint.run_all(now, &mut self.socket);
        }
        if let Some(error) = self.socket.take_failure() {
            return Err(error);
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<bool> {
        let count = self.socket.receive()?;
        let now = self.clock.now();
        for index in 0..count {
            let train = self.socket.train(index);
            let (remote, local, ecn, segment) = (train.from, train.to, train.ecn, train.segment);
            let mut rest = BytesMut::from(train.data);
            while !rest.is_empty() {
                let data = rest.split_to(segment.clamp(1, rest.len()));
                let arrival = Arrival { remote, local, ecn, data };
                self.endpoint.feed(now, arrival, &mut self.socket);
            }
        }
        Ok(count > 0)
    }

    fn sleep(&self, span: Span, beside: Option<&dyn AsFd>) -> io::Result<()> {
        let mut watched: Vec<(&dyn AsFd, bool)> = vec![(&self.socket, self.socket.is_blocked())];
        watched.extend(beside.map(|other| (other, false)));
        sleep(&watched, span)
    }
}

/// Sleeps until one of `watched` can be read, or written to where that is waited for too, at the longest
/// for `span`; less, if that is long, so that a signal that came just before is noticed.
///
/// # Errors
/// The kernel's.
pub fn sleep(watched: &[(&dyn AsFd, bool)], span: Span) -> io::Result<()> {
    let polled = watched.iter().map(|(what, writes)| {
        let mut events = PollFlags::POLLIN;
        if *writes {
            events |= PollFlags::POLLOUT;
        }
        PollFd::new(what.as_fd(), events)
    });
    let mut polled: Vec<PollFd<'_>> = polled.collect();
    let nap = Duration::from_nanos(span.min(NAP).nanos());
    match ppoll(&mut polled, Some(TimeSpec::from_duration(nap)), None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
