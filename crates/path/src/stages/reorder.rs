//! Some packets are held back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, RandomStream, Span, Time};

use crate::blueprint::{Blueprint, Place, Verdict};
use crate::departures::Fifo;
use crate::validate::probability;
use crate::{Change, Cx, InFlight, Stage};

/// Some packets are held back by a fixed time, so that later ones overtake them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ReorderSpec {
    /// Probability that a packet is held back.
    pub probability: f64,
    /// How long it is held back.
    pub hold_ns: u64,
}

/// Holds each packet back with a probability, for a fixed time; the others pass at once and
/// overtake it.
#[derive(Debug)]
pub struct Reorder {
    probability: f64,
    hold: Span,
    random: RandomStream,
    held: Fifo,
}

impl Reorder {
    /// Holds a packet back with probability `probability` for `hold`.
    pub fn new(probability: f64, hold: Span, random: RandomStream) -> Reorder {
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

impl Blueprint for ReorderSpec {
    fn kind(&self) -> &'static str {
        "reorder"
    }

    fn check(&self) -> Verdict {
        probability("probability", self.probability)
    }

    fn make(&self, place: &Place) -> Box<dyn Stage> {
        Box::new(Reorder::new(self.probability, Span(self.hold_ns), place.random()))
    }

    /// Who may overtake anyway is not held back.
    fn takes(&self, change: &Change) -> bool {
        *change == Change::InFlight(InFlight::Lost)
    }
}
