//! The reordering buffer of a radio link.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use units::{FlowHash, Packet, SequenceNumbers, Span, Time};

use crate::{Numbering, ReorderingSpec, StageOutput, Transmission};

/// Idle time after which the expected number of a TCP flow is discarded: Linux's largest retransmission timeout
/// (TCP_RTO_MAX, include/net/tcp.h). A sender with unacknowledged data retransmits within this time. After a longer
/// idle time, the next segment is new data and starts at the expected number.
const IDLE_TIMEOUT: Span = Span::from_secs(120);

/// Maximum number of idle flows; above it, the flows with the longest idle time are discarded.
const MAX_IDLE_FLOWS: usize = 1 << 16;

/// A flow by its user, addresses and ports.
type FlowKey = (u32, FlowHash);

/// Per flow, the packets that arrived out of order and wait for a missing one. The transmitter contains the buffer,
/// because only the transmitter knows the order of first transmissions and the abandoned packets.
///
/// A packet with the expected number is released together with the packets that waited for it. A packet with a smaller
/// number passes. A packet with a larger number waits. All waiting packets of a flow are released in order if the
/// buffer is full or a packet of the flow was abandoned. They are also released if one has waited too long. With TCP
/// numbers and no limit in the specification, that limit is [`IDLE_TIMEOUT`], because a segment lost before the link
/// never arrives. With link numbers, the buffer skips abandoned packets; with TCP numbers, their number is unknown.
///
/// A flow without packets in flight or waiting is discarded. With link numbers, this happens at once; with TCP numbers,
/// after [`IDLE_TIMEOUT`], or at once if it never had data. The cost per packet is logarithmic in the number of flows.
#[derive(Debug)]
pub(crate) struct ReorderingBuffer {
    spec: ReorderingSpec,
    flows: BTreeMap<FlowKey, Flow>,
    /// Flows with waiting packets, by the arrival of the oldest one.
    buffered: BTreeSet<(Time, FlowKey)>,
    /// Flows without packets in flight or waiting, by the begin of the idle time.
    idle: BTreeSet<(Time, FlowKey)>,
    /// Number of visited flows.
    #[cfg(test)]
    visits: usize,
}

/// The list of [`ReorderingBuffer`] that contains a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FlowList {
    #[default]
    Unlisted,
    Buffered(Time),
    Idle(Time),
}

#[derive(Debug, Default)]
struct Flow {
    /// Number of first transmissions.
    sent: u64,
    /// Number of packets neither decoded nor abandoned.
    unresolved: u64,
    expected: u64,
    /// Waiting packets by number, with the following number and the arrival time.
    buffered: BTreeMap<u64, (u64, Time, Packet)>,
    /// The same by arrival time.
    arrivals: BTreeSet<(Time, u64)>,
    /// Abandoned numbers above the expected one.
    abandoned: BTreeSet<u64>,
    list: FlowList,
}

impl ReorderingBuffer {
    pub fn new(spec: ReorderingSpec) -> ReorderingBuffer {
        ReorderingBuffer {
            spec,
            flows: BTreeMap::new(),
            buffered: BTreeSet::new(),
            idle: BTreeSet::new(),
            #[cfg(test)]
            visits: 0,
        }
    }

    /// Returns the number of `packet`, which is transmitted for the first time.
    pub fn assign_number(&mut self, packet: &Packet) -> u64 {
        let key = flow_key(packet);
        let flow = self.flows.entry(key).or_default();
        if let FlowList::Idle(since) = flow.list {
            self.idle.remove(&(since, key));
            flow.list = FlowList::Unlisted;
        }
        let SequenceNumbers { first, next } = packet.sequence;
        if self.spec.numbering == Numbering::Tcp && flow.expected == 0 && next != first {
            flow.expected = TCP_ORIGIN + u64::from(first);
        }
        flow.unresolved += 1;
        flow.sent += 1;
        flow.sent - 1
    }

    /// Handles the decoded packet of `transmission` at `due`.
    pub fn on_decoded(&mut self, due: Time, transmission: &Transmission, out: &mut StageOutput) {
        let (max_packets, numbering) = (self.spec.packets, self.spec.numbering);
        self.resolve(due, transmission, |flow| {
            let (number, next) = match numbering {
                Numbering::Link => (transmission.sequence, transmission.sequence + 1),
                Numbering::Tcp => flow.tcp_range(&transmission.packet),
            };
            if next == number {
                out.emit(due, transmission.packet);
                return;
            }
            if number > flow.expected {
                // The same data can arrive twice; neither packet is dropped.
                if let Some(twin) = flow.insert(number, next, due, transmission.packet) {
                    out.emit(due, twin);
                }
                if flow.buffered.len() as u64 >= max_packets {
                    flow.flush(due, out);
                }
                return;
            }
            out.emit(due, transmission.packet);
            if number <= flow.expected && next > flow.expected {
                flow.expected = next;
                flow.release(due, out);
            }
        });
    }

    /// Handles the abandoned packet of `transmission` at `due`.
    pub fn on_abandoned(&mut self, due: Time, transmission: &Transmission, out: &mut StageOutput) {
        let numbering = self.spec.numbering;
        self.resolve(due, transmission, |flow| {
            flow.flush(due, out);
            if numbering == Numbering::Link && transmission.sequence >= flow.expected {
                flow.abandoned.insert(transmission.sequence);
                flow.release(due, out);
            }
        });
    }

    /// Returns the time at which a packet has waited too long; [`Time::MAX`] if there is none.
    pub fn poll_at(&self) -> Time {
        self.buffered.first().map_or(Time::MAX, |(arrival, _)| self.spec.deadline(*arrival))
    }

    /// Releases the flows in which a packet has waited too long at `due`.
    pub fn on_timeout(&mut self, due: Time, out: &mut StageOutput) {
        let late =
            self.buffered.iter().take_while(|(arrival, _)| self.spec.deadline(*arrival) <= due);
        let late: BTreeSet<FlowKey> = late.map(|(_, key)| *key).collect();
        self.flush_flows(due, late, out);
    }

    /// Releases all waiting packets, because there are no packets in flight any more at `due`.
    pub fn flush(&mut self, due: Time, out: &mut StageOutput) {
        let all: BTreeSet<FlowKey> = self.buffered.iter().map(|(_, key)| *key).collect();
        self.flush_flows(due, all, out);
    }

    fn flush_flows(&mut self, due: Time, keys: BTreeSet<FlowKey>, out: &mut StageOutput) {
        for key in keys {
            if let Some(flow) = self.flows.get_mut(&key) {
                flow.flush(due, out);
            }
            self.update_list(due, key);
        }
    }

    /// Resolves the packet of `transmission`, which was decoded or abandoned.
    fn resolve(&mut self, due: Time, transmission: &Transmission, work: impl FnOnce(&mut Flow)) {
        let key = flow_key(&transmission.packet);
        let Some(flow) = self.flows.get_mut(&key) else { return };
        flow.unresolved -= 1;
        work(flow);
        self.update_list(due, key);
        self.expire_idle(due);
    }

    /// Moves a flow that changed at `due` to its list, or discards it. With link numbers, or with TCP numbers but
    /// without data, a flow without unresolved packets starts again with its next packet.
    fn update_list(&mut self, due: Time, key: FlowKey) {
        self.count_visit();
        let Entry::Occupied(mut flow) = self.flows.entry(key) else { return };
        let one = flow.get();
        let (over, begins_anew) =
            (one.unresolved == 0, self.spec.numbering == Numbering::Link || one.expected == 0);
        let listed = match one.oldest() {
            Some(arrival) => FlowList::Buffered(arrival),
            None if over => FlowList::Idle(due),
            None => FlowList::Unlisted,
        };
        debug_assert!(
            !over || self.spec.numbering == Numbering::Tcp || one.buffered.is_empty(),
            "nobody waits for nothing"
        );
        match std::mem::replace(&mut flow.get_mut().list, listed) {
            before if before == listed => return,
            FlowList::Buffered(arrival) => self.buffered.remove(&(arrival, key)),
            FlowList::Idle(since) => self.idle.remove(&(since, key)),
            FlowList::Unlisted => false,
        };
        match listed {
            FlowList::Buffered(arrival) => drop(self.buffered.insert((arrival, key))),
            FlowList::Idle(_) if begins_anew => drop(flow.remove()),
            FlowList::Idle(since) => drop(self.idle.insert((since, key))),
            FlowList::Unlisted => {}
        }
    }

    /// Discards flows that have been idle too long at `due`, and those above the maximum number.
    fn expire_idle(&mut self, due: Time) {
        while let Some((since, key)) = self.idle.first().copied()
            && (since + IDLE_TIMEOUT <= due || self.idle.len() > MAX_IDLE_FLOWS)
        {
            self.count_visit();
            self.idle.pop_first();
            self.flows.remove(&key);
        }
    }

    #[cfg(test)]
    fn count_visit(&mut self) {
        self.visits += 1;
    }

    #[cfg(not(test))]
    fn count_visit(&self) {}
}

impl ReorderingSpec {
    /// Returns the time at which a packet that arrived at `arrival` has waited too long.
    fn deadline(&self, arrival: Time) -> Time {
        match (self.time_limit_ns, self.numbering) {
            (Some(limit), _) => arrival + Span(limit),
            (None, Numbering::Tcp) => arrival + IDLE_TIMEOUT,
            (None, Numbering::Link) => Time::MAX,
        }
    }
}

/// Offset of TCP numbers, so that numbers before the first one are not negative.
const TCP_ORIGIN: u64 = 1 << 32;

fn flow_key(packet: &Packet) -> FlowKey {
    (packet.user, packet.tuple)
}

impl Flow {
    fn oldest(&self) -> Option<Time> {
        self.arrivals.first().map(|(arrival, _)| *arrival)
    }

    /// Inserts `packet`, which arrived at `due`, and returns the waiting packet with the same number.
    fn insert(&mut self, number: u64, next: u64, due: Time, packet: Packet) -> Option<Packet> {
        let twin = self.buffered.insert(number, (next, due, packet));
        if let Some((_, arrival, _)) = twin {
            self.arrivals.remove(&(arrival, number));
        }
        self.arrivals.insert((due, number));
        twin.map(|(_, _, packet)| packet)
    }

    /// Removes the first waiting packet and returns the following number.
    fn pop_first(&mut self) -> Option<(u64, Packet)> {
        let (number, (next, arrival, packet)) = self.buffered.pop_first()?;
        self.arrivals.remove(&(arrival, number));
        Some((next, packet))
    }

    /// Returns the TCP range of `packet`, extended from the expected number across wraps (RFC 9293 section 3.4).
    fn tcp_range(&self, packet: &Packet) -> (u64, u64) {
        let distance = packet.sequence.first.wrapping_sub(self.expected as u32) as i32;
        let first = self.expected.saturating_add_signed(i64::from(distance));
        let bytes = packet.sequence.next.wrapping_sub(packet.sequence.first);
        (first, first.saturating_add(u64::from(bytes)))
    }

    /// Releases the packets that are next in order.
    fn release(&mut self, due: Time, out: &mut StageOutput) {
        loop {
            let first = self.buffered.first_key_value().map(|(number, _)| *number);
            if first.is_some_and(|number| number <= self.expected)
                && let Some((next, packet)) = self.pop_first()
            {
                out.emit(due, packet);
                self.expected = self.expected.max(next);
            } else if self.abandoned.remove(&self.expected) {
                self.expected += 1;
            } else {
                return;
            }
        }
    }

    /// Releases all waiting packets in order. The expected number advances past the last of them.
    fn flush(&mut self, due: Time, out: &mut StageOutput) {
        while let Some((next, packet)) = self.pop_first() {
            out.emit(due, packet);
            self.expected = self.expected.max(next);
        }
        self.abandoned = self.abandoned.split_off(&self.expected);
        self.release(due, out);
    }
}

#[cfg(test)]
#[path = "reordering_tests.rs"]
mod tests;
