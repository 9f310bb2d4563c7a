//! Linux netem with `rate`, `delay` and `limit` in one stage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, Rate, Serializer, Span, Time};

use crate::checks::{ValidationResult, above_zero};
use crate::delay_queue::FifoDelayQueue;
use crate::stage_factory::{BuildContext, StageFactory};
use crate::{DropReason, Histogram, QueueGauge, QueueLimit, Stage, StageOutput, StageUpdate};

/// Linux netem with `rate`, `delay` and `limit` in one stage: the limit includes the packets in the delay line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NetemSpec {
    /// Rate, in bits per second.
    pub rate_bit_s: u64,
    /// One-way delay after serialisation.
    pub delay_ns: u64,
    /// Limit in packets of queue and delay line together.
    pub limit_packets: u64,
}

/// One queue for waiting and delayed packets, as in `tc qdisc ... netem rate R delay D limit N`. The departure time is
/// computed at arrival. The limit includes every packet that has not departed (Linux `sch_netem.c`, `netem_enqueue`).
///
/// A change of rate, delay or limit applies to packets that arrive from then on; departures stay in order.
#[derive(Debug)]
pub struct Netem {
    serializer: Serializer,
    delay: Span,
    limit: u64,
    queue: FifoDelayQueue,
    queued_bytes: u64,
    sent_bytes: u64,
    /// The end of the transmission of all packets so far.
    busy_until: Time,
    sojourn: Histogram,
}

impl Netem {
    /// Creates a stage with at most `limit` packets inside.
    pub fn new(rate: Rate, delay: Span, limit: u64) -> Netem {
        Netem {
            serializer: Serializer::new(rate),
            delay,
            limit,
            queue: FifoDelayQueue::default(),
            queued_bytes: 0,
            sent_bytes: 0,
            busy_until: Time::ZERO,
            sojourn: Histogram::default(),
        }
    }
}

impl Stage for Netem {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        if self.queue.len() as u64 >= self.limit {
            out.drop(due, packet, DropReason::QueueOverflow);
            return;
        }
        // As in netem, the delay precedes the transmission. For a constant delay, the reverse order gives the same
        // departures.
        let ready = due + self.delay;
        self.sojourn.record(self.busy_until.since(ready));
        self.busy_until = self.serializer.begin(ready, packet.bytes);
        self.queued_bytes += u64::from(packet.bytes);
        self.queue.enqueue(self.busy_until, packet);
    }

    fn poll(&mut self, now: Time, out: &mut StageOutput) {
        while let Some((due, packet)) = self.queue.pop_due(now) {
            self.queued_bytes -= u64::from(packet.bytes);
            self.sent_bytes += u64::from(packet.bytes);
            out.emit(due, packet);
        }
    }

    fn poll_at(&self) -> Time {
        self.queue.next_due()
    }

    fn apply_update(&mut self, _due: Time, update: &StageUpdate, _out: &mut StageOutput) {
        match update {
            StageUpdate::Rate(rate) => self.serializer.set_rate(*rate),
            StageUpdate::Delay(delay) => self.delay = *delay,
            StageUpdate::Limit(Some(QueueLimit::Packets(packets))) => self.limit = *packets,
            _ => {}
        }
    }

    /// Returns all packets inside as queued, including the delay line, as `tc -s qdisc` does; bytes count as sent at
    /// departure.
    fn gauge(&self) -> QueueGauge {
        QueueGauge {
            queued_packets: self.queue.len() as u64,
            queued_bytes: self.queued_bytes,
            sent_bytes: self.sent_bytes,
        }
    }

    fn sojourn(&self) -> Option<&Histogram> {
        Some(&self.sojourn)
    }
}

impl StageFactory for NetemSpec {
    fn kind(&self) -> &'static str {
        "netem"
    }

    fn validate(&self) -> ValidationResult {
        above_zero("rate_bit_s", self.rate_bit_s)?;
        above_zero("limit_packets", self.limit_packets)
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Stage> {
        Box::new(Netem::new(Rate(self.rate_bit_s), Span(self.delay_ns), self.limit_packets))
    }

    fn supports(&self, update: &StageUpdate) -> bool {
        matches!(
            update,
            StageUpdate::Rate(_)
                | StageUpdate::Delay(_)
                | StageUpdate::Limit(Some(QueueLimit::Packets(_)))
        )
    }

    fn min_delay_ns(&self) -> Option<u64> {
        Some(self.delay_ns)
    }

    fn max_rate_bit_s(&self) -> Option<u64> {
        Some(self.rate_bit_s)
    }
}
