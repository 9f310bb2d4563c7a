//! A flow that is maximal into the first sink, then into the first two, and so on: lexicographically maximal (Minieka
//! 1973, Megiddo 1974). Augmenting paths (Ford and Fulkerson 1956) are searched backwards from each sink in sequence. A
//! vertex that no source reaches when a sink is full is never reached later, and is skipped from then on.

/// A capacity above any flow.
pub(super) const UNBOUNDED: i128 = i128::MAX / 4;

const DEAD: u32 = u32::MAX;

/// A network with the residual capacities of its arcs. The arc `a ^ 1` is the reverse of `a`.
#[derive(Default)]
pub(super) struct FlowNetwork {
    head: Vec<u32>,
    residual: Vec<i128>,
    arcs_by_vertex: Vec<Vec<u32>>,
    visit_round: Vec<u32>,
    round: u32,
}

impl FlowNetwork {
    /// Creates a network of `vertices` vertices without arcs.
    pub fn new(vertices: usize) -> FlowNetwork {
        FlowNetwork {
            arcs_by_vertex: vec![Vec::new(); vertices],
            visit_round: vec![0; vertices],
            ..FlowNetwork::default()
        }
    }

    /// Adds a vertex.
    pub fn add_vertex(&mut self) -> usize {
        self.arcs_by_vertex.push(Vec::new());
        self.visit_round.push(0);
        self.arcs_by_vertex.len() - 1
    }

    /// Adds an arc.
    pub fn add_arc(&mut self, from: usize, to: usize, capacity: i128) {
        let number = self.head.len() as u32;
        self.head.extend([to as u32, from as u32]);
        self.residual.extend([capacity, 0]);
        self.arcs_by_vertex[from].push(number);
        self.arcs_by_vertex[to].push(number + 1);
    }

    /// Returns the maximum additional flow from the source to a sink. Each sink is used once, in sequence.
    pub fn augment(&mut self, source: usize, sink: usize) -> i128 {
        let mut total = 0;
        while let Some(path) = self.find_augmenting_path(source, sink) {
            let flow = path.iter().map(|arc| self.residual[*arc as usize]).min().unwrap_or(0);
            for arc in path {
                self.residual[arc as usize] -= flow;
                self.residual[arc as usize ^ 1] += flow;
            }
            total += flow;
        }
        total
    }

    /// Returns a path with residual capacity from source to sink, or marks all vertices before the sink as dead.
    fn find_augmenting_path(&mut self, source: usize, sink: usize) -> Option<Vec<u32>> {
        self.round += 1;
        let mut looked = vec![sink];
        let mut stack = vec![(sink, 0_usize)];
        let mut path: Vec<u32> = Vec::new();
        self.visit_round[sink] = self.round;
        while let Some((at, next)) = stack.last_mut() {
            let Some(out) = self.arcs_by_vertex[*at].get(*next).copied() else {
                stack.pop();
                path.pop();
                continue;
            };
            *next += 1;
            let before = self.head[out as usize] as usize;
            let seen = self.visit_round[before];
            if self.residual[out as usize ^ 1] == 0 || seen == DEAD || seen == self.round {
                continue;
            }
            path.push(out ^ 1);
            if before == source {
                return Some(path);
            }
            self.visit_round[before] = self.round;
            looked.push(before);
            stack.push((before, 0));
        }
        for vertex in looked {
            self.visit_round[vertex] = DEAD;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_sink_is_served_first_and_later_ones_reroute() {
        // Two paths of 3 and 2 to the sinks 3 and 4; the first sink takes from either.
        let mut network = FlowNetwork::new(5);
        network.add_arc(0, 1, 3);
        network.add_arc(0, 2, 2);
        network.add_arc(1, 3, 9);
        network.add_arc(2, 3, 1);
        network.add_arc(1, 4, 9);
        network.add_arc(2, 4, 9);
        assert_eq!((network.augment(0, 3), network.augment(0, 4)), (4, 1));
    }
}
