//! Packet loss: the models, their specification and its validation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, RandomStream, Span, Time};

use crate::stage_factory::{BuildContext, StageFactory, ValidationResult};
use crate::time_slots::{Quantiles, SlotStreams, TimeSlot, TimeSlots};
use crate::validate::{above_zero, in_order, probability};
use crate::{DropReason, SlotLossSpec, Stage, StageOutput, StageUpdate};

/// Packet loss.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LossSpec {
    /// The model.
    pub model: LossModel,
    /// Scheduled changes: from each instant, Bernoulli loss with this probability.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<LossChange>,
}

/// A change of the loss probability at `at_ns`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LossChange {
    /// Time of the change.
    pub at_ns: u64,
    /// New loss probability.
    pub probability: f64,
}

/// A loss model.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LossModel {
    /// Each packet is lost independently.
    Bernoulli {
        /// Loss probability.
        probability: f64,
    },
    /// Two states with one possible transition per packet (Gilbert 1960, Elliott 1963).
    GilbertElliott {
        /// Probability of good to bad, per packet.
        good_to_bad: f64,
        /// Probability of bad to good, per packet.
        bad_to_good: f64,
        /// Loss probability in the good state.
        loss_good: f64,
        /// Loss probability in the bad state.
        loss_bad: f64,
    },
    /// All packets are lost during `length_ns` at the start of every `period_ns`, from `offset_ns` onwards.
    Burst {
        /// Time between the starts of two bursts.
        period_ns: u64,
        /// Length of a burst.
        length_ns: u64,
        /// Start of the first burst.
        offset_ns: u64,
    },
    /// The listed packets are lost, counted from 0 in order of arrival.
    Trace {
        /// Indexes in increasing order.
        packets: Vec<u64>,
    },
    /// Bursts at slot boundaries and single losses in between, with probabilities drawn per slot.
    Slots(SlotLossSpec),
}

impl LossModel {
    /// Validates the model.
    pub(crate) fn validate(&self) -> Result<(), String> {
        match self {
            LossModel::Bernoulli { probability: p } => probability("probability", *p),
            LossModel::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
                probability("good_to_bad", *good_to_bad)?;
                probability("bad_to_good", *bad_to_good)?;
                probability("loss_good", *loss_good)?;
                probability("loss_bad", *loss_bad)
            }
            LossModel::Burst { period_ns, length_ns, .. } => {
                above_zero("period_ns", *period_ns)?;
                if length_ns > period_ns {
                    return Err(format!("length_ns = {length_ns} exceeds period_ns = {period_ns}"));
                }
                Ok(())
            }
            LossModel::Trace { packets } => in_order("packets", packets.iter().copied()),
            LossModel::Slots(spec) => spec.validate(),
        }
    }
}

/// Drops packets by a loss model; the others pass at once.
#[derive(Debug)]
pub struct Loss {
    model: LossState,
    random: RandomStream,
}

/// A loss model and its state.
#[derive(Debug)]
enum LossState {
    Bernoulli(f64),
    GilbertElliott { to_bad: f64, to_good: f64, loss_good: f64, loss_bad: f64, bad: bool },
    Burst { period: u64, length: u64, offset: u64 },
    Trace { packets: Vec<u64>, cursor: usize, seen: u64 },
    Slots(Box<SlotLoss>),
}

/// Losses per slot: a burst at a boundary is common to both directions of the link; single losses are independent.
#[derive(Debug)]
struct SlotLoss {
    spec: SlotLossSpec,
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
    fn new(spec: &SlotLossSpec, name: &str, seed: u64) -> SlotLoss {
        SlotLoss {
            slots: TimeSlots::new(spec.slots, name, seed),
            probabilities: Quantiles::from_values(spec.probability.iter().copied()),
            link_streams: SlotStreams::for_link(name, seed),
            simplex_link_streams: SlotStreams::for_simplex_link(name, seed),
            known_slot: None,
            burst_end: Time::ZERO,
            probability: 0.0,
            spec: spec.clone(),
        }
    }

    /// Returns the loss probability of a packet that arrives at `at`.
    fn at(&mut self, at: Time) -> f64 {
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
        let (is_one, rank) = (burst.chance(self.spec.burst_probability), burst.uniform());
        // The start of the run is not a handover.
        self.burst_end = if is_one && slot.number > 0 {
            slot.begin + Span(Quantiles::from_integers(&self.spec.burst_ns).at(rank).round() as u64)
        } else {
            Time::ZERO
        };
    }
}

impl Loss {
    /// Creates the loss stage of simplex link `name` of run `seed`; `random` is the stream per packet. A
    /// Gilbert-Elliott chain starts in its stationary distribution, so that short runs are unbiased.
    pub(crate) fn new(model: &LossModel, name: &str, seed: u64, mut random: RandomStream) -> Loss {
        let model = match *model {
            LossModel::Bernoulli { probability } => LossState::Bernoulli(probability),
            LossModel::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
                let total = good_to_bad + bad_to_good;
                LossState::GilbertElliott {
                    to_bad: good_to_bad,
                    to_good: bad_to_good,
                    loss_good,
                    loss_bad,
                    bad: random.uniform() * total < good_to_bad,
                }
            }
            LossModel::Burst { period_ns, length_ns, offset_ns } => {
                LossState::Burst { period: period_ns, length: length_ns, offset: offset_ns }
            }
            LossModel::Trace { ref packets } => {
                LossState::Trace { packets: packets.clone(), cursor: 0, seen: 0 }
            }
            LossModel::Slots(ref spec) => {
                LossState::Slots(Box::new(SlotLoss::new(spec, name, seed)))
            }
        };
        Loss { model, random }
    }

    /// Returns whether the packet that arrives at `at` is lost. A model draws equally often for every packet, so that
    /// runs with different probabilities use the same random numbers.
    fn is_lost(&mut self, at: Time) -> bool {
        match &mut self.model {
            LossState::Bernoulli(probability) => self.random.chance(*probability),
            LossState::GilbertElliott { to_bad, to_good, loss_good, loss_bad, bad } => {
                let lost = self.random.chance(if *bad { *loss_bad } else { *loss_good });
                let leave = self.random.chance(if *bad { *to_good } else { *to_bad });
                *bad ^= leave;
                lost
            }
            LossState::Slots(slots) => self.random.chance(slots.at(at)),
            LossState::Burst { period, length, offset } => {
                at.nanos() >= *offset && (at.nanos() - *offset) % *period < *length
            }
            LossState::Trace { packets, cursor, seen } => {
                let lost = packets.get(*cursor) == Some(seen);
                *cursor += usize::from(lost);
                *seen += 1;
                lost
            }
        }
    }
}

impl Stage for Loss {
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        if self.is_lost(due) {
            out.drop(due, packet, DropReason::Loss);
        } else {
            out.emit(due, packet);
        }
    }

    fn poll(&mut self, _now: Time, _out: &mut StageOutput) {}

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn apply_update(&mut self, _due: Time, update: &StageUpdate, _out: &mut StageOutput) {
        if let StageUpdate::Loss(probability) = update {
            self.model = LossState::Bernoulli(*probability);
        }
    }
}

impl StageFactory for LossSpec {
    fn kind(&self) -> &'static str {
        "loss"
    }

    fn validate(&self) -> ValidationResult {
        self.model.validate()?;
        in_order("changes", self.changes.iter().map(|c| c.at_ns))?;
        self.changes.iter().try_for_each(|c| probability("changes: probability", c.probability))
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Stage> {
        Box::new(Loss::new(&self.model, context.link_name, context.seed, context.random_stream()))
    }

    fn supports(&self, update: &StageUpdate) -> bool {
        matches!(update, StageUpdate::Loss(_))
    }

    fn scheduled_updates(&self) -> Vec<(Time, StageUpdate)> {
        self.changes.iter().map(|c| (Time(c.at_ns), StageUpdate::Loss(c.probability))).collect()
    }
}
