//! Deficit round robin (Shreedhar and Varghese, IEEE/ACM Trans. Networking 4(3), 1996): as many bytes of each user in
//! turn, times its weight, whatever the sizes of its packets.

use std::collections::{BTreeMap, VecDeque};

use units::Time;

use super::scheduler::{Choice, Head, Scheduler};
use crate::Channel;

/// In its turn a user gets its quantum and sends what fits; the rest is kept while it has packets.
#[derive(Debug)]
pub(super) struct DeficitRoundRobin {
    quantum: f64,
    weights: BTreeMap<u32, f64>,
    turns: VecDeque<usize>,
    users: Vec<User>,
    /// Whether the first in turn has got its quantum.
    began: bool,
}

#[derive(Clone, Copy, Debug)]
struct User {
    /// Bytes that it gets in each turn.
    quantum: f64,
    /// Bytes that it may still send.
    deficit: f64,
}

impl DeficitRoundRobin {
    /// `quantum` bytes in a turn times a user's weight, 1 where `weights` has none.
    pub fn new(quantum: u32, weights: &[(u32, f64)]) -> DeficitRoundRobin {
        DeficitRoundRobin {
            quantum: f64::from(quantum),
            weights: weights.iter().copied().collect(),
            turns: VecDeque::new(),
            users: Vec::new(),
            began: false,
        }
    }

    /// Turns in which nobody could send, all at once: a small quantum would take as many steps.
    fn skip_rounds(&mut self, heads: &[Head]) {
        let lacking = |slot: &usize| {
            let user = self.users[*slot];
            libm::ceil((f64::from(heads[*slot].bytes) - user.deficit) / user.quantum)
        };
        let rounds = self.turns.iter().map(lacking).fold(f64::INFINITY, f64::min);
        for slot in &self.turns {
            let user = &mut self.users[*slot];
            user.deficit += (rounds - 1.0).max(0.0) * user.quantum;
        }
    }
}

impl Scheduler for DeficitRoundRobin {
    fn came(&mut self, _slot: usize, user: u32) {
        let weight = self.weights.get(&user).copied().unwrap_or(1.0);
        self.users.push(User { quantum: self.quantum * weight, deficit: 0.0 });
    }

    fn joined(&mut self, slot: usize) {
        self.turns.push_back(slot);
    }

    fn left(&mut self, slot: usize) {
        self.began &= self.turns.front() != Some(&slot);
        self.turns.retain(|other| *other != slot);
        self.users[slot].deficit = 0.0;
    }

    fn choose(&mut self, _: Time, heads: &[Head], _: &mut dyn Channel) -> Choice {
        let mut passed = 0;
        loop {
            let slot = self.turns[0];
            if !self.began {
                self.users[slot].deficit += self.users[slot].quantum;
                self.began = true;
            }
            if f64::from(heads[slot].bytes) <= self.users[slot].deficit {
                return Choice::Goes(slot);
            }
            self.turns.rotate_left(1);
            self.began = false;
            passed += 1;
            if passed == self.turns.len() {
                self.skip_rounds(heads);
            }
        }
    }

    fn goes(&mut self, slot: usize, bytes: u32, next: Head) {
        self.users[slot].deficit -= f64::from(bytes);
        if !next.is_some() {
            self.turns.pop_front();
            self.users[slot].deficit = 0.0;
            self.began = false;
        }
    }
}
