//! The forwarding decision of a node for a bundle: next hops, or the reason for storage (3.2.5 to 3.2.8).

use units::Time;

use crate::candidate::{CandidateEvaluation, evaluate};
use crate::missing_range::find_missing_ranges;
use crate::plan::{Plan, PlanNodeId};
use crate::plan_check::{format_bytes, format_seconds};
use crate::route::{BundleDemand, Route, RouteDemand};
use crate::search::ContactGraphSearch;

/// A manually configured next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// The destination node, or `None` for bundles without any other route.
    pub to: Option<PlanNodeId>,
    /// The next hop.
    pub via: PlanNodeId,
}

/// A copy of a bundle to forward.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCopy {
    /// The next hop.
    pub next_hop: PlanNodeId,
    /// The route with its evaluation, or `None` for a static route to a neighbour without a contact in the plan.
    pub route: Option<(Route, CandidateEvaluation)>,
}

/// The forwarding decision for a bundle.
#[derive(Clone, Debug, PartialEq)]
pub enum ForwardingDecision {
    /// By the plan: to the next hop of the earliest route, or for a critical bundle to every neighbour with a route.
    Planned(Vec<PlannedCopy>),
    /// By a static route.
    Static(PlannedCopy),
    /// No route: the bundle is stored for this reason.
    NoRoute(String),
}

/// Decides on a bundle at `local` for `to`.
///
/// A static route to that node precedes the plan; a default static route follows it. Consumption and priority of `load`
/// must equal those of the bundle. The arrival of a route that carries a part of the bundle is that of the part.
#[allow(clippy::too_many_arguments, reason = "each argument is a part of the request")]
pub fn decide_forwarding(
    plan: &Plan,
    search: &mut ContactGraphSearch,
    local: PlanNodeId,
    to: PlanNodeId,
    now: Time,
    bundle: &BundleDemand,
    load: &RouteDemand<'_>,
    critical: bool,
    statics: &[StaticRoute],
) -> ForwardingDecision {
    let by_hand = |search: &mut ContactGraphSearch, of: Option<PlanNodeId>| {
        let allowed = |via| via != local && !load.excluded.contains(&via);
        let one = statics.iter().find(|one| one.to == of && allowed(one.via))?;
        let route = search
            .find_route(plan, load, local, one.via, now)
            .filter(|route| route.edges.len() == 1);
        let route = route.or_else(|| find_direct_route(plan, load, local, one.via, now));
        let judged = route.map(|route| evaluate_route(plan, route, bundle, load, now));
        Some(ForwardingDecision::Static(PlannedCopy { next_hop: one.via, route: judged }))
    };
    if local == to {
        return ForwardingDecision::NoRoute(
            "this node is the destination and delivers the bundle".into(),
        );
    }
    if let Some(found) = by_hand(search, Some(to)) {
        return found;
    }
    let mut routes: Vec<Route> = if critical {
        // The best candidate route of each neighbour.
        let neighbours: Vec<PlanNodeId> = plan.outgoing(local).iter().map(|hop| hop.to).collect();
        neighbours
            .iter()
            .filter(|one| !load.excluded.contains(one))
            .filter_map(|only| {
                let others: Vec<PlanNodeId> =
                    neighbours.iter().copied().filter(|one| one != only).collect();
                let load = RouteDemand { excluded: &others, ..*load };
                find_candidate(plan, search, &load, local, to, now)
            })
            .collect()
    } else {
        find_candidate(plan, search, load, local, to, now).into_iter().collect()
    };
    routes.sort_by(|a, b| a.compare(b, plan));
    let evaluated: Vec<(Route, CandidateEvaluation)> =
        routes.into_iter().map(|route| evaluate_route(plan, route, bundle, load, now)).collect();
    if evaluated.iter().all(|(_, judged)| judged.rejection.is_some()) {
        let earliest = evaluated.iter().min_by_key(|(route, _)| route.arrival);
        return by_hand(search, None).unwrap_or_else(|| {
            ForwardingDecision::NoRoute(explain_no_route(
                plan, search, local, to, now, bundle, load, earliest,
            ))
        });
    }
    let copies = evaluated.into_iter().filter(|(_, judged)| judged.rejection.is_none());
    ForwardingDecision::Planned(
        copies
            .map(|(route, judged)| PlannedCopy {
                next_hop: route.next_hop().unwrap_or(to),
                route: Some((route, judged)),
            })
            .collect(),
    )
}

/// Evaluates a route, and sets its arrival to that of the volume that it carries.
fn evaluate_route(
    plan: &Plan,
    route: Route,
    bundle: &BundleDemand,
    load: &RouteDemand<'_>,
    now: Time,
) -> (Route, CandidateEvaluation) {
    let judgement = evaluate(plan, &route, bundle, load, now);
    (Route { arrival: judgement.projected_arrival, ..route }, judgement)
}

/// Returns the candidate route with the earliest projected arrival. If the bundle may be fragmented and the standard
/// has no candidate, it is the route of the largest fragment.
///
/// By the standard a later contact counts from the arrival of the whole bundle, at which it may have ended.
pub(crate) fn find_candidate(
    plan: &Plan,
    search: &mut ContactGraphSearch,
    load: &RouteDemand<'_>,
    local: PlanNodeId,
    to: PlanNodeId,
    now: Time,
) -> Option<Route> {
    let found = search.find_route(plan, load, local, to, now);
    if found.is_some() || load.is_unfragmentable {
        return found;
    }
    find_largest_fragment(plan, search, load, local, to, now).map(|(_, route)| route)
}

/// Returns the largest volume that one route carries, at most that of the demand, and the earliest such route.
pub(crate) fn find_largest_fragment(
    plan: &Plan,
    search: &mut ContactGraphSearch,
    load: &RouteDemand<'_>,
    local: PlanNodeId,
    to: PlanNodeId,
    now: Time,
) -> Option<(u64, Route)> {
    let mut find = |consumption: u64| {
        let load = RouteDemand { consumption, is_unfragmentable: true, ..*load };
        search.find_route(plan, &load, local, to, now)
    };
    let mut best = (1, find(1)?);
    let mut fails = load.consumption.saturating_add(1);
    while best.0 + 1 < fails {
        let middle = best.0 + (fails - best.0) / 2;
        match find(middle) {
            Some(route) => best = (middle, route),
            None => fails = middle,
        }
    }
    Some(best)
}

/// Returns the earliest contact with a neighbour that carries the bundle.
fn find_direct_route(
    plan: &Plan,
    load: &RouteDemand<'_>,
    local: PlanNodeId,
    via: PlanNodeId,
    now: Time,
) -> Option<Route> {
    let others: Vec<PlanNodeId> =
        plan.outgoing(local).iter().map(|hop| hop.to).filter(|one| *one != via).collect();
    ContactGraphSearch::default().find_route(
        plan,
        &RouteDemand { excluded: &others, ..*load },
        local,
        via,
        now,
    )
}

#[allow(clippy::too_many_arguments, reason = "as above")]
fn explain_no_route(
    plan: &Plan,
    search: &mut ContactGraphSearch,
    local: PlanNodeId,
    to: PlanNodeId,
    now: Time,
    bundle: &BundleDemand,
    load: &RouteDemand<'_>,
    earliest: Option<&(Route, CandidateEvaluation)>,
) -> String {
    let (from, at) = (plan.name(local), format_seconds(now.nanos()));
    let to_name = plan.name(to);
    if let Some((route, judged)) = earliest {
        let deadline = format_seconds(bundle.deadline.nanos());
        let arrival = format_seconds(route.arrival.nanos());
        return if judged.carried_volume < load.consumption {
            format!(
                "a fragment would arrive at {to_name} at {arrival}, after the deadline, {deadline}"
            )
        } else {
            format!(
                "the earliest arrival at {to_name}, {arrival}, is after the deadline, {deadline}"
            )
        };
    }
    let mut leads = |excluded: &[PlanNodeId], min_confidence: f64| {
        let load = RouteDemand::best_case(excluded, min_confidence);
        search.find_route(plan, &load, local, to, now).is_some()
    };
    let (excluded, likely) = (load.excluded, load.min_confidence);
    if !leads(&[], 0.0) {
        let pairs = find_missing_ranges(plan, local, to, now);
        if pairs.is_empty() {
            return format!("no contacts lead from {from} to {to_name} from {at} on");
        }
        let names: Vec<String> = pairs
            .iter()
            .map(|(a, b)| format!("between {} and {}", plan.name(*a), plan.name(*b)))
            .collect();
        return format!(
            "contacts lead from {from} to {to_name}, but the plan has no range {}",
            names.join(", ")
        );
    }
    if !leads(excluded, likely) {
        // Each of the two constraints alone may exclude all routes, or only both together.
        return match (leads(excluded, 0.0), leads(&[], likely)) {
            (true, false) => format!(
                "contacts lead from {from} to {to_name}, but only over contacts with a confidence below {likely}"
            ),
            (false, true) => {
                format!("all contacts from {from} to {to_name} begin with an excluded neighbour")
            }
            (false, false) => format!(
                "all contacts from {from} to {to_name} begin with an excluded neighbour and lead over contacts with a \
                 confidence below {likely}"
            ),
            (true, true) => format!(
                "all contacts from {from} to {to_name} begin with an excluded neighbour or lead over contacts with a \
                 confidence below {likely}"
            ),
        };
    }
    let need = if load.is_unfragmentable {
        format!("all {} of the bundle", format_bytes(load.consumption))
    } else {
        "any part of it".into()
    };
    format!("contacts lead from {from} to {to_name}, but none of their routes can carry {need}")
}
