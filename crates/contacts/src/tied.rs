//! Which of the routes that arrive together is taken: fewest hops, latest end, smallest next hop (3.2.8.1.4).

use std::collections::BTreeMap;

use units::Time;

use crate::plan::{Leg, NodeId, Plan};
use crate::search::{Load, Root, Route, Useful};

/// A node that is reached in some number of hops, and how.
struct State {
    node: NodeId,
    at: Time,
    /// The state before, and the leg from there.
    by: Option<(usize, Leg)>,
}

struct Tied<'a> {
    plan: &'a Plan,
    load: &'a Load<'a>,
    root: &'a Root<'a>,
    to: NodeId,
    /// By node that sends.
    legs: BTreeMap<NodeId, Vec<Useful>>,
}

/// The first in order of the routes made of `useful` legs, all of which arrive then.
pub(crate) fn first(
    plan: &Plan,
    load: &Load<'_>,
    root: &Root<'_>,
    to: NodeId,
    arrival: Time,
    useful: Vec<Useful>,
) -> Route {
    let mut legs: BTreeMap<NodeId, Vec<Useful>> = BTreeMap::new();
    for one in useful {
        legs.entry(one.leg.from).or_default().push(one);
    }
    for of in legs.values_mut() {
        of.sort_unstable_by_key(|one| (one.leg.to, one.leg.opens));
    }
    let alone = legs.values().all(|of| of.len() == 1);
    let tied = Tied { plan, load, root, to, legs };
    let Some(mut best) = tied.fewest(Time::ZERO, None, usize::MAX) else {
        // every useful leg is on a route
        debug_assert!(false, "no route of useful legs");
        return Route { legs: Vec::new(), arrival };
    };
    let hops = best.len();
    if !alone {
        let ends = |legs: &[Leg]| legs.iter().map(|leg| leg.stop).min().unwrap_or(Time::MAX);
        let lasts = tied.longest(&mut best, hops, ends);
        if root.local {
            tied.smallest(&mut best, hops, lasts);
        }
    }
    Route { legs: best, arrival }
}

impl Tied<'_> {
    /// A route of the fewest hops, none of whose contacts ends before `least`, over that neighbour if one is named.
    fn fewest(&self, least: Time, entry: Option<NodeId>, most: usize) -> Option<Vec<Leg>> {
        let mut states = vec![State { node: self.root.node, at: self.root.at, by: None }];
        let mut soonest: BTreeMap<NodeId, Time> = BTreeMap::new();
        let mut layer = 0..1;
        let mut hops = 0;
        while !layer.is_empty() && hops < most {
            hops += 1;
            let mut next: BTreeMap<NodeId, (Time, usize, Leg)> = BTreeMap::new();
            for number in layer {
                let (node, at) = (states[number].node, states[number].at);
                for one in self.legs.get(&node).map_or(&[][..], Vec::as_slice) {
                    let to = one.leg.to;
                    if one.leg.stop < least || (hops == 1 && entry.is_some_and(|entry| entry != to))
                    {
                        continue;
                    }
                    let ready = if node == self.root.node {
                        self.root.ready(self.plan, self.load, &one.leg)
                    } else {
                        at
                    };
                    let Some(arrival) =
                        self.load.arrival(&one.leg, ready).filter(|at| *at <= one.due)
                    else {
                        continue;
                    };
                    if soonest.get(&to).is_none_or(|known| arrival < *known) {
                        soonest.insert(to, arrival);
                        next.insert(to, (arrival, number, one.leg));
                    }
                }
            }
            layer = states.len()..states.len() + next.len();
            let reached = next.contains_key(&self.to);
            states.extend(next.into_iter().map(|(node, (at, before, leg))| State {
                node,
                at,
                by: Some((before, leg)),
            }));
            if reached {
                let last = layer.rev().find(|number| states[*number].node == self.to)?;
                return Some(self.back(&states, last));
            }
        }
        None
    }

    fn back(&self, states: &[State], last: usize) -> Vec<Leg> {
        let mut legs = Vec::new();
        let mut at = last;
        while let Some((before, leg)) = states[at].by {
            legs.push(leg);
            at = before;
        }
        legs.reverse();
        legs
    }

    /// Of as many hops, a route that ends last; returns when.
    fn longest(&self, best: &mut Vec<Leg>, hops: usize, ends: impl Fn(&[Leg]) -> Time) -> Time {
        let cap = self.root.termination;
        let now = ends(best).min(cap);
        let mut later: Vec<Time> = self
            .legs
            .values()
            .flatten()
            .map(|one| one.leg.stop.min(cap))
            .filter(|at| *at > now)
            .collect();
        later.sort_unstable();
        later.dedup();
        let (mut low, mut high) = (0, later.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.fewest(later[middle], None, hops) {
                Some(found) => {
                    *best = found;
                    low = middle + 1;
                }
                None => high = middle,
            }
        }
        ends(best).min(cap)
    }

    /// Of as many hops that end no earlier, the route with the smallest next hop.
    fn smallest(&self, best: &mut Vec<Leg>, hops: usize, lasts: Time) {
        let Some(taken) = best.first().map(|leg| self.plan.rank(leg.to)) else { return };
        let mut entries: Vec<NodeId> =
            self.legs.get(&self.root.node).into_iter().flatten().map(|one| one.leg.to).collect();
        entries.sort_by_key(|node| self.plan.rank(*node));
        entries.dedup();
        for entry in entries.into_iter().take_while(|node| self.plan.rank(*node) < taken) {
            if let Some(found) = self.fewest(lasts, Some(entry), hops) {
                *best = found;
                return;
            }
        }
    }
}
