//! Connections with an incomplete client handshake. A full proxy evicts the oldest of them for a new connection, by the
//! rules of a server ([`transport::eviction`]).

use std::collections::BTreeMap;

use transport::eviction::{ActivityScore, Eviction, select_eviction};
use units::Time;

/// Half-open connections.
#[derive(Default)]
pub(super) struct HalfOpenConnections {
    /// Table index and score by number, which is the sequence of starts.
    by_number: BTreeMap<u64, (usize, ActivityScore)>,
}

impl HalfOpenConnections {
    /// Adds connection `number` with table index `slot`, started at `now`.
    pub(super) fn insert(&mut self, number: u64, slot: usize, now: Time) {
        self.by_number.insert(number, (slot, ActivityScore::new(now)));
    }

    /// Removes a connection after its handshake or close.
    pub(super) fn remove(&mut self, number: u64) {
        self.by_number.remove(&number);
    }

    /// Selects the table index to evict at `now`. Without transferred data only the oldest connection qualifies.
    pub(super) fn select_eviction(&mut self, now: Time) -> Eviction<usize> {
        let oldest = self.by_number.first_entry().map(|mut oldest| {
            let (slot, score) = oldest.get_mut();
            score.update(now, 0);
            (*slot, false, *score)
        });
        select_eviction(now, oldest.into_iter())
    }
}

#[cfg(test)]
mod tests {
    use transport::eviction::MIN_EVICTION_AGE;
    use units::Span;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn the_oldest_is_evicted_after_the_minimum_age() {
        let mut waiting = HalfOpenConnections::default();
        assert_eq!(waiting.select_eviction(at(0)), Eviction::Full, "none is half-open");
        waiting.insert(7, 70, at(100));
        waiting.insert(8, 80, at(200));
        assert_eq!(waiting.select_eviction(at(300)), Eviction::RetryAt(at(100) + MIN_EVICTION_AGE));
        assert_eq!(waiting.select_eviction(at(100) + MIN_EVICTION_AGE), Eviction::Evict(70));
        // The connection is established meanwhile.
        waiting.remove(7);
        assert_eq!(
            waiting.select_eviction(at(100) + MIN_EVICTION_AGE),
            Eviction::RetryAt(at(200) + MIN_EVICTION_AGE)
        );
        assert_eq!(waiting.select_eviction(at(60_000)), Eviction::Evict(80));
    }

    /// 5,000 SYNs/s for one minute with 4,096 entries; no handshake completes.
    #[test]
    fn a_syn_flood_stays_within_the_limit_and_new_connections_are_accepted() {
        const MAX_ENTRIES: usize = 4096;
        let (mut waiting, mut free) = (HalfOpenConnections::default(), MAX_ENTRIES);
        let (mut taken, mut dropped) = (0, 0);
        for number in 0..300_000_u64 {
            let now = Time(number * 200_000);
            if free > 0 {
                free -= 1;
            } else {
                match waiting.select_eviction(now) {
                    Eviction::Evict(slot) => waiting.remove(slot as u64),
                    Eviction::RetryAt(until) => {
                        assert!(until.since(now) <= MIN_EVICTION_AGE);
                        dropped += 1;
                        continue;
                    }
                    Eviction::Full => panic!("all are half-open"),
                }
            }
            waiting.insert(number, number as usize, now);
            taken += 1;
            assert!(waiting.by_number.len() <= MAX_ENTRIES);
        }
        // The minimum age is 0.5 s, and an entry lives 4096 / 5000 s here: no SYN is dropped.
        assert_eq!((taken, dropped), (300_000, 0));
    }
}
