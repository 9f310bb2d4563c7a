//! Round robin by packets and by bytes.

use std::collections::{BTreeMap, VecDeque};

use units::Time;

use super::{HeadOfLine, Scheduler, Selection};
use crate::Channel;

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
