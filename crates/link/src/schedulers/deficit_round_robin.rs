//! Round robin by bytes.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, Span, Time};

use super::{ExternalScheduler, HeadOfLine, Scheduler, SchedulerFactory, Selection};
use crate::Channel;
use crate::checks::{ValidationResult, above_zero, in_order};

/// Equal bytes per user in turn, scaled by weights.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DeficitRoundRobinSpec {
    /// Bytes per turn of a user with weight 1.
    pub quantum_bytes: u32,
    /// Users and their weights, in ascending order; other users have weight 1.
    pub weights: Vec<(u32, f64)>,
}

impl DeficitRoundRobinSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "deficit-round-robin",
        spec_kind: "deficit_round_robin",
        aliases: &["drr", "wrr"],
        title: "Equal bytes of each user in turn, scaled by weights",
        reference: "Shreedhar and Varghese, IEEE/ACM Trans. Networking 4(3), 1996",
        options: &[
            Opt::size("quantum", "quantum_bytes", "bytes per turn of a user with weight 1")
                .min(1.0)
                .max(4_294_967_295.0)
                .default_integer(1500),
            Opt::hook(
                "weights",
                "weights",
                "user_weights",
                "weights by user or flow, 0.001 to 1,000,000; else 1",
            ),
        ],
        draws: false,
        live_name: "",
    };
}

impl SchedulerFactory for DeficitRoundRobinSpec {
    fn validate(&self) -> ValidationResult {
        let DeficitRoundRobinSpec { quantum_bytes, weights } = self;
        above_zero("quantum_bytes", u64::from(*quantum_bytes))?;
        in_order("weights", weights.iter().map(|(user, _)| u64::from(*user)))?;
        match weights.iter().find(|(_, weight)| !(1e-3..=1e6).contains(weight)) {
            Some((user, weight)) => {
                Err(format!("weights: {weight} of user {user} is not between 0.001 and 1,000,000"))
            }
            None => Ok(()),
        }
    }

    fn build(&self, _: Span, _: Option<Box<dyn ExternalScheduler>>) -> Box<dyn Scheduler> {
        Box::new(DeficitRoundRobin::new(self.quantum_bytes, &self.weights))
    }
}

/// Deficit round robin (Shreedhar and Varghese, IEEE/ACM Trans. Networking 4(3), 1996): equal bytes per user and round,
/// scaled by weights, independent of packet sizes. A user gets its quantum once per round and sends within its deficit,
/// which stays while it is backlogged.
#[derive(Debug)]
pub(super) struct DeficitRoundRobin {
    quantum: f64,
    weights: BTreeMap<u32, f64>,
    active_list: VecDeque<usize>,
    users: Vec<User>,
    /// Whether the first user of the active list has got its quantum.
    has_quantum: bool,
}

#[derive(Clone, Copy, Debug)]
struct User {
    /// Bytes per round.
    quantum: f64,
    /// Bytes that the user may send.
    deficit: f64,
}

impl DeficitRoundRobin {
    /// Creates the scheduler with `quantum` bytes per round, multiplied by the user's weight; the default weight is 1.
    pub fn new(quantum: u32, weights: &[(u32, f64)]) -> DeficitRoundRobin {
        DeficitRoundRobin {
            quantum: f64::from(quantum),
            weights: weights.iter().copied().collect(),
            active_list: VecDeque::new(),
            users: Vec::new(),
            has_quantum: false,
        }
    }

    /// Skips rounds in which no user can send: a small quantum would otherwise take many steps.
    fn skip_rounds(&mut self, heads: &[HeadOfLine]) {
        let lacking = |user_index: &usize| {
            let user = self.users[*user_index];
            libm::ceil((f64::from(heads[*user_index].bytes) - user.deficit) / user.quantum)
        };
        let rounds = self.active_list.iter().map(lacking).fold(f64::INFINITY, f64::min);
        for user_index in &self.active_list {
            let user = &mut self.users[*user_index];
            user.deficit += (rounds - 1.0).max(0.0) * user.quantum;
        }
    }
}

impl Scheduler for DeficitRoundRobin {
    fn add_user(&mut self, _user_index: usize, user: u32) {
        let weight = self.weights.get(&user).copied().unwrap_or(1.0);
        self.users.push(User { quantum: self.quantum * weight, deficit: 0.0 });
    }

    fn on_backlogged(&mut self, user_index: usize) {
        self.active_list.push_back(user_index);
    }

    fn on_idle(&mut self, user_index: usize) {
        self.has_quantum &= self.active_list.front() != Some(&user_index);
        self.active_list.retain(|other| *other != user_index);
        self.users[user_index].deficit = 0.0;
    }

    fn select(&mut self, _: Time, heads: &[HeadOfLine], _: &mut dyn Channel) -> Selection {
        let mut passed = 0;
        loop {
            let user_index = self.active_list[0];
            if !self.has_quantum {
                self.users[user_index].deficit += self.users[user_index].quantum;
                self.has_quantum = true;
            }
            if f64::from(heads[user_index].bytes) <= self.users[user_index].deficit {
                return Selection::Serve(user_index);
            }
            self.active_list.rotate_left(1);
            self.has_quantum = false;
            passed += 1;
            if passed == self.active_list.len() {
                self.skip_rounds(heads);
            }
        }
    }

    fn on_dequeue(&mut self, user_index: usize, bytes: u32, next: HeadOfLine) {
        self.users[user_index].deficit -= f64::from(bytes);
        if !next.is_some() {
            self.active_list.pop_front();
            self.users[user_index].deficit = 0.0;
            self.has_quantum = false;
        }
    }
}
