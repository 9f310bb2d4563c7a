//! The datagrams of one side: sent when due by the local clock, and received.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use runtime::{Clock, WakeupLag};
use transport::media::{MediaHeader, MediaSource, ReceiverStats, SourceSpec};
use units::{RandomStream, Span, Time};

/// The longest sleep, which limits the delay of a stop. It is also the wake-up interval of a side that only receives.
const MAX_SLEEP: Span = Span::from_millis(100);

/// The maximum delay of a counted datagram.
pub const MAX_DELAY: Span = Span::from_secs(10);

/// The width of a lag bin, and the number of bins: a lag above one second counts as one second.
const LAG_BIN: Span = Span::from_micros(10);
const LAG_BINS: usize = 100_000;

/// The maximum of datagrams received before the source continues.
const MAX_RECEIVES: usize = 64;

/// The maximum length of a datagram in bytes.
const MAX_DATAGRAM_BYTES: usize = 1 << 16;

/// One side of a call.
pub struct MediaSession {
    socket: UdpSocket,
    clock: Clock,
    source: Option<MediaSource>,
    receiver_stats: ReceiverStats,
    /// The offset of the peer's clock from the local one in ns. Only the caller estimates it, and corrects both
    /// directions; the callee uses 0.
    offset_ns: i64,
    /// Datagrams skipped before the session started, by window.
    skipped_by_window: BTreeMap<u32, u64>,
    /// Lag counts by bin.
    lag_counts: BTreeMap<usize, u64>,
    buffer: Vec<u8>,
}

impl MediaSession {
    /// Creates a side with a source that has run by `spec` since `start`. Datagrams due before now are skipped.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn new(
        socket: UdpSocket,
        clock: Clock,
        spec: Option<&SourceSpec>,
        (start, duration): (Time, Span),
        offset_ns: i64,
        random: RandomStream,
    ) -> io::Result<MediaSession> {
        socket.set_nonblocking(true)?;
        let mut source = spec.map(|spec| MediaSource::new(spec, start, duration, random));
        let mut unsaid = BTreeMap::new();
        if let Some(source) = &mut source {
            let now = clock.now();
            while source.next_datagram(now).is_some() {}
            unsaid.clone_from(&source.stats().sent);
        }
        Ok(MediaSession {
            socket,
            clock,
            source,
            receiver_stats: ReceiverStats::default(),
            offset_ns,
            skipped_by_window: unsaid,
            lag_counts: BTreeMap::new(),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
        })
    }

    /// Sends and receives until `end` or a stop.
    ///
    /// # Errors
    /// An error of the kernel, except errors that only report that the peer does not listen.
    pub fn run(&mut self, end: Time, stop: &dyn Fn() -> bool) -> io::Result<()> {
        let mut ticks = WakeupLag::new(self.clock.now(), MAX_SLEEP);
        loop {
            let now = self.clock.now();
            if self.source.is_none() {
                ticks.take_lags(now, end).for_each(|late| self.record_lag(late));
            }
            if now >= end || stop() {
                return Ok(());
            }
            self.send(now)?;
            let due = match &self.source {
                Some(source) => source.poll_at().min(self.clock.now() + MAX_SLEEP),
                None => ticks.next_at(),
            };
            self.wait_readable(due.min(end))?;
            self.receive()?;
        }
    }

    /// Waits for a datagram until `wake`.
    fn wait_readable(&self, wake: Time) -> io::Result<()> {
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

    /// Counts a lag.
    fn record_lag(&mut self, late: Span) {
        let class = (late.nanos() / LAG_BIN.nanos()) as usize;
        *self.lag_counts.entry(class.min(LAG_BINS)).or_default() += 1;
    }

    /// Returns the 95th percentile in ns of the lag of sent datagrams, or of the wake-ups of a side that only receives.
    pub fn lag_p95_ns(&self) -> Option<u64> {
        let all: u64 = self.lag_counts.values().sum();
        let mut before = 0;
        let class = self.lag_counts.iter().find(|(_, count)| {
            before += *count;
            before * 100 >= all * 95
        });
        class.map(|(class, _)| (*class as u64 + 1) * LAG_BIN.nanos())
    }

    /// Sends an empty datagram.
    ///
    /// # Errors
    /// As for [`MediaSession::run`].
    pub fn open_nat_binding(&self) -> io::Result<()> {
        ignore_transient(self.socket.send(&[]).map(|_| ()))
    }

    fn send(&mut self, now: Time) -> io::Result<()> {
        while let Some(source) = &mut self.source
            && let Some(head) = source.next_datagram(now)
        {
            let spec = &source.stats().spec;
            let (rtp_type, bytes) = (spec.rtp_type, spec.payload_bytes as usize);
            self.buffer[..bytes].fill(0);
            // By the clock of the peer.
            let due = self.clock.monotonic_ns(head.due).wrapping_add_signed(self.offset_ns);
            let header = MediaHeader { due: Time(due), ..head };
            header.write(rtp_type, &mut self.buffer[..bytes]);
            ignore_transient(self.socket.send(&self.buffer[..bytes]).map(|_| ()))?;
            self.record_lag(now.since(head.due));
        }
        Ok(())
    }

    /// Receives pending datagrams, up to one batch, so that the source can continue.
    fn receive(&mut self) -> io::Result<()> {
        for _ in 0..MAX_RECEIVES {
            match self.socket.recv(&mut self.buffer) {
                Ok(count) => {
                    let now = self.clock.now();
                    if let Some(head) = MediaHeader::read(&self.buffer[..count])
                        && let Some(due) = self.to_local_time(head.due)
                    {
                        // The estimated offset of two clocks can move the due time into the future.
                        self.receiver_stats
                            .on_datagram(now, &MediaHeader { due: due.min(now), ..head });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => ignore_transient(Err(error))?,
            }
        }
        Ok(())
    }

    /// Converts a time of the other machine to the local clock, `None` if it is out of range.
    fn to_local_time(&self, due: Time) -> Option<Time> {
        let monotonic = i128::from(due.nanos()) - i128::from(self.offset_ns);
        let began = i128::from(self.clock.monotonic_ns(Time::ZERO));
        let at = u64::try_from(monotonic - began).ok()?;
        // Older datagrams are useless, and an untrusted peer must not create bins for them.
        (at.abs_diff(self.clock.now().nanos()) < MAX_DELAY.nanos()).then_some(Time(at))
    }

    /// Returns the sent datagrams by window.
    pub fn sent_by_window(&self) -> BTreeMap<u32, u64> {
        let mut sent =
            self.source.as_ref().map(|source| source.stats().sent.clone()).unwrap_or_default();
        for (window, count) in &self.skipped_by_window {
            if let Some(count_sent) = sent.get_mut(window) {
                *count_sent -= count;
            }
        }
        sent.retain(|_, count| *count > 0);
        sent
    }

    /// Returns the statistics of the receiver.
    pub fn receiver_stats(&self) -> &ReceiverStats {
        &self.receiver_stats
    }
}

/// Ignores transient errors: a timeout, a full queue, a port that is already closed.
fn ignore_transient(done: io::Result<()>) -> io::Result<()> {
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

/// Returns whether `stop` is set.
pub fn is_stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Datagrams arrive continuously and the process sleeps for 250 ms at the start. Every tick until the end counts,
    /// and the first has the lag of this sleep.
    #[test]
    fn a_receiving_side_counts_every_missed_tick_as_late() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (here, there) = (socket(), socket());
        here.connect(there.local_addr().unwrap()).unwrap();
        there.connect(here.local_addr().unwrap()).unwrap();
        let (clock, random) = (Clock::start(), RandomStream::named(1, "call", "periods client"));
        let start = clock.now();
        let call = (start, Span::from_secs(1));
        let mut media = MediaSession::new(here, clock, None, call, 0, random).unwrap();
        let (end, started_at) = (clock.now() + Span::from_millis(550), Cell::new(None));
        let busy = || {
            if started_at.get().is_none() {
                started_at.set(Some(clock.now()));
                std::thread::sleep(Duration::from_millis(250));
            }
            there.send(&[0; 30]).unwrap();
            false
        };
        media.run(end, &busy).unwrap();
        let (elapsed, noted) =
            (end.since(started_at.get().unwrap()), media.lag_counts.values().sum::<u64>());
        assert!((elapsed.nanos() / MAX_SLEEP.nanos()..=5).contains(&noted), "{noted}");
        assert!(media.lag_p95_ns().unwrap() >= 150_000_000, "{:?}", media.lag_p95_ns());
    }
}
