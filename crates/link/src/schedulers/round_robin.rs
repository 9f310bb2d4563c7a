//! Round robin by packets.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Span, Time};

use super::{ExternalScheduler, HeadOfLine, Scheduler, SchedulerFactory, Selection};
use crate::Channel;

/// One packet per user in turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct RoundRobinSpec {}

impl RoundRobinSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "round-robin",
        spec_kind: "round_robin",
        aliases: &["rr"],
        title: "One packet of each user in turn",
        reference: "Nagle, RFC 970",
        options: &[],
        draws: false,
        live_name: "",
    };
}

impl SchedulerFactory for RoundRobinSpec {
    fn build(&self, _: Span, _: Option<Box<dyn ExternalScheduler>>) -> Box<dyn Scheduler> {
        Box::new(RoundRobin::default())
    }
}

/// Round robin: one packet of each user in turn (Nagle, RFC 970, 1985). A backlogged user joins the end of the list and returns there after each packet.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    active_list: VecDeque<usize>,
}

impl Scheduler for RoundRobin {
    fn on_backlogged(&mut self, user_index: usize) {
        self.active_list.push_back(user_index);
    }

    fn on_idle(&mut self, user_index: usize) {
        self.active_list.retain(|other| *other != user_index);
    }

    fn select(&mut self, _: Time, _: &[HeadOfLine], _: &mut dyn Channel) -> Selection {
        Selection::Serve(self.active_list[0])
    }

    fn on_dequeue(&mut self, user_index: usize, _bytes: u32, next: HeadOfLine) {
        self.active_list.pop_front();
        if next.is_some() {
            self.active_list.push_back(user_index);
        }
    }
}
