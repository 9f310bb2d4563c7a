//! A random extra delay per packet.

use units::{Packet, Random, Span, Time};

use crate::departures::Departures;
use crate::{Change, Cx, JitterSpec, Stage};

/// Delays each packet by a time drawn for it alone.
#[derive(Debug)]
pub struct Jitter {
    model: JitterSpec,
    random: Random,
    inside: Departures,
}

impl Jitter {
    /// Extra delays after `model`; with `reorder` packets overtake each other, otherwise each leaves
    /// no earlier than the one before it.
    pub fn new(model: JitterSpec, reorder: bool, random: Random) -> Jitter {
        Jitter { model, random, inside: Departures::new(reorder) }
    }

    fn draw(&mut self) -> Span {
        match self.model {
            // Up to and with `most`.
            JitterSpec::Uniform { most_ns } => {
                self.random.span_below(Span(most_ns.saturating_add(1)))
            }
            JitterSpec::Normal { mean_ns, deviation_ns } => {
                // A cast of a negative number gives 0, the cut.
                Span((mean_ns as f64 + deviation_ns as f64 * self.random.normal()).round() as u64)
            }
            JitterSpec::Exponential { mean_ns } => {
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
