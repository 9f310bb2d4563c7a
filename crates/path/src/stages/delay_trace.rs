//! A delay that follows a trace, for example a constellation's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, Span, Time};

use crate::blueprint::{Blueprint, Place, Verdict};
use crate::departures::Departures;
use crate::validate::{in_order, not_empty, within_repeat};
use crate::{Change, Cx, InFlight, Stage};

/// A delay that follows a trace; before the first point the first value holds.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DelayTraceSpec {
    /// Points in order of time, as `[at_ns, delay_ns]`.
    pub points: Vec<(u64, u64)>,
    /// Between points: the last value holds, or linear interpolation.
    pub interpolation: Interpolation,
    /// Length after which the trace starts again; none: the last value holds for ever.
    pub repeat_ns: Option<u64>,
    /// Whether packets may overtake each other when the delay falls.
    pub reorder: bool,
}

/// How a trace is read between its points.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The last point's value holds.
    Step,
    /// Linear between points.
    Linear,
}

/// Delays each packet by the trace's value at the instant it arrives. Before the first point the
/// first value holds, after the last one the last; with a repeat the trace is read at the instant
/// modulo the repeat.
#[derive(Debug)]
pub struct DelayTrace {
    points: Vec<(Time, Span)>,
    interpolation: Interpolation,
    repeat: Option<Span>,
    /// Last point at or before the last instant asked for; instants come in order, so that it only
    /// moves on, and goes back to 0 when the trace repeats.
    cursor: usize,
    inside: Departures,
}

impl DelayTrace {
    /// A trace of at least one point `(at_ns, delay_ns)`, in order of time.
    pub fn new(
        points: &[(u64, u64)],
        interpolation: Interpolation,
        repeat_ns: Option<u64>,
        reorder: bool,
    ) -> DelayTrace {
        assert!(!points.is_empty(), "a delay trace has at least one point");
        DelayTrace {
            points: points.iter().map(|(at, delay)| (Time(*at), Span(*delay))).collect(),
            interpolation,
            repeat: repeat_ns.map(Span),
            cursor: 0,
            inside: Departures::new(reorder),
        }
    }

    /// The delay of a packet that arrives at `at`.
    fn delay(&mut self, at: Time) -> Span {
        let at = self.repeat.map_or(at, |repeat| Time(at.nanos() % repeat.nanos()));
        if self.points[self.cursor].0 > at {
            self.cursor = 0;
        }
        while self.points.get(self.cursor + 1).is_some_and(|point| point.0 <= at) {
            self.cursor += 1;
        }
        let (from, value) = self.points[self.cursor];
        match self.points.get(self.cursor + 1) {
            Some((to, next)) if self.interpolation == Interpolation::Linear && at > from => {
                let part = i128::from(at.since(from).nanos());
                let rise = i128::from(next.nanos()) - i128::from(value.nanos());
                let whole = i128::from(to.since(from).nanos());
                Span((i128::from(value.nanos()) + rise * part / whole) as u64)
            }
            _ => value,
        }
    }
}

impl Stage for DelayTrace {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        let leaves = due + self.delay(due);
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

impl Blueprint for DelayTraceSpec {
    fn kind(&self) -> &'static str {
        "delay_trace"
    }

    fn check(&self) -> Verdict {
        not_empty("points", &self.points)?;
        in_order("points", self.points.iter().map(|point| point.0))?;
        within_repeat("points", self.points.last().map(|point| point.0), self.repeat_ns)
    }

    fn make(&self, _place: &Place) -> Box<dyn Stage> {
        Box::new(DelayTrace::new(&self.points, self.interpolation, self.repeat_ns, self.reorder))
    }

    /// Who may overtake anyway is not held back.
    fn takes(&self, change: &Change) -> bool {
        matches!(change, Change::InFlight(fate) if !self.reorder || *fate == InFlight::Lost)
    }

    fn least_delay_ns(&self) -> Option<u64> {
        self.points.iter().map(|(_, delay)| *delay).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(interpolation: Interpolation, repeat: Option<u64>, at: &[u64]) -> Vec<u64> {
        let mut trace =
            DelayTrace::new(&[(10, 100), (20, 200), (40, 0)], interpolation, repeat, true);
        at.iter().map(|at| trace.delay(Time(*at)).nanos()).collect()
    }

    #[test]
    fn steps_and_lines() {
        let at = [0, 10, 15, 20, 30, 40, 99];
        assert_eq!(delays(Interpolation::Step, None, &at), [100, 100, 100, 200, 200, 0, 0]);
        assert_eq!(delays(Interpolation::Linear, None, &at), [100, 100, 150, 200, 100, 0, 0]);
    }

    #[test]
    fn a_repeat_starts_again() {
        let at = [45, 50, 65, 80, 95, 115];
        assert_eq!(delays(Interpolation::Linear, Some(50), &at), [0, 100, 150, 100, 0, 150]);
    }
}
