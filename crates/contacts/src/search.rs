//! The earliest route: Dijkstra over the contact graph (3.2.4).
//!
//! The label of a node is the earliest arrival of a bundle. The label suffices because bundles can wait, so an earlier
//! arrival has all options of a later one. For a bundle the search includes size, booked volume and backlog. Its result
//! is then the candidate route with the earliest projected arrival.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use units::{Span, Time};

use crate::booked_volume::{Backlog, BookedVolume, Priority};
use crate::plan::{ContactEdge, ContactId, NeighbourContacts, Plan, PlanNodeId, volume};

/// A bundle to be routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleDemand {
    /// The size in bytes.
    pub size: u64,
    /// The priority.
    pub priority: Priority,
    /// Whether fragmentation is permitted.
    pub is_fragmentable: bool,
    /// The end of its lifetime.
    pub deadline: Time,
}

impl BundleDemand {
    /// Returns the volume booked per contact: size plus convergence-layer overhead of 3 %, at least 100 bytes (2.4.3).
    pub fn consumption(&self) -> u64 {
        let overhead = (u128::from(self.size) * 3).div_ceil(100).max(100);
        self.size.saturating_add(u64::try_from(overhead).unwrap_or(u64::MAX))
    }
}

/// The demand of a route and its constraints.
#[derive(Clone, Copy, Debug)]
pub struct RouteDemand<'a> {
    /// The volume booked per contact, bytes; zero for the best case, in which a bundle has no size.
    pub consumption: u64,
    /// The priority.
    pub priority: Priority,
    /// Whether each contact must carry the whole bundle.
    pub is_unfragmentable: bool,
    /// The booked volume. Without it, the search ignores volumes.
    pub booked_volume: Option<&'a BookedVolume>,
    /// The backlog of the local node.
    pub backlog: Option<&'a Backlog>,
    /// Neighbours to which the local node must not send.
    pub excluded: &'a [PlanNodeId],
    /// The minimum probability of a contact.
    pub min_confidence: f64,
}

impl<'a> RouteDemand<'a> {
    /// Returns the best case: no size, no bookings, no backlog (3.2.4).
    pub fn best_case(excluded: &'a [PlanNodeId], min_confidence: f64) -> RouteDemand<'a> {
        let priority = Priority::Expedited;
        RouteDemand {
            consumption: 0,
            priority,
            is_unfragmentable: true,
            booked_volume: None,
            backlog: None,
            excluded,
            min_confidence,
        }
    }

    /// Returns the demand of a bundle with its constraints.
    pub fn for_bundle(
        bundle: &BundleDemand,
        ledger: &'a BookedVolume,
        backlog: &'a Backlog,
        excluded: &'a [PlanNodeId],
        min_confidence: f64,
    ) -> RouteDemand<'a> {
        RouteDemand {
            consumption: bundle.consumption(),
            priority: bundle.priority,
            is_unfragmentable: !bundle.is_fragmentable,
            booked_volume: Some(ledger),
            backlog: Some(backlog),
            excluded,
            min_confidence,
        }
    }

    /// Returns whether an edge is usable, regardless of time.
    fn admits(&self, plan: &Plan, edge: &ContactEdge) -> bool {
        if edge.confidence < self.min_confidence {
            return false;
        }
        let (Some(ledger), Some(contact)) = (self.booked_volume, plan.contact(edge.contact)) else {
            return true;
        };
        let available = ledger.available_volume(edge.contact, contact, self.priority);
        available >= self.required_volume()
    }

    /// Returns the arrival of the last byte for a bundle that is ready at `ready`.
    pub(crate) fn arrival_time(&self, edge: &ContactEdge, ready: Time) -> Option<Time> {
        let first = edge.opens.max(ready);
        if first >= edge.closes {
            return None;
        }
        if first + edge.rate.time_for(self.required_volume()) > edge.stop {
            return None;
        }
        Some(first + edge.rate.time_for(self.consumption) + edge.owlt + edge.owlt_margin)
    }

    /// Returns the bytes that must pass before a contact's end: all, or the first byte of a fragmentable bundle.
    fn required_volume(&self) -> u64 {
        if self.is_unfragmentable { self.consumption } else { self.consumption.min(1) }
    }

    /// Returns the latest ready time for an arrival by `due`.
    fn latest_departure(&self, edge: &ContactEdge, due: Time) -> Option<Time> {
        let sent = edge.rate.time_for(self.consumption);
        let whole = (sent + edge.owlt + edge.owlt_margin).nanos();
        let min_airtime = edge.rate.time_for(self.required_volume()).nanos();
        let first = Time(due.nanos().checked_sub(whole)?)
            .min(Time(edge.closes.nanos() - 1))
            .min(Time(edge.stop.nanos().checked_sub(min_airtime)?));
        (first >= edge.opens).then_some(first)
    }
}

/// The origin of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteOrigin<'a> {
    pub node: PlanNodeId,
    pub time: Time,
    /// Whether the origin is the local node, to which backlog and excluded neighbours apply.
    pub is_local_node: bool,
    /// Edges that must not be the first one.
    pub excluded_edges: &'a [(ContactId, u32)],
    /// Nodes that the route must not visit.
    pub excluded_nodes: &'a [PlanNodeId],
    /// The earliest end of the preceding contacts.
    pub termination: Time,
}

impl RouteOrigin<'_> {
    pub fn new(node: PlanNodeId, at: Time) -> RouteOrigin<'static> {
        RouteOrigin {
            node,
            time: at,
            is_local_node: true,
            excluded_edges: &[],
            excluded_nodes: &[],
            termination: Time::MAX,
        }
    }

    /// Returns the earliest transmission of the first byte over an edge, after the backlog (3.2.6.2).
    pub fn earliest_transmission(
        &self,
        plan: &Plan,
        load: &RouteDemand<'_>,
        edge: &ContactEdge,
    ) -> Time {
        match load.backlog.filter(|_| self.is_local_node) {
            None => self.time,
            Some(backlog) => earliest_transmission_after_backlog(
                plan,
                edge,
                self.time,
                backlog.volume_ahead(edge.to, load.priority),
            ),
        }
    }

    /// Returns whether a route may visit a node, from this one (`begins`) or from another.
    pub fn allows(&self, load: &RouteDemand<'_>, to: PlanNodeId, begins: bool) -> bool {
        to != self.node
            && !self.excluded_nodes.contains(&to)
            && !(begins && self.is_local_node && load.excluded.contains(&to))
    }
}

/// Returns the earliest transmission opportunity of an edge after `ahead` bytes of backlog. Earlier contacts reduce the
/// backlog (3.2.6.2, a to i).
pub(crate) fn earliest_transmission_after_backlog(
    plan: &Plan,
    edge: &ContactEdge,
    now: Time,
    ahead: u64,
) -> Time {
    let Some(contact) = plan.contact(edge.contact) else { return now };
    let begins = contact.start.max(now);
    if ahead == 0 {
        return begins;
    }
    let mut residual = ahead;
    for (_, prior) in plan.contacts_between(edge.from, edge.to) {
        if prior.start >= contact.start || residual == 0 {
            break;
        }
        let carried = volume(prior.rate, prior.stop.since(prior.start.max(now)));
        residual = residual.saturating_sub(carried);
    }
    begins + edge.rate.time_for(residual)
}

/// A route through the contact graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The edges in route sequence.
    pub edges: Vec<ContactEdge>,
    /// The arrival time for the demand of the search.
    pub arrival: Time,
}

impl Route {
    /// Returns the earliest end of all contacts (2.3.2.1).
    pub fn termination(&self) -> Time {
        self.edges.iter().map(|edge| edge.stop).min().unwrap_or(Time::MAX)
    }

    /// Returns the next hop.
    pub fn next_hop(&self) -> Option<PlanNodeId> {
        self.edges.first().map(|edge| edge.to)
    }

    /// Returns the product of the contact probabilities, which assumes independence.
    pub fn confidence(&self) -> f64 {
        self.edges.iter().fold(1.0, |all, edge| all * edge.confidence)
    }

    /// Compares by arrival, hops, latest end, smallest next hop (3.2.8.1.4), and then by contacts for a total order.
    pub(crate) fn compare(&self, other: &Route, plan: &Plan) -> std::cmp::Ordering {
        let rank = |one: &Route| one.next_hop().map(|node| plan.sort_key(node));
        let ids = |one: &Route| {
            one.edges.iter().map(|edge| (edge.contact, edge.range_index)).collect::<Vec<_>>()
        };
        (self.arrival, self.edges.len(), Reverse(self.termination()))
            .cmp(&(other.arrival, other.edges.len(), Reverse(other.termination())))
            .then_with(|| rank(self).cmp(&rank(other)))
            .then_with(|| ids(self).cmp(&ids(other)))
    }
}

/// An edge of a route with the earliest arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarliestEdge {
    pub edge: ContactEdge,
    /// The latest permitted arrival.
    pub latest_arrival: Time,
}

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
