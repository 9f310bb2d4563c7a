//! The time-expanded graph of a plan: a vertex for each node and time slot, arcs for contacts and for stores (Ford and
//! Fulkerson 1958).
//!
//! Slots end at *points*. If the points at both ends of every edge correspond, one light time apart, the graph carries
//! exactly the volume of the plan. Otherwise it carries slightly more, never less.

use std::collections::{BTreeMap, BTreeSet};

use units::Time;

use super::lexmax::{FlowNetwork, UNBOUNDED};
use crate::plan::{Plan, PlanNodeId};

/// Data that appears at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Supply {
    /// The time.
    pub time: Time,
    /// The node.
    pub node: PlanNodeId,
    /// The number of bytes.
    pub bytes: u64,
}

/// The flow per byte. Flow has the unit bit/s times nanoseconds.
pub(super) const FLOW_PER_BYTE: i128 = 8_000_000_000;

/// The limit of instants and light times, 146 years, so that sums of two are instants too.
const MAX_INSTANT: u64 = u64::MAX / 4;

/// A time during which a node can send to its neighbour at one light time.
#[derive(Clone, Copy)]
pub(super) struct TransmissionWindow {
    pub opens: u64,
    pub closes: u64,
    pub owlt: u64,
    pub rate: u64,
}

/// The windows of a direction by time.
pub(super) struct TransmissionWindows {
    pub from: usize,
    pub to: usize,
    pub windows: Vec<TransmissionWindow>,
    min_owlt: u64,
    max_owlt: u64,
}

/// The part of a plan that is relevant for a destination.
pub(super) struct DeliveryProblem<'a> {
    pub directions: Vec<TransmissionWindows>,
    pub directions_by_node: Vec<Vec<usize>>,
    pub to: usize,
    pub supplies: &'a [Supply],
    pub stores: &'a BTreeMap<PlanNodeId, u64>,
}

/// The points of each node.
pub(super) type TimePoints = Vec<BTreeSet<u64>>;

impl<'a> DeliveryProblem<'a> {
    /// Builds the problem from the directions that can carry data from a supply to the destination.
    pub fn new(
        plan: &Plan,
        supplies: &'a [Supply],
        to: PlanNodeId,
        stores: &'a BTreeMap<PlanNodeId, u64>,
    ) -> DeliveryProblem<'a> {
        let begin = supplies.iter().map(|one| one.time.nanos()).min().unwrap_or(u64::MAX);
        let mut directions = Vec::new();
        for from in 0..plan.node_count() {
            for hop in plan.outgoing(PlanNodeId(from as u32)) {
                let windows: Vec<TransmissionWindow> = hop
                    .edges
                    .iter()
                    .filter(|edge| edge.closes.nanos() > begin)
                    .map(|edge| TransmissionWindow {
                        opens: edge.opens.nanos().max(begin).min(MAX_INSTANT),
                        closes: edge.closes.nanos().min(MAX_INSTANT),
                        owlt: edge.owlt.nanos().min(MAX_INSTANT),
                        rate: edge.rate.bits_per_second(),
                    })
                    .collect();
                let min_owlt = windows.iter().map(|one| one.owlt).min().unwrap_or(0);
                let max_owlt = windows.iter().map(|one| one.owlt).max().unwrap_or(0);
                if !windows.is_empty() {
                    directions.push(TransmissionWindows {
                        from,
                        to: hop.to.0 as usize,
                        windows,
                        min_owlt,
                        max_owlt,
                    });
                }
            }
        }
        let nodes = plan.node_count();
        let mut question = DeliveryProblem {
            directions,
            directions_by_node: Vec::new(),
            to: to.0 as usize,
            supplies,
            stores,
        };
        question.prune(nodes);
        question.directions_by_node = vec![Vec::new(); nodes];
        for (number, direction) in question.directions.iter().enumerate() {
            question.directions_by_node[direction.from].push(number);
            question.directions_by_node[direction.to].push(number);
        }
        question
    }

    /// Removes directions that are on no path from a supply to the destination. Paths that return to a node with an
    /// unlimited store are useless, because data can wait there.
    fn prune(&mut self, nodes: usize) {
        let begins: BTreeSet<usize> = self.supplies.iter().map(|one| one.node.0 as usize).collect();
        let begins: Vec<usize> = begins.into_iter().collect();
        let ends = [self.to];
        let there = self.find_reachable(nodes, &begins, None, false);
        let home = self.find_reachable(nodes, &ends, None, true);
        let mut keep: Vec<bool> = self
            .directions
            .iter()
            .map(|direction| {
                there[direction.from] && home[direction.to] && direction.from != self.to
            })
            .collect();
        let free = |node: &usize| !self.stores.contains_key(&PlanNodeId(*node as u32));
        for without in (0..nodes).filter(free) {
            let there = self.find_reachable(nodes, &begins, Some(without), false);
            let home = self.find_reachable(nodes, &ends, Some(without), true);
            for (direction, keep) in self.directions.iter().zip(&mut keep) {
                *keep &= direction.to != without || there[direction.from];
                *keep &= direction.from != without || home[direction.to];
            }
        }
        let mut each = keep.iter();
        self.directions.retain(|_| each.next().copied().unwrap_or(false));
    }

    /// Returns the nodes reachable from `from`, without passing `without`; `back` reverses the directions.
    fn find_reachable(
        &self,
        nodes: usize,
        from: &[usize],
        without: Option<usize>,
        back: bool,
    ) -> Vec<bool> {
        let mut onward = vec![Vec::new(); nodes];
        for direction in &self.directions {
            let (a, b) =
                if back { (direction.to, direction.from) } else { (direction.from, direction.to) };
            onward[a].push(b);
        }
        let mut found = vec![false; nodes];
        let mut open: Vec<usize> =
            from.iter().copied().filter(|one| Some(*one) != without).collect();
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut found[at], true) {
                open.extend(onward[at].iter().filter(|next| Some(**next) != without));
            }
        }
        found
    }

    /// Returns the starts and ends of contacts at both ends, and the times of supplies.
    pub fn event_points(&self) -> TimePoints {
        let mut points = vec![BTreeSet::new(); self.directions_by_node.len()];
        for direction in &self.directions {
            for one in &direction.windows {
                points[direction.from].extend([one.opens, one.closes]);
                points[direction.to].extend([one.opens + one.owlt, one.closes + one.owlt]);
            }
        }
        for one in self.supplies {
            points[one.node.0 as usize].insert(one.time.nanos());
        }
        points
    }

    /// Adds points one light time from others, as far as relevant. Returns whether the limit sufficed.
    ///
    /// A minimum cut with unlimited stores is an instant for each node, from which its store is on the source side. It
    /// is piecewise linear in these instants. A minimum therefore has them at events, or one light time apart along a
    /// tree of directions that ends at an event. The number of steps is at most that of the other nodes.
    pub fn propagate_points(
        &self,
        points: &mut TimePoints,
        mut fresh: Vec<(usize, u64)>,
        max_points: usize,
    ) -> bool {
        let involved = self.directions_by_node.iter().filter(|of| !of.is_empty()).count();
        let steps = if self.stores.is_empty() { involved.saturating_sub(1) } else { usize::MAX };
        let mut count: usize = points.iter().map(BTreeSet::len).sum();
        let mut step = 0;
        while !fresh.is_empty() && step < steps {
            step += 1;
            let mut next = Vec::new();
            for (node, at) in fresh {
                for direction in
                    self.directions_by_node[node].iter().map(|number| &self.directions[*number])
                {
                    direction.for_each_shifted(node, at, |other, at| {
                        if points[other].insert(at) {
                            next.push((other, at));
                        }
                    });
                }
                if count + next.len() > max_points {
                    return false;
                }
            }
            count += next.len();
            fresh = next;
        }
        true
    }

    /// Returns the data at the destination by each of its points.
    pub fn delivered_by_point(&self, points: &TimePoints) -> Vec<(u64, i128)> {
        let points: Vec<Vec<u64>> = points.iter().map(|of| of.iter().copied().collect()).collect();
        let mut base = Vec::with_capacity(points.len());
        let mut vertices = 0;
        for of in &points {
            base.push(vertices);
            vertices += of.len();
        }
        let mut network = FlowNetwork::new(vertices + 1);
        let source = vertices;
        let slot =
            |node: usize, at: u64| base[node] + points[node].partition_point(|one| *one <= at) - 1;
        // The first arcs are those that the search should try first.
        let mut supplied: BTreeMap<(usize, u64), i128> = BTreeMap::new();
        for one in self.supplies {
            let there = (one.node.0 as usize, one.time.nanos());
            *supplied.entry(there).or_default() += i128::from(one.bytes) * FLOW_PER_BYTE;
        }
        let bound = |node: usize| {
            let bytes = self.stores.get(&PlanNodeId(node as u32))?;
            Some(i128::from(*bytes) * FLOW_PER_BYTE)
        };
        for ((node, at), bytes) in &supplied {
            if bound(*node).is_none() {
                network.add_arc(source, slot(*node, *at), *bytes);
            }
        }
        for direction in &self.directions {
            for one in &direction.windows {
                let mut ends = points_between(&points[direction.from], one.opens, one.closes, 0);
                ends.extend(points_between(
                    &points[direction.to],
                    one.opens + one.owlt,
                    one.closes + one.owlt,
                    one.owlt,
                ));
                ends.sort_unstable();
                ends.dedup();
                for (from, until) in ends.iter().zip(ends.iter().skip(1)) {
                    let (tail, head) =
                        (slot(direction.from, *from), slot(direction.to, from + one.owlt));
                    network.add_arc(tail, head, i128::from(one.rate) * i128::from(until - from));
                }
            }
        }
        for (node, of) in points.iter().enumerate().filter(|(node, _)| *node != self.to) {
            for (number, at) in of.iter().enumerate() {
                let here = base[node] + number;
                match (bound(node), supplied.get(&(node, *at))) {
                    (None, _) if number > 0 => network.add_arc(here - 1, here, UNBOUNDED),
                    (Some(capacity), Some(bytes)) => {
                        // A supply shares the store with the earlier data.
                        let both = network.add_vertex();
                        network.add_arc(both, here, capacity);
                        network.add_arc(source, both, *bytes);
                        if number > 0 {
                            network.add_arc(here - 1, both, capacity);
                        }
                    }
                    (Some(capacity), None) if number > 0 => {
                        network.add_arc(here - 1, here, capacity)
                    }
                    _ => {}
                }
            }
        }
        let mut total = 0;
        let mut found = Vec::with_capacity(points[self.to].len());
        for (number, at) in points[self.to].iter().enumerate() {
            found.push((*at, total));
            total += network.augment(source, base[self.to] + number);
        }
        found
    }

    /// Returns the arrival rate at the destination just after an instant, bit/s.
    pub fn arrival_rate(&self, at: u64) -> i128 {
        let open =
            |one: &&TransmissionWindow| one.opens + one.owlt <= at && at < one.closes + one.owlt;
        let directions =
            self.directions_by_node[self.to].iter().map(|number| &self.directions[*number]);
        directions
            .flat_map(|direction| direction.windows.iter().filter(open))
            .map(|one| i128::from(one.rate))
            .sum()
    }
}

impl TransmissionWindows {
    /// Visits the instants at the other end that correspond to `at` at this end.
    fn for_each_shifted(&self, node: usize, at: u64, mut visit: impl FnMut(usize, u64)) {
        if node == self.from {
            let first = self.windows.partition_point(|one| one.closes < at);
            for one in self.windows[first..].iter().take_while(|one| one.opens <= at) {
                visit(self.to, at + one.owlt);
            }
        } else {
            let first = self.windows.partition_point(|one| one.closes + self.max_owlt < at);
            let near =
                self.windows[first..].iter().take_while(|one| one.opens + self.min_owlt <= at);
            for one in near {
                if one.opens + one.owlt <= at && at <= one.closes + one.owlt {
                    visit(self.from, at - one.owlt);
                }
            }
        }
    }
}

/// Returns the points from one instant to another, shifted earlier by `earlier`.
fn points_between(points: &[u64], from: u64, until: u64, earlier: u64) -> Vec<u64> {
    let first = points.partition_point(|one| *one < from);
    let last = points.partition_point(|one| *one <= until);
    points[first..last].iter().map(|one| one - earlier).collect()
}
