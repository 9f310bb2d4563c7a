//! Queues per user with a scheduler that selects the next user.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Packet, Span, Time};

use super::QueueFactory;
use super::packet_fifo::PacketFifo;
use crate::checks::ValidationResult;
use crate::schedulers::{HeadOfLine, Scheduler, Selection, UserIndexes};
use crate::stage_factory::BuildContext;
use crate::{
    Channel, DropReason, ExternalScheduler, ExternalSchedulerSpec, InFlightPolicy, Queue,
    QueueLimit, SchedulerSpec, ServiceOutcome, StageOutput, StageUpdate, Transmission,
    UserQueueStats, checks,
};

/// Maximum number of users of a link; user numbers are below it.
pub const MAX_USERS: u32 = 65_536;

/// History of a channel in nanoseconds.
const CHANNEL_HISTORY_NS: u64 = 1_000_000_000;

/// One queue per user, first in, first out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PerUserSpec {
    /// The scheduler.
    pub scheduler: SchedulerSpec,
    /// Limit of the queue of each user.
    pub limit: Option<QueueLimit>,
    /// Limit of all queues together. An arrival above it evicts packets from the tail of the longest queue.
    pub total: Option<QueueLimit>,
    /// Age of the channel state at the scheduler.
    pub csi_delay_ns: u64,
}

impl PerUserSpec {
    /// The descriptor of the member. The table `scheduler` of a direction has its options.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "",
        spec_kind: "per_user",
        aliases: &[],
        title: "A queue for each user, and a scheduler",
        reference: "",
        options: &[],
        draws: false,
        live_name: "",
    };
}

impl QueueFactory for PerUserSpec {
    fn validate(&self) -> ValidationResult {
        checks::limit(self.limit)?;
        checks::limit(self.total)?;
        if self.csi_delay_ns > CHANNEL_HISTORY_NS {
            return Err("csi_delay_ns is above one second".into());
        }
        self.scheduler.factory().validate()
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Queue> {
        Box::new(PerUserQueue::with_external(self, context.external_scheduler.take()))
    }

    fn external_scheduler(&self) -> Option<&ExternalSchedulerSpec> {
        self.scheduler.factory().external()
    }
}

/// One first-in-first-out queue per user. An arrival above the limit of its queue is dropped. An arrival above the
/// total limit evicts packets from the tail of the longest queue (McKenney, INFOCOM 1990), unless its queue is the
/// longest. Otherwise heavy users would displace light ones.
#[derive(Debug)]
pub struct PerUserQueue {
    scheduler: Box<dyn Scheduler>,
    limit: Option<QueueLimit>,
    total_limit: Option<QueueLimit>,
    /// Maximum waiting time of a packet.
    max_wait: Option<Span>,
    user_indexes: UserIndexes,
    fifos: Vec<PacketFifo>,
    /// The head-of-line packet of each user.
    heads: Vec<HeadOfLine>,
    stats: Vec<UserQueueStats>,
    packets: u64,
    bytes: u64,
    last_dequeued_arrival: Option<Time>,
    /// The end of a pause of the scheduler.
    paused_until: Time,
}

impl PerUserQueue {
    /// Creates the queues of a valid specification, with an internal scheduler.
    pub fn new(spec: &PerUserSpec) -> PerUserQueue {
        PerUserQueue::with_external(spec, None)
    }

    /// Creates the queues with an external scheduler, if the specification requires one.
    pub fn with_external(
        spec: &PerUserSpec,
        external: Option<Box<dyn ExternalScheduler>>,
    ) -> PerUserQueue {
        let scheduler = spec.scheduler.factory().build(Span(spec.csi_delay_ns), external);
        PerUserQueue {
            max_wait: scheduler.max_wait(),
            scheduler,
            limit: spec.limit,
            total_limit: spec.total,
            user_indexes: UserIndexes::default(),
            fifos: Vec::new(),
            heads: Vec::new(),
            stats: Vec::new(),
            packets: 0,
            bytes: 0,
            last_dequeued_arrival: None,
            paused_until: Time::ZERO,
        }
    }

    /// Returns the index of a user and adds a new user.
    fn user_index(&mut self, user: u32) -> usize {
        let user_index = self.user_indexes.get_or_insert(user);
        if user_index == self.fifos.len() {
            self.fifos.push(PacketFifo::default());
            self.heads.push(HeadOfLine::NONE);
            self.stats.push(UserQueueStats { user, ..UserQueueStats::default() });
            self.scheduler.add_user(user_index, user);
        }
        user_index
    }

    /// Evicts packets of longer queues until `bytes` of the user fit, and returns whether they fit.
    fn evict_for(
        &mut self,
        due: Time,
        user_index: usize,
        bytes: u32,
        out: &mut StageOutput,
    ) -> bool {
        let fits = |packets: u64, others: u64| match self.total_limit {
            None => true,
            Some(QueueLimit::Packets(max)) => packets < max,
            Some(QueueLimit::Bytes(max)) => others + u64::from(bytes) <= max,
        };
        if !self.fifos[user_index].fits(self.limit, bytes) || !fits(0, 0) {
            return false;
        }
        let user_bytes = self.fifos[user_index].bytes + u64::from(bytes);
        let (mut packets, mut total_bytes, mut evicted) = (self.packets, self.bytes, Vec::new());
        let mut queue_bytes: Vec<u64> = Vec::new();
        while !fits(packets, total_bytes) {
            if queue_bytes.is_empty() {
                queue_bytes = self.fifos.iter().map(|waiting| waiting.bytes).collect();
            }
            let longest = (0..queue_bytes.len())
                .rev()
                .max_by_key(|one| queue_bytes[*one])
                .unwrap_or(user_index);
            if queue_bytes[longest] <= user_bytes {
                return false;
            }
            let taken = evicted.iter().filter(|one| **one == longest).count();
            let packet = self.fifos[longest].packets.iter().rev().nth(taken);
            let Some(size) = packet.map(|(_, packet)| u64::from(packet.bytes)) else {
                return false;
            };
            queue_bytes[longest] -= size;
            packets -= 1;
            total_bytes -= size;
            evicted.push(longest);
        }
        for longest in evicted {
            if let Some((_, packet)) = self.fifos[longest].pop_last() {
                self.packets -= 1;
                self.bytes -= u64::from(packet.bytes);
                self.stats[longest].dropped_overflow += 1;
                out.drop(due, packet, DropReason::QueueOverflow);
            }
            if self.fifos[longest].packets.is_empty() {
                self.heads[longest] = HeadOfLine::NONE;
                self.scheduler.on_idle(longest);
            }
        }
        true
    }

    /// Removes the first packet of a user.
    fn pop(&mut self, user_index: usize) -> Option<(Time, Packet)> {
        let first = self.fifos[user_index].pop()?;
        self.packets -= 1;
        self.bytes -= u64::from(first.1.bytes);
        self.heads[user_index] = HeadOfLine::from_front(self.fifos[user_index].packets.front());
        Some(first)
    }

    /// Drops packets that have waited longer than the limit at `now`.
    fn expire(&mut self, now: Time, out: &mut StageOutput) {
        let Some(limit) = self.max_wait else { return };
        for user_index in 0..self.heads.len() {
            let waited = self.heads[user_index].is_some();
            while self.heads[user_index].is_some()
                && now.since(self.heads[user_index].arrived) > limit
                && let Some((_, packet)) = self.pop(user_index)
            {
                self.stats[user_index].dropped_late += 1;
                out.drop(now, packet, DropReason::Aqm);
            }
            if waited && !self.heads[user_index].is_some() {
                self.scheduler.on_idle(user_index);
            }
        }
    }
}

impl Queue for PerUserQueue {
    fn enqueue(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        let user_index = self.user_index(packet.user);
        self.stats[user_index].arrived += 1;
        if !self.evict_for(due, user_index, packet.bytes, out) {
            self.stats[user_index].dropped_overflow += 1;
            out.drop(due, packet, DropReason::QueueOverflow);
            return;
        }
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        self.fifos[user_index].push(due, packet);
        self.scheduler.on_enqueue(due, user_index, packet.bytes);
        if !self.heads[user_index].is_some() {
            self.heads[user_index] = HeadOfLine { arrived: due, bytes: packet.bytes };
            self.scheduler.on_backlogged(user_index);
        }
    }

    fn dequeue(
        &mut self,
        now: Time,
        channel: &mut dyn Channel,
        out: &mut StageOutput,
    ) -> Option<Packet> {
        self.expire(now, out);
        if self.packets == 0 {
            return None;
        }
        let user_index = match self.scheduler.select(now, &self.heads, channel) {
            Selection::Serve(user_index) => user_index,
            Selection::Pause(until) => {
                self.paused_until = until;
                return None;
            }
        };
        self.paused_until = Time::ZERO;
        let (arrival, packet) = self.pop(user_index)?;
        self.scheduler.on_dequeue(user_index, packet.bytes, self.heads[user_index]);
        let (had, waited) = (&mut self.stats[user_index], now.since(arrival));
        had.sent += 1;
        had.total_wait += waited;
        had.max_wait = had.max_wait.max(waited);
        self.last_dequeued_arrival = Some(arrival);
        Some(packet)
    }

    fn ready_at(&self) -> Time {
        if self.packets == 0 { Time::MAX } else { self.paused_until }
    }

    fn backlog(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    fn on_service_end(
        &mut self,
        due: Time,
        transmission: &Transmission,
        airtime: Span,
        outcome: ServiceOutcome,
    ) {
        let user_index = self.user_index(transmission.packet.user);
        self.scheduler.on_service_end(due, user_index, transmission, airtime, outcome);
    }

    fn last_dequeued_arrival(&self) -> Option<Time> {
        self.last_dequeued_arrival
    }

    fn user_queues(&self) -> Vec<UserQueueStats> {
        let mut all: Vec<UserQueueStats> = (self.stats.iter().zip(&self.fifos).enumerate())
            .map(|(user_index, (had, waiting))| {
                let (queued_packets, queued_bytes) = waiting.backlog();
                UserQueueStats {
                    queued_packets,
                    queued_bytes,
                    best_channel: self.scheduler.best_channel_stats(user_index),
                    ..*had
                }
            })
            .collect();
        all.sort_unstable_by_key(|queue| queue.user);
        all
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        match update {
            StageUpdate::Limit(limit) if self.total_limit.is_some() => self.total_limit = *limit,
            StageUpdate::Limit(limit) => self.limit = *limit,
            StageUpdate::InFlight(InFlightPolicy::Drop) => {
                for user_index in 0..self.fifos.len() {
                    self.stats[user_index].dropped_outage +=
                        self.fifos[user_index].packets.len() as u64;
                    self.fifos[user_index].drop_all(due, out);
                    if self.heads[user_index].is_some() {
                        self.heads[user_index] = HeadOfLine::NONE;
                        self.scheduler.on_idle(user_index);
                    }
                }
                (self.packets, self.bytes) = (0, 0);
            }
            _ => {}
        }
    }
}
