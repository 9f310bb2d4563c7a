//! Time slots: link properties are redrawn at their boundaries, as a constellation's scheduler assigns satellites.
//!
//! All draws are functions of (seed, link, slot), independent of the traffic. Virtual and real time therefore agree,
//! and the delay, the rate and the loss of both directions have the same boundaries.

use crate::checks::above_zero;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{RandomStream, Time};

/// Slots of equal length with optional random offsets of the boundaries.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct ReconfigurationSpec {
    /// Nominal length of a slot.
    pub interval_ns: u64,
    /// The first boundary after the start, less than `interval_ns`: the end of slot 0.
    pub phase_ns: u64,
    /// Maximum offset of each boundary, uniform in both directions; less than half of `interval_ns`.
    pub jitter_ns: u64,
}

impl ReconfigurationSpec {
    /// Validates the slots.
    pub(crate) fn validate(&self) -> Result<(), String> {
        above_zero("reconfiguration: interval_ns", self.interval_ns)?;
        if self.phase_ns >= self.interval_ns {
            return Err(format!("reconfiguration: phase_ns = {} is a slot or more", self.phase_ns));
        }
        if self.jitter_ns >= self.interval_ns.div_ceil(2) {
            return Err(format!(
                "reconfiguration: jitter_ns = {} is half a slot or more",
                self.jitter_ns
            ));
        }
        Ok(())
    }
}

/// The random streams of a link, or of one of its directions.
#[derive(Clone, Debug)]
pub(crate) struct SlotStreams {
    seed: u64,
    name: String,
}

impl SlotStreams {
    /// Returns the streams of the simplex link `name` of run `seed`.
    pub fn for_simplex_link(name: &str, seed: u64) -> SlotStreams {
        SlotStreams { seed, name: name.to_owned() }
    }

    /// Returns the streams of the link of which `name` (`"<link>.up"` or `"<link>.down"`) is one direction.
    pub fn for_link(name: &str, seed: u64) -> SlotStreams {
        let link = name.strip_suffix(".up").or_else(|| name.strip_suffix(".down"));
        SlotStreams { seed, name: link.unwrap_or(name).to_owned() }
    }

    /// Returns the stream of slot `number` for `purpose`.
    pub fn stream(&self, purpose: &str, number: u64) -> RandomStream {
        RandomStream::named(self.seed, &self.name, &format!("slot.{purpose}.{number}"))
    }
}

/// Finds the slot of an instant; calls are in order of time.
#[derive(Clone, Debug)]
pub(crate) struct TimeSlots {
    spec: ReconfigurationSpec,
    streams: SlotStreams,
    current: TimeSlot,
}

/// A time slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSlot {
    /// Number from 0, the slot in which the run starts.
    pub number: u64,
    pub begin: Time,
    pub end: Time,
}

impl TimeSlots {
    /// Creates the slots of the link of which simplex link `name` of run `seed` is one direction.
    pub fn new(spec: ReconfigurationSpec, name: &str, seed: u64) -> TimeSlots {
        let chance = SlotStreams::for_link(name, seed);
        let mut slots = TimeSlots {
            spec,
            streams: chance,
            current: TimeSlot { number: 0, begin: Time::ZERO, end: Time::ZERO },
        };
        slots.current = slots.slot(0);
        slots
    }

    /// Returns the boundary at which slot `number` ends.
    fn boundary(&self, number: u64) -> Time {
        let at = number.saturating_mul(self.spec.interval_ns).saturating_add(self.spec.phase_ns);
        let reach = 2 * self.spec.jitter_ns + 1;
        let later = self.streams.stream("boundary", number).below(reach);
        Time(at.saturating_add(later).saturating_sub(self.spec.jitter_ns))
    }

    fn slot(&self, number: u64) -> TimeSlot {
        let begin = number.checked_sub(1).map_or(Time::ZERO, |before| self.boundary(before));
        TimeSlot { number, begin, end: self.boundary(number) }
    }

    /// Returns the slot of `at`. A boundary belongs to the slot that begins there.
    pub fn at(&mut self, at: Time) -> TimeSlot {
        if at >= self.current.end {
            // The offset of a boundary is less than half a slot: the result is this slot or a neighbour.
            let about = at.nanos().saturating_sub(self.spec.phase_ns) / self.spec.interval_ns;
            let mut number = about.max(self.current.number);
            while self.boundary(number) <= at {
                number += 1;
            }
            self.current = self.slot(number);
        }
        self.current
    }
}

/// A distribution by its quantiles: values for equally spaced probabilities from 0 to 1, linear in between.
#[derive(Clone, Debug)]
pub(crate) struct Quantiles(Vec<f64>);

impl Quantiles {
    pub fn from_values(values: impl Iterator<Item = f64>) -> Quantiles {
        let values: Vec<f64> = values.collect();
        assert!(!values.is_empty(), "a distribution has at least one quantile");
        Quantiles(values)
    }

    pub fn from_integers(values: &[u64]) -> Quantiles {
        Quantiles::from_values(values.iter().map(|value| *value as f64))
    }

    /// Returns the quantile of probability `rank`.
    pub fn at(&self, rank: f64) -> f64 {
        let position = rank.clamp(0.0, 1.0) * (self.0.len() - 1) as f64;
        let below = position as usize;
        let (low, high) = (self.0[below], self.0[(below + 1).min(self.0.len() - 1)]);
        low + (high - low) * (position - below as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn slots(phase_ns: u64, jitter_ns: u64, name: &str) -> TimeSlots {
        TimeSlots::new(ReconfigurationSpec { interval_ns: 15 * S, phase_ns, jitter_ns }, name, 1)
    }

    #[test]
    fn boundaries_are_periodic_from_the_phase() {
        let mut slots = slots(12 * S, 0, "dish.up");
        let mut at = |ns: u64| slots.at(Time(ns)).number;
        assert_eq!(
            [at(0), at(12 * S - 1), at(12 * S), at(27 * S - 1), at(27 * S)],
            [0, 0, 1, 1, 2]
        );
        assert_eq!([at(6012 * S - 1), at(6012 * S)], [400, 401]);
    }

    #[test]
    fn boundary_jitter_is_bounded_and_common_to_the_link() {
        let (mut up, mut down) = (slots(2 * S, 3 * S, "dish.up"), slots(2 * S, 3 * S, "dish.down"));
        let mut ends = Vec::new();
        for step in 0..40_000u64 {
            let (one, other) = (up.at(Time(step * S / 20)), down.at(Time(step * S / 20)));
            assert_eq!(one, other);
            assert!(one.begin <= Time(step * S / 20) && Time(step * S / 20) < one.end);
            if ends.last() != Some(&one.end.nanos()) {
                ends.push(one.end.nanos());
            }
        }
        // Infrequent calls give the same slots.
        let mut rare = slots(2 * S, 3 * S, "dish.up");
        assert_eq!(
            rare.at(Time(1_800 * S)),
            slots(2 * S, 3 * S, "dish.up").slot(rare.current.number)
        );
        let off = |(n, end): (usize, &u64)| *end as i64 - (n as u64 * 15 * S + 2 * S) as i64;
        let off: Vec<i64> = ends.iter().enumerate().skip(1).map(off).collect();
        assert!(off.iter().all(|off| off.unsigned_abs() <= 3 * S));
        assert!(
            off.iter().any(|off| *off < -(2 * S as i64))
                && off.iter().any(|off| *off > 2 * S as i64)
        );
    }

    #[test]
    fn quantiles_are_interpolated() {
        let table = Quantiles::from_integers(&[10, 20, 40]);
        let at = [0.0, 0.25, 0.5, 0.75, 1.0].map(|rank| table.at(rank));
        assert_eq!(at, [10.0, 15.0, 20.0, 30.0, 40.0]);
        assert_eq!(Quantiles::from_integers(&[7]).at(0.9), 7.0);
        assert!(crate::checks::check_quantiles("x", [1.0, f64::NAN].into_iter()).is_err());
    }
}
