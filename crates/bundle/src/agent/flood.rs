//! Epidemic routing (Vahdat and Becker 2000): a copy to every neighbour that is not known to have the bundle, by no plan. Known to
//! have it are the neighbour that it came from, those that send it too, and those that a layer says have taken it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use contacts::{Forwarding, NodeId};
use units::Time;

use super::expiring_ids::ExpiringIds;
use super::keep::Kept;
use super::neighbour::{Copy, Spot};
use super::{Agent, node_id};
use crate::record::{Happened, Name, RouteRecord};
use crate::wire::{Bundle, Id};

/// Why a copy leaves a node that gives it to nobody.
const HAVE_IT: &str = "its neighbours have it";

/// What a node knows that floods.
#[derive(Default)]
pub(super) struct Flood {
    /// How many neighbours get a bundle, its destination beside them; none: all.
    copies: Option<u32>,
    /// Bundles that are or were here, and until when they live.
    seen: ExpiringIds,
}

impl Flood {
    pub fn new(copies: Option<u32>) -> Flood {
        Flood { copies, ..Flood::default() }
    }

    fn see(&mut self, id: &Id, until: Time) {
        self.seen.insert(id, until);
        while self.seen.remove_excess().is_some() {}
    }

    /// Forgets bundles whose lifetimes are over: who brings them is late.
    fn expire(&mut self, now: Time) {
        while self.seen.remove_expired(now).is_some() {}
    }
}

/// Who has a bundle that is flooded.
#[derive(Default)]
pub(super) struct Spread {
    /// A copy waits for them or is on its way there.
    waits: BTreeSet<NodeId>,
    has: BTreeSet<NodeId>,
    /// Copies that were given to others than the destination.
    given: u32,
}

impl Kept {
    fn spread(&mut self) -> &mut Spread {
        self.spread.get_or_insert_default()
    }
}

impl Agent {
    /// A bundle is here.
    pub(super) fn see(&mut self, id: &Id, until: Time) {
        if let Some(flood) = &mut self.flood {
            flood.see(id, until);
        }
    }

    /// A bundle was not stored after all: who brings it again is not told that it is here.
    pub(super) fn unsee(&mut self, id: &Id) {
        if let Some(flood) = &mut self.flood {
            flood.seen.remove(id);
        }
    }

    /// Whether a bundle was here, as far as that is remembered.
    pub(super) fn has_seen(&self, now: Time, id: &Id) -> bool {
        self.flood.as_ref().is_some_and(|flood| flood.seen.contains(id, now))
    }

    /// Bundles that were here and are too old by now may be forgotten.
    pub(super) fn expire_seen(&mut self, now: Time) {
        if let Some(flood) = &mut self.flood {
            flood.expire(now);
        }
    }

    /// The node stops, and has no word of this on its disk.
    pub(super) fn stop_flood(&mut self) {
        if let Some(flood) = &mut self.flood {
            flood.seen = ExpiringIds::default();
        }
        self.kept.values_mut().for_each(|kept| kept.spread = None);
    }

    /// The node that a bundle goes to; none: one that this node does not know, and others may.
    fn goal(&self, bundle: &Bundle) -> Option<NodeId> {
        self.nodes.get(&node_id(&bundle.destination)).copied()
    }

    /// Copies for all who are to have one and have none.
    pub(super) fn flood(&mut self, now: Time, key: u64) {
        let to = self.kept.get(&key).and_then(|kept| self.goal(&kept.bundle));
        let (Some(flood), Some(kept)) = (&self.flood, self.kept.get_mut(&key)) else { return };
        let from = kept.bundle.previous.as_ref();
        let from = from.and_then(|eid| self.nodes.get(&node_id(eid))).copied();
        let most = flood.copies.unwrap_or(u32::MAX);
        kept.spread().has.extend(from);
        let Spread { waits, has, given } = kept.spread();
        let gets = |id: &&NodeId| {
            !waits.contains(id) && !has.contains(id) && (Some(**id) == to || *given < most)
        };
        let gets: Vec<NodeId> = self.neighbours.keys().filter(gets).copied().collect();
        let gets: Vec<NodeId> =
            gets.into_iter().filter(|id| !kept.unwanted_by.contains(id)).collect();
        let wanted = contacts::Bundle {
            size: kept.bytes,
            priority: kept.bundle.class.priority,
            fragmentable: false,
            deadline: kept.deadline,
        };
        let (later, bundle) = (kept.later, Name::of(&kept.bundle));
        let destination = match to {
            Some(to) => self.plan.name(to).to_owned(),
            None => node_id(&kept.bundle.destination),
        };
        kept.spread().waits.extend(&gets);
        for id in &gets {
            let booking = self.router.wait(&Forwarding { to: *id, route: None }, &wanted);
            let opens = later.filter(|(who, _)| who == id).map_or(Time::ZERO, |(_, until)| until);
            let place = (Reverse(wanted.priority), self.next);
            self.next += 1;
            kept.copied(*id, Spot::Waits(place));
            if let Some(neighbour) = self.neighbours.get_mut(id) {
                neighbour.queue(place, Copy { key, booking, opens });
                neighbour.edge = neighbour.edge.min(opens.max(now));
            }
            self.routes.push(RouteRecord {
                at: now,
                bundle: bundle.clone(),
                to: destination.clone(),
                decision: "epidemic",
                next: Some(self.plan.name(*id).to_owned()),
                arrival: None,
                contacts: String::new(),
                reason: String::new(),
            });
        }
        // Whoever is there first gets the last of the copies.
        gets.into_iter().for_each(|id| self.pump(now, id));
        self.leave(now, key);
    }

    /// A copy goes to a neighbour's layer; when it was the last of those that are given away, the others wait in vain.
    pub(super) fn gives(&mut self, key: u64, id: NodeId) {
        let Some(most) = self.flood.as_ref().map(|flood| flood.copies) else { return };
        let Some(kept) = self.kept.get(&key) else { return };
        let to = self.goal(&kept.bundle);
        if Some(id) == to {
            return;
        }
        let Some(kept) = self.kept.get_mut(&key) else { return };
        kept.spread().given += 1;
        if most.is_some_and(|most| kept.spread().given >= most) {
            let others: Vec<NodeId> =
                kept.spread().waits.iter().copied().filter(|other| Some(*other) != to).collect();
            others.into_iter().for_each(|other| self.takes_back(key, other));
        }
    }

    /// A copy that waits for a neighbour, if one does, waits no more.
    fn takes_back(&mut self, key: u64, id: NodeId) {
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        let Some(kept) = self.kept.get_mut(&key) else { return };
        for (to, spot) in kept.copies.clone() {
            if let Spot::Waits(place) = spot
                && to == id
                && let Some(copy) = neighbour.unqueue(place)
            {
                self.router.withdraw(&copy.booking);
                kept.uncopied(to, spot);
                kept.spread().waits.remove(&id);
            }
        }
    }

    /// A neighbour has a bundle that is here, too.
    pub(super) fn has_it(&mut self, now: Time, bundle: &Id, id: NodeId) {
        let Some(key) = self.here.get(bundle).copied().filter(|_| self.flood.is_some()) else {
            return;
        };
        if let Some(kept) = self.kept.get_mut(&key) {
            kept.spread().has.insert(id);
        }
        self.takes_back(key, id);
        self.leave(now, key);
    }

    /// A copy does not wait for a neighbour any more: it is there, or came back.
    pub(super) fn landed(&mut self, key: u64, id: NodeId, has: bool) {
        if self.flood.is_none() {
            return;
        }
        let Some(to) = self.kept.get(&key).map(|kept| self.goal(&kept.bundle)) else { return };
        let Some(kept) = self.kept.get_mut(&key) else { return };
        let spread = kept.spread();
        spread.waits.remove(&id);
        if has {
            spread.has.insert(id);
        } else if Some(id) != to {
            spread.given = spread.given.saturating_sub(1);
        }
    }

    /// A copy was taken out of a neighbour's queue, to be decided on again.
    pub(super) fn unwaited(&mut self, key: u64, id: NodeId) {
        if let Some(spread) = self.kept.get_mut(&key).and_then(|kept| kept.spread.as_mut()) {
            spread.waits.remove(&id);
        }
    }

    /// A bundle that nobody is left for goes; what a neighbour would not take stays for its lifetime.
    fn leave(&mut self, now: Time, key: u64) {
        let Some(kept) = self.kept.get(&key) else { return };
        if kept.durable && kept.copies.is_empty() {
            let has = kept.spread.as_ref().is_some_and(|spread| !spread.has.is_empty());
            if !has || !kept.unwanted_by.is_empty() {
                self.stuck.insert(key);
            } else if self.goal(&kept.bundle) != Some(self.local)
                && let Some(kept) = self.forget(key)
            {
                self.note(now, Happened::Deleted, &kept.bundle, kept.kind, None, Some(HAVE_IT));
            }
        }
    }
}
