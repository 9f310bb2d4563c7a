//! One direction of a path under the real clock: what comes at one end leaves, through the lines, at the other.
//!
//! Packets go into the lines with the instant at which they came, and the lines never get ahead of one that
//! may still come: a thread that runs late sees the same departures, later.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use nix::time::ClockId;
use path::{Cause, Change, Histogram, Line, Output, UserQueue, UserTally};
use units::{Packet, Span, Time};

use crate::frame::Users;
use crate::guests::{self, Guests};
use crate::io::{Io, Received};
use crate::{clock, frame};

/// Packets received before the lines get their turn.
const BATCH: usize = 64;

/// How often the shared picture of the direction is renewed.
const PICTURE: Span = Span(100_000_000);

/// What a direction has done so far.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Packets that came.
    pub packets_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets dropped by the path, in the order of [`Cause::ALL`].
    pub dropped: [u64; Cause::ALL.len()],
    /// Frames that are no IP packet, which are not passed on.
    pub foreign: u64,
    /// Packets the far device did not take, and super-frames of the first that could not be cut.
    pub refused: u64,
    /// Packets in queues and waiting there, bytes.
    pub queued: (u64, u64),
    /// What each user had of the first radio link; empty without one.
    pub users: Vec<UserTally>,
    /// What became of each user's packets in the first scheduler's queues; empty without one.
    pub queues: Vec<UserQueue>,
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

/// Frames in transit, by handle; before each the headroom that the far end wants.
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
pub(crate) struct Direction<I> {
    io: I,
    lines: Vec<Line>,
    users: Users,
    guests: Option<Guests>,
    store: Store,
    progress: Progress,
    shared: Arc<Mutex<Progress>>,
    changes: Changes,
    /// What came at once, what the lines gave, and what they gave before: empty between the calls.
    came: Vec<Packet>,
    output: Output,
    delivered: Vec<(Time, Packet)>,
}

impl<I: Io> Direction<I> {
    /// Packets that `io` receives, which are of `users`, pass `lines` in order and are sent by it.
    pub fn new(
        io: I,
        lines: Vec<Line>,
        users: Users,
        shared: Arc<Mutex<Progress>>,
        changes: Changes,
    ) -> Direction<I> {
        let store = Store { headroom: io.headroom(), frames: Vec::new(), free: Vec::new() };
        Direction {
            io,
            lines,
            users,
            guests: None,
            store,
            progress: Progress::default(),
            shared,
            changes,
            came: Vec::new(),
            output: Output::default(),
            delivered: Vec::new(),
        }
    }

    /// With packets that pass no device.
    pub fn beside(self, guests: Option<Guests>) -> Direction<I> {
        Direction { guests, ..self }
    }

    /// Runs until `stop`.
    ///
    /// # Errors
    /// A device that is gone.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut renewed = Time::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let now = self.receive()?;
            if let Some(guests) = &self.guests {
                guests.take(&mut self.came);
                self.arrive(now);
            }
            self.advance(now);
            if now.since(renewed) >= PICTURE {
                renewed = now;
                self.publish(now);
            }
            let next = self.lines.iter().map(Line::poll_at).min().unwrap_or(Time::MAX);
            self.io.wait(next)?;
        }
        self.publish(self.io.now());
        Ok(())
    }

    /// Takes in what has come, a batch at most; the instant up to which that was everything.
    fn receive(&mut self) -> io::Result<Time> {
        let (mut last, mut count) = (Time::ZERO, 0);
        while count < BATCH {
            match self.io.receive()? {
                Received::Packets(now, packets) => {
                    for index in 0..packets.len() {
                        let frame = packets.get(index);
                        let Some(ecn) = frame::ecn(frame) else {
                            self.progress.foreign += 1;
                            continue;
                        };
                        let handle = self.store.put(frame);
                        self.came
                            .push(Packet { handle, ..frame::header(frame, ecn, now, &self.users) });
                    }
                    count += packets.len();
                    last = now;
                    self.arrive(now);
                }
                Received::Refused(now) => {
                    self.progress.packets_in += 1;
                    self.progress.refused += 1;
                    count += 1;
                    last = now;
                }
                Received::Nothing(now) => return Ok(now),
            }
        }
        Ok(last)
    }

    /// Gives what came at `now` to the first line.
    fn arrive(&mut self, now: Time) {
        self.progress.packets_in += self.came.len() as u64;
        for place in 0..self.came.len() {
            let packet = self.came[place];
            match self.lines.first_mut() {
                Some(line) => line.push(now, packet, &mut self.output),
                None => self.output.delivered.push((now, packet)),
            }
            self.pass_on(0);
        }
        self.came.clear();
    }

    /// All work due by `now`, line after line: what one delivers by then the next takes.
    fn advance(&mut self, now: Time) {
        for index in 0..self.lines.len() {
            self.lines[index].poll(now, &mut self.output);
            self.pass_on(index);
        }
    }

    /// Gives what line `index` has delivered to the lines after it, and at the end to the world.
    fn pass_on(&mut self, index: usize) {
        let mut place = index;
        loop {
            for (_, packet, cause) in self.output.dropped.drain(..) {
                self.progress.dropped[cause as usize] += 1;
                match &self.guests {
                    Some(guests) if guests::is_guest(&packet) => guests.dropped(&packet),
                    _ => self.store.free.push(packet.handle),
                }
            }
            if self.output.delivered.is_empty() {
                return;
            }
            std::mem::swap(&mut self.delivered, &mut self.output.delivered);
            place += 1;
            for turn in 0..self.delivered.len() {
                let (due, packet) = self.delivered[turn];
                match self.lines.get_mut(place) {
                    Some(line) => line.push(due, packet, &mut self.output),
                    None => self.leave(due, &packet),
                }
            }
            self.delivered.clear();
        }
    }

    fn leave(&mut self, due: Time, packet: &Packet) {
        if let Some(guests) = self.guests.as_ref().filter(|_| guests::is_guest(packet)) {
            self.progress.packets_out += 1;
            self.progress.bytes_out += u64::from(packet.bytes);
            self.progress.lateness.record(self.io.now().since(due));
            return guests.arrived(due, packet);
        }
        let stored = &mut self.store.frames[packet.handle as usize];
        let frame = &mut stored[self.store.headroom..];
        if frame::ecn(frame) != Some(packet.ecn) {
            frame::set_ecn(frame, packet.ecn);
        }
        let length = frame.len() as u64;
        match self.io.send(due, stored) {
            Ok(()) => {
                self.progress.packets_out += 1;
                self.progress.bytes_out += length;
            }
            Err(_) => self.progress.refused += 1,
        }
        self.progress.lateness.record(self.io.now().since(due));
        self.store.free.push(packet.handle);
    }

    fn publish(&mut self, now: Time) {
        let queued = self.lines.iter().map(Line::gauge).fold((0, 0), |(packets, bytes), gauge| {
            (packets + gauge.queued_packets, bytes + gauge.queued_bytes)
        });
        self.progress.queued = queued;
        if let Some(line) = self.lines.iter().find(|line| !line.users().is_empty()) {
            self.progress.users.clear();
            self.progress.users.extend_from_slice(line.users());
        }
        let queues = self.lines.iter().map(Line::user_queues).find(|queues| !queues.is_empty());
        self.progress.queues = queues.unwrap_or_default();
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

#[cfg(test)]
#[path = "direction_tests.rs"]
mod tests;
