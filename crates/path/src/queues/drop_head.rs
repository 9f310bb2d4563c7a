//! First in, first out; what does not fit makes room at the front.

use units::{Packet, Time};

use super::Waiting;
use crate::{Cause, Change, Channel, Cx, InFlight, Limit, Queue};

/// A queue that drops those who have waited longest until the arrival fits, as Lakshman, Neidhardt and Ott describe it
/// (INFOCOM 1996): a sender hears of a loss a whole queue earlier than behind drop-tail, and what is delivered is recent.
#[derive(Debug)]
pub struct DropHead {
    limit: Option<Limit>,
    waiting: Waiting,
    last_arrival: Option<Time>,
}

impl DropHead {
    /// A queue that holds at most `limit`; none: everything.
    pub fn new(limit: Option<Limit>) -> DropHead {
        DropHead { limit, waiting: Waiting::default(), last_arrival: None }
    }
}

impl Queue for DropHead {
    fn enqueue(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        // Who does not fit an empty queue makes nobody leave.
        if !Waiting::default().has_room(self.limit, packet.bytes) {
            cx.drop(due, packet, Cause::Overflow);
            return;
        }
        while !self.waiting.has_room(self.limit, packet.bytes)
            && let Some((_, oldest)) = self.waiting.pop()
        {
            cx.drop(due, oldest, Cause::Overflow);
        }
        self.waiting.push(due, packet);
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
