//! EXP-PF, exponential proportional fair (Rhee, Holtzman and Kim, VTC 2003): `exp((a W - X) / (1 + sqrt(X))) r / r-bar`, X the
//! mean of `a W` over those who wait and have a deadline, `a` and W as in M-LWDF. Who has no deadline competes by
//! `r / r-bar` alone.

use units::{Span, Time};

use super::by_channel::Metric;
use super::m_lwdf::Urgency;
use super::scheduler::Head;
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
    fn came(&mut self, user: u32) {
        self.urgency.came(user);
    }

    fn look(&mut self, now: Time, heads: &[Head]) {
        let (mut sum, mut count) = (0.0, 0u32);
        for (slot, head) in heads.iter().enumerate().filter(|(_, head)| head.is_some()) {
            if let Some(urgency) = self.urgency.of(slot, now.since(head.arrived)) {
                sum += urgency;
                count += 1;
            }
        }
        self.mean = sum / f64::from(count.max(1));
        self.slope = 1.0 / (1.0 + libm::sqrt(self.mean));
    }

    fn value(&self, slot: usize, _rate: f64, ratio: f64, waited: Span) -> f64 {
        match self.urgency.of(slot, waited) {
            Some(urgency) => libm::exp((urgency - self.mean) * self.slope) * ratio,
            None => ratio,
        }
    }
}
