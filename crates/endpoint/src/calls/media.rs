//! One side's datagrams: they leave when they are full by this side's clock, and are heard.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use transport::calls::{Head, Heard, Source, SourceSpec};
use units::{RandomStream, Span, Time};

use crate::clock::Clock;
use crate::ticks::Ticks;

/// Longest sleep: so soon a wish to stop is noticed. A side that only hears is to be up so often.
const NAP: Span = Span::from_millis(100);

/// A datagram that took longer is not heard.
pub(super) const LATEST: Span = Span::from_secs(10);

/// Width of a class of lateness, and how many there are: what is later than a second is a second late.
const CLASS: Span = Span::from_micros(10);
const CLASSES: usize = 100_000;

/// Datagrams that are heard before anything else is looked at.
const BATCH: usize = 64;

/// The largest datagram.
const LARGEST: usize = 1 << 16;

/// One side of a call.
pub struct Media {
    socket: UdpSocket,
    clock: Clock,
    source: Option<Source>,
    heard: Heard,
    /// What the other side's clock shows more than this one's, ns. The calling side alone knows it, and reckons both
    /// ways; the answering side takes it for 0.
    offset_ns: i64,
    /// What the source said before there was anybody to say it to, by window.
    unsaid: BTreeMap<u32, u64>,
    /// Times that this side had something to do, by how late it was, in classes.
    late: BTreeMap<usize, u64>,
    buffer: Vec<u8>,
}

impl Media {
    /// A side that has sent as `spec` says since `start`, of which the other hears what is due from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(
        socket: UdpSocket,
        clock: Clock,
        spec: Option<&SourceSpec>,
        (start, duration): (Time, Span),
        offset_ns: i64,
        random: RandomStream,
    ) -> io::Result<Media> {
        socket.set_nonblocking(true)?;
        let mut source = spec.map(|spec| Source::new(spec, start, duration, random));
        let mut unsaid = BTreeMap::new();
        if let Some(source) = &mut source {
            let now = clock.now();
            while source.take(now).is_some() {}
            unsaid.clone_from(&source.said().sent);
        }
        Ok(Media {
            socket,
            clock,
            source,
            heard: Heard::default(),
            offset_ns,
            unsaid,
            late: BTreeMap::new(),
            buffer: vec![0; LARGEST],
        })
    }

    /// Sends and hears until `end`, or until it is to stop.
    ///
    /// # Errors
    /// The kernel's, but for those that only say that the other side does not listen.
    pub fn run(&mut self, end: Time, stop: &dyn Fn() -> bool) -> io::Result<()> {
        let mut ticks = Ticks::new(self.clock.now(), NAP);
        loop {
            let now = self.clock.now();
            if self.source.is_none() {
                ticks.take(now, end).for_each(|late| self.note(late));
            }
            if now >= end || stop() {
                return Ok(());
            }
            self.send(now)?;
            let due = match &self.source {
                Some(source) => source.wake_at().min(self.clock.now() + NAP),
                None => ticks.next(),
            };
            self.wait(due.min(end))?;
            self.hear()?;
        }
    }

    /// Waits for a datagram until `wake`.
    fn wait(&self, wake: Time) -> io::Result<()> {
        let span = wake.since(self.clock.now());
        let mut sockets = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match ppoll(
            &mut sockets,
            Some(TimeSpec::from_duration(Duration::from_nanos(span.nanos()))),
            None,
        ) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Something was done so late.
    fn note(&mut self, late: Span) {
        let class = (late.nanos() / CLASS.nanos()) as usize;
        *self.late.entry(class.min(CLASSES)).or_default() += 1;
    }

    /// How late this side was: of 95 % of its datagrams, or of the instants at which it was to be up if it sends none, no
    /// later than this, ns.
    pub fn late_ns(&self) -> Option<u64> {
        let all: u64 = self.late.values().sum();
        let mut before = 0;
        let class = self.late.iter().find(|(_, count)| {
            before += *count;
            before * 100 >= all * 95
        });
        class.map(|(class, _)| (*class as u64 + 1) * CLASS.nanos())
    }

    /// Sends a datagram that says nothing.
    ///
    /// # Errors
    /// As [`Media::run`].
    pub fn knock(&self) -> io::Result<()> {
        tolerate(self.socket.send(&[]).map(|_| ()))
    }

    fn send(&mut self, now: Time) -> io::Result<()> {
        while let Some(source) = &mut self.source
            && let Some(head) = source.take(now)
        {
            let spec = &source.said().spec;
            let (rtp_type, bytes) = (spec.rtp_type, spec.payload_bytes as usize);
            self.buffer[..bytes].fill(0);
            // By the other side's clock.
            let due = self.clock.monotonic_ns(head.due).wrapping_add_signed(self.offset_ns);
            let told = Head { due: Time(due), ..head };
            told.write(rtp_type, &mut self.buffer[..bytes]);
            tolerate(self.socket.send(&self.buffer[..bytes]).map(|_| ()))?;
            self.note(now.since(head.due));
        }
        Ok(())
    }

    /// Hears what is there, a batch at most: the source gets its turn.
    fn hear(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            match self.socket.recv(&mut self.buffer) {
                Ok(count) => {
                    let now = self.clock.now();
                    if let Some(head) = Head::read(&self.buffer[..count])
                        && let Some(due) = self.own(head.due)
                    {
                        // Two clocks that are compared over a network may put it in the future.
                        self.heard.take(now, &Head { due: due.min(now), ..head });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => tolerate(Err(error))?,
            }
        }
        Ok(())
    }

    /// An instant of the other machine by this clock; none if it cannot be.
    fn own(&self, due: Time) -> Option<Time> {
        let monotonic = i128::from(due.nanos()) - i128::from(self.offset_ns);
        let began = i128::from(self.clock.monotonic_ns(Time::ZERO));
        let at = u64::try_from(monotonic - began).ok()?;
        // What is older is of no use to anybody, nor kept by milliseconds for strangers.
        (at.abs_diff(self.clock.now().nanos()) < LATEST.nanos()).then_some(Time(at))
    }

    /// What was sent, by window.
    pub fn sent(&self) -> BTreeMap<u32, u64> {
        let mut sent =
            self.source.as_ref().map(|source| source.said().sent.clone()).unwrap_or_default();
        for (window, count) in &self.unsaid {
            if let Some(said) = sent.get_mut(window) {
                *said -= count;
            }
        }
        sent.retain(|_, count| *count > 0);
        sent
    }

    /// What was heard.
    pub fn heard(&self) -> &Heard {
        &self.heard
    }
}

/// Errors that pass: nothing came in time, a full queue, a port that is closed already.
fn tolerate(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionRefused => Ok(()),
            _ if error.raw_os_error() == Some(nix::libc::ENOBUFS) => Ok(()),
            _ => Err(error),
        },
        done => done,
    }
}

/// Whether `stop` is set.
pub fn stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Datagrams come all the time, and the process is away for 250 ms at the beginning: every tick until the end counts, and
    /// the first one is late by what it was slept through.
    #[test]
    fn a_side_that_only_hears_is_late_for_every_tick_that_it_misses() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (here, there) = (socket(), socket());
        here.connect(there.local_addr().unwrap()).unwrap();
        there.connect(here.local_addr().unwrap()).unwrap();
        let (clock, random) = (Clock::start(), RandomStream::named(1, "call", "periods client"));
        let start = clock.now();
        let call = (start, Span::from_secs(1));
        let mut media = Media::new(here, clock, None, call, 0, random).unwrap();
        let (end, begun) = (clock.now() + Span::from_millis(550), Cell::new(None));
        let busy = || {
            if begun.get().is_none() {
                begun.set(Some(clock.now()));
                std::thread::sleep(Duration::from_millis(250));
            }
            there.send(&[0; 30]).unwrap();
            false
        };
        media.run(end, &busy).unwrap();
        let (most, noted) = (end.since(begun.get().unwrap()), media.late.values().sum::<u64>());
        assert!((most.nanos() / NAP.nanos()..=5).contains(&noted), "{noted}");
        assert!(media.late_ns().unwrap() >= 150_000_000, "{:?}", media.late_ns());
    }
}
