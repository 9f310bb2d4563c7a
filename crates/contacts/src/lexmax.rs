//! A flow that is greatest into the first sink, then into the first two, and so on: lexicographically maximal (Minieka
//! 1973, Megiddo 1974). Sinks are asked in their order; augmenting paths (Ford and Fulkerson 1956) are searched from
//! the sink back. What no source reaches any more as one sink is full, none will reach for a later one: it is not
//! looked at again.

/// More than any flow.
pub(crate) const WITHOUT_BOUND: i128 = i128::MAX / 4;

const DEAD: u32 = u32::MAX;

/// A network with what its arcs can still take; the arc `a ^ 1` is `a` turned round.
#[derive(Default)]
pub(crate) struct Network {
    head: Vec<u32>,
    left: Vec<i128>,
    of: Vec<Vec<u32>>,
    seen: Vec<u32>,
    round: u32,
}

impl Network {
    /// Of so many vertices, without arcs.
    pub fn new(vertices: usize) -> Network {
        Network { of: vec![Vec::new(); vertices], seen: vec![0; vertices], ..Network::default() }
    }

    /// One more vertex.
    pub fn vertex(&mut self) -> usize {
        self.of.push(Vec::new());
        self.seen.push(0);
        self.of.len() - 1
    }

    /// An arc that takes so much.
    pub fn arc(&mut self, from: usize, to: usize, most: i128) {
        let number = self.head.len() as u32;
        self.head.extend([to as u32, from as u32]);
        self.left.extend([most, 0]);
        self.of[from].push(number);
        self.of[to].push(number + 1);
    }

    /// As much more as can come from the source to a sink; sinks are asked once, in their order.
    pub fn fill(&mut self, source: usize, sink: usize) -> i128 {
        let mut total = 0;
        while let Some(path) = self.path(source, sink) {
            let most = path.iter().map(|arc| self.left[*arc as usize]).min().unwrap_or(0);
            for arc in path {
                self.left[arc as usize] -= most;
                self.left[arc as usize ^ 1] += most;
            }
            total += most;
        }
        total
    }

    /// Arcs with room from the source to the sink. Without any, all that leads to the sink is dead.
    fn path(&mut self, source: usize, sink: usize) -> Option<Vec<u32>> {
        self.round += 1;
        let mut looked = vec![sink];
        let mut stack = vec![(sink, 0_usize)];
        let mut path: Vec<u32> = Vec::new();
        self.seen[sink] = self.round;
        while let Some((at, next)) = stack.last_mut() {
            let Some(out) = self.of[*at].get(*next).copied() else {
                stack.pop();
                path.pop();
                continue;
            };
            *next += 1;
            let before = self.head[out as usize] as usize;
            let seen = self.seen[before];
            if self.left[out as usize ^ 1] == 0 || seen == DEAD || seen == self.round {
                continue;
            }
            path.push(out ^ 1);
            if before == source {
                return Some(path);
            }
            self.seen[before] = self.round;
            looked.push(before);
            stack.push((before, 0));
        }
        for vertex in looked {
            self.seen[vertex] = DEAD;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_sink_is_served_first_and_later_ones_reroute() {
        // two ways of 3 and 2 to the sinks 3 and 4; the first sink takes from either
        let mut network = Network::new(5);
        network.arc(0, 1, 3);
        network.arc(0, 2, 2);
        network.arc(1, 3, 9);
        network.arc(2, 3, 1);
        network.arc(1, 4, 9);
        network.arc(2, 4, 9);
        assert_eq!((network.fill(0, 3), network.fill(0, 4)), (4, 1));
    }
}
