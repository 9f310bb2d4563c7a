//! Some packets are held back.

use units::{Packet, Random, Span, Time};

use crate::departures::Fifo;
use crate::{Change, Cx, Stage};

/// Holds each packet back with a probability, for a fixed time; the others pass at once and
/// overtake it.
#[derive(Debug)]
pub struct Reorder {
    probability: f64,
    hold: Span,
    random: Random,
    held: Fifo,
}

impl Reorder {
    /// Holds a packet back with probability `probability` for `hold`.
    pub fn new(probability: f64, hold: Span, random: Random) -> Reorder {
        Reorder { probability, hold, random, held: Fifo::default() }
    }
}

impl Stage for Reorder {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        if self.random.chance(self.probability) {
            self.held.push(due, due + self.hold, packet, cx);
        } else {
            cx.emit(due, packet);
        }
    }

    fn poll(&mut self, now: Time, cx: &mut Cx) {
        self.held.release(now, cx);
    }

    fn poll_at(&self) -> Time {
        self.held.next()
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        if let Change::InFlight(fate) = change {
            self.held.hand_over(due, *fate, cx);
        }
    }
}
