//! Who is next: the earliest wake-up among numbered parties, ties by number.

use crate::Time;

/// Times that are searched one by one: as many as a cache line holds.
const WIDTH: usize = 8;

/// Wake-up times, and above them the earliest of each [`WIDTH`], and so on. Changing a time of a few is a store; who is
/// first is searched for when somebody asks, among a few of each level. There is one entry a party, however many
/// packets fly.
#[derive(Clone, Debug)]
pub struct TimerQueue {
    times: Vec<Time>,
    /// In the place of each [`WIDTH`] entries of the level below the earliest of them. The last has no more than that;
    /// none: the times are so few.
    above: Vec<Vec<Time>>,
    first: (Time, usize),
    /// `first` is to be searched for.
    stale: bool,
}

impl Default for TimerQueue {
    fn default() -> TimerQueue {
        TimerQueue::new(0)
    }
}

impl TimerQueue {
    /// `count` parties, none of which has anything to do.
    pub fn new(count: usize) -> TimerQueue {
        let first = (Time::MAX, 0);
        let mut schedule = TimerQueue { times: Vec::new(), above: Vec::new(), first, stale: false };
        schedule.grow(count);
        schedule
    }

    /// The party to wake next and when, ties by number; the time is [`Time::MAX`] if there is nothing to do.
    #[inline]
    pub fn earliest(&mut self) -> (Time, usize) {
        if self.stale {
            self.search();
        }
        self.first
    }

    /// The party to wake next, if its time has come by `now`: it has nothing to do from then on, until it is said.
    #[inline]
    pub fn pop_due(&mut self, now: Time) -> Option<usize> {
        let (at, index) = self.earliest();
        (at <= now && at != Time::MAX).then(|| {
            self.set_deadline(index, Time::MAX);
            index
        })
    }

    /// Party `index`, which may be a new one, wants to wake at `at`.
    #[inline]
    pub fn set_deadline(&mut self, index: usize, at: Time) {
        if index >= self.times.len() {
            self.grow(index + 1);
        }
        let before = std::mem::replace(&mut self.times[index], at);
        if before != at {
            self.stale = true;
            if !self.above.is_empty() {
                self.pass_up(index, before, at);
            }
        }
    }

    /// The time at `place` was `before` and is `at`.
    fn pass_up(&mut self, mut place: usize, before: Time, mut at: Time) {
        let mut below = &self.times;
        for level in &mut self.above {
            let block = place / WIDTH;
            let earliest = level[block];
            if at > earliest {
                if before > earliest {
                    return;
                }
                at = earliest_of(few(below, block));
            }
            if at == earliest {
                return;
            }
            level[block] = at;
            (below, place) = (level, block);
        }
    }

    /// Finds who is first.
    #[inline]
    fn search(&mut self) {
        let mut first = (Time::MAX, 0);
        for level in self.above.iter().rev().chain([&self.times]) {
            let block = first.1;
            first = (Time::MAX, block * WIDTH);
            for (index, at) in few(level, block).iter().enumerate() {
                if *at < first.0 {
                    first = (*at, block * WIDTH + index);
                }
            }
        }
        self.first = first;
        self.stale = false;
    }

    #[cold]
    fn grow(&mut self, count: usize) {
        self.stale = true;
        // Many come one by one.
        let room = if count <= WIDTH { count } else { count.next_power_of_two() };
        self.times.resize(room, Time::MAX);
        self.above.clear();
        loop {
            let below = self.above.last().unwrap_or(&self.times);
            if below.len() <= WIDTH {
                return;
            }
            let level = below.chunks(WIDTH).map(earliest_of).collect();
            self.above.push(level);
        }
    }
}

/// The entries of `level` in `block`.
#[inline]
fn few(level: &[Time], block: usize) -> &[Time] {
    let start = block * WIDTH;
    &level[start..level.len().min(start + WIDTH)]
}

fn earliest_of(few: &[Time]) -> Time {
    few.iter().copied().fold(Time::MAX, Time::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_first_ties_by_index() {
        let mut schedule = TimerQueue::new(5);
        assert_eq!(schedule.earliest().0, Time::MAX);
        schedule.set_deadline(3, Time(7));
        schedule.set_deadline(1, Time(9));
        schedule.set_deadline(4, Time(7));
        assert_eq!(schedule.earliest(), (Time(7), 3));
        schedule.set_deadline(3, Time::MAX);
        assert_eq!(schedule.earliest(), (Time(7), 4));
        schedule.set_deadline(0, Time(7));
        assert_eq!(schedule.earliest(), (Time(7), 0));
        assert_eq!(schedule.pop_due(Time(6)), None);
        let due: Vec<usize> = std::iter::from_fn(|| schedule.pop_due(Time(8))).collect();
        assert_eq!(due, [0, 4]);
        assert_eq!(schedule.pop_due(Time::MAX), Some(1));
        assert_eq!(schedule.pop_due(Time::MAX), None);
    }

    #[test]
    fn it_agrees_with_a_search_and_grows() {
        let mut random = crate::RandomStream::named(1, "schedule", "test");
        let (mut schedule, mut plain) = (TimerQueue::default(), Vec::new());
        for step in 0..2000u64 {
            // Few instants, so that many are equal.
            let (index, at) = ((random.bits() % (step / 4 + 1)) as usize, Time(random.bits() % 50));
            plain.resize(plain.len().max(index + 1), Time::MAX);
            plain[index] = at;
            schedule.set_deadline(index, at);
            let first = plain.iter().enumerate().min_by_key(|(index, at)| (**at, *index));
            assert_eq!(Some(schedule.earliest()), first.map(|(index, at)| (*at, index)));
        }
    }
}
