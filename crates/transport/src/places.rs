//! Who gives way when all places of a server are taken: whoever moves least, so that silent and slow clients shut
//! nobody out, and busy ones are never disturbed.

use units::{Span, Time};

/// Nobody gives way before this age: a flood of newcomers must not drive each other out before one has spoken. Who
/// comes meanwhile waits for it.
pub const GRACE: Span = Span::from_millis(500);

/// What was moved counts half after so long, a quarter after twice that, and so on.
const HALF_LIFE: Span = Span::from_secs(2);

/// Who has moved less than this of late, bytes, may give way: 45 kbit/s for long.
const SLOW: u64 = 16 << 10;

/// A newcomer begins with this, bytes, so that it is not taken for the slowest before its first round trips.
const CREDIT: u64 = SLOW / 2;

/// No more than this counts, bytes: three half-lives of silence make anybody slow.
const MOST: u64 = 8 * SLOW;

/// What one connection has moved of late.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    born: Time,
    /// Bytes in all, as last told.
    moved: u64,
    level: u64,
    /// Since when `level` has not been halved.
    since: Time,
}

impl Place {
    /// Of a connection that begins.
    pub fn new(now: Time) -> Place {
        Place { born: now, moved: 0, level: CREDIT, since: now }
    }

    /// It has moved `moved` bytes since its beginning.
    pub fn note(&mut self, now: Time, moved: u64) {
        let halvings = now.since(self.since).nanos() / HALF_LIFE.nanos();
        self.since += Span(halvings * HALF_LIFE.nanos());
        self.level = self.level.checked_shr(halvings.min(64) as u32).unwrap_or(0);
        self.level = (self.level + moved.saturating_sub(self.moved)).min(MOST);
        self.moved = moved;
    }
}

/// What becomes of one who comes when all places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way<K> {
    /// This one gives way.
    Gives(K),
    /// Somebody may do so then.
    Wait(Time),
    /// All are busy.
    Full,
}

/// Who of `places` gives way at `now`: each by its key, with whether its handshake is done, and noted just now. Those
/// without one go first, then who has moved least, then the oldest.
pub fn who_gives_way<K>(now: Time, places: impl Iterator<Item = (K, bool, Place)>) -> Way<K> {
    let (mut least, mut wait) = (None, None);
    for (key, established, place) in places.filter(|(_, _, place)| place.level < SLOW) {
        let due = place.born + GRACE;
        if due > now {
            wait = Some(wait.map_or(due, |wait: Time| wait.min(due)));
            continue;
        }
        let rank = (established, place.level, place.born);
        if least.as_ref().is_none_or(|(known, _)| rank < *known) {
            least = Some((rank, key));
        }
    }
    match (least, wait) {
        (Some((_, key)), _) => Way::Gives(key),
        (None, Some(wait)) => Way::Wait(wait),
        (None, None) => Way::Full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_seconds(seconds)
    }

    /// Places born at the first time of each and noted at `now`: key, handshake done, born at, moved until then.
    fn asked(now: f64, places: &[(char, bool, f64, u64)]) -> Way<char> {
        let noted = places.iter().map(|(key, established, born, moved)| {
            let mut place = Place::new(at(*born));
            place.note(at(now), *moved);
            (*key, *established, place)
        });
        who_gives_way(at(now), noted)
    }

    #[test]
    fn the_silent_go_first_then_the_slowest_then_the_oldest() {
        let all = [
            ('a', true, 0.0, 100),
            ('b', false, 3.0, 5000),
            ('c', true, 1.0, 0),
            ('d', true, 0.0, 200),
            ('e', true, 0.0, 1 << 20),
        ];
        let mut left = all.to_vec();
        for expected in ['b', 'c', 'a', 'd'] {
            assert_eq!(asked(20.0, &left), Way::Gives(expected));
            left.retain(|(key, ..)| *key != expected);
        }
        assert_eq!(asked(20.0, &left), Way::Full, "the busy one stays");
    }

    #[test]
    fn newcomers_are_waited_for_and_are_not_the_slowest() {
        let fresh = [('a', false, 9.8, 0), ('b', true, 9.7, 0)];
        assert_eq!(asked(10.0, &fresh), Way::Wait(at(9.7) + GRACE));
        let mixed = [('a', true, 9.0, 0), ('b', true, 1.0, 1000)];
        assert_eq!(
            asked(10.0, &mixed),
            Way::Gives('b'),
            "a trickle is less than a newcomer's credit"
        );
    }

    #[test]
    fn what_was_moved_long_ago_counts_for_nothing() {
        let mut place = Place::new(at(0.0));
        place.note(at(1.0), 1 << 40);
        let way = |place: Place, now: f64| {
            let mut place = place;
            place.note(at(now), 1 << 40);
            who_gives_way(at(now), std::iter::once(((), true, place)))
        };
        assert_eq!(way(place, 5.9), Way::Full, "an outage of some seconds is survived");
        assert_eq!(way(place, 8.1), Way::Gives(()));
        // 10 kB a second are enough, 1 kB is not.
        for (rate, expected) in [(10_000, Way::Full), (1000, Way::Gives(()))] {
            let mut place = Place::new(at(0.0));
            for second in 1..100 {
                place.note(at(f64::from(second)), u64::from(second as u32) * rate);
            }
            assert_eq!(who_gives_way(at(99.0), std::iter::once(((), true, place))), expected);
        }
    }
}
