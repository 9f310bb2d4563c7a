//! CoDeS, the controlled delay scheduler (Tauran 2018, section 6.3.5): proportional fair. Packets that have waited for
//! longer than a limit are dropped.

use units::{Span, Time};

use super::channel_aware::ChannelAware;
use super::proportional_fair::ProportionalFair;
use super::scheduler::{HeadOfLine, Scheduler, Selection};
use crate::{Channel, ServiceOutcome, Transmission};

/// Proportional fair with a waiting time limit.
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
