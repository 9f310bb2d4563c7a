//! Further routes, one at a time and in order (Yen 1971, with Lawler's choice of where to leave: 1972).

use std::collections::VecDeque;

use units::Time;

use crate::plan::{ContactId, Leg, NodeId, Plan};
use crate::search::{Load, Root, Route, Search};

/// Routes in the standard's order, each when it is asked for. No route visits a node twice, none comes twice.
pub struct Alternatives<'a> {
    plan: &'a Plan,
    load: Load<'a>,
    from: NodeId,
    to: NodeId,
    at: Time,
    search: Search,
    given: Vec<Route>,
    /// Found and not yet given, in order, each with the leg at which it leaves the one that it was found from.
    waiting: VecDeque<(Route, usize)>,
    /// The one given last, which is left only when another one is asked for.
    last: Option<(Route, usize)>,
}

impl<'a> Alternatives<'a> {
    /// Routes of a load from a node to another.
    pub fn new(
        plan: &'a Plan,
        load: Load<'a>,
        from: NodeId,
        to: NodeId,
        at: Time,
    ) -> Alternatives<'a> {
        Alternatives {
            plan,
            load,
            from,
            to,
            at,
            search: Search::default(),
            given: Vec::new(),
            waiting: VecDeque::new(),
            last: None,
        }
    }

    fn wait(&mut self, route: Route, left: usize) {
        let place = self.waiting.partition_point(|(one, _)| one.before(&route, self.plan).is_lt());
        self.waiting.insert(place, (route, left));
    }

    /// Routes that leave the one given last at each of its nodes from the `left`-th on.
    fn leave(&mut self, route: &Route, left: usize) {
        let mut at = self.at;
        let mut closed = Vec::new();
        let start = Root::of(self.from, self.at);
        for number in 0..route.legs.len() {
            let leg = route.legs[number];
            let prefix = &route.legs[..number];
            if number >= left {
                let banned: Vec<(ContactId, u32)> = self
                    .given
                    .iter()
                    .filter(|one| one.legs.len() > number && same(&one.legs[..number], prefix))
                    .map(|one| (one.legs[number].contact, one.legs[number].piece))
                    .collect();
                let termination = prefix.iter().map(|leg| leg.stop).min().unwrap_or(Time::MAX);
                let root = Root {
                    node: leg.from,
                    at,
                    local: number == 0,
                    banned: &banned,
                    closed: &closed,
                    termination,
                };
                if let Some(rest) = self.search.best(self.plan, &self.load, &root, self.to) {
                    let legs = prefix.iter().chain(&rest.legs).copied().collect();
                    self.wait(Route { legs, arrival: rest.arrival }, number);
                }
            }
            let ready = if number == 0 { start.ready(self.plan, &self.load, &leg) } else { at };
            at = self.load.arrival(&leg, ready).unwrap_or(Time::MAX);
            closed.push(leg.from);
        }
    }
}

fn same(a: &[Leg], b: &[Leg]) -> bool {
    a.iter().zip(b).all(|(a, b)| (a.contact, a.piece) == (b.contact, b.piece))
}

impl Iterator for Alternatives<'_> {
    type Item = Route;

    fn next(&mut self) -> Option<Route> {
        let found = match self.last.take() {
            None if self.given.is_empty() => {
                (self.search.route(self.plan, &self.load, self.from, self.to, self.at)?, 0)
            }
            None => return None,
            Some((route, left)) => {
                self.leave(&route, left);
                self.waiting.pop_front()?
            }
        };
        let route = found.0.clone();
        self.given.push(route.clone());
        self.last = Some(found);
        Some(route)
    }
}
