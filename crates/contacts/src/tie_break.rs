//! Selection among routes with equal arrival: fewest hops, latest end, smallest next hop (3.2.8.1.4).

use std::collections::BTreeMap;

use units::Time;

use crate::plan::{ContactEdge, Plan, PlanNodeId};
use crate::route::{EarliestEdge, Route, RouteDemand, RouteOrigin};

/// A node reached after a number of hops, with its predecessor.
struct HopState {
    node: PlanNodeId,
    time: Time,
    /// The previous state, and the edge from there.
    previous: Option<(usize, ContactEdge)>,
}

struct TieBreak<'a> {
    plan: &'a Plan,
    load: &'a RouteDemand<'a>,
    root: &'a RouteOrigin<'a>,
    to: PlanNodeId,
    /// The edges by sender.
    edges: BTreeMap<PlanNodeId, Vec<EarliestEdge>>,
}

/// Returns the preferred route of the `useful` edges, all of which give this arrival.
pub(crate) fn select_preferred_route(
    plan: &Plan,
    load: &RouteDemand<'_>,
    root: &RouteOrigin<'_>,
    to: PlanNodeId,
    arrival: Time,
    useful: Vec<EarliestEdge>,
) -> Route {
    let mut edges_by_node: BTreeMap<PlanNodeId, Vec<EarliestEdge>> = BTreeMap::new();
    for one in useful {
        edges_by_node.entry(one.edge.from).or_default().push(one);
    }
    for of in edges_by_node.values_mut() {
        of.sort_unstable_by_key(|one| (one.edge.to, one.edge.opens));
    }
    let alone = edges_by_node.values().all(|of| of.len() == 1);
    let tied = TieBreak { plan, load, root, to, edges: edges_by_node };
    let Some(mut best) = tied.find_fewest_hops(Time::ZERO, None, usize::MAX) else {
        // Every useful edge is on a route.
        debug_assert!(false, "no route of useful edges");
        return Route { edges: Vec::new(), arrival };
    };
    let hops = best.len();
    if !alone {
        let ends = |edges_by_node: &[ContactEdge]| {
            edges_by_node.iter().map(|edge| edge.stop).min().unwrap_or(Time::MAX)
        };
        let lasts = tied.find_latest_termination(&mut best, hops, ends);
        if root.is_local_node {
            tied.find_smallest_next_hop(&mut best, hops, lasts);
        }
    }
    Route { edges: best, arrival }
}

impl TieBreak<'_> {
    /// Returns a route with the fewest hops and no contact that ends before `min_termination`, optionally via `entry`.
    fn find_fewest_hops(
        &self,
        min_termination: Time,
        entry: Option<PlanNodeId>,
        max_hops: usize,
    ) -> Option<Vec<ContactEdge>> {
        let mut states =
            vec![HopState { node: self.root.node, time: self.root.time, previous: None }];
        let mut soonest: BTreeMap<PlanNodeId, Time> = BTreeMap::new();
        let mut layer = 0..1;
        let mut hops = 0;
        while !layer.is_empty() && hops < max_hops {
            hops += 1;
            let mut next: BTreeMap<PlanNodeId, (Time, usize, ContactEdge)> = BTreeMap::new();
            for number in layer {
                let (node, at) = (states[number].node, states[number].time);
                for one in self.edges.get(&node).map_or(&[][..], Vec::as_slice) {
                    let to = one.edge.to;
                    if one.edge.stop < min_termination
                        || (hops == 1 && entry.is_some_and(|entry| entry != to))
                    {
                        continue;
                    }
                    let ready = if node == self.root.node {
                        self.root.earliest_transmission(self.plan, self.load, &one.edge)
                    } else {
                        at
                    };
                    let Some(arrival) = self
                        .load
                        .arrival_time(&one.edge, ready)
                        .filter(|at| *at <= one.latest_arrival)
                    else {
                        continue;
                    };
                    if soonest.get(&to).is_none_or(|known| arrival < *known) {
                        soonest.insert(to, arrival);
                        next.insert(to, (arrival, number, one.edge));
                    }
                }
            }
            layer = states.len()..states.len() + next.len();
            let reached = next.contains_key(&self.to);
            states.extend(next.into_iter().map(|(node, (at, before, edge))| HopState {
                node,
                time: at,
                previous: Some((before, edge)),
            }));
            if reached {
                let last = layer.rev().find(|number| states[*number].node == self.to)?;
                return Some(self.reconstruct_path(&states, last));
            }
        }
        None
    }

    fn reconstruct_path(&self, states: &[HopState], last: usize) -> Vec<ContactEdge> {
        let mut edges = Vec::new();
        let mut at = last;
        while let Some((before, edge)) = states[at].previous {
            edges.push(edge);
            at = before;
        }
        edges.reverse();
        edges
    }

    /// Replaces `best` by a route with equal hops and the latest end. Returns that end.
    fn find_latest_termination(
        &self,
        best: &mut Vec<ContactEdge>,
        hops: usize,
        ends: impl Fn(&[ContactEdge]) -> Time,
    ) -> Time {
        let cap = self.root.termination;
        let now = ends(best).min(cap);
        let mut later: Vec<Time> = self
            .edges
            .values()
            .flatten()
            .map(|one| one.edge.stop.min(cap))
            .filter(|at| *at > now)
            .collect();
        later.sort_unstable();
        later.dedup();
        let (mut low, mut high) = (0, later.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.find_fewest_hops(later[middle], None, hops) {
                Some(found) => {
                    *best = found;
                    low = middle + 1;
                }
                None => high = middle,
            }
        }
        ends(best).min(cap)
    }

    /// Replaces `best` by the route with the smallest next hop, among those with equal hops and no earlier end.
    fn find_smallest_next_hop(&self, best: &mut Vec<ContactEdge>, hops: usize, lasts: Time) {
        let Some(taken) = best.first().map(|edge| self.plan.sort_key(edge.to)) else { return };
        let mut entries: Vec<PlanNodeId> =
            self.edges.get(&self.root.node).into_iter().flatten().map(|one| one.edge.to).collect();
        entries.sort_by_key(|node| self.plan.sort_key(*node));
        entries.dedup();
        for entry in entries.into_iter().take_while(|node| self.plan.sort_key(*node) < taken) {
            if let Some(found) = self.find_fewest_hops(lasts, Some(entry), hops) {
                *best = found;
                return;
            }
        }
    }
}
