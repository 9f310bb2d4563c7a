//! Fragments of one bundle that have come to its destination.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use transport::Received;

/// What they make of the bundle. What one costs does not grow with how many there are.
#[derive(Default)]
pub(super) struct Parts {
    /// All that are here, by number, stored or not.
    all: BTreeSet<u64>,
    /// Those that are stored: where each begins and ends, and its number.
    stored: BTreeSet<(u64, Reverse<u64>, u64)>,
    /// Bytes that these have together, those that overlap counted as often.
    bytes: u64,
    /// What these make; none: one has gone since.
    there: Option<Received>,
    /// Payloads that are waited for.
    asked: BTreeSet<u64>,
    /// How many fragments were looked at.
    #[cfg(test)]
    looks: usize,
}

impl Parts {
    /// One is here.
    pub fn enter(&mut self, key: u64) {
        self.all.insert(key);
    }

    /// One that has bytes `from..to` is here no more.
    pub fn leave(&mut self, key: u64, from: u64, to: u64) {
        self.all.remove(&key);
        self.asked.remove(&key);
        if self.stored.remove(&(from, Reverse(to), key)) {
            self.bytes -= to - from;
            self.there = None;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// One is stored that has bytes `from..to`, its payload at hand; whether all of the bundle is, which has `total`.
    pub fn add(&mut self, key: u64, from: u64, to: u64, total: u64) -> bool {
        self.asked.remove(&key);
        if self.stored.insert((from, Reverse(to), key)) {
            self.look(1);
            self.bytes += to - from;
            if let Some(there) = &mut self.there {
                there.insert(from, to);
            }
        }
        // Fewer bytes than it has are not all of it.
        self.bytes >= total && self.made() >= total
    }

    /// Bytes before the first gap.
    fn made(&mut self) -> u64 {
        if let Some(there) = &self.there {
            return there.in_order();
        }
        self.look(self.stored.len());
        let mut there = Received::default();
        self.stored.iter().for_each(|(from, Reverse(to), _)| there.insert(*from, *to));
        self.there.insert(there).in_order()
    }

    /// If no payload is waited for: those that are needed and `away`, which are waited for from then on.
    pub fn ask(&mut self, away: impl Fn(u64) -> bool) -> Option<Vec<u64>> {
        if !self.asked.is_empty() {
            return None;
        }
        self.look(self.stored.len());
        let needed = self.needed().map(|(_, _, key)| key);
        let away: Vec<u64> = needed.filter(|key| away(*key)).collect();
        self.asked.extend(&away);
        Some(away)
    }

    /// In order the first and those that have bytes which those before have not: where each begins and ends, and its number.
    pub fn needed(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let mut at = None;
        self.stored.iter().filter_map(move |(from, Reverse(to), key)| {
            let more = at.is_none_or(|at| *to > at);
            at = at.max(Some(*to));
            more.then_some((*from, *to, *key))
        })
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = u64> {
        self.all.iter().copied()
    }

    #[cfg(test)]
    fn look(&mut self, parts: usize) {
        self.looks += parts;
    }

    #[cfg(not(test))]
    fn look(&self, _: usize) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Whether every byte is in one of them.
    fn is_whole(parts: &BTreeMap<u64, (u64, u64)>, total: u64) -> bool {
        (0..total).all(|byte| parts.values().any(|(from, to)| (*from..*to).contains(&byte)))
    }

    proptest! {
        #[test]
        fn all_is_there_when_every_byte_is(
            steps in prop::collection::vec((0..30u64, 1..12u64, any::<bool>()), 1..60)
        ) {
            let (mut parts, mut here) = (Parts::default(), BTreeMap::new());
            for (key, (from, long, goes)) in (0..).zip(steps) {
                let to = (from + long).min(30);
                parts.enter(key);
                here.insert(key, (from, to));
                let whole = parts.add(key, from, to, 30);
                prop_assert_eq!(whole, is_whole(&here, 30));
                let needed: BTreeMap<u64, (u64, u64)> =
                    parts.needed().map(|(from, to, key)| (key, (from, to))).collect();
                prop_assert_eq!(is_whole(&needed, 30), whole);
                prop_assert!(needed.iter().all(|(key, part)| here.get(key) == Some(part)));
                if goes && let Some((key, (from, to))) = here.pop_first() {
                    parts.leave(key, from, to);
                }
                prop_assert!(parts.all().eq(here.keys().copied()));
            }
        }
    }

    /// Each of 10,000 parts is looked at a few times, however they come: one that is looked at whenever another comes would be
    /// 10,000 times.
    #[test]
    fn what_a_fragment_costs_does_not_grow_with_their_number() {
        const COUNT: u64 = 10_000;
        let forward = || (0..COUNT).collect::<Vec<u64>>();
        let backward = || (0..COUNT).rev().collect::<Vec<u64>>();
        let shuffled = || (0..COUNT).map(|part| part * 7_919 % COUNT).collect::<Vec<u64>>();
        for order in [forward(), backward(), shuffled()] {
            // Neighbours overlap by a half, so that half of them would do.
            let mut parts = Parts::default();
            let bytes = |part: u64| (part * 10, part * 10 + 20);
            let total = COUNT * 10 + 10;
            let mut whole = false;
            for part in &order {
                let (from, to) = bytes(*part);
                parts.enter(*part);
                whole = parts.add(*part, from, to, total);
            }
            assert!(whole);
            // Payloads are brought, each of which says so.
            let away = parts.ask(|_| true).expect("nothing is waited for");
            assert_eq!(away.len() as u64, COUNT);
            for (place, key) in away.iter().enumerate() {
                let (from, to) = bytes(*key);
                assert!(parts.add(*key, from, to, total));
                let last = place + 1 == away.len();
                assert_eq!(parts.ask(|_| false).is_some_and(|away| away.is_empty()), last);
            }
            let looks = parts.looks;
            assert!(looks as u64 <= 4 * COUNT, "{looks} looks");
            // They expire together.
            for part in order {
                let (from, to) = bytes(part);
                parts.leave(part, from, to);
            }
            assert!(parts.is_empty() && parts.looks == looks);
        }
    }
}
