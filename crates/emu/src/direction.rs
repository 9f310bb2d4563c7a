//! One direction of a path under the real clock: what one TUN device reads leaves, through the lines,
//! by another.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::time::ClockId;
use path::{Cause, Change, Histogram, Line, Output};
use units::{Packet, Span, Time};

use crate::calibration::Calibration;
use crate::clock::{self, Clock};
use crate::frame;
use crate::port::{Port, Read};

/// Packets read before the lines get their turn.
const BATCH: usize = 64;

/// Longest sleep, so that a stop is noticed.
const NAP: Span = Span(50_000_000);

/// How often the shared picture of the direction is renewed.
const PICTURE: Span = Span(100_000_000);

/// What a direction has done so far.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Packets read from the first device.
    pub packets_in: u64,
    /// Packets written to the other.
    pub packets_out: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Packets dropped by the path, in the order of [`Cause::ALL`].
    pub dropped: [u64; Cause::ALL.len()],
    /// Frames that are no IP packet, which are not passed on.
    pub foreign: u64,
    /// Packets the far device did not take, and super-frames of the first that could not be cut.
    pub refused: u64,
    /// Packets in queues and waiting there, bytes.
    pub queued: (u64, u64),
    /// How late packets left, against the instant that the path gave them.
    pub lateness: Histogram,
    /// Processor time of the direction, ns.
    pub cpu_ns: u64,
    /// When this was written.
    pub at: Time,
}

impl Progress {
    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        let gone = self.packets_out + self.refused + self.dropped.iter().sum::<u64>();
        self.packets_in == gone
    }
}

/// Changes to make while a direction runs: line, stage of the line, what.
pub(crate) type Changes = Arc<Mutex<Vec<(usize, usize, Change)>>>;

/// Frames in transit, by handle; before each the headroom that the far device wants.
struct Store {
    headroom: usize,
    frames: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Store {
    fn put(&mut self, frame: &[u8]) -> u32 {
        let handle = self.free.pop().unwrap_or_else(|| {
            self.frames.push(Vec::with_capacity(2048));
            (self.frames.len() - 1) as u32
        });
        let slot = &mut self.frames[handle as usize];
        slot.clear();
        slot.resize(self.headroom, 0);
        slot.extend_from_slice(frame);
        handle
    }
}

/// One direction, ready to run.
pub struct Direction {
    from: Port,
    to: Port,
    lines: Vec<Line>,
    clock: Clock,
    calibration: Calibration,
    store: Store,
    progress: Progress,
    shared: Arc<Mutex<Progress>>,
    changes: Changes,
}

impl Direction {
    /// Packets that `from` reads pass `lines` in order and leave by `to`.
    pub(crate) fn new(
        from: Port,
        to: Port,
        lines: Vec<Line>,
        clock: Clock,
        calibration: Calibration,
        shared: Arc<Mutex<Progress>>,
        changes: Changes,
    ) -> Direction {
        let store = Store { headroom: to.headroom(), frames: Vec::new(), free: Vec::new() };
        let progress = Progress::default();
        Direction { from, to, lines, clock, calibration, store, progress, shared, changes }
    }

    /// Runs until `stop`.
    ///
    /// # Errors
    /// A device that is gone.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        clock::sharpen()?;
        self.from.device.set_nonblocking(true)?;
        let mut reader = self.from.reader();
        let mut output = Output::default();
        let mut renewed = Time::ZERO;
        // Since when the thread slept, if a packet woke it.
        let mut asleep = None;
        // What the last long sleep was for.
        let mut aimed = Time::MAX;
        while !stop.load(Ordering::Relaxed) {
            let mut now = self.clock.now();
            let mut count = 0;
            while count < BATCH {
                let packets = match reader.read()? {
                    Read::Packets(packets) => packets,
                    Read::Refused => {
                        self.progress.packets_in += 1;
                        self.progress.refused += 1;
                        count += 1;
                        continue;
                    }
                    Read::Nothing => break,
                };
                now = self.clock.now();
                if let Some(asleep) = asleep {
                    now = self.calibration.arrived(asleep, now);
                }
                for index in 0..packets.len() {
                    self.arrive(now, packets.get(index), &mut output);
                }
                count += packets.len();
            }
            now = self.clock.now().max(now);
            self.advance(now, &mut output);
            if now.since(renewed) >= PICTURE {
                renewed = now;
                self.publish(now);
            }
            let next = self.lines.iter().map(Line::poll_at).min().unwrap_or(Time::MAX);
            let now = self.clock.now();
            let pause = if next > now + NAP {
                Duration::from_nanos(NAP.nanos())
            } else {
                self.calibration.pause(now, next, &mut aimed)
            };
            asleep = clock::readable(&*self.from.device, pause)?.then_some(now);
        }
        self.publish(self.clock.now());
        Ok(())
    }

    fn arrive(&mut self, now: Time, frame: &[u8], output: &mut Output) {
        let Some(ecn) = frame::ecn(frame) else {
            self.progress.foreign += 1;
            return;
        };
        self.progress.packets_in += 1;
        let handle = self.store.put(frame);
        let packet = Packet { handle, ..frame::header(frame, ecn, now) };
        match self.lines.first_mut() {
            Some(line) => line.push(now, packet, output),
            None => output.delivered.push((now, packet)),
        }
        self.pass_on(0, output);
    }

    /// All work due by `now`, line after line: what one delivers by then the next takes.
    fn advance(&mut self, now: Time, output: &mut Output) {
        for index in 0..self.lines.len() {
            self.lines[index].poll(now, output);
            self.pass_on(index, output);
        }
    }

    /// Gives what line `index` has delivered to the lines after it, and at the end to the device.
    fn pass_on(&mut self, index: usize, output: &mut Output) {
        let mut place = index;
        loop {
            for (_, packet, cause) in output.dropped.drain(..) {
                self.progress.dropped[cause as usize] += 1;
                self.store.free.push(packet.handle);
            }
            if output.delivered.is_empty() {
                return;
            }
            let delivered = std::mem::take(&mut output.delivered);
            place += 1;
            for (due, packet) in &delivered {
                match self.lines.get_mut(place) {
                    Some(line) => line.push(*due, *packet, output),
                    None => self.leave(*due, packet),
                }
            }
        }
    }

    fn leave(&mut self, due: Time, packet: &Packet) {
        let stored = &mut self.store.frames[packet.handle as usize];
        let frame = &mut stored[self.store.headroom..];
        if frame::ecn(frame) != Some(packet.ecn) {
            frame::set_ecn(frame, packet.ecn);
        }
        let length = frame.len() as u64;
        match self.to.device.send(stored) {
            Ok(_) => {
                self.progress.packets_out += 1;
                self.progress.bytes_out += length;
            }
            Err(_) => self.progress.refused += 1,
        }
        self.progress.lateness.record(self.clock.now().since(due));
        self.store.free.push(packet.handle);
    }

    fn publish(&mut self, now: Time) {
        let queued = self.lines.iter().map(Line::gauge).fold((0, 0), |(packets, bytes), gauge| {
            (packets + gauge.queued_packets, bytes + gauge.queued_bytes)
        });
        self.progress.queued = queued;
        self.progress.at = now;
        self.progress.cpu_ns = clock::read(ClockId::CLOCK_THREAD_CPUTIME_ID);
        if let Ok(mut shared) = self.shared.lock() {
            shared.clone_from(&self.progress);
        }
        if let Ok(mut changes) = self.changes.lock() {
            for (line, stage, change) in changes.drain(..) {
                self.lines[line].change(now, stage, &change);
            }
        }
    }
}
