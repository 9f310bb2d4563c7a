//! Channel-aware schedulers. Their common parts are rates, averages of rates, and the selection of the largest metric
//! value. The schedulers differ in their [`Metric`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Opt, Span, Time};

use super::{HeadOfLine, Scheduler, Selection};
use crate::checks::{ValidationResult, above_zero};
use crate::{Channel, ServiceOutcome, Transmission};

/// The option `average`.
pub(super) const AVERAGE: Opt = Opt::choice(
    "average",
    &["channel", "served"],
    "average of the channel's rate, or of the served bytes",
)
.field("average.quantity")
.default_word("channel");

/// The option `window`: 1,000 slots of 1.667 ms (Jalali, Padovani and Pankaj, VTC 2000).
pub(super) const WINDOW: Opt =
    Opt::duration("window", "average.window_ns", "time constant of the average")
        .min(1.0)
        .default_integer(1_667_000_000);

/// The option `csi_delay`, which the planner writes into the queue's specification.
pub(super) const CHANNEL_DELAY: Opt =
    Opt::duration("csi_delay", "", "age of the channel state at the scheduler")
        .max(1e9)
        .default_integer(0);

/// An exponential average of a user's rates.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AverageSpec {
    /// The averaged quantity.
    pub quantity: AveragedQuantity,
    /// The time constant.
    pub window_ns: u64,
}

/// The quantity to average.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum AveragedQuantity {
    /// The rate of the channel.
    Channel,
    /// The decoded bytes.
    Served,
}

impl AverageSpec {
    pub(super) fn validate(&self) -> ValidationResult {
        above_zero("window_ns", self.window_ns)
    }
}

/// The metric of a channel-aware scheduler.
pub(super) trait Metric: Send + std::fmt::Debug {
    /// Adds `user` with the next user index.
    fn add_user(&mut self, user: u32) {
        let _ = user;
    }

    /// Updates the state from all backlogged users, before the first value is computed.
    fn update(&mut self, now: Time, heads: &[HeadOfLine]) {
        let _ = (now, heads);
    }

    /// Returns the metric of a user from its rate, the ratio of rate to average, and the waiting time of its
    /// head-of-line packet.
    fn value(&self, user_index: usize, rate: f64, ratio: f64, waited: Span) -> f64;
}

/// Serves the user with the largest metric; ties go to the user that was selected least recently.
#[derive(Debug)]
pub(super) struct ChannelAware<M> {
    metric: M,
    average: Option<AverageSpec>,
    /// Age of the rates.
    channel_delay: Span,
    users: Vec<u32>,
    rates: Vec<f64>,
    averages: Vec<f64>,
    /// The last selection of each user, as a count of selections.
    last_selected: Vec<u64>,
    selections: u64,
    /// The time of the last update of the rates.
    last_update: Option<Time>,
    /// The time to which served averages are scaled. All decay alike, so only an increase changes a value.
    scale_at: Time,
    best: BestChannel,
}

/// The user with the best channel.
#[derive(Debug, Default)]
struct BestChannel {
    user_index: usize,
    /// Per user, the time with the best channel, and how often it became the best.
    stats: Vec<(Span, u64)>,
}

/// Time constants after which the averages are rescaled: exp(50) is far from the largest float.
const RESCALE_WINDOWS: f64 = 50.0;

impl<M: Metric> ChannelAware<M> {
    /// Creates a scheduler with `metric`, an average if required, and channel state that is `channel_delay` old.
    pub fn new(metric: M, average: Option<AverageSpec>, channel_delay: Span) -> ChannelAware<M> {
        ChannelAware {
            metric,
            average,
            channel_delay,
            users: Vec::new(),
            rates: Vec::new(),
            averages: Vec::new(),
            last_selected: Vec::new(),
            selections: 0,
            last_update: None,
            scale_at: Time::ZERO,
            best: BestChannel::default(),
        }
    }

    /// Updates the rates and the averages of the channel; a value is weighted by the time since the previous update.
    fn update_rates(&mut self, now: Time, channel: &mut dyn Channel) {
        let at = Time(now.nanos().saturating_sub(self.channel_delay.nanos()));
        channel.rates(at, &self.users, &mut self.rates);
        let since = now.since(self.last_update.unwrap_or(now));
        self.best.update(&self.rates, since);
        if let Some(AverageSpec { quantity: AveragedQuantity::Channel, window_ns }) = self.average {
            let weight = -libm::expm1(-(since.nanos() as f64) / window_ns as f64);
            for (average, rate) in self.averages.iter_mut().zip(&self.rates) {
                // The average of a new user starts with the first value.
                let weight = if average.is_nan() { 1.0 } else { weight };
                let before = if average.is_nan() { 0.0 } else { *average };
                *average = before + weight * (rate - before);
            }
        }
        self.last_update = Some(now);
    }
}

impl BestChannel {
    fn update(&mut self, rates: &[f64], since: Span) {
        let before = self.user_index;
        self.stats[before].0 += since;
        let mut largest = rates[before];
        for (user_index, rate) in rates.iter().enumerate() {
            if *rate > largest {
                (self.user_index, largest) = (user_index, *rate);
            }
        }
        self.stats[self.user_index].1 +=
            u64::from(self.user_index != before || self.stats[before].1 == 0);
    }
}

impl<M: Metric> Scheduler for ChannelAware<M> {
    fn add_user(&mut self, _user_index: usize, user: u32) {
        self.users.push(user);
        self.rates.push(0.0);
        self.averages.push(match self.average {
            Some(AverageSpec { quantity: AveragedQuantity::Channel, .. }) => f64::NAN,
            _ => 0.0,
        });
        self.last_selected.push(0);
        self.best.stats.push((Span::ZERO, 0));
        self.metric.add_user(user);
    }

    fn select(&mut self, now: Time, heads: &[HeadOfLine], channel: &mut dyn Channel) -> Selection {
        self.update_rates(now, channel);
        self.metric.update(now, heads);
        let (mut best, mut value, mut last_selected) = (usize::MAX, f64::NEG_INFINITY, u64::MAX);
        for (user_index, head) in heads.iter().enumerate() {
            if !head.is_some() {
                continue;
            }
            let rate = self.rates[user_index];
            // A user that was not served yet has the largest ratio.
            let ratio = rate / self.averages[user_index].max(f64::MIN_POSITIVE);
            let metric = self.metric.value(user_index, rate, ratio, now.since(head.arrived));
            if metric > value || (metric == value && self.last_selected[user_index] < last_selected)
            {
                (best, value, last_selected) = (user_index, metric, self.last_selected[user_index]);
            }
        }
        self.selections += 1;
        self.last_selected[best] = self.selections;
        Selection::Serve(best)
    }

    fn on_service_end(
        &mut self,
        due: Time,
        user_index: usize,
        transmission: &Transmission,
        _airtime: Span,
        outcome: ServiceOutcome,
    ) {
        let Some(AverageSpec { quantity: AveragedQuantity::Served, window_ns }) = self.average
        else {
            return;
        };
        if transmission.is_duplicate
            || !matches!(outcome, ServiceOutcome::Deliver | ServiceOutcome::Unconfirmed { .. })
        {
            return;
        }
        let windows = due.since(self.scale_at).nanos() as f64 / window_ns as f64;
        self.averages[user_index] += f64::from(transmission.packet.bytes) * libm::exp(windows);
        if windows > RESCALE_WINDOWS {
            self.scale_at = due;
            let decayed = libm::exp(-windows);
            self.averages.iter_mut().for_each(|average| *average *= decayed);
        }
    }

    fn best_channel_stats(&self, user_index: usize) -> Option<(Span, u64)> {
        Some(self.best.stats[user_index])
    }
}
