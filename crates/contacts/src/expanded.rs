//! The time-expanded graph of a plan: a vertex for each node and slot of its time, arcs for what contacts carry and for
//! what nodes keep (Ford and Fulkerson 1958).
//!
//! Slots end at *points*. Where the points of both ends of every leg are each other's, one light time apart, the graph
//! carries what the plan carries; otherwise a little more, never less.

use std::collections::{BTreeMap, BTreeSet};

use units::Time;

use crate::lexmax::{Network, WITHOUT_BOUND};
use crate::plan::{NodeId, Plan};

/// What comes to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Supply {
    /// When.
    pub time: Time,
    /// Where.
    pub at: NodeId,
    /// How much.
    pub bytes: u64,
}

/// Flow is counted in bit/s times nanoseconds.
pub(crate) const BYTE: i128 = 8_000_000_000;

/// Instants and light times beyond this, 146 years, count as this: sums of two are instants too.
const LAST: u64 = u64::MAX / 4;

/// A time in which a node can send to its neighbour at one light time.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub opens: u64,
    pub closes: u64,
    pub light: u64,
    pub rate: u64,
}

/// Windows of a direction, in order of time.
pub(crate) struct Way {
    pub from: usize,
    pub to: usize,
    pub windows: Vec<Window>,
    least: u64,
    most: u64,
}

/// What of a plan counts for a destination.
pub(crate) struct Question<'a> {
    pub ways: Vec<Way>,
    pub of: Vec<Vec<usize>>,
    pub to: usize,
    pub supplies: &'a [Supply],
    pub stores: &'a BTreeMap<NodeId, u64>,
}

/// Points of each node's time.
pub(crate) type Points = Vec<BTreeSet<u64>>;

impl<'a> Question<'a> {
    /// Ways that something can take from a supply to its destination.
    pub fn new(
        plan: &Plan,
        supplies: &'a [Supply],
        to: NodeId,
        stores: &'a BTreeMap<NodeId, u64>,
    ) -> Question<'a> {
        let begin = supplies.iter().map(|one| one.time.nanos()).min().unwrap_or(u64::MAX);
        let mut ways = Vec::new();
        for from in 0..plan.node_count() {
            for hop in plan.onward(NodeId(from as u32)) {
                let windows: Vec<Window> = hop
                    .legs
                    .iter()
                    .filter(|leg| leg.closes.nanos() > begin)
                    .map(|leg| Window {
                        opens: leg.opens.nanos().max(begin).min(LAST),
                        closes: leg.closes.nanos().min(LAST),
                        light: leg.owlt.nanos().min(LAST),
                        rate: leg.rate.bits_per_second(),
                    })
                    .collect();
                let least = windows.iter().map(|one| one.light).min().unwrap_or(0);
                let most = windows.iter().map(|one| one.light).max().unwrap_or(0);
                if !windows.is_empty() {
                    ways.push(Way { from, to: hop.to.0 as usize, windows, least, most });
                }
            }
        }
        let nodes = plan.node_count();
        let mut question = Question { ways, of: Vec::new(), to: to.0 as usize, supplies, stores };
        question.keep_useful(nodes);
        question.of = vec![Vec::new(); nodes];
        for (number, way) in question.ways.iter().enumerate() {
            question.of[way.from].push(number);
            question.of[way.to].push(number);
        }
        question
    }

    /// Leaves out what lies on no way from a supply to the destination, and what returns to a node whose store has no
    /// bound: whoever was there before, or will be there anyway, can wait there.
    fn keep_useful(&mut self, nodes: usize) {
        let begins: BTreeSet<usize> = self.supplies.iter().map(|one| one.at.0 as usize).collect();
        let begins: Vec<usize> = begins.into_iter().collect();
        let ends = [self.to];
        let there = self.reached(nodes, &begins, None, false);
        let home = self.reached(nodes, &ends, None, true);
        let mut keep: Vec<bool> = self
            .ways
            .iter()
            .map(|way| there[way.from] && home[way.to] && way.from != self.to)
            .collect();
        let free = |node: &usize| !self.stores.contains_key(&NodeId(*node as u32));
        for without in (0..nodes).filter(free) {
            let there = self.reached(nodes, &begins, Some(without), false);
            let home = self.reached(nodes, &ends, Some(without), true);
            for (way, keep) in self.ways.iter().zip(&mut keep) {
                *keep &= way.to != without || there[way.from];
                *keep &= way.from != without || home[way.to];
            }
        }
        let mut each = keep.iter();
        self.ways.retain(|_| each.next().copied().unwrap_or(false));
    }

    /// Nodes that can be reached from some, without one, against the direction of ways where `back`.
    fn reached(
        &self,
        nodes: usize,
        from: &[usize],
        without: Option<usize>,
        back: bool,
    ) -> Vec<bool> {
        let mut onward = vec![Vec::new(); nodes];
        for way in &self.ways {
            let (a, b) = if back { (way.to, way.from) } else { (way.from, way.to) };
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

    /// When contacts begin and end, at both ends, and when something comes.
    pub fn events(&self) -> Points {
        let mut points = vec![BTreeSet::new(); self.of.len()];
        for way in &self.ways {
            for one in &way.windows {
                points[way.from].extend([one.opens, one.closes]);
                points[way.to].extend([one.opens + one.light, one.closes + one.light]);
            }
        }
        for one in self.supplies {
            points[one.at.0 as usize].insert(one.time.nanos());
        }
        points
    }

    /// Points one light time from others, as far as they matter. Whether all of them are there.
    ///
    /// A least cut without bounds of stores is an instant for each node, from which on its store is on the source's
    /// side. It is piecewise linear in these, so one that is least has them on events, or a light time from each other
    /// along a tree of ways that ends at an event: as many steps as there are other nodes.
    pub fn spread(&self, points: &mut Points, mut fresh: Vec<(usize, u64)>, most: usize) -> bool {
        let involved = self.of.iter().filter(|of| !of.is_empty()).count();
        let steps = if self.stores.is_empty() { involved.saturating_sub(1) } else { usize::MAX };
        let mut count: usize = points.iter().map(BTreeSet::len).sum();
        let mut step = 0;
        while !fresh.is_empty() && step < steps {
            step += 1;
            let mut next = Vec::new();
            for (node, at) in fresh {
                for way in self.of[node].iter().map(|number| &self.ways[*number]) {
                    way.shifted(node, at, |other, at| {
                        if points[other].insert(at) {
                            next.push((other, at));
                        }
                    });
                }
                if count + next.len() > most {
                    return false;
                }
            }
            count += next.len();
            fresh = next;
        }
        true
    }

    /// What the destination has by each of its points.
    pub fn delivered(&self, points: &Points) -> Vec<(u64, i128)> {
        let points: Vec<Vec<u64>> = points.iter().map(|of| of.iter().copied().collect()).collect();
        let mut base = Vec::with_capacity(points.len());
        let mut vertices = 0;
        for of in &points {
            base.push(vertices);
            vertices += of.len();
        }
        let mut network = Network::new(vertices + 1);
        let source = vertices;
        let slot =
            |node: usize, at: u64| base[node] + points[node].partition_point(|one| *one <= at) - 1;
        // what a search is to try first comes first
        let mut came: BTreeMap<(usize, u64), i128> = BTreeMap::new();
        for one in self.supplies {
            let there = (one.at.0 as usize, one.time.nanos());
            *came.entry(there).or_default() += i128::from(one.bytes) * BYTE;
        }
        let bound = |node: usize| {
            let bytes = self.stores.get(&NodeId(node as u32))?;
            Some(i128::from(*bytes) * BYTE)
        };
        for ((node, at), bytes) in &came {
            if bound(*node).is_none() {
                network.arc(source, slot(*node, *at), *bytes);
            }
        }
        for way in &self.ways {
            for one in &way.windows {
                let mut ends = of_between(&points[way.from], one.opens, one.closes, 0);
                ends.extend(of_between(
                    &points[way.to],
                    one.opens + one.light,
                    one.closes + one.light,
                    one.light,
                ));
                ends.sort_unstable();
                ends.dedup();
                for (from, until) in ends.iter().zip(ends.iter().skip(1)) {
                    let (tail, head) = (slot(way.from, *from), slot(way.to, from + one.light));
                    network.arc(tail, head, i128::from(one.rate) * i128::from(until - from));
                }
            }
        }
        for (node, of) in points.iter().enumerate().filter(|(node, _)| *node != self.to) {
            for (number, at) in of.iter().enumerate() {
                let here = base[node] + number;
                match (bound(node), came.get(&(node, *at))) {
                    (None, _) if number > 0 => network.arc(here - 1, here, WITHOUT_BOUND),
                    (Some(most), Some(bytes)) => {
                        // what comes is in the store with what was there
                        let both = network.vertex();
                        network.arc(both, here, most);
                        network.arc(source, both, *bytes);
                        if number > 0 {
                            network.arc(here - 1, both, most);
                        }
                    }
                    (Some(most), None) if number > 0 => network.arc(here - 1, here, most),
                    _ => {}
                }
            }
        }
        let mut total = 0;
        let mut found = Vec::with_capacity(points[self.to].len());
        for (number, at) in points[self.to].iter().enumerate() {
            found.push((*at, total));
            total += network.fill(source, base[self.to] + number);
        }
        found
    }

    /// What can come to the destination a second just after an instant, bit.
    pub fn into(&self, at: u64) -> i128 {
        let open = |one: &&Window| one.opens + one.light <= at && at < one.closes + one.light;
        let ways = self.of[self.to].iter().map(|number| &self.ways[*number]);
        ways.flat_map(|way| way.windows.iter().filter(open)).map(|one| i128::from(one.rate)).sum()
    }
}

impl Way {
    /// The instants at the other end that belong to one at this end.
    fn shifted(&self, node: usize, at: u64, mut tell: impl FnMut(usize, u64)) {
        if node == self.from {
            let first = self.windows.partition_point(|one| one.closes < at);
            for one in self.windows[first..].iter().take_while(|one| one.opens <= at) {
                tell(self.to, at + one.light);
            }
        } else {
            let first = self.windows.partition_point(|one| one.closes + self.most < at);
            let near = self.windows[first..].iter().take_while(|one| one.opens + self.least <= at);
            for one in near {
                if one.opens + one.light <= at && at <= one.closes + one.light {
                    tell(self.from, at - one.light);
                }
            }
        }
    }
}

/// Those from one instant to another, earlier by so much.
fn of_between(points: &[u64], from: u64, until: u64, earlier: u64) -> Vec<u64> {
    let first = points.partition_point(|one| *one < from);
    let last = points.partition_point(|one| *one <= until);
    points[first..last].iter().map(|one| one - earlier).collect()
}
