//! Connections whose client's handshake is under way. Where all places are taken the oldest of them gives its place to a new
//! one, as a server's connections do ([`transport::places`]).

use std::collections::BTreeMap;

use transport::places::{Place, Way, who_gives_way};
use units::Time;

/// Half-open connections.
#[derive(Default)]
pub(super) struct HalfOpen {
    /// By number, which is their order: where each is among the slots.
    by_number: BTreeMap<u64, (usize, Place)>,
}

impl HalfOpen {
    /// Enters connection `number`, which is at `slot` and begins at `now`.
    pub(super) fn insert(&mut self, number: u64, slot: usize, now: Time) {
        self.by_number.insert(number, (slot, Place::new(now)));
    }

    /// Takes out a connection whose handshake is done, or which is over.
    pub(super) fn remove(&mut self, number: u64) {
        self.by_number.remove(&number);
    }

    /// The slot of the connection that gives way at `now`. None of them has moved a byte, so that it can only be the oldest.
    pub(super) fn gives_way(&mut self, now: Time) -> Way<usize> {
        let oldest = self.by_number.first_entry().map(|mut oldest| {
            let (slot, place) = oldest.get_mut();
            place.note(now, 0);
            (*slot, false, *place)
        });
        who_gives_way(now, oldest.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use transport::places::GRACE;
    use units::Span;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn the_oldest_gives_way_once_it_has_had_its_time() {
        let mut waiting = HalfOpen::default();
        assert_eq!(waiting.gives_way(at(0)), Way::Full, "none is half-open");
        waiting.insert(7, 70, at(100));
        waiting.insert(8, 80, at(200));
        assert_eq!(waiting.gives_way(at(300)), Way::Wait(at(100) + GRACE));
        assert_eq!(waiting.gives_way(at(100) + GRACE), Way::Gives(70));
        // It is established meanwhile.
        waiting.remove(7);
        assert_eq!(waiting.gives_way(at(100) + GRACE), Way::Wait(at(200) + GRACE));
        assert_eq!(waiting.gives_way(at(60_000)), Way::Gives(80));
    }

    /// 5,000 SYNs a second for a minute at 4,096 places, none of which is ever answered.
    #[test]
    fn a_flood_has_at_most_as_many_places_as_there_are_and_others_get_in() {
        const PLACES: usize = 4096;
        let (mut waiting, mut free) = (HalfOpen::default(), PLACES);
        let (mut taken, mut dropped) = (0, 0);
        for number in 0..300_000_u64 {
            let now = Time(number * 200_000);
            if free > 0 {
                free -= 1;
            } else {
                match waiting.gives_way(now) {
                    Way::Gives(slot) => waiting.remove(slot as u64),
                    Way::Wait(until) => {
                        assert!(until.since(now) <= GRACE);
                        dropped += 1;
                        continue;
                    }
                    Way::Full => panic!("all are half-open"),
                }
            }
            waiting.insert(number, number as usize, now);
            taken += 1;
            assert!(waiting.by_number.len() <= PLACES);
        }
        // A place is held for 0.5 s at the least, and for 4096 / 5000 s here: none waits.
        assert_eq!((taken, dropped), (300_000, 0));
    }
}
