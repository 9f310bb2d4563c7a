//! Channel-aware schedulers. Their common parts are rates, averages of rates, and the selection of the largest metric
//! value. The schedulers differ in their [`Metric`].

use units::{Span, Time};

use super::{HeadOfLine, Scheduler, Selection};
use crate::{AverageSpec, AveragedQuantity, Channel, DeadlineSpec, ServiceOutcome, Transmission};

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

/// Maximum rate: serves the user with the best channel (Knopp and Humblet, ICC 1995). It maximises the throughput and
/// starves users with a bad channel. The metric is the rate itself.
#[derive(Debug)]
pub(super) struct MaximumRate;

impl Metric for MaximumRate {
    fn value(&self, _user_index: usize, rate: f64, _ratio: f64, _waited: Span) -> f64 {
        rate
    }
}

/// Proportional fair: the largest ratio of the channel's rate to its average, `r / r-bar` (Tauran 2018, equations 6.3
/// and 6.4). Jalali, Padovani and Pankaj (VTC 2000) average the served rate.
#[derive(Debug)]
pub(super) struct ProportionalFair;

impl Metric for ProportionalFair {
    fn value(&self, _user_index: usize, _rate: f64, ratio: f64, _waited: Span) -> f64 {
        ratio
    }
}

/// The urgency of users with a deadline.
#[derive(Debug)]
pub(super) struct Urgency {
    /// `a`, per nanosecond.
    rate: f64,
    best_effort: Vec<u32>,
    /// `a` by user index; `None` for best effort.
    users: Vec<Option<f64>>,
}

impl Urgency {
    pub fn new(spec: &DeadlineSpec) -> Urgency {
        Urgency {
            rate: -libm::log(spec.violation) / spec.delay_ns as f64,
            best_effort: spec.best_effort.clone(),
            users: Vec::new(),
        }
    }

    pub fn add_user(&mut self, user: u32) {
        let bound = self.best_effort.binary_search(&user).is_err();
        self.users.push(bound.then_some(self.rate));
    }

    /// Returns `a W`; `None` for best effort.
    pub fn value(&self, user_index: usize, waited: Span) -> Option<f64> {
        self.users[user_index].map(|rate| rate * waited.nanos() as f64)
    }
}

/// M-LWDF, modified largest weighted delay first (Andrews, Kumaran, Ramanan, Stolyar, Whiting and Vijayakumar, IEEE
/// Communications Magazine 39(2), 2001): `a W r / r-bar`. W is the waiting time of the head-of-line packet,
/// `a = -log(d) / T` for a delay above T in a share d of packets. The metric of users without a bound is `r / r-bar`.
#[derive(Debug)]
pub(super) struct MLwdf(Urgency);

impl MLwdf {
    pub fn new(spec: &DeadlineSpec) -> MLwdf {
        MLwdf(Urgency::new(spec))
    }
}

impl Metric for MLwdf {
    fn add_user(&mut self, user: u32) {
        self.0.add_user(user);
    }

    fn value(&self, user_index: usize, _rate: f64, ratio: f64, waited: Span) -> f64 {
        self.0.value(user_index, waited).unwrap_or(1.0) * ratio
    }
}

/// EXP-PF, exponential proportional fair (Rhee, Holtzman and Kim, VTC 2003):
/// `exp((a W - X) / (1 + sqrt(X))) r / r-bar`. X is the mean of `a W` over the backlogged users with a deadline; `a`
/// and W are those of M-LWDF. The metric of users without a deadline is `r / r-bar`.
#[derive(Debug)]
pub(super) struct ExpPf {
    urgency: Urgency,
    /// X, and `1 / (1 + sqrt(X))`.
    mean: f64,
    slope: f64,
}

impl ExpPf {
    pub fn new(spec: &DeadlineSpec) -> ExpPf {
        ExpPf { urgency: Urgency::new(spec), mean: 0.0, slope: 1.0 }
    }
}

impl Metric for ExpPf {
    fn add_user(&mut self, user: u32) {
        self.urgency.add_user(user);
    }

    fn update(&mut self, now: Time, heads: &[HeadOfLine]) {
        let (mut sum, mut count) = (0.0, 0u32);
        for (user_index, head) in heads.iter().enumerate().filter(|(_, head)| head.is_some()) {
            if let Some(urgency) = self.urgency.value(user_index, now.since(head.arrived)) {
                sum += urgency;
                count += 1;
            }
        }
        self.mean = sum / f64::from(count.max(1));
        self.slope = 1.0 / (1.0 + libm::sqrt(self.mean));
    }

    fn value(&self, user_index: usize, _rate: f64, ratio: f64, waited: Span) -> f64 {
        match self.urgency.value(user_index, waited) {
            Some(urgency) => libm::exp((urgency - self.mean) * self.slope) * ratio,
            None => ratio,
        }
    }
}

/// CoDeS, the controlled delay scheduler (Tauran 2018, section 6.3.5): proportional fair. Packets that have waited for
/// longer than a limit are dropped.
#[derive(Debug)]
pub(super) struct Codes {
    fair: ChannelAware<ProportionalFair>,
    limit: Span,
}

impl Codes {
    pub fn new(fair: ChannelAware<ProportionalFair>, limit: Span) -> Codes {
        Codes { fair, limit }
    }
}

impl Scheduler for Codes {
    fn add_user(&mut self, user_index: usize, user: u32) {
        self.fair.add_user(user_index, user);
    }

    fn select(&mut self, now: Time, heads: &[HeadOfLine], channel: &mut dyn Channel) -> Selection {
        self.fair.select(now, heads, channel)
    }

    fn on_service_end(
        &mut self,
        due: Time,
        user_index: usize,
        transmission: &Transmission,
        airtime: Span,
        outcome: ServiceOutcome,
    ) {
        self.fair.on_service_end(due, user_index, transmission, airtime, outcome);
    }

    fn max_wait(&self) -> Option<Span> {
        Some(self.limit)
    }

    fn best_channel_stats(&self, user_index: usize) -> Option<(Span, u64)> {
        self.fair.best_channel_stats(user_index)
    }
}
