//! Evaluation of a candidate route for a bundle, contact by contact (3.2.6).

use units::Time;

use crate::plan::{ContactEdge, ContactId, Plan, PlanNodeId, volume};
use crate::plan_check::{format_bytes, format_seconds};
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
    /// No byte can pass a contact: its volume is booked.
    VolumeDepleted(ContactId),
    /// No byte can pass a contact: the bundle is ready for it too late.
    ContactClosed(ContactId),
    /// The route carries too little, and the bundle must not be fragmented: contact and volume.
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
            RejectionReason::VolumeDepleted(_) | RejectionReason::ContactClosed(_) => "3.2.6.9 f",
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
                "even an empty bundle would arrive at {}, after the deadline, {deadline}",
                format_seconds(at.nanos())
            ),
            RejectionReason::ExcludedNode(node) => format!("{} is excluded", plan.name(*node)),
            RejectionReason::BacklogExceedsContact(id, at) => {
                format!(
                    "the backlog of {} would last until {}, after its end",
                    of(id),
                    format_seconds(at.nanos())
                )
            }
            RejectionReason::ArrivalTooLate(at) => format!(
                "it would arrive at {}, after the deadline, {deadline}",
                format_seconds(at.nanos())
            ),
            RejectionReason::VolumeDepleted(id) => {
                format!("the volume of {} is booked completely", of(id))
            }
            RejectionReason::ContactClosed(id) => {
                format!("{} ends before the bundle can leave", of(id))
            }
            RejectionReason::VolumeTooSmall(id, limit) => format!(
                "at most {} fit in {}, and the bundle needs {} without fragmentation",
                format_bytes(*limit),
                of(id),
                format_bytes(bundle.consumption())
            ),
            RejectionReason::RangeChanged(id) => {
                format!("the range of {} changes before the transmission", of(id))
            }
        }
    }
}

/// The evaluation of a bundle on a route.
#[derive(Clone, Debug, PartialEq)]
pub struct CandidateEvaluation {
    /// The arrival of a bundle without size (3.2.4.2).
    pub best_case_arrival: Time,
    /// The volume that the route carries: the consumption of the bundle, or the largest part that meets all limits.
    pub carried_volume: u64,
    /// The evaluations of the contacts for the carried volume.
    pub hops: Vec<HopEvaluation>,
    /// The arrival of the last carried byte (PBAT).
    pub projected_arrival: Time,
    /// The minimum volume limit of all contacts (RVL).
    pub volume_limit: u64,
    /// The rejection reason, or `None` for a candidate.
    pub rejection: Option<RejectionReason>,
}

/// A route with what bounds a bundle on it.
struct Evaluator<'a> {
    plan: &'a Plan,
    edges: &'a [ContactEdge],
    load: &'a RouteDemand<'a>,
    now: Time,
    /// The earliest end of each contact and its successors (3.2.6.8.6).
    stops: Vec<Time>,
}

impl<'a> Evaluator<'a> {
    fn new(plan: &'a Plan, edges: &'a [ContactEdge], load: &'a RouteDemand<'a>, now: Time) -> Self {
        let mut stops: Vec<Time> = edges
            .iter()
            .rev()
            .scan(Time::MAX, |stop, edge| {
                *stop = edge.stop.min(*stop);
                Some(*stop)
            })
            .collect();
        stops.reverse();
        Evaluator { plan, edges, load, now, stops }
    }

    /// Returns the passage of a volume over the contacts.
    fn hops(&self, consumption: u64) -> impl Iterator<Item = HopEvaluation> {
        let first_node = self.edges.first().map_or(PlanNodeId(0), |edge| edge.from);
        let root = RouteOrigin::new(first_node, self.now);
        let mut at = self.now;
        self.edges.iter().enumerate().map(move |(number, edge)| {
            let load = self.load;
            let ahead = load
                .backlog
                .filter(|_| number == 0)
                .map_or(0, |one| one.volume_ahead(edge.to, load.priority));
            let ready =
                if number == 0 { root.earliest_transmission(self.plan, load, edge) } else { at };
            let first = edge.opens.max(ready); // 3.2.6.3
            let last = first + edge.rate.time_for(consumption); // 3.2.6.4
            at = last + edge.owlt + edge.owlt_margin; // 3.2.6.6
            let available = match (load.booked_volume, self.plan.contact(edge.contact)) {
                (Some(ledger), Some(contact)) => {
                    ledger.available_volume(edge.contact, contact, load.priority)
                }
                (None, Some(contact)) => contact.volume(),
                _ => 0,
            };
            let effective_stop = self.stops[number];
            // 3.2.6.8.9
            let volume_limit = available.min(volume(edge.rate, effective_stop.since(first)));
            HopEvaluation {
                edge: *edge,
                backlog_ahead: ahead,
                first_byte_time: first,
                last_byte_time: last,
                last_byte_arrival: at,
                available_volume: available,
                effective_stop,
                volume_limit,
            }
        })
    }

    /// Returns whether a volume passes every contact within its limits and its range.
    fn carries(&self, consumption: u64) -> bool {
        self.hops(consumption).all(|one| {
            one.volume_limit >= consumption
                && one.first_byte_time < one.edge.closes.min(one.edge.stop)
        })
    }

    /// Returns the largest volume that passes, at most `most`. A smaller volume is ready earlier at each contact, so
    /// that it passes if a larger one does.
    fn largest_volume(&self, most: u64) -> u64 {
        if self.carries(most) {
            return most;
        }
        let (mut passes, mut fails) = (0, most);
        while passes + 1 < fails {
            let middle = passes + (fails - passes) / 2;
            if self.carries(middle) { passes = middle } else { fails = middle }
        }
        passes
    }
}

/// Evaluates a bundle on a route (3.2.6.2 to 3.2.6.9) at a node that decides at `now`.
///
/// If the route cannot carry the whole bundle, all times and limits are those of the largest part that it carries. The
/// standard computes the limits with the times of the whole bundle, by which later contacts may have ended.
pub fn evaluate(
    plan: &Plan,
    route: &Route,
    bundle: &BundleDemand,
    load: &RouteDemand<'_>,
    now: Time,
) -> CandidateEvaluation {
    let edges = &route.edges;
    let mut best_case = now;
    for edge in edges {
        best_case = edge.opens.max(best_case) + edge.owlt + edge.owlt_margin;
    }
    let evaluator = Evaluator::new(plan, edges, load, now);
    let carried = evaluator.largest_volume(load.consumption);
    let passing: Vec<HopEvaluation> = evaluator.hops(carried).collect();
    let arrival = passing.last().map_or(now, |one| one.last_byte_arrival);
    let volume_limit = passing.iter().map(|one| one.volume_limit).min().unwrap_or(0); // 3.2.6.8.10
    let mut reason = if best_case > bundle.deadline {
        Some(RejectionReason::BestCaseTooLate(best_case))
    } else if let Some(entry) = route.next_hop().filter(|entry| load.excluded.contains(entry)) {
        Some(RejectionReason::ExcludedNode(entry))
    } else {
        passing.first().filter(|one| one.first_byte_time >= one.edge.stop).map(|one| {
            if one.backlog_ahead > 0 {
                RejectionReason::BacklogExceedsContact(one.edge.contact, one.first_byte_time)
            } else {
                RejectionReason::ContactClosed(one.edge.contact)
            }
        })
    };
    let is_candidate = carried == load.consumption || (carried > 0 && !load.is_unfragmentable);
    if reason.is_none() && !is_candidate {
        reason = evaluator.limiting_reason(carried);
    }
    if reason.is_none() && arrival > bundle.deadline {
        reason = Some(RejectionReason::ArrivalTooLate(arrival));
    }
    CandidateEvaluation {
        best_case_arrival: best_case,
        carried_volume: carried,
        hops: passing,
        projected_arrival: arrival,
        volume_limit,
        rejection: reason,
    }
}

impl Evaluator<'_> {
    /// Returns the contact that prevents one more byte than `carried`, with the reason.
    fn limiting_reason(&self, carried: u64) -> Option<RejectionReason> {
        let more = carried + 1;
        let (index, one) = self.hops(more).enumerate().find(|(_, one)| {
            one.volume_limit < more || one.first_byte_time >= one.edge.closes.min(one.edge.stop)
        })?;
        // The end of a later contact may be the limit of an earlier one.
        let limiting = self.edges[index..].iter().find(|edge| edge.stop == one.effective_stop);
        let limits = limiting.map_or(one.edge.contact, |edge| edge.contact);
        Some(if one.available_volume < more {
            if carried == 0 {
                RejectionReason::VolumeDepleted(one.edge.contact)
            } else {
                RejectionReason::VolumeTooSmall(one.edge.contact, carried)
            }
        } else if one.first_byte_time < one.edge.stop && one.first_byte_time >= one.edge.closes {
            RejectionReason::RangeChanged(one.edge.contact)
        } else if carried == 0 {
            RejectionReason::ContactClosed(limits)
        } else {
            RejectionReason::VolumeTooSmall(limits, carried)
        })
    }
}
