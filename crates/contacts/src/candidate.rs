//! Evaluation of a candidate route for a bundle, contact by contact (3.2.6).

use units::Time;

use crate::plan::{ContactEdge, ContactId, Plan, PlanNodeId, volume};
use crate::plan_check::format_seconds;
use crate::route::{BundleDemand, Route, RouteDemand, RouteOrigin};

/// A bundle on one contact of a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HopEvaluation {
    /// The contact edge.
    pub edge: ContactEdge,
    /// The backlog before the bundle in bytes, at the first contact.
    pub backlog_ahead: u64,
    /// The transmission time of the first byte.
    pub first_byte_time: Time,
    /// The transmission time of the last byte.
    pub last_byte_time: Time,
    /// The arrival time of the last byte.
    pub last_byte_arrival: Time,
    /// The available volume of the contact for the priority (MAV).
    pub available_volume: u64,
    /// The earliest end of this contact and its successors.
    pub effective_stop: Time,
    /// The volume that can pass by then (EVL).
    pub volume_limit: u64,
}

/// The reason why a route is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionReason {
    /// The best-case arrival is after the deadline.
    BestCaseTooLate(Time),
    /// The next hop is excluded.
    ExcludedNode(PlanNodeId),
    /// The backlog fills the first contact.
    BacklogExceedsContact(ContactId, Time),
    /// The projected arrival is after the deadline.
    ArrivalTooLate(Time),
    /// A contact has no volume left.
    VolumeDepleted(ContactId),
    /// The volume left is too small, and the bundle must not be fragmented.
    VolumeTooSmall(ContactId, u64),
    /// The range of an edge has ended by then; the next edge of the contact belongs to another route.
    RangeChanged(ContactId),
}

impl RejectionReason {
    /// Returns the clause of CCSDS 734.3-B-1, or `None` for reasons of this implementation.
    pub fn clause(&self) -> Option<&'static str> {
        Some(match self {
            RejectionReason::BestCaseTooLate(_) => "3.2.6.9 a",
            RejectionReason::ExcludedNode(_) => "3.2.6.9 b",
            RejectionReason::BacklogExceedsContact(..) => "3.2.6.9 d",
            RejectionReason::ArrivalTooLate(_) => "3.2.6.9 e",
            RejectionReason::VolumeDepleted(_) => "3.2.6.9 f",
            RejectionReason::VolumeTooSmall(..) => "3.2.6.9 g",
            RejectionReason::RangeChanged(_) => return None,
        })
    }

    /// Returns the text of the reason.
    pub fn message(&self, plan: &Plan, bundle: &BundleDemand) -> String {
        let of = |id: &ContactId| {
            plan.contact(*id).map_or_else(String::new, |one| {
                format!("{} to {} ({})", plan.name(one.from), plan.name(one.to), one.declared_at)
            })
        };
        let deadline = format_seconds(bundle.deadline.nanos());
        match self {
            RejectionReason::BestCaseTooLate(at) => format!(
                "even without a size it arrives at {}, after the deadline, {deadline}",
                format_seconds(at.nanos())
            ),
            RejectionReason::ExcludedNode(node) => format!("{} is excluded", plan.name(*node)),
            RejectionReason::BacklogExceedsContact(id, at) => {
                format!(
                    "what waits for {} lasts until {}, after its end",
                    of(id),
                    format_seconds(at.nanos())
                )
            }
            RejectionReason::ArrivalTooLate(at) => format!(
                "it would arrive at {}, after the deadline, {deadline}",
                format_seconds(at.nanos())
            ),
            RejectionReason::VolumeDepleted(id) => format!("nothing is left of {}", of(id)),
            RejectionReason::VolumeTooSmall(id, left) => format!(
                "{left} B are left of {}, {} B are needed, and the bundle must not be cut",
                of(id),
                bundle.consumption()
            ),
            RejectionReason::RangeChanged(id) => format!("{} has another range by then", of(id)),
        }
    }
}

/// The evaluation of a bundle on a route.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateEvaluation {
    /// The arrival of a bundle without size (3.2.4.2).
    pub best_case_arrival: Time,
    /// The evaluations of the contacts.
    pub hops: Vec<HopEvaluation>,
    /// The arrival of the last byte (PBAT).
    pub projected_arrival: Time,
    /// The minimum volume limit of all contacts (RVL).
    pub volume_limit: u64,
    /// The rejection reason, or `None` for a candidate.
    pub rejection: Option<RejectionReason>,
}

/// Evaluates a bundle on a route (3.2.6.2 to 3.2.6.9) at a node that decides at `now`.
pub fn evaluate(
    plan: &Plan,
    route: &Route,
    bundle: &BundleDemand,
    load: &RouteDemand<'_>,
    now: Time,
) -> CandidateEvaluation {
    let edges = &route.edges;
    let mut best_case = now;
    let mut over = None;
    for edge in edges {
        best_case = edge.opens.max(best_case) + edge.owlt + edge.owlt_margin;
    }
    // 3.2.6.8.6
    let mut stops: Vec<Time> = edges
        .iter()
        .rev()
        .scan(Time::MAX, |stop, edge| {
            *stop = edge.stop.min(*stop);
            Some(*stop)
        })
        .collect();
    stops.reverse();
    let root = RouteOrigin::new(edges.first().map_or(PlanNodeId(0), |edge| edge.from), now);
    let mut at = now;
    let mut passing = Vec::with_capacity(edges.len());
    for (number, edge) in edges.iter().enumerate() {
        let ahead = load
            .backlog
            .filter(|_| number == 0)
            .map_or(0, |one| one.volume_ahead(edge.to, load.priority));
        let ready = if number == 0 { root.earliest_transmission(plan, load, edge) } else { at };
        let first = edge.opens.max(ready); // 3.2.6.3
        if first >= edge.closes && first < edge.stop {
            over = over.or(Some(edge.contact));
        }
        let last = first + edge.rate.time_for(load.consumption); // 3.2.6.4
        at = last + edge.owlt + edge.owlt_margin; // 3.2.6.6
        let available = match (load.booked_volume, plan.contact(edge.contact)) {
            (Some(ledger), Some(contact)) => {
                ledger.available_volume(edge.contact, contact, load.priority)
            }
            (None, Some(contact)) => contact.volume(),
            _ => 0,
        };
        let effective_stop = stops[number];
        // 3.2.6.8.9
        let volume_limit = available.min(volume(edge.rate, effective_stop.since(first)));
        passing.push(HopEvaluation {
            edge: *edge,
            backlog_ahead: ahead,
            first_byte_time: first,
            last_byte_time: last,
            last_byte_arrival: at,
            available_volume: available,
            effective_stop,
            volume_limit,
        });
    }
    let narrowest = passing.iter().min_by_key(|one| one.volume_limit);
    let volume_limit = narrowest.map_or(0, |one| one.volume_limit); // 3.2.6.8.10
    let narrowest_contact = narrowest.map(|one| one.edge.contact);
    let reason = if best_case > bundle.deadline {
        Some(RejectionReason::BestCaseTooLate(best_case))
    } else if let Some(entry) = route.next_hop().filter(|entry| load.excluded.contains(entry)) {
        Some(RejectionReason::ExcludedNode(entry))
    } else if let Some(one) = passing.first().filter(|one| one.first_byte_time >= one.edge.stop) {
        Some(RejectionReason::BacklogExceedsContact(one.edge.contact, one.first_byte_time))
    } else if at > bundle.deadline {
        Some(RejectionReason::ArrivalTooLate(at))
    } else if let (0, Some(contact)) = (volume_limit, narrowest_contact) {
        Some(RejectionReason::VolumeDepleted(contact))
    } else if let (true, Some(contact)) =
        (load.is_unfragmentable && volume_limit < load.consumption, narrowest_contact)
    {
        Some(RejectionReason::VolumeTooSmall(contact, volume_limit))
    } else {
        over.map(RejectionReason::RangeChanged)
    };
    CandidateEvaluation {
        best_case_arrival: best_case,
        hops: passing,
        projected_arrival: at,
        volume_limit,
        rejection: reason,
    }
}
