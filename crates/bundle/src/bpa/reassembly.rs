//! The received fragments of one bundle at its destination.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use transport::ReceivedRanges;

/// A set of fragments. The cost of a fragment does not depend on their number.
#[derive(Default)]
pub(super) struct FragmentSet {
    /// The keys of all fragments, durable or not.
    keys: BTreeSet<u64>,
    /// The durable fragments: start, end and key.
    stored: BTreeSet<(u64, Reverse<u64>, u64)>,
    /// The sum of their lengths, with overlaps counted repeatedly.
    bytes: u64,
    /// The received ranges; `None` after the removal of a fragment.
    received: Option<ReceivedRanges>,
    /// The keys of pending payload loads.
    loading: BTreeSet<u64>,
    /// The number of visits to fragments.
    #[cfg(test)]
    visits: usize,
}

impl FragmentSet {
    /// Adds a fragment.
    pub fn insert(&mut self, key: u64) {
        self.keys.insert(key);
    }

    /// Removes a fragment with bytes `from..to`.
    pub fn remove(&mut self, key: u64, from: u64, to: u64) {
        self.keys.remove(&key);
        self.loading.remove(&key);
        if self.stored.remove(&(from, Reverse(to), key)) {
            self.bytes -= to - from;
            self.received = None;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds a durable, loaded fragment `from..to`. Returns whether all `total` bytes are present.
    pub fn add_stored(&mut self, key: u64, from: u64, to: u64, total: u64) -> bool {
        self.loading.remove(&key);
        if self.stored.insert((from, Reverse(to), key)) {
            self.count_visits(1);
            self.bytes += to - from;
            if let Some(received) = &mut self.received {
                received.insert(from, to);
            }
        }
        // A cheap lower bound first: the sum of lengths must reach the total.
        self.bytes >= total && self.contiguous_bytes() >= total
    }

    /// Returns the number of bytes before the first gap.
    fn contiguous_bytes(&mut self) -> u64 {
        if let Some(received) = &self.received {
            return received.in_order();
        }
        self.count_visits(self.stored.len());
        let mut received = ReceivedRanges::default();
        self.stored.iter().for_each(|(from, Reverse(to), _)| received.insert(*from, *to));
        self.received.insert(received).in_order()
    }

    /// Returns the needed fragments with detached payloads and marks them as loading; `None` during loads.
    pub fn payloads_to_load(&mut self, away: impl Fn(u64) -> bool) -> Option<Vec<u64>> {
        if !self.loading.is_empty() {
            return None;
        }
        self.count_visits(self.stored.len());
        let needed = self.needed().map(|(_, _, key)| key);
        let away: Vec<u64> = needed.filter(|key| away(*key)).collect();
        self.loading.extend(&away);
        Some(away)
    }

    /// Returns the fragments that cover the bundle, sorted by offset: start, end and key.
    pub fn needed(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let mut at = None;
        self.stored.iter().filter_map(move |(from, Reverse(to), key)| {
            let more = at.is_none_or(|at| *to > at);
            at = at.max(Some(*to));
            more.then_some((*from, *to, *key))
        })
    }

    /// Returns all keys.
    pub fn keys(&self) -> impl Iterator<Item = u64> {
        self.keys.iter().copied()
    }

    #[cfg(test)]
    fn count_visits(&mut self, parts: usize) {
        self.visits += parts;
    }

    #[cfg(not(test))]
    fn count_visits(&self, _: usize) {}
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Returns whether the fragments cover every byte.
    fn is_whole(parts: &BTreeMap<u64, (u64, u64)>, total: u64) -> bool {
        (0..total).all(|byte| parts.values().any(|(from, to)| (*from..*to).contains(&byte)))
    }

    proptest! {
        #[test]
        fn a_bundle_is_complete_when_fragments_cover_every_byte(
            steps in prop::collection::vec((0..30u64, 1..12u64, any::<bool>()), 1..60)
        ) {
            let (mut parts, mut here) = (FragmentSet::default(), BTreeMap::new());
            for (key, (from, long, removes)) in (0..).zip(steps) {
                let to = (from + long).min(30);
                parts.insert(key);
                here.insert(key, (from, to));
                let whole = parts.add_stored(key, from, to, 30);
                prop_assert_eq!(whole, is_whole(&here, 30));
                let needed: BTreeMap<u64, (u64, u64)> =
                    parts.needed().map(|(from, to, key)| (key, (from, to))).collect();
                prop_assert_eq!(is_whole(&needed, 30), whole);
                prop_assert!(needed.iter().all(|(key, part)| here.get(key) == Some(part)));
                if removes && let Some((key, (from, to))) = here.pop_first() {
                    parts.remove(key, from, to);
                }
                prop_assert!(parts.keys().eq(here.keys().copied()));
            }
        }
    }

    /// Each of 10,000 fragments is visited a few times in every sequence. A visit of all fragments per arrival would be
    /// 10,000 times.
    #[test]
    fn the_cost_of_a_fragment_does_not_depend_on_their_number() {
        const COUNT: u64 = 10_000;
        let forward = || (0..COUNT).collect::<Vec<u64>>();
        let backward = || (0..COUNT).rev().collect::<Vec<u64>>();
        let shuffled = || (0..COUNT).map(|part| part * 7_919 % COUNT).collect::<Vec<u64>>();
        for order in [forward(), backward(), shuffled()] {
            // Adjacent fragments overlap by a half, so one half of them is sufficient.
            let mut parts = FragmentSet::default();
            let bytes = |part: u64| (part * 10, part * 10 + 20);
            let total = COUNT * 10 + 10;
            let mut whole = false;
            for part in &order {
                let (from, to) = bytes(*part);
                parts.insert(*part);
                whole = parts.add_stored(*part, from, to, total);
            }
            assert!(whole);
            // Every payload load reports its completion.
            let away = parts.payloads_to_load(|_| true).expect("nothing is waited for");
            assert_eq!(away.len() as u64, COUNT);
            for (index, key) in away.iter().enumerate() {
                let (from, to) = bytes(*key);
                assert!(parts.add_stored(*key, from, to, total));
                let last = index + 1 == away.len();
                assert_eq!(
                    parts.payloads_to_load(|_| false).is_some_and(|away| away.is_empty()),
                    last
                );
            }
            let visits = parts.visits;
            assert!(visits as u64 <= 4 * COUNT, "{visits} looks");
            // The fragments expire together.
            for part in order {
                let (from, to) = bytes(part);
                parts.remove(part, from, to);
            }
            assert!(parts.is_empty() && parts.visits == visits);
        }
    }
}
