//! CoDeS, the controlled delay scheduler.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, Span, Time};

use super::channel_aware::{AVERAGE, CHANNEL_DELAY, ChannelAware, WINDOW};
use super::proportional_fair::ProportionalFair;
use super::{ExternalScheduler, HeadOfLine, Scheduler, SchedulerFactory, Selection};
use crate::checks::{ValidationResult, above_zero};
use crate::{AverageSpec, Channel, ServiceOutcome, Transmission};

/// Proportional fair with a limit: packets that have waited too long are dropped.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct CodesSpec {
    /// The average.
    pub average: AverageSpec,
    /// Maximum waiting time of a packet.
    pub time_limit_ns: u64,
}

impl CodesSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "codes",
        spec_kind: "codes",
        aliases: &[],
        title: "Proportional fair that drops packets after a time limit",
        reference: "Tauran 2018, section 6.3.5",
        options: &[
            AVERAGE,
            WINDOW,
            CHANNEL_DELAY,
            // Tauran 2018, section 6.3.5
            Opt::duration(
                "time_limit",
                "time_limit_ns",
                "waiting time above which a packet is dropped",
            )
            .min(1.0)
            .default_integer(100_000_000),
        ],
        draws: false,
        live_name: "",
    };
}

impl SchedulerFactory for CodesSpec {
    fn validate(&self) -> ValidationResult {
        self.average.validate()?;
        above_zero("time_limit_ns", self.time_limit_ns)
    }

    fn build(
        &self,
        channel_delay: Span,
        _: Option<Box<dyn ExternalScheduler>>,
    ) -> Box<dyn Scheduler> {
        let fair = ChannelAware::new(ProportionalFair, Some(self.average), channel_delay);
        Box::new(Codes::new(fair, Span(self.time_limit_ns)))
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
