//! Whether a server has room for one more connection.

use units::Time;

use super::dial::Limits;
use super::endpoint::{Member, Stage};
use super::{Endpoint, Outlet};
use crate::places::{Way, who_gives_way};

/// Closed connections wait for late packets (RFC 9000 section 10.2). So many for each place, and some.
const CLOSED_A_PLACE: usize = 3;
const CLOSED: usize = 64;

/// Room for a new connection.
pub(super) enum Room {
    /// There is.
    Free,
    /// There may be soon.
    Later,
    /// There is none.
    None,
}

impl Endpoint {
    /// Looks for room, and makes it where somebody has to give way.
    pub(super) fn room(&mut self, now: Time, limits: Limits, outlet: &mut dyn Outlet) -> Room {
        let open = |stages: [usize; 3]| stages[0] + stages[1];
        if open(self.stages) >= limits.connections && !self.fed.is_empty() {
            // Who has said goodbye in this very turn leaves a place to who comes after.
            self.run_due(now, outlet);
        }
        let open = open(self.stages);
        if self.stages[Stage::Closed as usize] > CLOSED_A_PLACE * limits.connections + CLOSED {
            return Room::Later;
        }
        if open < limits.connections {
            return Room::Free;
        }
        if !limits.give_way {
            return Room::None;
        }
        let slots: Vec<usize> = self.connections.slots().collect();
        let places = slots.into_iter().filter_map(|slot| {
            let Member { connection, accepted, .. } = &mut self.connections[slot];
            let takes = *accepted && !connection.is_closed();
            takes.then(|| (slot, connection.connected_at().is_some(), connection.place(now)))
        });
        match who_gives_way(now, places) {
            Way::Gives(place) => {
                self.connections[place].connection.give_way(now);
                self.run(now, place, outlet);
                Room::Free
            }
            Way::Wait(_) => Room::Later,
            Way::Full => Room::None,
        }
    }
}
