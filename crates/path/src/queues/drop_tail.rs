//! First in, first out; what does not fit is dropped.

use units::{Packet, Time};

use super::Waiting;
use crate::{Cause, Change, Channel, Cx, InFlight, Limit, Queue};

/// A queue that drops the arrival that does not fit.
#[derive(Debug)]
pub struct DropTail {
    limit: Option<Limit>,
    waiting: Waiting,
    last_arrival: Option<Time>,
}

impl DropTail {
    /// A queue that holds at most `limit`; none: everything.
    pub fn new(limit: Option<Limit>) -> DropTail {
        DropTail { limit, waiting: Waiting::default(), last_arrival: None }
    }
}

impl Queue for DropTail {
    fn enqueue(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        if self.waiting.has_room(self.limit, packet.bytes) {
            self.waiting.push(due, packet);
        } else {
            cx.drop(due, packet, Cause::Overflow);
        }
    }

    fn dequeue(&mut self, _now: Time, _: &mut dyn Channel, _: &mut Cx) -> Option<Packet> {
        let (arrival, packet) = self.waiting.pop()?;
        self.last_arrival = Some(arrival);
        Some(packet)
    }

    fn ready_at(&self) -> Time {
        self.waiting.ready_at()
    }

    fn backlog(&self) -> (u64, u64) {
        self.waiting.backlog()
    }

    fn last_arrival(&self) -> Option<Time> {
        self.last_arrival
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        match change {
            Change::Limit(limit) => self.limit = *limit,
            Change::InFlight(InFlight::Lost) => self.waiting.lose(due, cx),
            _ => {}
        }
    }
}
