//! A queue for each user, and a scheduler that says whose packet goes next.

use units::{Packet, Span, Time};

use super::Waiting;
use super::own::Decider;
use super::scheduler::{Choice, Head, Scheduler, Slots, build};
use crate::{
    Cause, Change, Channel, Cx, Fate, InFlight, Job, Limit, PerUserSpec, Queue, UserQueue,
};

/// First in, first out for each user. Who does not fit its own queue is dropped; who does not fit all of them together
/// takes the place of the last of the longest queue (McKenney, INFOCOM 1990), unless that is its own: otherwise who
/// sends much would leave no room for who sends little.
#[derive(Debug)]
pub struct PerUser {
    scheduler: Box<dyn Scheduler>,
    limit: Option<Limit>,
    total: Option<Limit>,
    /// How long a packet waits at most.
    time_limit: Option<Span>,
    slots: Slots,
    waiting: Vec<Waiting>,
    /// The first packet of each.
    heads: Vec<Head>,
    had: Vec<UserQueue>,
    packets: u64,
    bytes: u64,
    last_arrival: Option<Time>,
    /// The scheduler serves nobody until then.
    pause: Time,
}

impl PerUser {
    /// The queues of a valid specification, with a scheduler of ours.
    pub fn new(spec: &PerUserSpec) -> PerUser {
        PerUser::by(spec, None)
    }

    /// The same, with the scheduler that is given from outside where the specification says so.
    pub fn by(spec: &PerUserSpec, own: Option<Box<dyn Decider>>) -> PerUser {
        let scheduler = build(spec, own);
        PerUser {
            time_limit: scheduler.time_limit(),
            scheduler,
            limit: spec.limit,
            total: spec.total,
            slots: Slots::default(),
            waiting: Vec::new(),
            heads: Vec::new(),
            had: Vec::new(),
            packets: 0,
            bytes: 0,
            last_arrival: None,
            pause: Time::ZERO,
        }
    }

    /// The slot of a user, who may be new.
    fn slot(&mut self, user: u32) -> usize {
        let slot = self.slots.of(user);
        if slot == self.waiting.len() {
            self.waiting.push(Waiting::default());
            self.heads.push(Head::NONE);
            self.had.push(UserQueue { user, ..UserQueue::default() });
            self.scheduler.came(slot, user);
        }
        slot
    }

    /// Makes room for `bytes` of `slot`, as far as there is somebody who has more; whether there is room then.
    fn make_room(&mut self, due: Time, slot: usize, bytes: u32, cx: &mut Cx) -> bool {
        let fits = |packets: u64, others: u64| match self.total {
            None => true,
            Some(Limit::Packets(most)) => packets < most,
            Some(Limit::Bytes(most)) => others + u64::from(bytes) <= most,
        };
        if !self.waiting[slot].has_room(self.limit, bytes) || !fits(0, 0) {
            return false;
        }
        let own = self.waiting[slot].bytes + u64::from(bytes);
        let (mut packets, mut others, mut leave) = (self.packets, self.bytes, Vec::new());
        let mut left: Vec<u64> = Vec::new();
        while !fits(packets, others) {
            if left.is_empty() {
                left = self.waiting.iter().map(|waiting| waiting.bytes).collect();
            }
            let longest = (0..left.len()).rev().max_by_key(|one| left[*one]).unwrap_or(slot);
            if left[longest] <= own {
                return false;
            }
            let taken = leave.iter().filter(|one| **one == longest).count();
            let packet = self.waiting[longest].packets.iter().rev().nth(taken);
            let Some(size) = packet.map(|(_, packet)| u64::from(packet.bytes)) else {
                return false;
            };
            left[longest] -= size;
            packets -= 1;
            others -= size;
            leave.push(longest);
        }
        for longest in leave {
            if let Some((_, packet)) = self.waiting[longest].pop_last() {
                self.packets -= 1;
                self.bytes -= u64::from(packet.bytes);
                self.had[longest].dropped_overflow += 1;
                cx.drop(due, packet, Cause::Overflow);
            }
            if self.waiting[longest].packets.is_empty() {
                self.heads[longest] = Head::NONE;
                self.scheduler.left(longest);
            }
        }
        true
    }

    /// Takes the first packet of `slot`.
    fn pop(&mut self, slot: usize) -> Option<(Time, Packet)> {
        let first = self.waiting[slot].pop()?;
        self.packets -= 1;
        self.bytes -= u64::from(first.1.bytes);
        self.heads[slot] = Head::of(self.waiting[slot].packets.front());
        Some(first)
    }

    /// Drops who has waited for longer than the limit at `now`.
    fn expire(&mut self, now: Time, cx: &mut Cx) {
        let Some(limit) = self.time_limit else { return };
        for slot in 0..self.heads.len() {
            let waited = self.heads[slot].is_some();
            while self.heads[slot].is_some()
                && now.since(self.heads[slot].arrived) > limit
                && let Some((_, packet)) = self.pop(slot)
            {
                self.had[slot].dropped_late += 1;
                cx.drop(now, packet, Cause::Aqm);
            }
            if waited && !self.heads[slot].is_some() {
                self.scheduler.left(slot);
            }
        }
    }
}

impl Queue for PerUser {
    fn enqueue(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        let slot = self.slot(packet.user);
        self.had[slot].arrived += 1;
        if !self.make_room(due, slot, packet.bytes, cx) {
            self.had[slot].dropped_overflow += 1;
            cx.drop(due, packet, Cause::Overflow);
            return;
        }
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        self.waiting[slot].push(due, packet);
        self.scheduler.arrived(due, slot, packet.bytes);
        if !self.heads[slot].is_some() {
            self.heads[slot] = Head { arrived: due, bytes: packet.bytes };
            self.scheduler.joined(slot);
        }
    }

    fn dequeue(&mut self, now: Time, channel: &mut dyn Channel, cx: &mut Cx) -> Option<Packet> {
        self.expire(now, cx);
        if self.packets == 0 {
            return None;
        }
        let slot = match self.scheduler.choose(now, &self.heads, channel) {
            Choice::Goes(slot) => slot,
            Choice::Pause(until) => {
                self.pause = until;
                return None;
            }
        };
        self.pause = Time::ZERO;
        let (arrival, packet) = self.pop(slot)?;
        self.scheduler.goes(slot, packet.bytes, self.heads[slot]);
        let (had, waited) = (&mut self.had[slot], now.since(arrival));
        had.sent += 1;
        had.waited += waited;
        had.longest = had.longest.max(waited);
        self.last_arrival = Some(arrival);
        Some(packet)
    }

    fn ready_at(&self) -> Time {
        if self.packets == 0 { Time::MAX } else { self.pause }
    }

    fn backlog(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    fn served(&mut self, due: Time, job: &Job, air: Span, fate: Fate) {
        let slot = self.slot(job.packet.user);
        self.scheduler.served(due, slot, job, air, fate);
    }

    fn last_arrival(&self) -> Option<Time> {
        self.last_arrival
    }

    fn user_queues(&self) -> Vec<UserQueue> {
        let mut all: Vec<UserQueue> = (self.had.iter().zip(&self.waiting).enumerate())
            .map(|(slot, (had, waiting))| {
                let (queued_packets, queued_bytes) = waiting.backlog();
                UserQueue { queued_packets, queued_bytes, best: self.scheduler.best(slot), ..*had }
            })
            .collect();
        all.sort_unstable_by_key(|queue| queue.user);
        all
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        match change {
            Change::Limit(limit) if self.total.is_some() => self.total = *limit,
            Change::Limit(limit) => self.limit = *limit,
            Change::InFlight(InFlight::Lost) => {
                for slot in 0..self.waiting.len() {
                    self.had[slot].dropped_outage += self.waiting[slot].packets.len() as u64;
                    self.waiting[slot].lose(due, cx);
                    if self.heads[slot].is_some() {
                        self.heads[slot] = Head::NONE;
                        self.scheduler.left(slot);
                    }
                }
                (self.packets, self.bytes) = (0, 0);
            }
            _ => {}
        }
    }
}
