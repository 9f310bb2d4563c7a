//! Who is next: the earliest wake-up among numbered parties, ties by number.

use crate::Time;

/// A tournament tree over wake-up times: reading the winner is free, changing one time costs the height of the
/// tree at the most. There is one entry a party, however many packets fly.
#[derive(Clone, Debug)]
pub struct Schedule {
    leaves: usize,
    /// `nodes[1]` is the root; the leaves begin at `nodes[leaves]`.
    nodes: Vec<(Time, u32)>,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule::new(0)
    }
}

impl Schedule {
    /// `count` parties, none of which has anything to do.
    pub fn new(count: usize) -> Schedule {
        let leaves = count.next_power_of_two().max(2);
        let mut nodes = vec![(Time::MAX, 0); 2 * leaves];
        for (index, node) in nodes[leaves..].iter_mut().enumerate() {
            node.1 = index as u32;
        }
        let mut schedule = Schedule { leaves, nodes };
        for place in (1..leaves).rev() {
            schedule.play(place);
        }
        schedule
    }

    /// The party to wake next and when; the time is [`Time::MAX`] if there is nothing to do.
    pub fn first(&self) -> (Time, usize) {
        (self.nodes[1].0, self.nodes[1].1 as usize)
    }

    /// Party `index`, which may be a new one, wants to wake at `at`.
    pub fn set(&mut self, index: usize, at: Time) {
        if index >= self.leaves {
            self.grow(index + 1);
        }
        let mut place = self.leaves + index;
        if self.nodes[place].0 == at {
            return;
        }
        self.nodes[place].0 = at;
        while place > 1 {
            place /= 2;
            if !self.play(place) {
                return;
            }
        }
    }

    fn grow(&mut self, count: usize) {
        let mut grown = Schedule::new(count);
        for (index, (at, _)) in self.nodes[self.leaves..].iter().enumerate() {
            grown.set(index, *at);
        }
        *self = grown;
    }

    /// Whether the winner at `place`, or its time, is another.
    fn play(&mut self, place: usize) -> bool {
        let (left, right) = (self.nodes[2 * place], self.nodes[2 * place + 1]);
        let winner = if right.0 < left.0 { right } else { left };
        std::mem::replace(&mut self.nodes[place], winner) != winner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_first_ties_by_index() {
        let mut schedule = Schedule::new(5);
        assert_eq!(schedule.first().0, Time::MAX);
        schedule.set(3, Time(7));
        schedule.set(1, Time(9));
        schedule.set(4, Time(7));
        assert_eq!(schedule.first(), (Time(7), 3));
        schedule.set(3, Time::MAX);
        assert_eq!(schedule.first(), (Time(7), 4));
        schedule.set(0, Time(7));
        assert_eq!(schedule.first(), (Time(7), 0));
    }

    #[test]
    fn it_agrees_with_a_search_and_grows() {
        let mut random = crate::Random::named(1, "schedule", "test");
        let (mut schedule, mut plain) = (Schedule::default(), Vec::new());
        for step in 0..2000u64 {
            // Few instants, so that many are equal.
            let (index, at) = ((random.bits() % (step / 4 + 1)) as usize, Time(random.bits() % 50));
            plain.resize(plain.len().max(index + 1), Time::MAX);
            plain[index] = at;
            schedule.set(index, at);
            let first = plain.iter().enumerate().min_by_key(|(index, at)| (**at, *index));
            assert_eq!(Some(schedule.first()), first.map(|(index, at)| (*at, index)));
        }
    }
}
