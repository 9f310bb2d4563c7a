//! Who is next: the earliest wake-up among a fixed set of components, ties by index.

use units::Time;

/// A tournament tree over the components' wake-up times: reading the winner is free, changing one
/// time costs the height of the tree. There is one entry a component, however many packets fly.
#[derive(Clone, Debug)]
pub struct Schedule {
    leaves: usize,
    /// `nodes[1]` is the root; the leaves begin at `nodes[leaves]`.
    nodes: Vec<(Time, u32)>,
}

impl Schedule {
    /// `count` components, none of which has anything to do.
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

    /// The component to wake next and when; the time is [`Time::MAX`] if there is nothing to do.
    pub fn first(&self) -> (Time, usize) {
        (self.nodes[1].0, self.nodes[1].1 as usize)
    }

    /// Component `index` wants to wake at `at`.
    pub fn set(&mut self, index: usize, at: Time) {
        let mut place = self.leaves + index;
        if self.nodes[place].0 == at {
            return;
        }
        self.nodes[place].0 = at;
        while place > 1 {
            place /= 2;
            self.play(place);
        }
    }

    fn play(&mut self, place: usize) {
        let (left, right) = (self.nodes[2 * place], self.nodes[2 * place + 1]);
        self.nodes[place] = if right.0 < left.0 { right } else { left };
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
}
