//! A random extra delay per packet.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, RandomStream, Span, Time};

use crate::blueprint::{Blueprint, Place};
use crate::departures::Departures;
use crate::{Change, Cx, InFlight, Stage};

/// Random extra delay per packet.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct JitterSpec {
    /// Distribution of the extra delay.
    pub model: JitterModel,
    /// Whether packets may overtake each other; otherwise each leaves no earlier than the one
    /// before it.
    pub reorder: bool,
}

/// Distribution of a random extra delay.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum JitterModel {
    /// Uniform between 0 and `most_ns`.
    Uniform {
        /// Upper end.
        most_ns: u64,
    },
    /// Normal, cut off below 0.
    Normal {
        /// Mean.
        mean_ns: u64,
        /// Standard deviation.
        deviation_ns: u64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean_ns: u64,
    },
}

/// Delays each packet by a time drawn for it alone.
#[derive(Debug)]
pub struct Jitter {
    model: JitterModel,
    random: RandomStream,
    inside: Departures,
}

impl Jitter {
    /// Extra delays after `model`; with `reorder` packets overtake each other, otherwise each leaves
    /// no earlier than the one before it.
    pub fn new(model: JitterModel, reorder: bool, random: RandomStream) -> Jitter {
        Jitter { model, random, inside: Departures::new(reorder) }
    }

    fn draw(&mut self) -> Span {
        match self.model {
            // Up to and with `most`.
            JitterModel::Uniform { most_ns } => {
                self.random.span_below(Span(most_ns.saturating_add(1)))
            }
            JitterModel::Normal { mean_ns, deviation_ns } => {
                // A cast of a negative number gives 0, the cut.
                Span((mean_ns as f64 + deviation_ns as f64 * self.random.normal()).round() as u64)
            }
            JitterModel::Exponential { mean_ns } => {
                Span(self.random.exponential(mean_ns as f64).round() as u64)
            }
        }
    }
}

impl Stage for Jitter {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        let leaves = due + self.draw();
        self.inside.push(due, leaves, packet, cx);
    }

    fn poll(&mut self, now: Time, cx: &mut Cx) {
        self.inside.release(now, cx);
    }

    fn poll_at(&self) -> Time {
        self.inside.next()
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        if let Change::InFlight(fate) = change {
            self.inside.hand_over(due, *fate, cx);
        }
    }
}

impl Blueprint for JitterSpec {
    fn kind(&self) -> &'static str {
        "jitter"
    }

    fn make(&self, place: &Place) -> Box<dyn Stage> {
        Box::new(Jitter::new(self.model.clone(), self.reorder, place.random()))
    }

    /// Who may overtake anyway is not held back.
    fn takes(&self, change: &Change) -> bool {
        matches!(change, Change::InFlight(fate) if !self.reorder || *fate == InFlight::Lost)
    }
}
