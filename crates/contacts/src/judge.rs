//! What becomes of a bundle on a route, contact by contact, and whether the route is a candidate (3.2.6).

use units::Time;

use crate::check::seconds;
use crate::plan::{ContactId, Leg, NodeId, Plan, volume};
use crate::search::{Bundle, Load, Root, Route};

/// A bundle on one contact of a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Passing {
    /// The contact.
    pub leg: Leg,
    /// Bytes that are sent before it by the first contact, as was told.
    pub ahead: u64,
    /// When its first byte leaves.
    pub first: Time,
    /// When its last byte does.
    pub last: Time,
    /// When that arrives.
    pub arrival: Time,
    /// What the contact still carries of its priority (MAV).
    pub available: u64,
    /// When this contact or one behind it ends first.
    pub effective_stop: Time,
    /// What of it can pass by then (EVL).
    pub volume_limit: u64,
}

/// Why a route is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Even the best case is after the deadline.
    Late(Time),
    /// The next hop must not be sent to.
    Excluded(NodeId),
    /// What waits fills the first contact.
    NoOpportunity(ContactId, Time),
    /// It would arrive after the deadline.
    Overdue(Time),
    /// Nothing is left of a contact.
    Depleted(ContactId),
    /// Too little is left, and the bundle must not be cut.
    TooSmall(ContactId, u64),
    /// The range that a leg stands for is over by then; the contact's next leg is another route.
    RangeOver(ContactId),
}

impl Reason {
    /// The clause of CCSDS 734.3-B-1; none where it is ours.
    pub fn clause(&self) -> Option<&'static str> {
        Some(match self {
            Reason::Late(_) => "3.2.6.9 a",
            Reason::Excluded(_) => "3.2.6.9 b",
            Reason::NoOpportunity(..) => "3.2.6.9 d",
            Reason::Overdue(_) => "3.2.6.9 e",
            Reason::Depleted(_) => "3.2.6.9 f",
            Reason::TooSmall(..) => "3.2.6.9 g",
            Reason::RangeOver(_) => return None,
        })
    }

    /// In words.
    pub fn text(&self, plan: &Plan, bundle: &Bundle) -> String {
        let of = |id: &ContactId| {
            plan.contact(*id).map_or_else(String::new, |one| {
                format!("{} to {} ({})", plan.name(one.from), plan.name(one.to), one.at)
            })
        };
        let deadline = seconds(bundle.deadline.nanos());
        match self {
            Reason::Late(at) => format!(
                "even without a size it arrives at {}, after the deadline, {deadline}",
                seconds(at.nanos())
            ),
            Reason::Excluded(node) => format!("{} is excluded", plan.name(*node)),
            Reason::NoOpportunity(id, at) => {
                format!(
                    "what waits for {} lasts until {}, after its end",
                    of(id),
                    seconds(at.nanos())
                )
            }
            Reason::Overdue(at) => format!(
                "it would arrive at {}, after the deadline, {deadline}",
                seconds(at.nanos())
            ),
            Reason::Depleted(id) => format!("nothing is left of {}", of(id)),
            Reason::TooSmall(id, left) => format!(
                "{left} B are left of {}, {} B are needed, and the bundle must not be cut",
                of(id),
                bundle.consumption()
            ),
            Reason::RangeOver(id) => format!("{} has another range by then", of(id)),
        }
    }
}

/// What becomes of a bundle on a route.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// When a bundle without a size would arrive (3.2.4.2).
    pub best_case: Time,
    /// Contact by contact.
    pub passing: Vec<Passing>,
    /// When its last byte arrives (PBAT).
    pub projected: Time,
    /// The least that any contact can pass of it (RVL).
    pub volume_limit: u64,
    /// Why the route is no candidate; none where it is one.
    pub reason: Option<Reason>,
}

/// Follows a bundle along a route (3.2.6.2 to 3.2.6.9) at a node that decides at `now`.
pub fn judge(plan: &Plan, route: &Route, bundle: &Bundle, load: &Load<'_>, now: Time) -> Judgement {
    let legs = &route.legs;
    let mut best_case = now;
    let mut over = None;
    for leg in legs {
        best_case = leg.opens.max(best_case) + leg.owlt + leg.margin;
    }
    // 3.2.6.8.6
    let mut stops: Vec<Time> = legs
        .iter()
        .rev()
        .scan(Time::MAX, |least, leg| {
            *least = leg.stop.min(*least);
            Some(*least)
        })
        .collect();
    stops.reverse();
    let root = Root::of(legs.first().map_or(NodeId(0), |leg| leg.from), now);
    let mut at = now;
    let mut passing = Vec::with_capacity(legs.len());
    for (number, leg) in legs.iter().enumerate() {
        let ahead =
            load.backlog.filter(|_| number == 0).map_or(0, |one| one.ahead(leg.to, load.priority));
        let ready = if number == 0 { root.ready(plan, load, leg) } else { at };
        let first = leg.opens.max(ready); // 3.2.6.3
        if first >= leg.closes && first < leg.stop {
            over = over.or(Some(leg.contact));
        }
        let last = first + leg.rate.time_for(load.consumption); // 3.2.6.4
        at = last + leg.owlt + leg.margin; // 3.2.6.6
        let available = match (load.ledger, plan.contact(leg.contact)) {
            (Some(ledger), Some(contact)) => ledger.available(leg.contact, contact, load.priority),
            (None, Some(contact)) => contact.volume(),
            _ => 0,
        };
        let effective_stop = stops[number];
        // 3.2.6.8.9
        let volume_limit = available.min(volume(leg.rate, effective_stop.since(first)));
        passing.push(Passing {
            leg: *leg,
            ahead,
            first,
            last,
            arrival: at,
            available,
            effective_stop,
            volume_limit,
        });
    }
    let least = passing.iter().min_by_key(|one| one.volume_limit);
    let volume_limit = least.map_or(0, |one| one.volume_limit); // 3.2.6.8.10
    let narrowest = least.map(|one| one.leg.contact);
    let reason = if best_case > bundle.deadline {
        Some(Reason::Late(best_case))
    } else if let Some(entry) = route.entry().filter(|entry| load.excluded.contains(entry)) {
        Some(Reason::Excluded(entry))
    } else if let Some(one) = passing.first().filter(|one| one.first >= one.leg.stop) {
        Some(Reason::NoOpportunity(one.leg.contact, one.first))
    } else if at > bundle.deadline {
        Some(Reason::Overdue(at))
    } else if let (0, Some(contact)) = (volume_limit, narrowest) {
        Some(Reason::Depleted(contact))
    } else if let (true, Some(contact)) = (load.whole && volume_limit < load.consumption, narrowest)
    {
        Some(Reason::TooSmall(contact, volume_limit))
    } else {
        over.map(Reason::RangeOver)
    };
    Judgement { best_case, passing, projected: at, volume_limit, reason }
}
