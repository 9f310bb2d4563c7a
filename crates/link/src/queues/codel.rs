//! CoDel (RFC 8289): drops at the head of the queue when the smallest sojourn time of an interval has stayed above a
//! target.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, Packet, Span, Time};

use super::QueueFactory;
use super::packet_fifo::PacketFifo;
use super::queue_factory::LIMIT;
use crate::checks::{ValidationResult, above_zero};
use crate::stage_factory::BuildContext;
use crate::{
    Channel, DropReason, InFlightPolicy, Queue, QueueLimit, StageOutput, StageUpdate, checks,
};

/// Intervals within which a new dropping state starts from the drop rate of the last one
/// (RFC 8289 section 5.5: `now - drop_next_ < 16 * INTERVAL`).
const REENTRY_INTERVALS: u64 = 16;

/// The settings of a CoDel queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodelSettings {
    /// The target sojourn time (RFC 8289 section 4.3).
    pub target: Span,
    /// The interval in which the sojourn time must be below the target once (RFC 8289 section 4.2).
    pub interval: Span,
    /// Mark ECN-capable packets instead of dropping them (RFC 8290 section 5.2.6).
    pub ecn: bool,
}

/// A CoDel queue; the names are those of RFC 8289 section 5.2.
#[derive(Clone, Debug, Default)]
pub(super) struct CodelQueue {
    pub fifo: PacketFifo,
    /// The time at which the sojourn time has been above the target for an interval; `None` if it is below.
    first_above: Option<Time>,
    /// The time of the next drop in the dropping state.
    drop_next: Time,
    /// Number of drops since the dropping state began.
    count: u32,
    /// `count` when the dropping state began.
    last_count: u32,
    dropping: bool,
    /// The largest packet so far: a queue of at most that size is not a standing queue.
    max_packet: u32,
}

impl CodelQueue {
    /// Accepts a packet (RFC 8289 section 5.4: only a timestamp is stored).
    pub fn push(&mut self, due: Time, packet: Packet) {
        self.max_packet = self.max_packet.max(packet.bytes);
        self.fifo.push(due, packet);
    }

    /// Returns the packet to send and its arrival time (RFC 8289 section 5.5, `deque`).
    pub fn pop(
        &mut self,
        now: Time,
        set: &CodelSettings,
        out: &mut StageOutput,
    ) -> Option<(Time, Packet)> {
        let (mut head, mut may_drop) = self.head(now, set);
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if self.try_mark(&mut head, set, out) {
                    self.drop_next = control_law(self.drop_next, self.count, set.interval);
                    return head;
                }
                discard(head, now, out);
                (head, may_drop) = self.head(now, set);
                self.dropping = may_drop;
                if may_drop {
                    self.drop_next = control_law(self.drop_next, self.count, set.interval);
                }
            }
        } else if may_drop {
            if !self.try_mark(&mut head, set, out) {
                discard(head, now, out);
                (head, _) = self.head(now, set);
            }
            self.dropping = true;
            // A queue that left the dropping state recently starts at the previous drop rate.
            let before = self.count.saturating_sub(self.last_count);
            let recent = now.since(self.drop_next) < set.interval * REENTRY_INTERVALS;
            self.count = if before > 1 && recent { before } else { 1 };
            self.drop_next = control_law(now, self.count, set.interval);
            self.last_count = self.count;
        }
        head
    }

    /// Returns the first packet and whether it may be dropped (RFC 8289 section 5.5, `dodequeue`).
    fn head(&mut self, now: Time, set: &CodelSettings) -> (Option<(Time, Packet)>, bool) {
        let Some(head) = self.fifo.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let below = now.since(head.0) < set.target;
        if below || self.fifo.bytes <= u64::from(self.max_packet) {
            self.first_above = None;
            return (Some(head), false);
        }
        let first_above = *self.first_above.get_or_insert(now + set.interval);
        (Some(head), now >= first_above)
    }

    /// Marks the packet if it is ECN-capable, instead of dropping it.
    fn try_mark(
        &self,
        head: &mut Option<(Time, Packet)>,
        set: &CodelSettings,
        out: &mut StageOutput,
    ) -> bool {
        match head {
            Some((_, packet)) if set.ecn && packet.ecn.is_capable() => {
                out.mark(packet);
                true
            }
            _ => false,
        }
    }
}

fn discard(head: Option<(Time, Packet)>, now: Time, out: &mut StageOutput) {
    if let Some((_, packet)) = head {
        out.drop(now, packet, DropReason::Aqm);
    }
}

/// Returns the time of the next drop (RFC 8289 section 5.6): the interval over the square root of the drop count.
fn control_law(from: Time, count: u32, interval: Span) -> Time {
    from + interval.scale(1.0 / libm::sqrt(f64::from(count)))
}

/// The option `target`: 5 ms suit most paths of the Internet (RFC 8289 section 4.3).
pub(super) const TARGET: Opt =
    Opt::duration("target", "target_ns", "the sojourn time that a standing queue may have")
        .min(1.0)
        .default_integer(5_000_000);

/// The option `interval`: 100 ms suit most paths of the Internet (RFC 8289 section 4.2).
pub(super) const INTERVAL: Opt =
    Opt::duration("interval", "interval_ns", "the time after which a standing queue drops")
        .min(1.0)
        .default_integer(100_000_000);

/// The option `ecn`. As in Linux, it is on for FQ-CoDel and off for CoDel.
pub(super) const ECN: Opt = Opt::flag("ecn", "mark ECN-capable packets instead of dropping them");

/// CoDel (RFC 8289).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CodelSpec {
    /// The limit; unbounded without one.
    pub limit: Option<QueueLimit>,
    /// Target sojourn time.
    pub target_ns: u64,
    /// Interval.
    pub interval_ns: u64,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl CodelSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "codel",
        spec_kind: "codel",
        aliases: &[],
        title: "CoDel",
        reference: "RFC 8289",
        options: &[LIMIT, TARGET, INTERVAL, ECN.default_flag(false)],
        draws: false,
        live_name: "",
    };
}

impl QueueFactory for CodelSpec {
    fn validate(&self) -> ValidationResult {
        checks::limit(self.limit)?;
        validate_codel(self.target_ns, self.interval_ns)
    }

    fn build(&self, _: &BuildContext) -> Box<dyn Queue> {
        let (target, interval) = (Span(self.target_ns), Span(self.interval_ns));
        Box::new(Codel::new(self.limit, target, interval, self.ecn))
    }
}

/// Validates target and interval.
pub(super) fn validate_codel(target_ns: u64, interval_ns: u64) -> ValidationResult {
    above_zero("target_ns", target_ns)?;
    above_zero("interval_ns", interval_ns)
}

/// A single queue with CoDel.
#[derive(Debug)]
pub struct Codel {
    limit: Option<QueueLimit>,
    settings: CodelSettings,
    queue: CodelQueue,
    last_dequeued_arrival: Option<Time>,
}

impl Codel {
    /// Creates a queue with a `target` sojourn time over an `interval`. RFC 8289 sections 4.3 and 4.2: 5 ms and 100 ms
    /// suit most paths of the Internet. `ecn` marks ECN-capable packets instead of dropping them.
    pub fn new(limit: Option<QueueLimit>, target: Span, interval: Span, ecn: bool) -> Codel {
        Codel {
            limit,
            settings: CodelSettings { target, interval, ecn },
            queue: CodelQueue::default(),
            last_dequeued_arrival: None,
        }
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        if self.queue.fifo.fits(self.limit, packet.bytes) {
            self.queue.push(due, packet);
        } else {
            out.drop(due, packet, DropReason::QueueOverflow);
        }
    }

    fn dequeue(&mut self, now: Time, _: &mut dyn Channel, out: &mut StageOutput) -> Option<Packet> {
        let (arrival, packet) = self.queue.pop(now, &self.settings, out)?;
        self.last_dequeued_arrival = Some(arrival);
        Some(packet)
    }

    fn ready_at(&self) -> Time {
        self.queue.fifo.ready_at()
    }

    fn backlog(&self) -> (u64, u64) {
        self.queue.fifo.backlog()
    }

    fn last_dequeued_arrival(&self) -> Option<Time> {
        self.last_dequeued_arrival
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        match update {
            StageUpdate::Limit(limit) => self.limit = *limit,
            StageUpdate::InFlight(InFlightPolicy::Drop) => self.queue.fifo.drop_all(due, out),
            _ => {}
        }
    }
}
