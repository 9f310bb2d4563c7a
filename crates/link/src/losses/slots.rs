//! Losses per time slot: bursts at handovers between slots, and independent losses in between.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, RandomStream, Span, Time};

use super::{LossFactory, LossProcess};
use crate::ReconfigurationSpec;
use crate::checks::{ValidationResult, check_quantiles, probability};
use crate::time_slots::{Quantiles, SlotStreams, TimeSlot, TimeSlots};

/// Packet loss per time slot: bursts at a handover between slots, and independent single losses.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ReconfigurationLossSpec {
    /// The reconfiguration intervals.
    pub reconfiguration: ReconfigurationSpec,
    /// The independent loss probability of each packet in a slot.
    pub probability: Vec<f64>,
    /// The probability that a slot begins with a burst, during which all packets are lost.
    pub burst_probability: f64,
    /// Length of a burst; empty only without bursts.
    pub burst_ns: Vec<u64>,
}

impl ReconfigurationLossSpec {
    /// The descriptor of the member. The table `slots` of a direction has its options.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "",
        spec_kind: "reconfiguration",
        aliases: &[],
        title: "Losses that are drawn per time slot",
        reference: "",
        options: &[],
        draws: true,
        live_name: "slot_loss",
    };
}

impl LossFactory for ReconfigurationLossSpec {
    fn validate(&self) -> ValidationResult {
        self.reconfiguration.validate()?;
        check_quantiles("probability", self.probability.iter().copied())?;
        self.probability.iter().try_for_each(|p| probability("probability", *p))?;
        probability("burst_probability", self.burst_probability)?;
        if self.burst_probability > 0.0 || !self.burst_ns.is_empty() {
            check_quantiles("burst_ns", self.burst_ns.iter().map(|ns| *ns as f64))?;
        }
        Ok(())
    }

    fn build(&self, name: &str, seed: u64, _: &mut RandomStream) -> Box<dyn LossProcess> {
        Box::new(SlotLoss {
            slots: TimeSlots::new(self.reconfiguration, name, seed),
            probabilities: Quantiles::from_values(self.probability.iter().copied()),
            link_streams: SlotStreams::for_link(name, seed),
            simplex_link_streams: SlotStreams::for_simplex_link(name, seed),
            known_slot: None,
            burst_end: Time::ZERO,
            probability: 0.0,
            spec: self.clone(),
        })
    }
}

/// Losses per slot: a burst at a boundary is common to both directions of the link; single losses are independent.
#[derive(Debug)]
struct SlotLoss {
    spec: ReconfigurationLossSpec,
    slots: TimeSlots,
    probabilities: Quantiles,
    link_streams: SlotStreams,
    simplex_link_streams: SlotStreams,
    /// The slot with known draws, the end of its burst, and the probability of single losses.
    known_slot: Option<u64>,
    burst_end: Time,
    probability: f64,
}

impl SlotLoss {
    /// Returns the loss probability of a packet that arrives at `at`.
    fn probability_at(&mut self, at: Time) -> f64 {
        let slot = self.slots.at(at);
        if self.known_slot != Some(slot.number) {
            self.start_slot(slot);
        }
        if at < self.burst_end { 1.0 } else { self.probability }
    }

    fn start_slot(&mut self, slot: TimeSlot) {
        self.known_slot = Some(slot.number);
        self.probability =
            self.probabilities.at(self.simplex_link_streams.stream("loss", slot.number).uniform());
        let mut burst = self.link_streams.stream("burst", slot.number);
        let (has_burst, rank) = (burst.chance(self.spec.burst_probability), burst.uniform());
        // The start of the run is not a handover.
        self.burst_end = if has_burst && slot.number > 0 {
            slot.begin + Span(Quantiles::from_integers(&self.spec.burst_ns).at(rank).round() as u64)
        } else {
            Time::ZERO
        };
    }
}

impl LossProcess for SlotLoss {
    fn is_lost(&mut self, at: Time, random: &mut RandomStream) -> bool {
        random.chance(self.probability_at(at))
    }
}
