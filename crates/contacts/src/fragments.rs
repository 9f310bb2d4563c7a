//! The fragments of a bundle that no single route carries whole, as a node plans them one after the other.

use units::Time;

use crate::booked_volume::Backlog;
use crate::candidate::{CandidateEvaluation, evaluate};
use crate::forwarding::{find_candidate, find_largest_fragment};
use crate::plan::{Plan, PlanNodeId, volume};
use crate::route::{BundleDemand, Route, RouteDemand};
use crate::search::ContactGraphSearch;

/// The minimum payload of a fragment: its blocks need about a hundred bytes.
pub const MIN_FRAGMENT_BYTES: u64 = 1 << 10;

/// The maximum number of planned fragments.
const MAX_FRAGMENTS: usize = 100;

/// A planned fragment.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedFragment {
    /// The part of the bundle's size, bytes.
    pub size: u64,
    /// The route.
    pub route: Route,
    /// The evaluation of the fragment on the route.
    pub evaluation: CandidateEvaluation,
}

/// Plans the fragments of a bundle at `local` for `to`, each by a decision of its own. A contact carries a fragment
/// after all earlier ones. The sizes have a sum less than the bundle's if no route carries the rest.
pub fn plan_fragments(
    plan: &Plan,
    local: PlanNodeId,
    to: PlanNodeId,
    now: Time,
    bundle: &BundleDemand,
    load: &RouteDemand<'_>,
) -> Vec<PlannedFragment> {
    let mut search = ContactGraphSearch::default();
    let mut found: Vec<PlannedFragment> = Vec::new();
    let mut rest = bundle.size;
    let mut plan = plan.clone();
    while rest > 0 && found.len() < MAX_FRAGMENTS {
        let demand = BundleDemand { size: rest, ..*bundle };
        let load = RouteDemand {
            consumption: demand.consumption(),
            // Later fragments start after the backlog, by the contacts that it leaves.
            backlog: load.backlog.filter(|_| found.is_empty()),
            ..*load
        };
        let candidate = find_candidate(&plan, &mut search, &load, local, to, now)
            .and_then(|route| fragment(&plan, route, &demand, &load, now))
            .or_else(|| {
                let (_, route) = find_largest_fragment(&plan, &mut search, &load, local, to, now)?;
                fragment(&plan, route, &demand, &load, now)
            });
        let Some(one) = candidate else { break };
        if let Some(backlog) = load.backlog {
            send_backlog(&mut plan, local, now, backlog, &load);
        }
        for hop in &one.evaluation.hops {
            plan.delay_contact(hop.edge.contact, hop.last_byte_time);
        }
        rest -= one.size;
        found.push(one);
    }
    found
}

/// Returns the part of a bundle that a route carries, unless it is too small or too late.
fn fragment(
    plan: &Plan,
    route: Route,
    demand: &BundleDemand,
    load: &RouteDemand<'_>,
    now: Time,
) -> Option<PlannedFragment> {
    let evaluation = evaluate(plan, &route, demand, load, now);
    let size = if evaluation.carried_volume == load.consumption {
        demand.size
    } else {
        BundleDemand::max_size(evaluation.carried_volume)
    };
    let is_large_enough = size >= MIN_FRAGMENT_BYTES.min(demand.size);
    (evaluation.rejection.is_none() && is_large_enough).then_some(PlannedFragment {
        size,
        route: Route { arrival: evaluation.projected_arrival, ..route },
        evaluation,
    })
}

/// Removes the time from the contacts in which the backlog is sent.
fn send_backlog(
    plan: &mut Plan,
    local: PlanNodeId,
    now: Time,
    backlog: &Backlog,
    load: &RouteDemand<'_>,
) {
    let neighbours: Vec<PlanNodeId> = plan.outgoing(local).iter().map(|hop| hop.to).collect();
    for to in neighbours {
        let mut residual = backlog.volume_ahead(to, load.priority);
        let contacts: Vec<_> =
            plan.contacts_between(local, to).map(|(id, one)| (id, one.clone())).collect();
        for (id, contact) in contacts {
            let begins = contact.start.max(now);
            let carried = volume(contact.rate, contact.stop.since(begins)).min(residual);
            residual -= carried;
            if carried > 0 {
                plan.delay_contact(id, begins + contact.rate.time_for(carried));
            }
        }
    }
}
