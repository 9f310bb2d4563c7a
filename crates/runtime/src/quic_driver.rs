//! The poll loop: passes received datagrams to the endpoint, polls the endpoint, sends its output, and sleeps until the
//! next event.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::BytesMut;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use transport::Endpoint as _;
use transport::quic::{InboundDatagram, QuicEndpoint};
use units::{Span, Time};

use crate::{BatchedUdpSocket, Clock};

/// The maximum of receive calls before the endpoint is polled, so that ACKs are not delayed.
const MAX_RECEIVE_ROUNDS: usize = 4;

/// The longest sleep, so that a signal that arrived just before the sleep is noticed.
const MAX_SLEEP: Span = Span(50_000_000);

/// An endpoint on a socket, under the real clock.
pub struct QuicDriver {
    /// The endpoint.
    pub endpoint: QuicEndpoint,
    /// The socket of the endpoint.
    pub socket: BatchedUdpSocket,
    /// The clock.
    pub clock: Clock,
}

impl QuicDriver {
    /// Creates a driver and starts its clock.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn new(endpoint: QuicEndpoint, socket: BatchedUdpSocket) -> io::Result<QuicDriver> {
        // The default timer slack delays a wake-up by up to 50 microseconds (prctl(2)), which disturbs the pacer.
        nix::sys::prctl::set_timerslack(1)?;
        Ok(QuicDriver { endpoint, socket, clock: Clock::start() })
    }

    /// Sleeps until input, a deadline or `until`, then does the due work.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn poll_once(&mut self, until: Time) -> io::Result<()> {
        let any = self.receive_pending()?;
        if !any {
            let now = self.clock.now();
            let due = self.poll_at().min(until);
            if due > now {
                let watched = (&self.socket as &dyn AsFd, self.socket.is_blocked());
                sleep_until_ready(&[watched], due.since(now))?;
                self.receive()?;
            }
        }
        self.poll_endpoint()
    }

    /// Receives pending datagrams, up to the limit per poll. Returns whether there were any.
    pub(crate) fn receive_pending(&mut self) -> io::Result<bool> {
        let mut any = false;
        for _ in 0..MAX_RECEIVE_ROUNDS {
            if !self.receive()? {
                break;
            }
            any = true;
        }
        Ok(any)
    }

    /// Returns the next deadline without input.
    pub(crate) fn poll_at(&mut self) -> Time {
        if self.socket.is_blocked() { Time::MAX } else { self.endpoint.poll_at() }
    }

    /// Polls the connections that have input or are due, and sends their output.
    pub(crate) fn poll_endpoint(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        // A blocked socket also blocks the endpoint, because the socket would drop its output.
        if self.socket.flush() {
            self.endpoint.poll_all(now, &mut self.socket);
        }
        if let Some(error) = self.socket.take_error() {
            return Err(error);
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<bool> {
        let count = self.socket.receive()?;
        let now = self.clock.now();
        for index in 0..count {
            let train = self.socket.received_batch(index);
            let (remote, local, ecn, segment) =
                (train.peer, train.local_ip, train.ecn, train.segment_size);
            let mut rest = BytesMut::from(train.data);
            while !rest.is_empty() {
                let data = rest.split_to(segment.clamp(1, rest.len()));
                let arrival = InboundDatagram { remote, local, ecn, data };
                self.endpoint.push(now, arrival, &mut self.socket);
            }
        }
        Ok(count > 0)
    }
}

/// Sleeps until one of `watched` is readable (or writable, where requested), at most for `span`. A long `span` is
/// shortened, so that a signal that arrived just before is noticed.
///
/// # Errors
/// An error of the kernel.
pub(crate) fn sleep_until_ready(watched: &[(&dyn AsFd, bool)], span: Span) -> io::Result<()> {
    let polled = watched.iter().map(|(what, writes)| {
        let mut events = PollFlags::POLLIN;
        if *writes {
            events |= PollFlags::POLLOUT;
        }
        PollFd::new(what.as_fd(), events)
    });
    let mut polled: Vec<PollFd<'_>> = polled.collect();
    let nap = Duration::from_nanos(span.min(MAX_SLEEP).nanos());
    match ppoll(&mut polled, Some(TimeSpec::from_duration(nap)), None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
