//! A delay that follows a trace, for example that of a constellation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, Span, Time};

use crate::checks::{ValidationResult, in_order, not_empty, within_repeat};
use crate::delay_queue::DelayQueue;
use crate::stage_factory::{BuildContext, StageFactory};
use crate::{InFlightPolicy, Interpolation, Stage, StageOutput, StageUpdate};

/// A delay that follows a trace. The first value also applies before the first point.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DelayTraceSpec {
    /// Points in order of time, as `[at_ns, delay_ns]`.
    pub points: Vec<(u64, u64)>,
    /// Between points: the last value, or linear interpolation.
    pub interpolation: Interpolation,
    /// Period after which the trace repeats; without it, the last value applies without end.
    pub repeat_ns: Option<u64>,
    /// Whether packets can overtake each other when the delay decreases.
    pub reorder: bool,
}

/// Delays each packet by the trace's value at its arrival. The first value also applies before the first point, the
/// last value after the last one. With a repeat, the time is taken modulo the period.
#[derive(Debug)]
pub struct DelayTrace {
    points: Vec<(Time, Span)>,
    interpolation: Interpolation,
    repeat: Option<Span>,
    /// Last point at or before the last query. Queries are in order of time, so it only advances, and returns to 0 when
    /// the trace repeats.
    cursor: usize,
    queue: DelayQueue,
}

impl DelayTrace {
    /// Creates a trace of at least one point `(at_ns, delay_ns)`, in order of time.
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
            queue: DelayQueue::new(reorder),
        }
    }

    /// Returns the delay of a packet that arrives at `at`.
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
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        let leaves = due + self.delay(due);
        self.queue.push(due, leaves, packet, out);
    }

    fn poll(&mut self, now: Time, out: &mut StageOutput) {
        self.queue.release(now, out);
    }

    fn poll_at(&self) -> Time {
        self.queue.next_due()
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        if let StageUpdate::InFlight(policy) = update {
            self.queue.apply_policy(due, *policy, out);
        }
    }
}

impl StageFactory for DelayTraceSpec {
    fn kind(&self) -> &'static str {
        "delay_trace"
    }

    fn validate(&self) -> ValidationResult {
        not_empty("points", &self.points)?;
        in_order("points", self.points.iter().map(|point| point.0))?;
        within_repeat("points", self.points.last().map(|point| point.0), self.repeat_ns)
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Stage> {
        Box::new(DelayTrace::new(&self.points, self.interpolation, self.repeat_ns, self.reorder))
    }

    /// With reordering, only the policy to drop applies.
    fn supports(&self, update: &StageUpdate) -> bool {
        matches!(update, StageUpdate::InFlight(policy) if !self.reorder || *policy == InFlightPolicy::Drop)
    }

    fn min_delay_ns(&self) -> Option<u64> {
        self.points.iter().map(|(_, delay)| *delay).min()
    }

    fn max_delay_ns(&self) -> Option<u64> {
        self.points.iter().map(|(_, delay)| *delay).max()
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
    fn step_and_linear_interpolation() {
        let at = [0, 10, 15, 20, 30, 40, 99];
        assert_eq!(delays(Interpolation::Step, None, &at), [100, 100, 100, 200, 200, 0, 0]);
        assert_eq!(delays(Interpolation::Linear, None, &at), [100, 100, 150, 200, 100, 0, 0]);
    }

    #[test]
    fn the_trace_repeats() {
        let at = [45, 50, 65, 80, 95, 115];
        assert_eq!(delays(Interpolation::Linear, Some(50), &at), [0, 100, 150, 100, 0, 150]);
    }
}
