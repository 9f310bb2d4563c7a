//! Further routes, one at a time and in sequence (Yen 1971, with Lawler's choice of deviations: 1972).

use std::collections::VecDeque;

use units::Time;

use crate::plan::{ContactEdge, ContactId, Plan, PlanNodeId};
use crate::route::{Route, RouteDemand, RouteOrigin};
use crate::search::ContactGraphSearch;

/// Routes in the standard's order, computed on demand. No route visits a node twice, and no route is returned twice.
pub struct KShortestRoutes<'a> {
    plan: &'a Plan,
    demand: RouteDemand<'a>,
    from: PlanNodeId,
    to: PlanNodeId,
    time: Time,
    search: ContactGraphSearch,
    returned: Vec<Route>,
    /// Routes found and not yet returned, in sequence, each with the index of its first deviating edge.
    candidates: VecDeque<(Route, usize)>,
    /// The last returned route. The next call computes its deviations.
    last_returned: Option<(Route, usize)>,
}

impl<'a> KShortestRoutes<'a> {
    /// Creates the iterator over routes between two nodes.
    pub fn new(
        plan: &'a Plan,
        load: RouteDemand<'a>,
        from: PlanNodeId,
        to: PlanNodeId,
        at: Time,
    ) -> KShortestRoutes<'a> {
        KShortestRoutes {
            plan,
            demand: load,
            from,
            to,
            time: at,
            search: ContactGraphSearch::default(),
            returned: Vec::new(),
            candidates: VecDeque::new(),
            last_returned: None,
        }
    }

    fn insert_candidate(&mut self, route: Route, left: usize) {
        let index =
            self.candidates.partition_point(|(one, _)| one.compare(&route, self.plan).is_lt());
        self.candidates.insert(index, (route, left));
    }

    /// Adds routes that deviate from the last returned one at each node from index `left` on.
    fn add_deviations(&mut self, route: &Route, left: usize) {
        let mut at = self.time;
        let mut closed = Vec::new();
        let start = RouteOrigin::new(self.from, self.time);
        for number in 0..route.edges.len() {
            let edge = route.edges[number];
            let prefix = &route.edges[..number];
            if number >= left {
                let banned: Vec<(ContactId, u32)> = self
                    .returned
                    .iter()
                    .filter(|one| {
                        one.edges.len() > number && is_same_path(&one.edges[..number], prefix)
                    })
                    .map(|one| (one.edges[number].contact, one.edges[number].range_index))
                    .collect();
                let termination = prefix.iter().map(|edge| edge.stop).min().unwrap_or(Time::MAX);
                let root = RouteOrigin {
                    node: edge.from,
                    time: at,
                    is_local_node: number == 0,
                    excluded_edges: &banned,
                    excluded_nodes: &closed,
                    termination,
                };
                if let Some(rest) =
                    self.search.find_route_from(self.plan, &self.demand, &root, self.to)
                {
                    let edges = prefix.iter().chain(&rest.edges).copied().collect();
                    self.insert_candidate(Route { edges, arrival: rest.arrival }, number);
                }
            }
            let ready = if number == 0 {
                start.earliest_transmission(self.plan, &self.demand, &edge)
            } else {
                at
            };
            at = self.demand.arrival_time(&edge, ready).unwrap_or(Time::MAX);
            closed.push(edge.from);
        }
    }
}

fn is_same_path(a: &[ContactEdge], b: &[ContactEdge]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a.contact, a.range_index) == (b.contact, b.range_index))
}

impl Iterator for KShortestRoutes<'_> {
    type Item = Route;

    fn next(&mut self) -> Option<Route> {
        let found = match self.last_returned.take() {
            None if self.returned.is_empty() => (
                self.search.find_route(self.plan, &self.demand, self.from, self.to, self.time)?,
                0,
            ),
            None => return None,
            Some((route, left)) => {
                self.add_deviations(&route, left);
                self.candidates.pop_front()?
            }
        };
        let route = found.0.clone();
        self.returned.push(route.clone());
        self.last_returned = Some(found);
        Some(route)
    }
}
