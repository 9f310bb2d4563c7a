//! The demand of a bundle, the origin of a route, and the route.

use std::cmp::Reverse;

use units::Time;

use crate::booked_volume::{Backlog, BookedVolume, Priority};
use crate::plan::{ContactEdge, ContactId, Plan, PlanNodeId, volume};

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

    /// Returns the size of the largest bundle that consumes at most a volume.
    pub fn max_size(consumption: u64) -> u64 {
        let by_share = (u128::from(consumption) * 100 / 103) as u64;
        by_share.min(consumption.saturating_sub(100))
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
    pub fn best_case(excluded: &'a [PlanNodeId], least_confidence: f64) -> RouteDemand<'a> {
        let priority = Priority::Expedited;
        RouteDemand {
            consumption: 0,
            priority,
            is_unfragmentable: true,
            booked_volume: None,
            backlog: None,
            excluded,
            min_confidence: least_confidence,
        }
    }

    /// Returns the demand of a bundle with its constraints.
    pub fn for_bundle(
        bundle: &BundleDemand,
        ledger: &'a BookedVolume,
        backlog: &'a Backlog,
        excluded: &'a [PlanNodeId],
        least_confidence: f64,
    ) -> RouteDemand<'a> {
        RouteDemand {
            consumption: bundle.consumption(),
            priority: bundle.priority,
            is_unfragmentable: !bundle.is_fragmentable,
            booked_volume: Some(ledger),
            backlog: Some(backlog),
            excluded,
            min_confidence: least_confidence,
        }
    }

    /// Returns whether an edge is usable, regardless of time.
    pub(crate) fn admits(&self, plan: &Plan, edge: &ContactEdge) -> bool {
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
    pub(crate) fn latest_departure(&self, edge: &ContactEdge, due: Time) -> Option<Time> {
        let sent = edge.rate.time_for(self.consumption);
        let whole = (sent + edge.owlt + edge.owlt_margin).nanos();
        let least = edge.rate.time_for(self.required_volume()).nanos();
        let first = Time(due.nanos().checked_sub(whole)?)
            .min(Time(edge.closes.nanos() - 1))
            .min(Time(edge.stop.nanos().checked_sub(least)?));
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
