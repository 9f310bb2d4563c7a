//! FQ-CoDel (RFC 8290): flows are hashed by their 5-tuple into queues, each with CoDel. Deficit round robin selects the
//! queue; new queues precede old ones.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, FlowHash, Opt, Packet, Span, Time};

use super::QueueFactory;
use super::codel::{CodelQueue, CodelSettings, ECN, INTERVAL, TARGET, validate_codel};
use crate::checks::{ValidationResult, above_zero};
use crate::stage_factory::BuildContext;
use crate::{Channel, DropReason, InFlightPolicy, Queue, QueueLimit, StageOutput, StageUpdate};

/// Maximum number of packets dropped at once above the limit, so that one search for the longest queue serves many
/// drops (RFC 8290 section 4.1).
const DROP_BATCH: usize = 64;

/// FQ-CoDel (RFC 8290).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FqCodelSpec {
    /// Limit in packets over all queues.
    pub limit_packets: u64,
    /// Number of hash buckets for flows.
    pub flows: u32,
    /// Bytes that a queue may send per round.
    pub quantum_bytes: u32,
    /// CoDel's target.
    pub target_ns: u64,
    /// CoDel's interval.
    pub interval_ns: u64,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl FqCodelSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "fq-codel",
        spec_kind: "fq_codel",
        aliases: &[],
        title: "FQ-CoDel: a queue per flow, each with CoDel",
        reference: "RFC 8290",
        options: &[
            Opt::hook("", "limit_packets", "limit_packets", "the limit over all queues"),
            // RFC 8290 section 5.2.5
            Opt::integer("queues", 1, 65_536, "hash buckets for flows")
                .field("flows")
                .default_integer(1024),
            // RFC 8290 section 5.2.4
            Opt::size("quantum", "quantum_bytes", "bytes that a queue may send per round")
                .min(1.0)
                .max(4_294_967_295.0)
                .default_integer(1514),
            TARGET,
            INTERVAL,
            ECN.default_flag(true),
        ],
        draws: false,
        live_name: "",
    };
}

impl QueueFactory for FqCodelSpec {
    fn validate(&self) -> ValidationResult {
        above_zero("limit_packets", self.limit_packets)?;
        above_zero("flows", u64::from(self.flows))?;
        above_zero("quantum_bytes", u64::from(self.quantum_bytes))?;
        validate_codel(self.target_ns, self.interval_ns)
    }

    fn build(&self, _: &BuildContext) -> Box<dyn Queue> {
        Box::new(FqCodel::new(
            self.limit_packets,
            self.flows,
            self.quantum_bytes,
            Span(self.target_ns),
            Span(self.interval_ns),
            self.ecn,
        ))
    }

    fn supports_limit(&self, limit: Option<QueueLimit>) -> bool {
        matches!(limit, Some(QueueLimit::Packets(_)))
    }
}

#[derive(Clone, Debug, Default)]
struct Flow {
    queue: CodelQueue,
    /// Bytes that the queue may send in this round (RFC 8290 section 4.2).
    credit: i64,
    /// Whether the queue is on a list.
    is_listed: bool,
}

/// Flow queues with a common limit.
#[derive(Debug)]
pub struct FqCodel {
    limit: u64,
    quantum: i64,
    settings: CodelSettings,
    flows: Vec<Flow>,
    new_flows: VecDeque<u32>,
    old_flows: VecDeque<u32>,
    packets: u64,
    bytes: u64,
    last_dequeued_arrival: Option<Time>,
}

impl FqCodel {
    /// Creates at most `flows` queues with `limit` packets in total; a queue sends `quantum` bytes per round. RFC 8290
    /// section 5.2 lists the usual values: 10,240 packets, 1,024 queues, 1,514 bytes, 5 ms and 100 ms.
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
            settings: CodelSettings { target, interval, ecn },
            flows: vec![Flow::default(); flows as usize],
            new_flows: VecDeque::new(),
            old_flows: VecDeque::new(),
            packets: 0,
            bytes: 0,
            last_dequeued_arrival: None,
        }
    }

    /// Returns the queue of a flow (RFC 8290 section 4.1); two flows can share one. Multiplication by 2^64 over the
    /// golden ratio makes every bit of the hash significant (Knuth, volume 3, section 6.4). There is no random
    /// perturbation: the same flows share queues in every run.
    fn flow_index(&self, tuple: FlowHash) -> u32 {
        let hash = u64::from(tuple.0).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((hash * self.flows.len() as u64) >> 32) as u32
    }

    /// Drops half of the queue with the most bytes from its head, at most [`DROP_BATCH`] packets
    /// (RFC 8290 section 4.1).
    fn drop_from_longest(&mut self, now: Time, out: &mut StageOutput) {
        let longest = self.new_flows.iter().chain(&self.old_flows).copied().max_by_key(|index| {
            // Ties go to the lower index.
            (self.flows[*index as usize].queue.fifo.bytes, u32::MAX - index)
        });
        let Some(longest) = longest else { return };
        let waiting = &mut self.flows[longest as usize].queue.fifo;
        let batch = (waiting.packets.len() / 2).clamp(1, DROP_BATCH);
        for _ in 0..batch {
            if let Some((_, packet)) = waiting.pop() {
                self.packets -= 1;
                self.bytes -= u64::from(packet.bytes);
                out.drop(now, packet, DropReason::QueueOverflow);
            }
        }
    }
}

impl Queue for FqCodel {
    /// Enqueues a packet (RFC 8290 section 4.1).
    fn enqueue(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        let index = self.flow_index(packet.tuple);
        let flow = &mut self.flows[index as usize];
        flow.queue.push(due, packet);
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        if !flow.is_listed {
            flow.is_listed = true;
            flow.credit = self.quantum;
            self.new_flows.push_back(index);
        }
        if self.packets > self.limit {
            self.drop_from_longest(due, out);
        }
    }

    /// Dequeues a packet (RFC 8290 section 4.2).
    fn dequeue(&mut self, now: Time, _: &mut dyn Channel, out: &mut StageOutput) -> Option<Packet> {
        loop {
            let from_new = !self.new_flows.is_empty();
            let index = *if from_new { self.new_flows.front()? } else { self.old_flows.front()? };
            let flow = &mut self.flows[index as usize];
            if flow.credit <= 0 {
                flow.credit += self.quantum;
                if from_new {
                    self.new_flows.pop_front()
                } else {
                    self.old_flows.pop_front()
                };
                self.old_flows.push_back(index);
                continue;
            }
            let (packets, bytes) = flow.queue.fifo.backlog();
            let next = flow.queue.pop(now, &self.settings, out);
            let (packets_left, bytes_left) = flow.queue.fifo.backlog();
            self.packets -= packets - packets_left;
            self.bytes -= bytes - bytes_left;
            if let Some((arrival, packet)) = next {
                flow.credit -= i64::from(packet.bytes);
                self.last_dequeued_arrival = Some(arrival);
                return Some(packet);
            }
            // An empty new queue moves to the old queues, so that it cannot return as new and starve them; an empty old
            // queue is removed.
            if from_new {
                self.new_flows.pop_front();
                self.old_flows.push_back(index);
            } else {
                self.old_flows.pop_front();
                flow.is_listed = false;
            }
        }
    }

    fn ready_at(&self) -> Time {
        if self.packets == 0 { Time::MAX } else { Time::ZERO }
    }

    fn backlog(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }

    fn last_dequeued_arrival(&self) -> Option<Time> {
        self.last_dequeued_arrival
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        match update {
            StageUpdate::Limit(Some(QueueLimit::Packets(packets))) => self.limit = *packets,
            StageUpdate::InFlight(InFlightPolicy::Drop) => {
                for flow in &mut self.flows {
                    flow.queue.fifo.drop_all(due, out);
                }
                (self.packets, self.bytes) = (0, 0);
            }
            _ => {}
        }
    }
}
