//! A timer queue: returns the component with the earliest deadline. Equal deadlines are ordered by component number.

use crate::Time;

/// Deadlines per block: one cache line.
const WIDTH: usize = 8;

/// Deadlines of numbered components, as a tree of minima: each level holds the earliest deadline of eight entries
/// below. A change is a store and at most one block per level; the minimum is searched when it is needed.
#[derive(Clone, Debug)]
pub struct TimerQueue {
    times: Vec<Time>,
    /// Levels of minima, from the lowest. The last has at most [`WIDTH`] entries; empty if `times` has no more.
    above: Vec<Vec<Time>>,
    first: (Time, usize),
    /// Whether `first` must be searched again.
    stale: bool,
}

impl Default for TimerQueue {
    fn default() -> TimerQueue {
        TimerQueue::new(0)
    }
}

impl TimerQueue {
    /// Creates a queue of `count` components without deadlines.
    pub fn new(count: usize) -> TimerQueue {
        let first = (Time::MAX, 0);
        let mut schedule = TimerQueue { times: Vec::new(), above: Vec::new(), first, stale: false };
        schedule.grow(count);
        schedule
    }

    /// Returns the earliest deadline and its component; [`Time::MAX`] if no component has one.
    #[inline]
    pub fn earliest(&mut self) -> (Time, usize) {
        if self.stale {
            self.search();
        }
        self.first
    }

    /// Removes the earliest deadline if it is due by `now`, and returns its component.
    #[inline]
    pub fn pop_due(&mut self, now: Time) -> Option<usize> {
        let (at, index) = self.earliest();
        (at <= now && at != Time::MAX).then(|| {
            self.set_deadline(index, Time::MAX);
            index
        })
    }

    /// Sets the deadline of component `index`, which may be a new one.
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

    /// Updates the minima above `entry`, which changed from `before` to `at`.
    fn pass_up(&mut self, mut entry: usize, before: Time, mut at: Time) {
        let mut below = &self.times;
        for level in &mut self.above {
            let block = entry / WIDTH;
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
            (below, entry) = (level, block);
        }
    }

    /// Searches the earliest deadline.
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
        // Components are often added one by one.
        let capacity = if count <= WIDTH { count } else { count.next_power_of_two() };
        self.times.resize(capacity, Time::MAX);
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

/// Returns the entries of `level` in `block`.
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
