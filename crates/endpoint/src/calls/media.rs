//! One side's datagrams: they leave when they are full by this side's clock, and are heard.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transport::calls::{Head, Heard, Source, SourceSpec};
use units::{Random, Span, Time};

use crate::clock::Clock;

/// Longest sleep: so soon a wish to stop is noticed.
const NAP: Span = Span::from_millis(100);

/// A datagram that took longer is not heard.
const LATEST: Span = Span::from_secs(10);

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
    buffer: Vec<u8>,
}

impl Media {
    /// A side that sends as `spec` says from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(
        socket: UdpSocket,
        clock: Clock,
        spec: Option<&SourceSpec>,
        duration: Span,
        offset_ns: i64,
        random: Random,
    ) -> io::Result<Media> {
        let source = spec.map(|spec| Source::new(spec, clock.now(), duration, random));
        Ok(Media {
            socket,
            clock,
            source,
            heard: Heard::default(),
            offset_ns,
            buffer: vec![0; LARGEST],
        })
    }

    /// Sends and hears until `end`, or until it is to stop.
    ///
    /// # Errors
    /// The kernel's, but for those that only say that the other side does not listen.
    pub fn run(&mut self, end: Time, stop: &dyn Fn() -> bool) -> io::Result<()> {
        loop {
            let now = self.clock.now();
            if now >= end || stop() {
                return Ok(());
            }
            self.send(now)?;
            let next = self.source.as_ref().map_or(Time::MAX, Source::wake_at).min(end);
            let span = next.since(self.clock.now()).min(NAP).max(Span::from_micros(1));
            self.socket.set_read_timeout(Some(Duration::from_nanos(span.nanos())))?;
            self.hear()?;
        }
    }

    /// Sends a datagram that says nothing.
    ///
    /// # Errors
    /// As [`Media::run`].
    pub fn knock(&self) -> io::Result<()> {
        tolerate(self.socket.send(&[]).map(|_| ()))
    }

    fn send(&mut self, now: Time) -> io::Result<()> {
        let Some(source) = &mut self.source else { return Ok(()) };
        while let Some(head) = source.take(now) {
            let spec = &source.said().spec;
            let (rtp_type, bytes) = (spec.rtp_type, spec.payload_bytes as usize);
            self.buffer[..bytes].fill(0);
            // By the other side's clock.
            let due = self.clock.monotonic_ns(head.due).wrapping_add_signed(self.offset_ns);
            let told = Head { due: Time(due), ..head };
            told.write(rtp_type, &mut self.buffer[..bytes]);
            tolerate(self.socket.send(&self.buffer[..bytes]).map(|_| ()))?;
        }
        Ok(())
    }

    fn hear(&mut self) -> io::Result<()> {
        match self.socket.recv(&mut self.buffer) {
            Ok(count) => {
                let now = self.clock.now();
                if let Some(head) = Head::read(&self.buffer[..count])
                    && let Some(due) = self.own(head.due)
                {
                    // Two clocks that are compared over a network may put it in the future.
                    self.heard.take(now, &Head { due: due.min(now), ..head });
                }
                Ok(())
            }
            Err(error) => tolerate(Err(error)),
        }
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
        self.source.as_ref().map(|source| source.said().sent.clone()).unwrap_or_default()
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
