//! CoDeS, the controlled delay scheduler (Tauran 2018, section 6.3.5): proportional fair, and packets that have waited for
//! longer than a limit are dropped.

use units::{Span, Time};

use super::by_channel::ByChannel;
use super::proportional_fair::ProportionalFair;
use super::scheduler::{Choice, Head, Scheduler};
use crate::{Channel, Fate, Job};

/// Proportional fair with a limit.
#[derive(Debug)]
pub(super) struct Codes {
    fair: ByChannel<ProportionalFair>,
    limit: Span,
}

impl Codes {
    pub fn new(fair: ByChannel<ProportionalFair>, limit: Span) -> Codes {
        Codes { fair, limit }
    }
}

impl Scheduler for Codes {
    fn came(&mut self, slot: usize, user: u32) {
        self.fair.came(slot, user);
    }

    fn choose(&mut self, now: Time, heads: &[Head], channel: &mut dyn Channel) -> Choice {
        self.fair.choose(now, heads, channel)
    }

    fn served(&mut self, due: Time, slot: usize, job: &Job, air: Span, fate: Fate) {
        self.fair.served(due, slot, job, air, fate);
    }

    fn time_limit(&self) -> Option<Span> {
        Some(self.limit)
    }

    fn best(&self, slot: usize) -> Option<(Span, u64)> {
        self.fair.best(slot)
    }
}
