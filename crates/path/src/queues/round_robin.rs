//! Round robin: one packet of each user in turn (Nagle, RFC 970, 1985).

use std::collections::VecDeque;

use units::Time;

use super::scheduler::{Choice, Head, Scheduler};
use crate::Channel;

/// Who waits takes its place at the end, and goes there again after each packet.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    turns: VecDeque<usize>,
}

impl Scheduler for RoundRobin {
    fn joined(&mut self, slot: usize) {
        self.turns.push_back(slot);
    }

    fn left(&mut self, slot: usize) {
        self.turns.retain(|other| *other != slot);
    }

    fn choose(&mut self, _: Time, _: &[Head], _: &mut dyn Channel) -> Choice {
        Choice::Goes(self.turns[0])
    }

    fn goes(&mut self, slot: usize, _bytes: u32, next: Head) {
        self.turns.pop_front();
        if next.is_some() {
            self.turns.push_back(slot);
        }
    }
}
