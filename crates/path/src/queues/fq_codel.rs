//! FQ-CoDel (RFC 8290): connections are hashed by their 5-tuple into queues, each under CoDel; queues take turns by
//! deficit round robin, new ones first.

use std::collections::VecDeque;

use units::{FlowHash, Packet, Span, Time};

use super::codel::{Controlled, Settings};
use crate::{Cause, Change, Channel, Cx, InFlight, Limit, Queue};

/// Most packets dropped at once when the limit is exceeded, so that the search for the longest
/// queue is paid once for many (RFC 8290 section 4.1).
const DROP_BATCH: usize = 64;

#[derive(Clone, Debug, Default)]
struct Flow {
    queue: Controlled,
    /// Bytes the queue may still send in its turn (RFC 8290 section 4.2).
    credit: i64,
    /// Whether the queue is on a list.
    listed: bool,
}

/// Flow queues with a common limit.
#[derive(Debug)]
pub struct FqCodel {
    limit: u64,
    quantum: i64,
    settings: Settings,
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: u64,
    bytes: u64,
    last_arrival: Option<Time>,
}

impl FqCodel {
    /// At most `limit` packets in `flows` queues; a queue sends `quantum` bytes in its turn. RFC
    /// 8290 section 5.2 has the usual values: 10,240 packets, 1,024 queues, 1,514 bytes, 5 ms and
    /// 100 ms.
    pub fn new(
        limit: u64,
        flows: u32,
        quantum: u32,
        target: Span,
        interval: Span,
        ecn: bool,
    ) -> FqCodel {
        FqCodel {
            limit,
            quantum: i64::from(quantum),
            settings: Settings { target, interval, ecn },
            flows: vec![Flow::default(); flows as usize],
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
            last_arrival: None,
        }
    }

    /// The queue of a connection (RFC 8290 section 4.1): two may share one. Multiplication by 2^64 over
    /// the golden ratio lets every bit of the hash count (Knuth, volume 3, section 6.4). There is no random
    /// perturbation: the same connections share queues in every run.
    fn place(&self, tuple: FlowHash) -> u32 {
        let hash = u64::from(tuple.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * self.flows.len() as u64) >> 32) as u32
    }

    /// Drops half of the queue with the most bytes from its head, at most [`DROP_BATCH`] packets
    /// (RFC 8290 section 4.1).
    fn relieve(&mut self, now: Time, cx: &mut Cx) {
        let longest = self.new.iter().chain(&self.old).copied().max_by_key(|index| {
            // Ties go to the lower index.
            (self.flows[*index as usize].queue.waiting.bytes, u32::MAX - index)
        });
        let Some(longest) = longest else { return };
        let waiting = &mut self.flows[longest as usize].queue.waiting;
        let batch = (waiting.packets.len() / 2).clamp(1, DROP_BATCH);
        for _ in 0..batch {
            if let Some((_, packet)) = waiting.pop() {
                self.packets -= 1;
                self.bytes -= u64::from(packet.bytes);
                cx.drop(now, packet, Cause::Overflow);
            }
        }
    }
}

impl Queue for FqCodel {
    /// RFC 8290 section 4.1.
    fn enqueue(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        let place = self.place(packet.tuple);
        let flow = &mut self.flows[place as usize];
        flow.queue.push(due, packet);
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        if !flow.listed {
            flow.listed = true;
            flow.credit = self.quantum;
            self.new.push_back(place);
        }
        if self.packets > self.limit {
            self.relieve(due, cx);
        }
    }

    /// RFC 8290 section 4.2.
    fn dequeue(&mut self, now: Time, _: &mut dyn Channel, cx: &mut Cx) -> Option<Packet> {
        loop {
            let from_new = !self.new.is_empty();
            let place = *if from_new { self.new.front()? } else { self.old.front()? };
            let flow = &mut self.flows[place as usize];
            if flow.credit <= 0 {
                flow.credit += self.quantum;
                if from_new {
                    self.new.pop_front()
                } else {
                    self.old.pop_front()
                };
                self.old.push_back(place);
                continue;
            }
            let (packets, bytes) = flow.queue.waiting.backlog();
            let next = flow.queue.pop(now, &self.settings, cx);
            let (packets_left, bytes_left) = flow.queue.waiting.backlog();
            self.packets -= packets - packets_left;
            self.bytes -= bytes - bytes_left;
            if let Some((arrival, packet)) = next {
                flow.credit -= i64::from(packet.bytes);
                self.last_arrival = Some(arrival);
                return Some(packet);
            }
            // An empty new queue goes to the old ones, so that it cannot come back as new and
            // starve them; an empty old one leaves.
            if from_new {
                self.new.pop_front();
                self.old.push_back(place);
            } else {
                self.old.pop_front();
                flow.listed = false;
            }
        }
    }

    fn ready_at(&self) -> Time {
        if self.packets == 0 { Time::MAX } else { Time::ZERO }
    }

    fn backlog(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    fn last_arrival(&self) -> Option<Time> {
        self.last_arrival
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        match change {
            Change::Limit(Some(Limit::Packets(packets))) => self.limit = *packets,
            Change::InFlight(InFlight::Lost) => {
                for flow in &mut self.flows {
                    flow.queue.waiting.lose(due, cx);
                }
                (self.packets, self.bytes) = (0, 0);
            }
            _ => {}
        }
    }
}
