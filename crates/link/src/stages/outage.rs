//! Outage periods, in which no packet passes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, Time};

use crate::checks::ValidationResult;
use crate::delay_queue::FifoDelayQueue;
use crate::stage_factory::{BuildContext, StageFactory};
use crate::{DropReason, InFlightPolicy, Stage, StageOutput, StageUpdate};

/// Outage periods, in which no packet passes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OutageSpec {
    /// `[from_ns, to_ns]`, in order, without overlap.
    pub windows: Vec<(u64, u64)>,
    /// Period after which the windows repeat.
    pub repeat_ns: Option<u64>,
    /// Whether packets are delayed until the outage ends, instead of dropped.
    pub buffer_packets: bool,
}

/// Drops the packets that arrive in a window `[from, to)`, or delays them until it ends and emits them together, in
/// order.
#[derive(Debug)]
pub struct Outage {
    windows: Vec<(u64, u64)>,
    repeat: Option<u64>,
    hold: bool,
    queue: FifoDelayQueue,
}

impl Outage {
    /// Creates the stage with windows `(from_ns, to_ns)`, in order and without overlap. With a repeat, the time is
    /// taken modulo `repeat_ns`.
    pub fn new(windows: &[(u64, u64)], repeat_ns: Option<u64>, hold: bool) -> Outage {
        Outage {
            windows: windows.to_vec(),
            repeat: repeat_ns,
            hold,
            queue: FifoDelayQueue::default(),
        }
    }

    /// Returns the end of the outage at `at`; `None` if packets pass.
    fn outage_end(&self, at: Time) -> Option<Time> {
        let mut end = self.window_end(at)?;
        // Windows can be adjacent, also across a repeat: the loop visits each window at most once.
        for _ in 0..self.windows.len() {
            match self.window_end(end) {
                Some(later) => end = later,
                None => return Some(end),
            }
        }
        Some(if self.window_end(end).is_some() { Time::MAX } else { end })
    }

    fn window_end(&self, at: Time) -> Option<Time> {
        let phase = self.repeat.map_or(at.nanos(), |repeat| at.nanos() % repeat);
        let next = self.windows.partition_point(|window| window.1 <= phase);
        let (from, to) = *self.windows.get(next)?;
        (from <= phase).then(|| Time(at.nanos().saturating_add(to - phase)))
    }
}

impl Stage for Outage {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        match self.outage_end(due) {
            None => out.emit(due, packet),
            Some(end) if self.hold => self.queue.push(due, end, packet, out),
            Some(_) => out.drop(due, packet, DropReason::Outage),
        }
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

impl StageFactory for OutageSpec {
    fn kind(&self) -> &'static str {
        "outage"
    }

    fn validate(&self) -> ValidationResult {
        for (from, to) in &self.windows {
            if from >= to {
                return Err(format!("window [{from}, {to}] does not end after its start"));
            }
        }
        for pair in self.windows.windows(2) {
            if pair[0].1 > pair[1].0 {
                let (from, to) = pair[1];
                return Err(format!(
                    "window [{from}, {to}] begins before the end of the previous window"
                ));
            }
        }
        if self.repeat_ns == Some(0) {
            return Err("repeat_ns is 0".into());
        }
        match (self.windows.last(), self.repeat_ns) {
            (Some((_, to)), Some(repeat)) if *to > repeat => {
                Err(format!("the windows end at {to}, after repeat_ns = {repeat}"))
            }
            _ => Ok(()),
        }
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Stage> {
        Box::new(Outage::new(&self.windows, self.repeat_ns, self.buffer_packets))
    }

    fn supports(&self, update: &StageUpdate) -> bool {
        *update == StageUpdate::InFlight(InFlightPolicy::Drop)
    }

    fn max_delay_ns(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_half_open_and_repeat() {
        let outage = Outage::new(&[(10, 20), (20, 25), (90, 100)], Some(100), true);
        let ends = |at| outage.outage_end(Time(at)).map(Time::nanos);
        assert_eq!([ends(9), ends(10), ends(24), ends(25)], [None, Some(25), Some(25), None]);
        assert_eq!([ends(95), ends(100), ends(110)], [Some(100), None, Some(125)]);
        let always = Outage::new(&[(0, 50), (50, 100)], Some(100), true);
        assert_eq!(always.outage_end(Time(7)), Some(Time::MAX));
        let once = Outage::new(&[(10, 20)], None, true);
        assert_eq!(once.outage_end(Time(110)), None);
    }
}
