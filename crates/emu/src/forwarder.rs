//! The forwarder of one direction in real time: passes packets from one device through simplex links to another device.
//!
//! Each packet enters the links with its arrival time. The links never advance past a packet that may still arrive, so
//! a late thread produces the same departure times, only later.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use link::{
    DropReason, Histogram, LinkOutput, SimplexLink, StageUpdate, UserLinkStats, UserQueueStats,
};
use nix::time::ClockId;
use units::{Packet, Span, Time};

use crate::classifier::PortUserMap;
use crate::injection::{self, InjectionSink};
use crate::tun_io::{PacketIo, ReceiveResult};
use crate::{classifier, clock};

/// Packets received before the links are polled.
const BATCH: usize = 64;

/// Interval between two updates of the shared statistics.
const PUBLISH_INTERVAL: Span = Span(100_000_000);

/// The statistics of one direction since its start.
#[derive(Clone, Debug, Default)]
pub struct ForwarderStats {
    /// Packets received.
    pub packets_in: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Bytes of the packets sent.
    pub bytes_out: u64,
    /// Packets dropped by the path, in the sequence of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Frames that are not IP packets. They are discarded.
    pub non_ip: u64,
    /// Packets that the output device rejected, and super-frames of the input device that could not be split.
    pub device_rejected: u64,
    /// Packets in queues, and their bytes.
    pub queued: (u64, u64),
    /// The statistics of each user on the first radio link; empty without one.
    pub user_stats: Vec<UserLinkStats>,
    /// The statistics of each user in the queues of the first scheduler; empty without one.
    pub user_queues: Vec<UserQueueStats>,
    /// The delay between the due time of a packet and its transmission.
    pub lateness: Histogram,
    /// Processor time of the thread in ns.
    pub cpu_ns: u64,
    /// The time of this sample.
    pub sampled_at: Time,
}

impl ForwarderStats {
    /// Returns whether no packet is in transit.
    pub fn is_idle(&self) -> bool {
        let finished = self.packets_out + self.device_rejected + self.dropped.iter().sum::<u64>();
        self.packets_in == finished
    }
}

/// Updates to apply while a direction runs: index of the simplex link, index of its stage, update.
pub(crate) type PendingStageUpdates = Arc<Mutex<Vec<(usize, usize, StageUpdate)>>>;

/// Frames in transit, by handle. Each frame starts with the headroom that the output device needs.
struct FrameSlab {
    headroom: usize,
    frames: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl FrameSlab {
    fn insert(&mut self, frame: &[u8]) -> u32 {
        let handle = self.free.pop().unwrap_or_else(|| {
            self.frames.push(Vec::with_capacity(2048));
            (self.frames.len() - 1) as u32
        });
        let frame_buffer = &mut self.frames[handle as usize];
        frame_buffer.clear();
        frame_buffer.resize(self.headroom, 0);
        frame_buffer.extend_from_slice(frame);
        handle
    }
}

/// The forwarder of one direction.
pub(crate) struct Forwarder<I> {
    io: I,
    links: Vec<SimplexLink>,
    users: PortUserMap,
    injection: Option<InjectionSink>,
    frame_slab: FrameSlab,
    stats: ForwarderStats,
    shared_stats: Arc<Mutex<ForwarderStats>>,
    pending_updates: PendingStageUpdates,
    /// Scratch buffers, empty between two calls: packets of one read, output of a link, input of the next link.
    arrivals: Vec<Packet>,
    output: LinkOutput,
    delivered: Vec<(Time, Packet)>,
}

impl<I: PacketIo> Forwarder<I> {
    /// Creates a forwarder that classifies packets of `io` by `users`, passes them through `links` and sends them.
    pub fn new(
        io: I,
        links: Vec<SimplexLink>,
        users: PortUserMap,
        shared_stats: Arc<Mutex<ForwarderStats>>,
        pending_updates: PendingStageUpdates,
    ) -> Forwarder<I> {
        let frame_slab =
            FrameSlab { headroom: io.headroom(), frames: Vec::new(), free: Vec::new() };
        Forwarder {
            io,
            links,
            users,
            injection: None,
            frame_slab,
            stats: ForwarderStats::default(),
            shared_stats,
            pending_updates,
            arrivals: Vec::new(),
            output: LinkOutput::default(),
            delivered: Vec::new(),
        }
    }

    /// Adds a source of injected packets, which cross no device.
    pub fn with_injection(self, injection: Option<InjectionSink>) -> Forwarder<I> {
        Forwarder { injection, ..self }
    }

    /// Runs until `stop` is set.
    ///
    /// # Errors
    /// Returns an error if a device has been removed.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut renewed = Time::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let now = self.receive()?;
            if let Some(injection) = &self.injection {
                injection.take_pending(&mut self.arrivals);
                self.push_arrivals(now);
            }
            self.poll_links(now);
            if now.since(renewed) >= PUBLISH_INTERVAL {
                renewed = now;
                self.publish(now);
            }
            let next = self.links.iter().map(SimplexLink::poll_at).min().unwrap_or(Time::MAX);
            self.io.wait(next)?;
        }
        self.publish(self.io.now());
        Ok(())
    }

    /// Receives at most one batch. Returns the time up to which all arrivals have been received.
    fn receive(&mut self) -> io::Result<Time> {
        let (mut last, mut count) = (Time::ZERO, 0);
        while count < BATCH {
            match self.io.receive()? {
                ReceiveResult::Packets(now, packets) => {
                    for index in 0..packets.len() {
                        let frame = packets.get(index);
                        let Some(ecn) = classifier::ecn(frame) else {
                            self.stats.non_ip += 1;
                            continue;
                        };
                        let handle = self.frame_slab.insert(frame);
                        self.arrivals.push(Packet {
                            handle,
                            ..classifier::classify(frame, ecn, now, &self.users)
                        });
                    }
                    count += packets.len();
                    last = now;
                    self.push_arrivals(now);
                }
                ReceiveResult::Unsplittable(now) => {
                    self.stats.packets_in += 1;
                    self.stats.device_rejected += 1;
                    count += 1;
                    last = now;
                }
                ReceiveResult::Empty(now) => return Ok(now),
            }
        }
        Ok(last)
    }

    /// Pushes the packets that arrived at `now` into the first link.
    fn push_arrivals(&mut self, now: Time) {
        self.stats.packets_in += self.arrivals.len() as u64;
        for index in 0..self.arrivals.len() {
            let packet = self.arrivals[index];
            match self.links.first_mut() {
                Some(link) => link.push(now, packet, &mut self.output),
                None => self.output.delivered.push((now, packet)),
            }
            self.forward_outputs(0);
        }
        self.arrivals.clear();
    }

    /// Does all work due by `now`, link by link. Each link takes the packets that the previous one has delivered.
    fn poll_links(&mut self, now: Time) {
        for index in 0..self.links.len() {
            self.links[index].poll(now, &mut self.output);
            self.forward_outputs(index);
        }
    }

    /// Pushes the output of link `index` into the next links. Sends the output of the last link.
    fn forward_outputs(&mut self, index: usize) {
        let mut link_index = index;
        loop {
            for (_, packet, cause) in self.output.dropped.drain(..) {
                self.stats.dropped[cause as usize] += 1;
                match &self.injection {
                    Some(injection) if injection::is_injected(&packet) => {
                        injection.report_dropped(&packet)
                    }
                    _ => self.frame_slab.free.push(packet.handle),
                }
            }
            if self.output.delivered.is_empty() {
                return;
            }
            std::mem::swap(&mut self.delivered, &mut self.output.delivered);
            link_index += 1;
            for position in 0..self.delivered.len() {
                let (due, packet) = self.delivered[position];
                match self.links.get_mut(link_index) {
                    Some(link) => link.push(due, packet, &mut self.output),
                    None => self.deliver(due, &packet),
                }
            }
            self.delivered.clear();
        }
    }

    fn deliver(&mut self, due: Time, packet: &Packet) {
        if let Some(injection) = self.injection.as_ref().filter(|_| injection::is_injected(packet))
        {
            self.stats.packets_out += 1;
            self.stats.bytes_out += u64::from(packet.bytes);
            self.stats.lateness.record(self.io.now().since(due));
            return injection.report_delivered(due, packet);
        }
        let stored = &mut self.frame_slab.frames[packet.handle as usize];
        let frame = &mut stored[self.frame_slab.headroom..];
        if classifier::ecn(frame) != Some(packet.ecn) {
            classifier::set_ecn(frame, packet.ecn);
        }
        let length = frame.len() as u64;
        match self.io.send(due, stored) {
            Ok(()) => {
                self.stats.packets_out += 1;
                self.stats.bytes_out += length;
            }
            Err(_) => self.stats.device_rejected += 1,
        }
        self.stats.lateness.record(self.io.now().since(due));
        self.frame_slab.free.push(packet.handle);
    }

    fn publish(&mut self, now: Time) {
        let queued =
            self.links.iter().map(SimplexLink::gauge).fold((0, 0), |(packets, bytes), gauge| {
                (packets + gauge.queued_packets, bytes + gauge.queued_bytes)
            });
        self.stats.queued = queued;
        if let Some(link) = self.links.iter().find(|link_index| !link_index.user_stats().is_empty())
        {
            self.stats.user_stats.clear();
            self.stats.user_stats.extend_from_slice(link.user_stats());
        }
        let queues =
            self.links.iter().map(SimplexLink::user_queues).find(|queues| !queues.is_empty());
        self.stats.user_queues = queues.unwrap_or_default();
        self.stats.sampled_at = now;
        self.stats.cpu_ns = clock::read_clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
        if let Ok(mut shared) = self.shared_stats.lock() {
            shared.clone_from(&self.stats);
        }
        if let Ok(mut updates) = self.pending_updates.lock() {
            for (line, stage, update) in updates.drain(..) {
                self.links[line].schedule_update(now, stage, &update);
            }
        }
    }
}

#[cfg(test)]
#[path = "forwarder_tests.rs"]
mod tests;
