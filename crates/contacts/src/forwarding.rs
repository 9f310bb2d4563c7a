//! The forwarding decision of a node for a bundle: next hops, or the reason for storage (3.2.5 to 3.2.8).

use units::Time;

use crate::candidate::{CandidateEvaluation, evaluate};
use crate::plan::{Plan, PlanNodeId};
use crate::plan_check::format_seconds;
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
/// must equal those of the bundle.
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
        let judged = route.map(|route| {
            let judgement = evaluate(plan, &route, bundle, load, now);
            (route, judgement)
        });
        Some(ForwardingDecision::Static(PlannedCopy { next_hop: one.via, route: judged }))
    };
    if local == to {
        return ForwardingDecision::NoRoute("this node is its destination: it is delivered".into());
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
                search.find_route(plan, &RouteDemand { excluded: &others, ..*load }, local, to, now)
            })
            .collect()
    } else {
        search.find_route(plan, load, local, to, now).into_iter().collect()
    };
    let in_time = |route: &Route| route.arrival <= bundle.deadline;
    let earliest = routes.iter().map(|one| one.arrival).min();
    routes.retain(in_time);
    routes.sort_by(|a, b| a.compare(b, plan));
    if routes.is_empty() {
        return by_hand(search, None).unwrap_or_else(|| {
            ForwardingDecision::NoRoute(explain_no_route(
                plan, search, local, to, now, bundle, load, earliest,
            ))
        });
    }
    let forward = |route: Route| {
        let judgement = evaluate(plan, &route, bundle, load, now);
        debug_assert!(judgement.rejection.is_none(), "{judgement:?}");
        PlannedCopy { next_hop: route.next_hop().unwrap_or(to), route: Some((route, judgement)) }
    };
    ForwardingDecision::Planned(routes.into_iter().map(forward).collect())
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
    earliest: Option<Time>,
) -> String {
    let (from, at) = (plan.name(local), format_seconds(now.nanos()));
    let to_name = plan.name(to);
    if let Some(earliest) = earliest {
        let deadline = format_seconds(bundle.deadline.nanos());
        return format!(
            "the earliest arrival at {to_name}, {}, is after the deadline, {deadline}",
            format_seconds(earliest.nanos())
        );
    }
    let mut leads = |excluded: &[PlanNodeId], min_confidence: f64| {
        let load = RouteDemand::best_case(excluded, min_confidence);
        search.find_route(plan, &load, local, to, now).is_some()
    };
    let (excluded, likely) = (load.excluded, load.min_confidence);
    if !leads(&[], 0.0) {
        return format!("no contacts lead from {from} to {to_name} from {at} on");
    }
    if !leads(excluded, likely) {
        // Each of the two constraints alone may exclude all routes, or only both together.
        return match (leads(excluded, 0.0), leads(&[], likely)) {
            (true, false) => format!(
                "contacts lead from {from} to {to_name}, but only over some that are less likely than {likely}"
            ),
            (false, true) => {
                format!("all contacts from {from} to {to_name} begin with an excluded neighbour")
            }
            (false, false) => format!(
                "all contacts from {from} to {to_name} begin with an excluded neighbour, and lead over some that are \
                 less likely than {likely}"
            ),
            (true, true) => format!(
                "all contacts from {from} to {to_name} begin with an excluded neighbour or lead over some that are \
                 less likely than {likely}"
            ),
        };
    }
    let need = if load.is_unfragmentable {
        format!("{} B of it", load.consumption)
    } else {
        "any of it".into()
    };
    format!("contacts lead from {from} to {to_name}, but none of their routes can carry {need}")
}
