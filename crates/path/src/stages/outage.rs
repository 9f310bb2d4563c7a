//! Periods in which nothing passes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, Time};

use crate::blueprint::{Blueprint, Place, Verdict};
use crate::departures::Fifo;
use crate::{Cause, Change, Cx, InFlight, Stage};

/// Periods in which nothing passes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OutageSpec {
    /// `[from_ns, to_ns]`, in order, not overlapping.
    pub windows: Vec<(u64, u64)>,
    /// Length after which the windows come again.
    pub repeat_ns: Option<u64>,
    /// Packets that meet an outage are dropped, or held until it ends.
    pub hold: bool,
}

/// Drops the packets that arrive in a window `[from, to)`, or holds them until it ends and lets
/// them go together, in order.
#[derive(Debug)]
pub struct Outage {
    windows: Vec<(u64, u64)>,
    repeat: Option<u64>,
    hold: bool,
    held: Fifo,
}

impl Outage {
    /// Windows `(from_ns, to_ns)`, in order and not overlapping; with a repeat they are read at the
    /// instant modulo `repeat_ns`.
    pub fn new(windows: &[(u64, u64)], repeat_ns: Option<u64>, hold: bool) -> Outage {
        Outage { windows: windows.to_vec(), repeat: repeat_ns, hold, held: Fifo::default() }
    }

    /// The end of the outage at `at`; none if packets pass.
    fn ends(&self, at: Time) -> Option<Time> {
        let mut end = self.window_end(at)?;
        // Windows may touch each other, also across a repeat: at most all of them, once.
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
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        match self.ends(due) {
            None => cx.emit(due, packet),
            Some(end) if self.hold => self.held.push(due, end, packet, cx),
            Some(_) => cx.drop(due, packet, Cause::Outage),
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

impl Blueprint for OutageSpec {
    fn kind(&self) -> &'static str {
        "outage"
    }

    fn check(&self) -> Verdict {
        for (from, to) in &self.windows {
            if from >= to {
                return Err(format!("window [{from}, {to}] is empty or runs backwards"));
            }
        }
        for pair in self.windows.windows(2) {
            if pair[0].1 > pair[1].0 {
                let (from, to) = pair[1];
                return Err(format!("window [{from}, {to}] begins before the one before it ends"));
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

    fn make(&self, _place: &Place) -> Box<dyn Stage> {
        Box::new(Outage::new(&self.windows, self.repeat_ns, self.hold))
    }

    fn takes(&self, change: &Change) -> bool {
        *change == Change::InFlight(InFlight::Lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_half_open_and_repeat() {
        let outage = Outage::new(&[(10, 20), (20, 25), (90, 100)], Some(100), true);
        let ends = |at| outage.ends(Time(at)).map(Time::nanos);
        assert_eq!([ends(9), ends(10), ends(24), ends(25)], [None, Some(25), Some(25), None]);
        assert_eq!([ends(95), ends(100), ends(110)], [Some(100), None, Some(125)]);
        let always = Outage::new(&[(0, 50), (50, 100)], Some(100), true);
        assert_eq!(always.ends(Time(7)), Some(Time::MAX));
        let once = Outage::new(&[(10, 20)], None, true);
        assert_eq!(once.ends(Time(110)), None);
    }
}
