//! Packet loss: the models, their specification and its limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, RandomStream, Span, Time};

use crate::blueprint::{Blueprint, Place, Verdict};
use crate::slots::{Chance, Quantiles, Slot, Slots};
use crate::validate::{above_zero, in_order, probability};
use crate::{Cause, Change, Cx, SlotLossSpec, Stage};

/// Packet loss.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LossSpec {
    /// The model.
    pub model: LossModel,
    /// Scheduled changes: from each instant on, Bernoulli loss with this probability.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<LossChange>,
}

/// From `at_ns` on packets are lost with probability `probability`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct LossChange {
    /// Instant of the change.
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
    /// Two states, one transition chance per packet (Gilbert 1960, Elliott 1963).
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
    /// Every packet is lost during `length_ns` at the start of every `period_ns`, from `offset_ns`
    /// on.
    Burst {
        /// Time from one burst's start to the next's.
        period_ns: u64,
        /// Length of a burst.
        length_ns: u64,
        /// Start of the first burst.
        offset_ns: u64,
    },
    /// Each listed packet, counted from 0 in order of arrival, is lost.
    Trace {
        /// Indices in increasing order.
        packets: Vec<u64>,
    },
    /// Bursts where slots begin, and single packets in between, with chances drawn anew in each slot.
    Slots(SlotLossSpec),
}

impl LossModel {
    /// Says what is wrong with a model.
    pub(crate) fn check(&self) -> Result<(), String> {
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
            LossModel::Slots(spec) => spec.check(),
        }
    }
}

/// Loses packets after a model; the others pass at once.
#[derive(Debug)]
pub struct Loss {
    model: Model,
    random: RandomStream,
}

/// A loss model and where it stands.
#[derive(Debug)]
enum Model {
    Bernoulli(f64),
    GilbertElliott { to_bad: f64, to_good: f64, loss_good: f64, loss_bad: f64, bad: bool },
    Burst { period: u64, length: u64, offset: u64 },
    Trace { packets: Vec<u64>, cursor: usize, seen: u64 },
    Slots(Box<SlotLoss>),
}

/// Losses of slots: a burst at the boundary is the link's and hits both directions, single losses are each direction's.
#[derive(Debug)]
struct SlotLoss {
    spec: SlotLossSpec,
    slots: Slots,
    probabilities: Quantiles,
    link: Chance,
    line: Chance,
    /// The slot whose chances are known, until when its burst lasts, and the probability of the others.
    known: Option<u64>,
    burst_end: Time,
    probability: f64,
}

impl SlotLoss {
    fn new(spec: &SlotLossSpec, name: &str, seed: u64) -> SlotLoss {
        SlotLoss {
            slots: Slots::new(spec.slots, name, seed),
            probabilities: Quantiles::of(spec.probability.iter().copied()),
            link: Chance::of_link(name, seed),
            line: Chance::of_line(name, seed),
            known: None,
            burst_end: Time::ZERO,
            probability: 0.0,
            spec: spec.clone(),
        }
    }

    /// The probability with which a packet is lost that comes at `at`.
    fn at(&mut self, at: Time) -> f64 {
        let slot = self.slots.at(at);
        if self.known != Some(slot.number) {
            self.begin(slot);
        }
        if at < self.burst_end { 1.0 } else { self.probability }
    }

    fn begin(&mut self, slot: Slot) {
        self.known = Some(slot.number);
        self.probability = self.probabilities.at(self.line.stream("loss", slot.number).uniform());
        let mut burst = self.link.stream("burst", slot.number);
        let (is_one, rank) = (burst.chance(self.spec.burst_probability), burst.uniform());
        // The run does not begin with a hand-over.
        self.burst_end = if is_one && slot.number > 0 {
            slot.begin + Span(Quantiles::whole(&self.spec.burst_ns).at(rank).round() as u64)
        } else {
            Time::ZERO
        };
    }
}

impl Loss {
    /// Loss after `model` on the line `name` of run `seed`; `random` is the packets' own chance. A Gilbert-Elliott chain starts in its stationary distribution, so that a
    /// short run is not kinder than a long one.
    pub(crate) fn new(model: &LossModel, name: &str, seed: u64, mut random: RandomStream) -> Loss {
        let model = match *model {
            LossModel::Bernoulli { probability } => Model::Bernoulli(probability),
            LossModel::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => {
                let total = good_to_bad + bad_to_good;
                Model::GilbertElliott {
                    to_bad: good_to_bad,
                    to_good: bad_to_good,
                    loss_good,
                    loss_bad,
                    bad: random.uniform() * total < good_to_bad,
                }
            }
            LossModel::Burst { period_ns, length_ns, offset_ns } => {
                Model::Burst { period: period_ns, length: length_ns, offset: offset_ns }
            }
            LossModel::Trace { ref packets } => {
                Model::Trace { packets: packets.clone(), cursor: 0, seen: 0 }
            }
            LossModel::Slots(ref spec) => Model::Slots(Box::new(SlotLoss::new(spec, name, seed))),
        };
        Loss { model, random }
    }

    /// Whether the packet that arrives at `at` is lost. A model draws the same number of times for
    /// every packet, so that runs that differ in a probability see the same chance.
    fn loses(&mut self, at: Time) -> bool {
        match &mut self.model {
            Model::Bernoulli(probability) => self.random.chance(*probability),
            Model::GilbertElliott { to_bad, to_good, loss_good, loss_bad, bad } => {
                let lost = self.random.chance(if *bad { *loss_bad } else { *loss_good });
                let leave = self.random.chance(if *bad { *to_good } else { *to_bad });
                *bad ^= leave;
                lost
            }
            Model::Slots(slots) => self.random.chance(slots.at(at)),
            Model::Burst { period, length, offset } => {
                at.nanos() >= *offset && (at.nanos() - *offset) % *period < *length
            }
            Model::Trace { packets, cursor, seen } => {
                let lost = packets.get(*cursor) == Some(seen);
                *cursor += usize::from(lost);
                *seen += 1;
                lost
            }
        }
    }
}

impl Stage for Loss {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        if self.loses(due) {
            cx.drop(due, packet, Cause::Loss);
        } else {
            cx.emit(due, packet);
        }
    }

    fn poll(&mut self, _now: Time, _cx: &mut Cx) {}

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn change(&mut self, _due: Time, change: &Change, _cx: &mut Cx) {
        if let Change::Loss(probability) = change {
            self.model = Model::Bernoulli(*probability);
        }
    }
}

impl Blueprint for LossSpec {
    fn kind(&self) -> &'static str {
        "loss"
    }

    fn check(&self) -> Verdict {
        self.model.check()?;
        in_order("changes", self.changes.iter().map(|c| c.at_ns))?;
        self.changes.iter().try_for_each(|c| probability("changes: probability", c.probability))
    }

    fn make(&self, place: &Place) -> Box<dyn Stage> {
        Box::new(Loss::new(&self.model, place.line, place.seed, place.random()))
    }

    fn takes(&self, change: &Change) -> bool {
        matches!(change, Change::Loss(_))
    }

    fn changes(&self) -> Vec<(Time, Change)> {
        self.changes.iter().map(|c| (Time(c.at_ns), Change::Loss(c.probability))).collect()
    }
}
