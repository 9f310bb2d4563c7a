//! What schedulers that look at the channel have in common: rates, their averages, and the largest of what each makes of
//! them.

use units::{Span, Time};

use super::scheduler::{Choice, Head, Scheduler};
use crate::{AverageSpec, Averaged, Channel, Fate, Job};

/// What a scheduler goes by.
pub(super) trait Metric: Send + std::fmt::Debug {
    /// `user` has got the next slot.
    fn came(&mut self, user: u32) {
        let _ = user;
    }

    /// Looks at all who wait before any of them is judged.
    fn look(&mut self, now: Time, heads: &[Head]) {
        let _ = (now, heads);
    }

    /// How much who has `slot` should be served: by its rate, that beside its average, and how long its first packet
    /// has waited.
    fn value(&self, slot: usize, rate: f64, ratio: f64, waited: Span) -> f64;
}

/// Serves whose metric is the largest; of several the one who was served the longest ago.
#[derive(Debug)]
pub(super) struct ByChannel<M> {
    metric: M,
    average: Option<AverageSpec>,
    /// How late rates are known.
    late: Span,
    users: Vec<u32>,
    rates: Vec<f64>,
    averages: Vec<f64>,
    /// When each was chosen last, as a count of choices.
    chosen: Vec<u64>,
    choices: u64,
    /// When the rates were looked at last.
    looked: Option<Time>,
    /// The instant that averages of what was served are scaled to: all decay alike, so none is touched until it grows.
    scale: Time,
    best: Best,
}

/// Whose channel is the best.
#[derive(Debug, Default)]
struct Best {
    slot: usize,
    /// For how long each was, and how often it became so.
    had: Vec<(Span, u64)>,
}

/// Time constants after which the scale of averages is renewed: exp(50) is far from what a float can hold.
const RENEWED: f64 = 50.0;

impl<M: Metric> ByChannel<M> {
    /// By `metric`, with an average if it needs one, of a channel that is known `late`.
    pub fn new(metric: M, average: Option<AverageSpec>, late: Span) -> ByChannel<M> {
        ByChannel {
            metric,
            average,
            late,
            users: Vec::new(),
            rates: Vec::new(),
            averages: Vec::new(),
            chosen: Vec::new(),
            choices: 0,
            looked: None,
            scale: Time::ZERO,
            best: Best::default(),
        }
    }

    /// Learns the rates, and with them the averages of the channel: a value counts for the time since the one before.
    fn look(&mut self, now: Time, channel: &mut dyn Channel) {
        let at = Time(now.nanos().saturating_sub(self.late.nanos()));
        channel.rates(at, &self.users, &mut self.rates);
        let since = now.since(self.looked.unwrap_or(now));
        self.best.look(&self.rates, since);
        if let Some(AverageSpec { of: Averaged::Channel, window_ns }) = self.average {
            let weight = -libm::expm1(-(since.nanos() as f64) / window_ns as f64);
            for (average, rate) in self.averages.iter_mut().zip(&self.rates) {
                // Of who is new it is the first value.
                let weight = if average.is_nan() { 1.0 } else { weight };
                let before = if average.is_nan() { 0.0 } else { *average };
                *average = before + weight * (rate - before);
            }
        }
        self.looked = Some(now);
    }
}

impl Best {
    fn look(&mut self, rates: &[f64], since: Span) {
        let before = self.slot;
        self.had[before].0 += since;
        let mut largest = rates[before];
        for (slot, rate) in rates.iter().enumerate() {
            if *rate > largest {
                (self.slot, largest) = (slot, *rate);
            }
        }
        self.had[self.slot].1 += u64::from(self.slot != before || self.had[before].1 == 0);
    }
}

impl<M: Metric> Scheduler for ByChannel<M> {
    fn came(&mut self, _slot: usize, user: u32) {
        self.users.push(user);
        self.rates.push(0.0);
        self.averages.push(match self.average {
            Some(AverageSpec { of: Averaged::Channel, .. }) => f64::NAN,
            _ => 0.0,
        });
        self.chosen.push(0);
        self.best.had.push((Span::ZERO, 0));
        self.metric.came(user);
    }

    fn choose(&mut self, now: Time, heads: &[Head], channel: &mut dyn Channel) -> Choice {
        self.look(now, channel);
        self.metric.look(now, heads);
        let (mut best, mut value, mut turn) = (usize::MAX, f64::NEG_INFINITY, u64::MAX);
        for (slot, head) in heads.iter().enumerate() {
            if !head.is_some() {
                continue;
            }
            let rate = self.rates[slot];
            // Who has had nothing yet is beyond all others.
            let ratio = rate / self.averages[slot].max(f64::MIN_POSITIVE);
            let own = self.metric.value(slot, rate, ratio, now.since(head.arrived));
            if own > value || (own == value && self.chosen[slot] < turn) {
                (best, value, turn) = (slot, own, self.chosen[slot]);
            }
        }
        self.choices += 1;
        self.chosen[best] = self.choices;
        Choice::Goes(best)
    }

    fn served(&mut self, due: Time, slot: usize, job: &Job, _air: Span, fate: Fate) {
        let Some(AverageSpec { of: Averaged::Served, window_ns }) = self.average else { return };
        if job.copy || !matches!(fate, Fate::Deliver | Fate::Unconfirmed { .. }) {
            return;
        }
        let windows = due.since(self.scale).nanos() as f64 / window_ns as f64;
        self.averages[slot] += f64::from(job.packet.bytes) * libm::exp(windows);
        if windows > RENEWED {
            self.scale = due;
            let decayed = libm::exp(-windows);
            self.averages.iter_mut().for_each(|average| *average *= decayed);
        }
    }

    fn best(&self, slot: usize) -> Option<(Span, u64)> {
        Some(self.best.had[slot])
    }
}
