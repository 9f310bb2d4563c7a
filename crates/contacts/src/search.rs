//! The earliest route: Dijkstra over the contact graph (3.2.4).
//!
//! A node's label is when a bundle is there at the earliest. That suffices, since a bundle may wait: whoever is there
//! earlier can do all that whoever is there later can. Of a bundle the same search takes its size, what is booked and
//! what waits into account; then what it finds is the candidate with the earliest projected arrival itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use units::{Span, Time};

use crate::ledger::{Backlog, Ledger, Priority};
use crate::plan::{ContactId, Hop, Leg, NodeId, Plan, volume};

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// All of it, bytes.
    pub size: u64,
    /// How urgent it is.
    pub priority: Priority,
    /// Whether it may be cut.
    pub fragmentable: bool,
    /// After this it is of no use.
    pub deadline: Time,
}

impl Bundle {
    /// The volume it takes of a contact: with what a convergence layer adds, 3 % and at least 100 bytes (2.4.3).
    pub fn consumption(&self) -> u64 {
        let overhead = (u128::from(self.size) * 3).div_ceil(100).max(100);
        self.size.saturating_add(u64::try_from(overhead).unwrap_or(u64::MAX))
    }
}

/// What a route has to carry, and beside what.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Volume that is taken of each contact, bytes; none for the best case, in which a bundle has no size.
    pub consumption: u64,
    /// How urgent it is.
    pub priority: Priority,
    /// Whether each contact has to carry all of it.
    pub whole: bool,
    /// What is booked; without it nothing is looked at.
    pub ledger: Option<&'a Ledger>,
    /// What waits at the first node.
    pub backlog: Option<&'a Backlog>,
    /// Neighbours that the first node must not send to.
    pub excluded: &'a [NodeId],
    /// Contacts that are less likely are not used.
    pub least_confidence: f64,
}

impl<'a> Load<'a> {
    /// The best case: no size, nothing booked, nothing waits (3.2.4).
    pub fn best_case(excluded: &'a [NodeId], least_confidence: f64) -> Load<'a> {
        let priority = Priority::Expedited;
        Load {
            consumption: 0,
            priority,
            whole: true,
            ledger: None,
            backlog: None,
            excluded,
            least_confidence,
        }
    }

    /// A bundle with all that concerns it.
    pub fn of(
        bundle: &Bundle,
        ledger: &'a Ledger,
        backlog: &'a Backlog,
        excluded: &'a [NodeId],
        least_confidence: f64,
    ) -> Load<'a> {
        Load {
            consumption: bundle.consumption(),
            priority: bundle.priority,
            whole: !bundle.fragmentable,
            ledger: Some(ledger),
            backlog: Some(backlog),
            excluded,
            least_confidence,
        }
    }

    /// Whether a leg may be used at all, whenever.
    fn admits(&self, plan: &Plan, leg: &Leg) -> bool {
        if leg.confidence < self.least_confidence {
            return false;
        }
        let (Some(ledger), Some(contact)) = (self.ledger, plan.contact(leg.contact)) else {
            return true;
        };
        let available = ledger.available(leg.contact, contact, self.priority);
        available >= self.least()
    }

    /// When the last byte has arrived of what is there at `ready`.
    pub(crate) fn arrival(&self, leg: &Leg, ready: Time) -> Option<Time> {
        let first = leg.opens.max(ready);
        if first >= leg.closes {
            return None;
        }
        if first + leg.rate.time_for(self.least()) > leg.stop {
            return None;
        }
        Some(first + leg.rate.time_for(self.consumption) + leg.owlt + leg.margin)
    }

    /// Bytes that have to pass before a contact's end: all, or the first of what may go in fragments.
    fn least(&self) -> u64 {
        if self.whole { self.consumption } else { self.consumption.min(1) }
    }

    /// The latest instant at which it may be there to arrive by `due`.
    fn latest(&self, leg: &Leg, due: Time) -> Option<Time> {
        let sent = leg.rate.time_for(self.consumption);
        let whole = (sent + leg.owlt + leg.margin).nanos();
        let least = leg.rate.time_for(self.least()).nanos();
        let first = Time(due.nanos().checked_sub(whole)?)
            .min(Time(leg.closes.nanos() - 1))
            .min(Time(leg.stop.nanos().checked_sub(least)?));
        (first >= leg.opens).then_some(first)
    }
}

/// Where a route begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root<'a> {
    pub node: NodeId,
    pub at: Time,
    /// Whether it is the node that decides: it knows what waits, and whom it must not send to.
    pub local: bool,
    /// Legs that it must not begin with.
    pub banned: &'a [(ContactId, u32)],
    /// Nodes that it must not go through.
    pub closed: &'a [NodeId],
    /// No contact before it ends earlier.
    pub termination: Time,
}

impl Root<'_> {
    pub fn of(node: NodeId, at: Time) -> Root<'static> {
        Root { node, at, local: true, banned: &[], closed: &[], termination: Time::MAX }
    }

    /// When the first byte may leave by a leg: behind what waits (3.2.6.2).
    pub fn ready(&self, plan: &Plan, load: &Load<'_>, leg: &Leg) -> Time {
        match load.backlog.filter(|_| self.local) {
            None => self.at,
            Some(backlog) => lien(plan, leg, self.at, backlog.ahead(leg.to, load.priority)),
        }
    }

    /// Whether a route may go to a node, from this one or from another.
    pub fn allows(&self, load: &Load<'_>, to: NodeId, begins: bool) -> bool {
        to != self.node
            && !self.closed.contains(&to)
            && !(begins && self.local && load.excluded.contains(&to))
    }
}

/// The earliest transmission opportunity of a leg behind `ahead` bytes, of which contacts before it take what they can
/// (3.2.6.2, a to i).
pub(crate) fn lien(plan: &Plan, leg: &Leg, now: Time, ahead: u64) -> Time {
    let Some(contact) = plan.contact(leg.contact) else { return now };
    let begins = contact.start.max(now);
    if ahead == 0 {
        return begins;
    }
    let mut residual = ahead;
    for (_, prior) in plan.between(leg.from, leg.to) {
        if prior.start >= contact.start || residual == 0 {
            break;
        }
        let carried = volume(prior.rate, prior.stop.since(prior.start.max(now)));
        residual = residual.saturating_sub(carried);
    }
    begins + leg.rate.time_for(residual)
}

/// A way through the contact graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Its legs, in order.
    pub legs: Vec<Leg>,
    /// When what was searched for arrives.
    pub arrival: Time,
}

impl Route {
    /// When the first of its contacts ends (2.3.2.1).
    pub fn termination(&self) -> Time {
        self.legs.iter().map(|leg| leg.stop).min().unwrap_or(Time::MAX)
    }

    /// The next hop.
    pub fn entry(&self) -> Option<NodeId> {
        self.legs.first().map(|leg| leg.to)
    }

    /// How likely all of its contacts are, were they independent.
    pub fn confidence(&self) -> f64 {
        self.legs.iter().fold(1.0, |all, leg| all * leg.confidence)
    }

    /// Puts routes in order: arrival, hops, latest end, smallest next hop (3.2.8.1.4); then by contacts, so that
    /// there is one order.
    pub(crate) fn before(&self, other: &Route, plan: &Plan) -> std::cmp::Ordering {
        let rank = |one: &Route| one.entry().map(|node| plan.rank(node));
        let ids =
            |one: &Route| one.legs.iter().map(|leg| (leg.contact, leg.piece)).collect::<Vec<_>>();
        (self.arrival, self.legs.len(), Reverse(self.termination()))
            .cmp(&(other.arrival, other.legs.len(), Reverse(other.termination())))
            .then_with(|| rank(self).cmp(&rank(other)))
            .then_with(|| ids(self).cmp(&ids(other)))
    }
}

/// A leg on some route that is as early as the earliest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Useful {
    pub leg: Leg,
    /// It has to have arrived by then.
    pub due: Time,
}

/// Searches, and keeps its tables for the next time.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// When a bundle is at a node at the earliest.
    earliest: Vec<Time>,
    heap: BinaryHeap<(Reverse<Time>, NodeId)>,
    /// The same by hops: of each node, so many hops and the arrival that they improve it to.
    by_hops: Vec<Vec<(u32, Time)>>,
}

impl Search {
    /// The earliest route from a node to another; of those that arrive together the first in the standard's order.
    pub fn route(
        &mut self,
        plan: &Plan,
        load: &Load<'_>,
        from: NodeId,
        to: NodeId,
        at: Time,
    ) -> Option<Route> {
        self.best(plan, load, &Root::of(from, at), to)
    }

    pub(crate) fn best(
        &mut self,
        plan: &Plan,
        load: &Load<'_>,
        root: &Root<'_>,
        to: NodeId,
    ) -> Option<Route> {
        if root.node == to || root.closed.contains(&to) {
            return None;
        }
        let arrival = self.spread(plan, load, root, to)?;
        self.layers(plan, load, root, Some((to, arrival)));
        self.towards(plan, load, root, to)
    }

    /// The best route to every node, in the order of their numbers.
    pub fn table(&mut self, plan: &Plan, load: &Load<'_>, from: NodeId, at: Time) -> Table {
        let root = Root::of(from, at);
        self.layers(plan, load, &root, None);
        let all = (0..plan.node_count() as u32).map(NodeId);
        let routes = all
            .map(|to| if to == from { None } else { self.towards(plan, load, &root, to) })
            .collect();
        Table { version: plan.version(), from, at, routes }
    }

    /// Of the earliest routes to a node that was reached, the first in order.
    fn towards(
        &mut self,
        plan: &Plan,
        load: &Load<'_>,
        root: &Root<'_>,
        to: NodeId,
    ) -> Option<Route> {
        let (hops, arrival) = *self.by_hops[to.0 as usize].last()?;
        let useful = self.useful(plan, load, root, to, hops, arrival);
        Some(crate::tied::first(plan, load, root, to, arrival, useful))
    }

    /// The earliest arrival at a node (Dijkstra 1959).
    fn spread(
        &mut self,
        plan: &Plan,
        load: &Load<'_>,
        root: &Root<'_>,
        to: NodeId,
    ) -> Option<Time> {
        self.earliest.clear();
        self.earliest.resize(plan.node_count(), Time::MAX);
        self.earliest[root.node.0 as usize] = root.at;
        self.heap.clear();
        self.heap.push((Reverse(root.at), root.node));
        while let Some((Reverse(at), node)) = self.heap.pop() {
            if at > self.earliest[node.0 as usize] {
                continue;
            }
            if node == to {
                return Some(at);
            }
            let begins = node == root.node;
            for hop in plan.onward(node) {
                let known = self.earliest[hop.to.0 as usize];
                if known <= at || !root.allows(load, hop.to, begins) {
                    continue;
                }
                if let Some(arrival) = soonest(plan, load, hop, at, known, begins.then_some(root)) {
                    self.earliest[hop.to.0 as usize] = arrival;
                    self.heap.push((Reverse(arrival), hop.to));
                }
            }
        }
        None
    }

    /// Earliest arrivals by hops, one more at a time (Bellman 1958): of all nodes, or until a node is reached at its
    /// earliest, and of those that may lie on the way to it.
    fn layers(
        &mut self,
        plan: &Plan,
        load: &Load<'_>,
        root: &Root<'_>,
        to: Option<(NodeId, Time)>,
    ) {
        self.by_hops.resize_with(plan.node_count(), Vec::new);
        self.by_hops.iter_mut().for_each(Vec::clear);
        let before = to.map_or(Time::MAX, |(_, arrival)| arrival + Span(1));
        let mut frontier = vec![(root.node, root.at)];
        for hops in 1.. {
            let mut next: Vec<NodeId> = Vec::new();
            for (node, at) in frontier {
                let begins = node == root.node;
                for hop in plan.onward(node) {
                    let known =
                        self.by_hops[hop.to.0 as usize].last().map_or(before, |(_, time)| *time);
                    if known <= at || !root.allows(load, hop.to, begins) {
                        continue;
                    }
                    let Some(arrival) = soonest(plan, load, hop, at, known, begins.then_some(root))
                    else {
                        continue;
                    };
                    let of = &mut self.by_hops[hop.to.0 as usize];
                    match of.last_mut() {
                        Some(last) if last.0 == hops => last.1 = arrival,
                        _ => {
                            of.push((hops, arrival));
                            next.push(hop.to);
                        }
                    }
                }
            }
            let there = |(to, arrival): (NodeId, Time)| {
                self.by_hops[to.0 as usize].last().is_some_and(|one| one.1 == arrival)
            };
            if next.is_empty() || to.is_some_and(there) {
                return;
            }
            next.sort_unstable();
            frontier = next
                .into_iter()
                .filter_map(|node| Some((node, self.by_hops[node.0 as usize].last()?.1)))
                .collect();
        }
    }

    /// When a bundle is at a node at the earliest after at most so many hops.
    fn within(&self, root: &Root<'_>, node: NodeId, hops: u32) -> Option<Time> {
        if node == root.node {
            return Some(root.at);
        }
        let of = &self.by_hops[node.0 as usize];
        Some(of[..of.partition_point(|(least, _)| *least <= hops)].last()?.1)
    }

    /// The legs of all routes of so many hops that arrive then, found from their end.
    fn useful(
        &self,
        plan: &Plan,
        load: &Load<'_>,
        root: &Root<'_>,
        to: NodeId,
        hops: u32,
        arrival: Time,
    ) -> Vec<Useful> {
        let mut found = Vec::new();
        let mut layer = BTreeMap::from([(to, arrival)]);
        for left in (0..hops).rev() {
            let mut before: BTreeMap<NodeId, Time> = BTreeMap::new();
            for (node, due) in layer {
                for from in plan.inward(node) {
                    let begins = *from == root.node;
                    let Some(at) = self.within(root, *from, left).filter(|at| *at <= due) else {
                        continue;
                    };
                    if *from == to || !root.allows(load, node, begins) {
                        continue;
                    }
                    let legs = plan.legs(*from, node);
                    let first = legs.partition_point(|leg| leg.closes <= at);
                    for leg in legs[first..].iter().take_while(|leg| leg.opens <= due) {
                        let ready = if begins {
                            if root.banned.contains(&(leg.contact, leg.piece)) {
                                continue;
                            }
                            root.ready(plan, load, leg)
                        } else {
                            at
                        };
                        if load.arrival(leg, ready).is_none_or(|arrival| arrival > due)
                            || !load.admits(plan, leg)
                        {
                            continue;
                        }
                        found.push(Useful { leg: *leg, due });
                        if let Some(latest) = load.latest(leg, due).filter(|_| !begins) {
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

/// The earliest arrival by a hop that is before what is known.
fn soonest(
    plan: &Plan,
    load: &Load<'_>,
    hop: &Hop,
    at: Time,
    known: Time,
    root: Option<&Root<'_>>,
) -> Option<Time> {
    let first = hop.legs.partition_point(|leg| leg.closes <= at);
    let mut best = known;
    // a leg that opens later than the best arrival arrives later
    for leg in &hop.legs[first..] {
        if leg.opens >= best {
            break;
        }
        let ready = match root {
            Some(root) if root.banned.contains(&(leg.contact, leg.piece)) => continue,
            Some(root) => root.ready(plan, load, leg),
            None => at,
        };
        if let Some(arrival) = load.arrival(leg, ready)
            && arrival < best
            && load.admits(plan, leg)
        {
            best = arrival;
        }
    }
    (best < known).then_some(best)
}

/// The best route to every node of one version of a plan.
#[derive(Clone, Debug)]
pub struct Table {
    /// Which version of the plan it is of.
    pub version: u64,
    /// Whose it is.
    pub from: NodeId,
    /// As of when.
    pub at: Time,
    /// By node; none where no way leads.
    pub routes: Vec<Option<Route>>,
}
