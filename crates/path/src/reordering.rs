//! The buffer that puts the packets of a radio link in order again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use units::{FlowHash, Packet, SequenceNumbers, Span, Time};

use crate::{Cx, Job, Numbering, ReorderingSpec};

/// How long a flow by TCP's numbers may be silent before its expected number is forgotten: Linux's longest retransmission
/// time-out (TCP_RTO_MAX, include/net/tcp.h). Whoever has data unacknowledged says something within it, so that the next
/// segment after a longer silence is new data, which begins a flow as the expected number would go on with it.
const IDLE: Span = Span::from_secs(120);

/// Silent flows that are kept at the most; of more, those that have been silent for longest are forgotten.
const MOST_IDLE: usize = 1 << 16;

/// A flow, by its user and its addresses and ports.
type Key = (u32, FlowHash);

/// For each flow, what came out of its order and waits for what is missing. It belongs to the transmitter, which alone
/// knows the order of first transmissions, and that a packet will never come.
///
/// A packet with the expected number leaves, and whatever waited for it with it; one with a smaller number passes;
/// one with a larger number waits. When the buffer is full, when a packet of the flow is given up, or when one has waited too
/// long ([`IDLE`] by TCP's numbers where the specification has no limit: a segment that was lost before the link never
/// comes), all that waits leaves in order. By the link's own numbers a packet that was given up is waited for no longer; by TCP's
/// nobody knows which it was.
///
/// A flow of which nothing is under way and nothing waits is forgotten: by the link's numbers at once, by TCP's after [`IDLE`]
/// or, of one without data, at once. A packet costs the logarithm of the number of flows.
#[derive(Debug)]
pub(crate) struct Reordering {
    spec: ReorderingSpec,
    flows: BTreeMap<Key, Flow>,
    /// Flows in which packets wait, by the arrival of the oldest one.
    buffered: BTreeSet<(Time, Key)>,
    /// Flows of which nothing is under way and nothing waits, by the instant since when.
    idle: BTreeSet<(Time, Key)>,
    /// How many flows were looked at.
    #[cfg(test)]
    looks: usize,
}

/// Which order of [`Reordering`] a flow stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Listed {
    #[default]
    Nowhere,
    Buffered(Time),
    Idle(Time),
}

#[derive(Debug, Default)]
struct Flow {
    /// First transmissions so far.
    sent: u64,
    /// Of these, what was neither decoded nor given up yet.
    open: u64,
    expected: u64,
    /// By number, each with the one that follows it and the instant it came.
    waiting: BTreeMap<u64, (u64, Time, Packet)>,
    /// The same by that instant.
    arrivals: BTreeSet<(Time, u64)>,
    /// Numbers above the expected one that were given up.
    holes: BTreeSet<u64>,
    listed: Listed,
}

impl Reordering {
    pub fn new(spec: ReorderingSpec) -> Reordering {
        Reordering {
            spec,
            flows: BTreeMap::new(),
            buffered: BTreeSet::new(),
            idle: BTreeSet::new(),
            #[cfg(test)]
            looks: 0,
        }
    }

    /// The number of `packet`, which is sent for the first time.
    pub fn number(&mut self, packet: &Packet) -> u64 {
        let key = key(packet);
        let flow = self.flows.entry(key).or_default();
        if let Listed::Idle(since) = flow.listed {
            self.idle.remove(&(since, key));
            flow.listed = Listed::Nowhere;
        }
        let SequenceNumbers { first, next } = packet.sequence;
        if self.spec.numbering == Numbering::Tcp && flow.expected == 0 && next != first {
            flow.expected = ORIGIN + u64::from(first);
        }
        flow.open += 1;
        flow.sent += 1;
        flow.sent - 1
    }

    /// The packet of `job` is decoded at `due`.
    pub fn decoded(&mut self, due: Time, job: &Job, cx: &mut Cx) {
        let (most, numbering) = (self.spec.packets, self.spec.numbering);
        self.settle(due, job, |flow| {
            let (number, next) = match numbering {
                Numbering::Link => (job.sequence, job.sequence + 1),
                Numbering::Tcp => flow.numbers(&job.packet),
            };
            if next == number {
                cx.emit(due, job.packet);
                return;
            }
            if number > flow.expected {
                // The same data may have come twice: nobody is lost for it.
                if let Some(twin) = flow.insert(number, next, due, job.packet) {
                    cx.emit(due, twin);
                }
                if flow.waiting.len() as u64 >= most {
                    flow.flush(due, cx);
                }
                return;
            }
            cx.emit(due, job.packet);
            if number <= flow.expected && next > flow.expected {
                flow.expected = next;
                flow.release(due, cx);
            }
        });
    }

    /// The packet of `job` is given up at `due`.
    pub fn gave_up(&mut self, due: Time, job: &Job, cx: &mut Cx) {
        let numbering = self.spec.numbering;
        self.settle(due, job, |flow| {
            flow.flush(due, cx);
            if numbering == Numbering::Link && job.sequence >= flow.expected {
                flow.holes.insert(job.sequence);
                flow.release(due, cx);
            }
        });
    }

    /// When somebody will have waited for too long; [`Time::MAX`]: never.
    pub fn timer(&self) -> Time {
        self.buffered.first().map_or(Time::MAX, |(came, _)| self.spec.limit(*came))
    }

    /// At `due` somebody has waited for too long.
    pub fn time_out(&mut self, due: Time, cx: &mut Cx) {
        let late = self.buffered.iter().take_while(|(came, _)| self.spec.limit(*came) <= due);
        let late: BTreeSet<Key> = late.map(|(_, key)| *key).collect();
        self.flush_flows(due, late, cx);
    }

    /// Nothing is under way any more at `due`: what waits leaves.
    pub fn flush(&mut self, due: Time, cx: &mut Cx) {
        let all: BTreeSet<Key> = self.buffered.iter().map(|(_, key)| *key).collect();
        self.flush_flows(due, all, cx);
    }

    fn flush_flows(&mut self, due: Time, keys: BTreeSet<Key>, cx: &mut Cx) {
        for key in keys {
            if let Some(flow) = self.flows.get_mut(&key) {
                flow.flush(due, cx);
            }
            self.list(due, key);
        }
    }

    /// The packet of `job` comes to its end.
    fn settle(&mut self, due: Time, job: &Job, work: impl FnOnce(&mut Flow)) {
        let key = key(&job.packet);
        let Some(flow) = self.flows.get_mut(&key) else { return };
        flow.open -= 1;
        work(flow);
        self.list(due, key);
        self.forget(due);
    }

    /// Puts a flow that has changed at `due` into its order, or forgets it. By the link's numbers, and without data by TCP's,
    /// a flow of which nothing is open begins anew with its next packet.
    fn list(&mut self, due: Time, key: Key) {
        self.look();
        let Entry::Occupied(mut flow) = self.flows.entry(key) else { return };
        let one = flow.get();
        let (over, begins_anew) =
            (one.open == 0, self.spec.numbering == Numbering::Link || one.expected == 0);
        let listed = match one.oldest() {
            Some(came) => Listed::Buffered(came),
            None if over => Listed::Idle(due),
            None => Listed::Nowhere,
        };
        debug_assert!(
            !over || self.spec.numbering == Numbering::Tcp || one.waiting.is_empty(),
            "nobody waits for nothing"
        );
        match std::mem::replace(&mut flow.get_mut().listed, listed) {
            before if before == listed => return,
            Listed::Buffered(came) => self.buffered.remove(&(came, key)),
            Listed::Idle(since) => self.idle.remove(&(since, key)),
            Listed::Nowhere => false,
        };
        match listed {
            Listed::Buffered(came) => drop(self.buffered.insert((came, key))),
            Listed::Idle(_) if begins_anew => drop(flow.remove()),
            Listed::Idle(since) => drop(self.idle.insert((since, key))),
            Listed::Nowhere => {}
        }
    }

    /// Forgets flows that have been silent for too long at `due`, and those that are too many.
    fn forget(&mut self, due: Time) {
        while let Some((since, key)) = self.idle.first().copied()
            && (since + IDLE <= due || self.idle.len() > MOST_IDLE)
        {
            self.look();
            self.idle.pop_first();
            self.flows.remove(&key);
        }
    }

    #[cfg(test)]
    fn look(&mut self) {
        self.looks += 1;
    }

    #[cfg(not(test))]
    fn look(&self) {}
}

impl ReorderingSpec {
    /// When a packet that came at `came` has waited for too long.
    fn limit(&self, came: Time) -> Time {
        match (self.time_limit_ns, self.numbering) {
            (Some(limit), _) => came + Span(limit),
            (None, Numbering::Tcp) => came + IDLE,
            (None, Numbering::Link) => Time::MAX,
        }
    }
}

/// Where TCP's numbers begin, so that what lies before the first one is no negative number.
const ORIGIN: u64 = 1 << 32;

fn key(packet: &Packet) -> Key {
    (packet.user, packet.tuple)
}

impl Flow {
    fn oldest(&self) -> Option<Time> {
        self.arrivals.first().map(|(came, _)| *came)
    }

    /// `packet`, which came at `due`, waits; the one that has waited with the same number does so no longer.
    fn insert(&mut self, number: u64, next: u64, due: Time, packet: Packet) -> Option<Packet> {
        let twin = self.waiting.insert(number, (next, due, packet));
        if let Some((_, came, _)) = twin {
            self.arrivals.remove(&(came, number));
        }
        self.arrivals.insert((due, number));
        twin.map(|(_, _, packet)| packet)
    }

    /// The first that waits, and the number that follows it.
    fn pop_first(&mut self) -> Option<(u64, Packet)> {
        let (number, (next, came, packet)) = self.waiting.pop_first()?;
        self.arrivals.remove(&(came, number));
        Some((next, packet))
    }

    /// TCP's numbers of `packet`, on from the expected one without running through zero (RFC 9293 section 3.4).
    fn numbers(&self, packet: &Packet) -> (u64, u64) {
        let distance = packet.sequence.first.wrapping_sub(self.expected as u32) as i32;
        let first = self.expected.saturating_add_signed(i64::from(distance));
        let bytes = packet.sequence.next.wrapping_sub(packet.sequence.first);
        (first, first.saturating_add(u64::from(bytes)))
    }

    /// What is next in order leaves.
    fn release(&mut self, due: Time, cx: &mut Cx) {
        loop {
            let first = self.waiting.first_key_value().map(|(number, _)| *number);
            if first.is_some_and(|number| number <= self.expected)
                && let Some((next, packet)) = self.pop_first()
            {
                cx.emit(due, packet);
                self.expected = self.expected.max(next);
            } else if self.holes.remove(&self.expected) {
                self.expected += 1;
            } else {
                return;
            }
        }
    }

    /// All that waits leaves in order; what lies before the last of it is waited for no longer.
    fn flush(&mut self, due: Time, cx: &mut Cx) {
        while let Some((next, packet)) = self.pop_first() {
            cx.emit(due, packet);
            self.expected = self.expected.max(next);
        }
        self.holes = self.holes.split_off(&self.expected);
        self.release(due, cx);
    }
}

#[cfg(test)]
#[path = "reordering_tests.rs"]
mod tests;
