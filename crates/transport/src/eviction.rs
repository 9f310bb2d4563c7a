//! Selects the connection that a full server closes: the least active one. Slow clients cannot block new ones, and
//! active clients stay connected.

use units::{Span, Time};

/// Minimum age of an evicted connection. Without it, a flood of new connections would evict each other before any sends
/// data. New ones wait for it.
pub const MIN_EVICTION_AGE: Span = Span::from_millis(500);

/// Time after which moved bytes count half; after twice that time a quarter, and so on.
const HALF_LIFE: Span = Span::from_secs(2);

/// Recent bytes below which a connection may be evicted: 45 kbit/s over a long time.
const SLOW_BYTES: u64 = 16 << 10;

/// Initial value of a new connection, bytes: it is not the slowest before its first round trips.
const INITIAL_BYTES: u64 = SLOW_BYTES / 2;

/// Maximum of the recent bytes: after three idle half-lives every connection is slow.
const MAX_BYTES: u64 = 8 * SLOW_BYTES;

/// Recent activity of one connection.
#[derive(Clone, Copy, Debug)]
pub struct ActivityScore {
    created_at: Time,
    /// Total bytes at the last update.
    total_bytes: u64,
    recent_bytes: u64,
    /// Time of the last halving of `recent_bytes`.
    decayed_at: Time,
}

impl ActivityScore {
    /// Creates the score of a new connection.
    pub fn new(now: Time) -> ActivityScore {
        ActivityScore {
            created_at: now,
            total_bytes: 0,
            recent_bytes: INITIAL_BYTES,
            decayed_at: now,
        }
    }

    /// Updates the score with the bytes since the start of the connection.
    pub fn update(&mut self, now: Time, total_bytes: u64) {
        let halvings = now.since(self.decayed_at).nanos() / HALF_LIFE.nanos();
        self.decayed_at += Span(halvings * HALF_LIFE.nanos());
        self.recent_bytes = self.recent_bytes.checked_shr(halvings.min(64) as u32).unwrap_or(0);
        self.recent_bytes =
            (self.recent_bytes + total_bytes.saturating_sub(self.total_bytes)).min(MAX_BYTES);
        self.total_bytes = total_bytes;
    }
}

/// Decision about a new connection when the server is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction<K> {
    /// Evicts this connection.
    Evict(K),
    /// A connection may become evictable at this time.
    RetryAt(Time),
    /// All connections are active.
    Full,
}

/// Selects the connection to evict at `now`. Candidates have a key, a completed-handshake flag and an updated score.
/// Those without a handshake go first, then the least active, then the oldest.
pub fn select_eviction<K>(
    now: Time,
    candidates: impl Iterator<Item = (K, bool, ActivityScore)>,
) -> Eviction<K> {
    let (mut selected, mut wait) = (None, None);
    for (key, established, score) in
        candidates.filter(|(_, _, score)| score.recent_bytes < SLOW_BYTES)
    {
        let due = score.created_at + MIN_EVICTION_AGE;
        if due > now {
            wait = Some(wait.map_or(due, |wait: Time| wait.min(due)));
            continue;
        }
        let rank = (established, score.recent_bytes, score.created_at);
        if selected.as_ref().is_none_or(|(known, _)| rank < *known) {
            selected = Some((rank, key));
        }
    }
    match (selected, wait) {
        (Some((_, key)), _) => Eviction::Evict(key),
        (None, Some(wait)) => Eviction::RetryAt(wait),
        (None, None) => Eviction::Full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_seconds(seconds)
    }

    /// Selects among connections that were updated at `now`: key, handshake done, created at, bytes moved.
    fn select(now: f64, connections: &[(char, bool, f64, u64)]) -> Eviction<char> {
        let noted = connections.iter().map(|(key, established, born, moved)| {
            let mut score = ActivityScore::new(at(*born));
            score.update(at(now), *moved);
            (*key, *established, score)
        });
        select_eviction(at(now), noted)
    }

    #[test]
    fn eviction_order_is_handshake_activity_age() {
        let all = [
            ('a', true, 0.0, 100),
            ('b', false, 3.0, 5000),
            ('c', true, 1.0, 0),
            ('d', true, 0.0, 200),
            ('e', true, 0.0, 1 << 20),
        ];
        let mut left = all.to_vec();
        for expected in ['b', 'c', 'a', 'd'] {
            assert_eq!(select(20.0, &left), Eviction::Evict(expected));
            left.retain(|(key, ..)| *key != expected);
        }
        assert_eq!(select(20.0, &left), Eviction::Full, "the busy one stays");
    }

    #[test]
    fn new_connections_are_not_the_slowest() {
        let fresh = [('a', false, 9.8, 0), ('b', true, 9.7, 0)];
        assert_eq!(select(10.0, &fresh), Eviction::RetryAt(at(9.7) + MIN_EVICTION_AGE));
        let mixed = [('a', true, 9.0, 0), ('b', true, 1.0, 1000)];
        assert_eq!(
            select(10.0, &mixed),
            Eviction::Evict('b'),
            "a trickle is less than a newcomer's credit"
        );
    }

    #[test]
    fn old_activity_does_not_count() {
        let mut score = ActivityScore::new(at(0.0));
        score.update(at(1.0), 1 << 40);
        let select = |score: ActivityScore, now: f64| {
            let mut score = score;
            score.update(at(now), 1 << 40);
            select_eviction(at(now), std::iter::once(((), true, score)))
        };
        assert_eq!(select(score, 5.9), Eviction::Full, "an outage of some seconds is survived");
        assert_eq!(select(score, 8.1), Eviction::Evict(()));
        // 10 kB/s are enough, 1 kB/s are not.
        for (rate, expected) in [(10_000, Eviction::Full), (1000, Eviction::Evict(()))] {
            let mut score = ActivityScore::new(at(0.0));
            for second in 1..100 {
                score.update(at(f64::from(second)), u64::from(second as u32) * rate);
            }
            assert_eq!(select_eviction(at(99.0), std::iter::once(((), true, score))), expected);
        }
    }
}
