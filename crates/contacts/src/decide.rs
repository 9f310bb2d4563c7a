//! What a node does with a bundle: the next hop or hops, or why it keeps it (3.2.5 to 3.2.8).

use units::Time;

use crate::check::seconds;
use crate::judge::{Judgement, judge};
use crate::plan::{NodeId, Plan};
use crate::search::{Bundle, Load, Route, Search};

/// A next hop that somebody has set by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// Bundles to this node; none: those that no other way is known for.
    pub to: Option<NodeId>,
    /// Go to this neighbour.
    pub via: NodeId,
}

/// A copy of a bundle on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Forwarding {
    /// The next hop.
    pub to: NodeId,
    /// The way there and on, and what becomes of the bundle on it; none where a static route leads to a neighbour that
    /// the plan has no contact with.
    pub route: Option<(Route, Judgement)>,
}

/// What a node does with a bundle.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// By the plan: to the next hop of the earliest route; a critical bundle to every neighbour that has a route.
    Planned(Vec<Forwarding>),
    /// As somebody has set.
    Static(Forwarding),
    /// It stays, and this is why.
    Kept(String),
}

/// Decides on a bundle at `local` for `to`.
///
/// A static route to that node goes before the plan, one for all others behind it. Of `load` the consumption and the
/// priority must be the bundle's.
#[allow(clippy::too_many_arguments, reason = "each is a part of the question")]
pub fn decide(
    plan: &Plan,
    search: &mut Search,
    local: NodeId,
    to: NodeId,
    now: Time,
    bundle: &Bundle,
    load: &Load<'_>,
    critical: bool,
    statics: &[StaticRoute],
) -> Decision {
    let by_hand = |search: &mut Search, of: Option<NodeId>| {
        let allowed = |via| via != local && !load.excluded.contains(&via);
        let one = statics.iter().find(|one| one.to == of && allowed(one.via))?;
        let route =
            search.route(plan, load, local, one.via, now).filter(|route| route.legs.len() == 1);
        let route = route.or_else(|| direct(plan, load, local, one.via, now));
        let judged = route.map(|route| {
            let judgement = judge(plan, &route, bundle, load, now);
            (route, judgement)
        });
        Some(Decision::Static(Forwarding { to: one.via, route: judged }))
    };
    if local == to {
        return Decision::Kept("this node is its destination: it is delivered".into());
    }
    if let Some(found) = by_hand(search, Some(to)) {
        return found;
    }
    let mut routes: Vec<Route> = if critical {
        // the best candidate of each neighbour
        let neighbours: Vec<NodeId> = plan.onward(local).iter().map(|hop| hop.to).collect();
        neighbours
            .iter()
            .filter(|one| !load.excluded.contains(one))
            .filter_map(|only| {
                let others: Vec<NodeId> =
                    neighbours.iter().copied().filter(|one| one != only).collect();
                search.route(plan, &Load { excluded: &others, ..*load }, local, to, now)
            })
            .collect()
    } else {
        search.route(plan, load, local, to, now).into_iter().collect()
    };
    let in_time = |route: &Route| route.arrival <= bundle.deadline;
    let earliest = routes.iter().map(|one| one.arrival).min();
    routes.retain(in_time);
    routes.sort_by(|a, b| a.before(b, plan));
    if routes.is_empty() {
        return by_hand(search, None).unwrap_or_else(|| {
            Decision::Kept(why(plan, search, local, to, now, bundle, load, earliest))
        });
    }
    let forward = |route: Route| {
        let judgement = judge(plan, &route, bundle, load, now);
        debug_assert!(judgement.reason.is_none(), "{judgement:?}");
        Forwarding { to: route.entry().unwrap_or(to), route: Some((route, judgement)) }
    };
    Decision::Planned(routes.into_iter().map(forward).collect())
}

/// The earliest contact with a neighbour that carries the bundle.
fn direct(plan: &Plan, load: &Load<'_>, local: NodeId, via: NodeId, now: Time) -> Option<Route> {
    let others: Vec<NodeId> =
        plan.onward(local).iter().map(|hop| hop.to).filter(|one| *one != via).collect();
    Search::default().route(plan, &Load { excluded: &others, ..*load }, local, via, now)
}

#[allow(clippy::too_many_arguments, reason = "as above")]
fn why(
    plan: &Plan,
    search: &mut Search,
    local: NodeId,
    to: NodeId,
    now: Time,
    bundle: &Bundle,
    load: &Load<'_>,
    earliest: Option<Time>,
) -> String {
    let (from, at) = (plan.name(local), seconds(now.nanos()));
    let to_name = plan.name(to);
    if let Some(earliest) = earliest {
        let deadline = seconds(bundle.deadline.nanos());
        return format!(
            "the earliest arrival at {to_name}, {}, is after the deadline, {deadline}",
            seconds(earliest.nanos())
        );
    }
    let mut leads = |excluded: &[NodeId], least_confidence: f64| {
        let load = Load::best_case(excluded, least_confidence);
        search.route(plan, &load, local, to, now).is_some()
    };
    let (excluded, likely) = (load.excluded, load.least_confidence);
    if !leads(&[], 0.0) {
        return format!("no contacts lead from {from} to {to_name} from {at} on");
    }
    if !leads(excluded, likely) {
        // Of two bounds each may be one too many by itself, or only both together.
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
    let need =
        if load.whole { format!("{} B of it", load.consumption) } else { "any of it".into() };
    format!("contacts lead from {from} to {to_name}, but none of their routes can carry {need}")
}
