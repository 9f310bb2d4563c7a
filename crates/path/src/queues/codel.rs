//! CoDel (RFC 8289): drops at the head of the queue when the smallest waiting time of an interval
//! has stayed above a target.

use units::{Packet, Span, Time};

use super::Waiting;
use crate::{Cause, Change, Channel, Cx, InFlight, Limit, Queue};

/// Intervals within which a new dropping state starts from the drop rate of the last one
/// (RFC 8289 section 5.5: `now - drop_next_ < 16 * INTERVAL`).
const MEMORY_INTERVALS: u64 = 16;

/// What a CoDel queue is set to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// The waiting time to stay below (RFC 8289 section 4.3).
    pub target: Span,
    /// The time in which the waiting time must have been below it once (RFC 8289 section 4.2).
    pub interval: Span,
    /// Mark ECN-capable packets instead of dropping them (RFC 8290 section 5.2.6).
    pub ecn: bool,
}

/// A queue under CoDel; the names are those of RFC 8289 section 5.2.
#[derive(Clone, Debug, Default)]
pub(super) struct Controlled {
    pub waiting: Waiting,
    /// When the waiting time will have been above the target for an interval; none: it is below.
    first_above: Option<Time>,
    /// When to drop next, while dropping.
    drop_next: Time,
    /// Drops since the dropping state began.
    count: u32,
    /// `count` when the dropping state began.
    last_count: u32,
    dropping: bool,
    /// The largest packet seen: a queue of no more than that is not a standing queue.
    max_packet: u32,
}

impl Controlled {
    /// A packet arrives (RFC 8289 section 5.4: only the time is noted).
    pub fn push(&mut self, due: Time, packet: Packet) {
        self.max_packet = self.max_packet.max(packet.bytes);
        self.waiting.push(due, packet);
    }

    /// RFC 8289 section 5.5, `deque`: the packet to send and when it had arrived.
    pub fn pop(&mut self, now: Time, set: &Settings, cx: &mut Cx) -> Option<(Time, Packet)> {
        let (mut head, mut may_drop) = self.head(now, set);
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                self.count += 1;
                if self.marks(&mut head, set, cx) {
                    self.drop_next = control_law(self.drop_next, self.count, set.interval);
                    return head;
                }
                discard(head, now, cx);
                (head, may_drop) = self.head(now, set);
                self.dropping = may_drop;
                if may_drop {
                    self.drop_next = control_law(self.drop_next, self.count, set.interval);
                }
            }
        } else if may_drop {
            if !self.marks(&mut head, set, cx) {
                discard(head, now, cx);
                (head, _) = self.head(now, set);
            }
            self.dropping = true;
            // A queue that was under control a short while ago starts at the rate that controlled
            // it.
            let before = self.count.saturating_sub(self.last_count);
            let recent = now.since(self.drop_next) < set.interval * MEMORY_INTERVALS;
            self.count = if before > 1 && recent { before } else { 1 };
            self.drop_next = control_law(now, self.count, set.interval);
            self.last_count = self.count;
        }
        head
    }

    /// RFC 8289 section 5.5, `dodequeue`: the first packet, and whether it may be dropped.
    fn head(&mut self, now: Time, set: &Settings) -> (Option<(Time, Packet)>, bool) {
        let Some(head) = self.waiting.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let below = now.since(head.0) < set.target;
        if below || self.waiting.bytes <= u64::from(self.max_packet) {
            self.first_above = None;
            return (Some(head), false);
        }
        let first_above = *self.first_above.get_or_insert(now + set.interval);
        (Some(head), now >= first_above)
    }

    /// Marks the packet instead, if it can be marked.
    fn marks(&self, head: &mut Option<(Time, Packet)>, set: &Settings, cx: &mut Cx) -> bool {
        match head {
            Some((_, packet)) if set.ecn && packet.ecn.is_capable() => {
                cx.mark(packet);
                true
            }
            _ => false,
        }
    }
}

fn discard(head: Option<(Time, Packet)>, now: Time, cx: &mut Cx) {
    if let Some((_, packet)) = head {
        cx.drop(now, packet, Cause::Aqm);
    }
}

/// RFC 8289 section 5.6: the interval over the square root of the number of drops.
fn control_law(from: Time, count: u32, interval: Span) -> Time {
    from + interval.scale(1.0 / libm::sqrt(f64::from(count)))
}

/// One queue under CoDel.
#[derive(Debug)]
pub struct Codel {
    limit: Option<Limit>,
    settings: Settings,
    queue: Controlled,
    last_arrival: Option<Time>,
}

impl Codel {
    /// A queue with a `target` waiting time over an `interval` (RFC 8289 sections 4.3 and 4.2: 5 ms
    /// and 100 ms suit most paths of the Internet); `ecn` marks ECN-capable packets instead of
    /// dropping them.
    pub fn new(limit: Option<Limit>, target: Span, interval: Span, ecn: bool) -> Codel {
        Codel {
            limit,
            settings: Settings { target, interval, ecn },
            queue: Controlled::default(),
            last_arrival: None,
        }
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        if self.queue.waiting.has_room(self.limit, packet.bytes) {
            self.queue.push(due, packet);
        } else {
            cx.drop(due, packet, Cause::Overflow);
        }
    }

    fn dequeue(&mut self, now: Time, _: &mut dyn Channel, cx: &mut Cx) -> Option<Packet> {
        let (arrival, packet) = self.queue.pop(now, &self.settings, cx)?;
        self.last_arrival = Some(arrival);
        Some(packet)
    }

    fn ready_at(&self) -> Time {
        self.queue.waiting.ready_at()
    }

    fn backlog(&self) -> (u64, u64) {
        self.queue.waiting.backlog()
    }

    fn last_arrival(&self) -> Option<Time> {
        self.last_arrival
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        match change {
            Change::Limit(limit) => self.limit = *limit,
            Change::InFlight(InFlight::Lost) => self.queue.waiting.lose(due, cx),
            _ => {}
        }
    }
}
