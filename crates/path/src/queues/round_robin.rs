//! Round robin: one packet of each user in turn (Nagle, RFC 970, 1985).

use std::collections::VecDeque;

use units::Time;

use super::scheduler::{HeadOfLine, Scheduler, Selection};
use crate::Channel;

/// A backlogged user joins the end of the list and returns there after each packet.
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
