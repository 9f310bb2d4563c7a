//! EXP-PF, exponential proportional fair (Rhee, Holtzman and Kim, VTC 2003):
//! `exp((a W - X) / (1 + sqrt(X))) r / r-bar`. X is the mean of `a W` over the backlogged users with a deadline; `a`
//! and W are those of M-LWDF. The metric of users without a deadline is `r / r-bar`.

use units::{Span, Time};

use super::channel_aware::Metric;
use super::m_lwdf::Urgency;
use super::scheduler::HeadOfLine;
use crate::DeadlineSpec;

/// The exponential rule.
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
