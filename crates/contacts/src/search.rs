//! The earliest route: Dijkstra over the contact graph (3.2.4).
//!
//! The label of a node is the earliest arrival of a bundle. The label suffices because bundles can wait, so an earlier
//! arrival has all options of a later one. For a bundle the search includes size, booked volume and backlog. Its result
//! is then the candidate route with the earliest projected arrival.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use units::{Span, Time};

use crate::plan::{NeighbourContacts, Plan, PlanNodeId};
use crate::route::{EarliestEdge, Route, RouteDemand, RouteOrigin};

/// A search with reusable tables.
#[derive(Clone, Debug, Default)]
pub struct ContactGraphSearch {
    /// The earliest arrival of a bundle at each node.
    earliest_arrivals: Vec<Time>,
    heap: BinaryHeap<(Reverse<Time>, PlanNodeId)>,
    /// The improvements of each node's arrival: number of hops and arrival.
    arrivals_by_hops: Vec<Vec<(u32, Time)>>,
}

impl ContactGraphSearch {
    /// Returns the earliest route between two nodes. Ties follow the standard's order.
    pub fn find_route(
        &mut self,
        plan: &Plan,
        load: &RouteDemand<'_>,
        from: PlanNodeId,
        to: PlanNodeId,
        at: Time,
    ) -> Option<Route> {
        self.find_route_from(plan, load, &RouteOrigin::new(from, at), to)
    }

    pub(crate) fn find_route_from(
        &mut self,
        plan: &Plan,
        load: &RouteDemand<'_>,
        root: &RouteOrigin<'_>,
        to: PlanNodeId,
    ) -> Option<Route> {
        if root.node == to || root.excluded_nodes.contains(&to) {
            return None;
        }
        let arrival = self.find_earliest_arrival(plan, load, root, to)?;
        self.compute_arrivals_by_hops(plan, load, root, Some((to, arrival)));
        self.select_route(plan, load, root, to)
    }

    /// Computes the best route to every node, in number sequence.
    pub fn compute_table(
        &mut self,
        plan: &Plan,
        load: &RouteDemand<'_>,
        from: PlanNodeId,
        at: Time,
    ) -> ContactRouteTable {
        let root = RouteOrigin::new(from, at);
        self.compute_arrivals_by_hops(plan, load, &root, None);
        let all = (0..plan.node_count() as u32).map(PlanNodeId);
        let routes = all
            .map(|to| if to == from { None } else { self.select_route(plan, load, &root, to) })
            .collect();
        ContactRouteTable { version: plan.version(), from, time: at, routes }
    }

    /// Returns the preferred one of the earliest routes to a reached node.
    fn select_route(
        &mut self,
        plan: &Plan,
        load: &RouteDemand<'_>,
        root: &RouteOrigin<'_>,
        to: PlanNodeId,
    ) -> Option<Route> {
        let (hops, arrival) = *self.arrivals_by_hops[to.0 as usize].last()?;
        let useful = self.collect_earliest_edges(plan, load, root, to, hops, arrival);
        Some(crate::tie_break::select_preferred_route(plan, load, root, to, arrival, useful))
    }

    /// Returns the earliest arrival at a node (Dijkstra 1959).
    fn find_earliest_arrival(
        &mut self,
        plan: &Plan,
        load: &RouteDemand<'_>,
        root: &RouteOrigin<'_>,
        to: PlanNodeId,
    ) -> Option<Time> {
        self.earliest_arrivals.clear();
        self.earliest_arrivals.resize(plan.node_count(), Time::MAX);
        self.earliest_arrivals[root.node.0 as usize] = root.time;
        self.heap.clear();
        self.heap.push((Reverse(root.time), root.node));
        while let Some((Reverse(at), node)) = self.heap.pop() {
            if at > self.earliest_arrivals[node.0 as usize] {
                continue;
            }
            if node == to {
                return Some(at);
            }
            let begins = node == root.node;
            for hop in plan.outgoing(node) {
                let known = self.earliest_arrivals[hop.to.0 as usize];
                if known <= at || !root.allows(load, hop.to, begins) {
                    continue;
                }
                if let Some(arrival) =
                    earliest_edge_arrival(plan, load, hop, at, known, begins.then_some(root))
                {
                    self.earliest_arrivals[hop.to.0 as usize] = arrival;
                    self.heap.push((Reverse(arrival), hop.to));
                }
            }
        }
        None
    }

    /// Computes earliest arrivals by hops (Bellman 1958), one more hop at a time. With a destination, it stops at its
    /// earliest arrival and ignores later nodes.
    fn compute_arrivals_by_hops(
        &mut self,
        plan: &Plan,
        load: &RouteDemand<'_>,
        root: &RouteOrigin<'_>,
        to: Option<(PlanNodeId, Time)>,
    ) {
        self.arrivals_by_hops.resize_with(plan.node_count(), Vec::new);
        self.arrivals_by_hops.iter_mut().for_each(Vec::clear);
        let before = to.map_or(Time::MAX, |(_, arrival)| arrival + Span(1));
        let mut frontier = vec![(root.node, root.time)];
        for hops in 1.. {
            let mut next: Vec<PlanNodeId> = Vec::new();
            for (node, at) in frontier {
                let begins = node == root.node;
                for hop in plan.outgoing(node) {
                    let known = self.arrivals_by_hops[hop.to.0 as usize]
                        .last()
                        .map_or(before, |(_, time)| *time);
                    if known <= at || !root.allows(load, hop.to, begins) {
                        continue;
                    }
                    let Some(arrival) =
                        earliest_edge_arrival(plan, load, hop, at, known, begins.then_some(root))
                    else {
                        continue;
                    };
                    let of = &mut self.arrivals_by_hops[hop.to.0 as usize];
                    match of.last_mut() {
                        Some(last) if last.0 == hops => last.1 = arrival,
                        _ => {
                            of.push((hops, arrival));
                            next.push(hop.to);
                        }
                    }
                }
            }
            let there = |(to, arrival): (PlanNodeId, Time)| {
                self.arrivals_by_hops[to.0 as usize].last().is_some_and(|one| one.1 == arrival)
            };
            if next.is_empty() || to.is_some_and(there) {
                return;
            }
            next.sort_unstable();
            frontier = next
                .into_iter()
                .filter_map(|node| Some((node, self.arrivals_by_hops[node.0 as usize].last()?.1)))
                .collect();
        }
    }

    /// Returns the earliest arrival of a bundle at a node after at most `hops` hops.
    fn arrival_within_hops(
        &self,
        root: &RouteOrigin<'_>,
        node: PlanNodeId,
        hops: u32,
    ) -> Option<Time> {
        if node == root.node {
            return Some(root.time);
        }
        let of = &self.arrivals_by_hops[node.0 as usize];
        Some(of[..of.partition_point(|(min_hops, _)| *min_hops <= hops)].last()?.1)
    }

    /// Returns the edges of all routes with `hops` hops and this arrival, by a backward search.
    fn collect_earliest_edges(
        &self,
        plan: &Plan,
        load: &RouteDemand<'_>,
        root: &RouteOrigin<'_>,
        to: PlanNodeId,
        hops: u32,
        arrival: Time,
    ) -> Vec<EarliestEdge> {
        let mut found = Vec::new();
        let mut layer = BTreeMap::from([(to, arrival)]);
        for left in (0..hops).rev() {
            let mut before: BTreeMap<PlanNodeId, Time> = BTreeMap::new();
            for (node, due) in layer {
                for from in plan.incoming(node) {
                    let begins = *from == root.node;
                    let Some(at) =
                        self.arrival_within_hops(root, *from, left).filter(|at| *at <= due)
                    else {
                        continue;
                    };
                    if *from == to || !root.allows(load, node, begins) {
                        continue;
                    }
                    let edges = plan.edges(*from, node);
                    let first = edges.partition_point(|edge| edge.closes <= at);
                    for edge in edges[first..].iter().take_while(|edge| edge.opens <= due) {
                        let ready = if begins {
                            if root.excluded_edges.contains(&(edge.contact, edge.range_index)) {
                                continue;
                            }
                            root.earliest_transmission(plan, load, edge)
                        } else {
                            at
                        };
                        if load.arrival_time(edge, ready).is_none_or(|arrival| arrival > due)
                            || !load.admits(plan, edge)
                        {
                            continue;
                        }
                        found.push(EarliestEdge { edge: *edge, latest_arrival: due });
                        if let Some(latest) = load.latest_departure(edge, due).filter(|_| !begins) {
                            let of = before.entry(*from).or_insert(latest);
                            *of = latest.max(*of);
                        }
                    }
                }
            }
            layer = before;
        }
        found
    }
}

/// Returns the earliest arrival over a hop if it is before `known`.
fn earliest_edge_arrival(
    plan: &Plan,
    load: &RouteDemand<'_>,
    hop: &NeighbourContacts,
    at: Time,
    known: Time,
    root: Option<&RouteOrigin<'_>>,
) -> Option<Time> {
    let first = hop.edges.partition_point(|edge| edge.closes <= at);
    let mut best = known;
    // An edge that opens after the best arrival arrives later.
    for edge in &hop.edges[first..] {
        if edge.opens >= best {
            break;
        }
        let ready = match root {
            Some(root) if root.excluded_edges.contains(&(edge.contact, edge.range_index)) => {
                continue;
            }
            Some(root) => root.earliest_transmission(plan, load, edge),
            None => at,
        };
        if let Some(arrival) = load.arrival_time(edge, ready)
            && arrival < best
            && load.admits(plan, edge)
        {
            best = arrival;
        }
    }
    (best < known).then_some(best)
}

/// The best route to every node for one version of a plan.
#[derive(Clone, Debug)]
pub struct ContactRouteTable {
    /// The version of the plan.
    pub version: u64,
    /// The origin.
    pub from: PlanNodeId,
    /// The start time of the routes.
    pub time: Time,
    /// The routes by node, or `None` without a route.
    pub routes: Vec<Option<Route>>,
}
