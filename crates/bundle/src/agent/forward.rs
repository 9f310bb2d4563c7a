//! Which way a bundle goes: decided when it comes and whenever that has come to nothing.

use std::cmp::Reverse;

use contacts::{Decision, Forwarding, NodeId};
use units::Time;

use super::lasting::Want;
use super::neighbour::{Copy, Spot};
use super::{Act, Agent, node_id};
use crate::record::{Happened, Name, RouteRecord};
use crate::spec::ChangeSpec;
use crate::wire::ReasonCode;
use crate::{Asked, Told};

/// What a part needs beside the blocks that all of the bundle has: the least overhead of a volume estimate (100 B, CCSDS
/// 734.3-B-1), and room for the part's offset and total length and a longer age block (some 30 B of CBOR) in 64 B.
const PART_BLOCKS: u64 = 100 + 64;

/// Payload of the least part that a bundle is cut into: its blocks are about a hundred bytes.
const LEAST_PART: u64 = 1 << 10;

/// How much of a payload of `payload` bytes the one way of a decision carries, if not all of it; 0: too little.
fn least_part(
    decision: &Decision,
    wanted: &contacts::Bundle,
    bytes: u64,
    payload: u64,
) -> Option<u64> {
    let Decision::Planned(ways) = decision else { return None };
    let [Forwarding { route: Some((_, judged)), .. }] = &ways[..] else { return None };
    let (limit, consumption) = (judged.volume_limit, wanted.consumption());
    if !wanted.fragmentable || limit >= consumption {
        return None;
    }
    // In proportion, less what the part's blocks need beside those that all of it has.
    let most = u128::from(limit) * u128::from(bytes) / u128::from(consumption);
    let part =
        (most as u64).saturating_sub(bytes - payload + PART_BLOCKS).min(payload.saturating_sub(1));
    Some(if part < LEAST_PART { 0 } else { part })
}

impl Agent {
    /// Decides on a bundle that is durable.
    pub(super) fn dispatch(&mut self, now: Time, key: u64) {
        let Some(kept) = self.kept.get(&key) else { return };
        let destination = kept.bundle.destination.clone();
        if node_id(&destination) == node_id(&self.eid) {
            return self.deliver(now, key);
        }
        if self.flood.is_some() {
            return self.flood(now, key);
        }
        let Some(to) = self.nodes.get(&node_id(&destination)).copied() else {
            if let Some(kept) = self.forget(key) {
                let code = ReasonCode::NoKnownRouteToDestinationFromHere;
                self.gone(now, &kept.bundle, kept.kind, code);
            }
            return;
        };
        let bundle = &kept.bundle;
        let wanted = contacts::Bundle {
            size: kept.bytes,
            priority: bundle.class.priority,
            fragmentable: !bundle.flags.do_not_fragment,
            deadline: kept.deadline,
        };
        // It must not go back to whom it came from, unless nobody else can have it.
        let from = bundle.previous.as_ref().and_then(|eid| self.nodes.get(&node_id(eid))).copied();
        let (unwanted, later) = (kept.unwanted_by.clone(), kept.later);
        let excluded: Vec<NodeId> = from.into_iter().chain(unwanted.iter().copied()).collect();
        let critical = bundle.class.critical;
        let (bytes, payload) = (kept.bytes, bundle.payload_bytes());
        let mut wanted = wanted;
        let mut decision = self.router.decide(&self.plan, to, now, &wanted, &excluded, critical);
        if least_part(&decision, &wanted, bytes, payload) == Some(0) {
            // What is left of a contact carries no part worth its blocks: another one carries all of it, or none does.
            wanted.fragmentable = false;
            decision = self.router.decide(&self.plan, to, now, &wanted, &excluded, critical);
        }
        if matches!(decision, Decision::Kept(_)) && excluded.len() > unwanted.len() {
            decision = self.router.decide(&self.plan, to, now, &wanted, &unwanted, critical);
        }
        let part = least_part(&decision, &wanted, bytes, payload);
        self.note_route(now, key, to, &decision);
        let ways = match decision {
            Decision::Planned(ways) => ways,
            Decision::Static(way) => vec![way],
            Decision::Kept(_) => Vec::new(),
        };
        let ways: Vec<Forwarding> =
            ways.into_iter().filter(|way| self.neighbours.contains_key(&way.to)).collect();
        if ways.is_empty() {
            self.stuck.insert(key);
            return;
        }
        self.stuck.remove(&key);
        if let Some(part) = part.filter(|part| *part > 0) {
            return self.cut(now, key, part);
        }
        for way in ways {
            let booking = self.router.wait(&way, &wanted);
            let opens = booking.legs.first().map_or(Time::ZERO, |leg| leg.opens);
            let waits =
                later.filter(|(who, _)| *who == way.to).map_or(Time::ZERO, |(_, until)| until);
            let opens = opens.max(waits);
            let place = (Reverse(wanted.priority), self.next);
            self.next += 1;
            if let Some(kept) = self.kept.get_mut(&key) {
                kept.copied(way.to, Spot::Waits(place));
            }
            if let Some(neighbour) = self.neighbours.get_mut(&way.to) {
                neighbour.queue(place, Copy { key, booking, opens });
                neighbour.edge = neighbour.edge.min(opens.max(now));
            }
            self.pump(now, way.to);
        }
    }

    /// What can pass of a bundle goes by itself, and the rest is decided on by itself (section 5.8).
    fn cut(&mut self, now: Time, key: u64, first: u64) {
        if self.kept.get(&key).is_some_and(|kept| kept.bundle.is_away()) {
            return self.want(key, Want::Decide);
        }
        let Some(kept) = self.remove(key) else { return };
        // A bundle that was read or written can be written in parts.
        let Ok(parts) = kept.bundle.cut(first) else { return };
        self.note(now, Happened::Cut, &kept.bundle, kept.kind, None, None);
        let lasting = self.lasting.is_some();
        // What was promised is not lost for the room of a few more blocks.
        let most = self.store_bytes.take_if(|_| lasting);
        let mut keys = Vec::new();
        for part in parts {
            self.note(now, Happened::Part, &part, kept.kind, None, None);
            match self.keep(now, part, kept.kind, None) {
                Ok(key) => keys.push(key),
                Err(part) => self.gone(now, &part, kept.kind, ReasonCode::DepletedStorage),
            }
        }
        if lasting {
            self.store_bytes = most;
            self.acts.push(Act::Store(Asked::Forget(key, keys)));
        }
    }

    fn note_route(&mut self, at: Time, key: u64, to: NodeId, decision: &Decision) {
        let Some(kept) = self.kept.get(&key) else { return };
        let (bundle, to) = (Name::of(&kept.bundle), self.plan.name(to).to_owned());
        let row = |decision, way: &Forwarding| RouteRecord {
            at,
            bundle: bundle.clone(),
            to: to.clone(),
            decision,
            next: Some(self.plan.name(way.to).to_owned()),
            arrival: way.route.as_ref().map(|(route, _)| route.arrival),
            contacts: way.route.as_ref().map_or_else(String::new, |(route, _)| {
                let said = |leg: &contacts::Leg| {
                    self.plan.contact(leg.contact).map_or_else(String::new, |one| one.at.clone())
                };
                route.legs.iter().map(said).collect::<Vec<_>>().join(", ")
            }),
            reason: String::new(),
        };
        let rows: Vec<RouteRecord> = match decision {
            Decision::Planned(ways) => ways.iter().map(|way| row("planned", way)).collect(),
            Decision::Static(way) => vec![row("static", way)],
            Decision::Kept(why) => vec![RouteRecord {
                at,
                bundle,
                to,
                decision: "kept",
                next: None,
                arrival: None,
                contacts: String::new(),
                reason: why.clone(),
            }],
        };
        self.routes.extend(rows);
    }

    /// A bundle is gone: its copies wait no more.
    pub(super) fn unqueue(&mut self, key: u64) {
        let Some(kept) = self.kept.get_mut(&key) else { return };
        let mut copies = std::mem::take(&mut kept.copies);
        copies.sort_unstable();
        for (id, spot) in copies {
            let Some(neighbour) = self.neighbours.get_mut(&id) else { continue };
            match spot {
                Spot::Waits(place) => {
                    if let Some(copy) = neighbour.unqueue(place) {
                        self.router.withdraw(&copy.booking);
                    }
                }
                Spot::Flies(transfer) => {
                    let flight = neighbour.land(transfer).filter(|flight| !flight.left);
                    let Some(flight) = flight else { continue };
                    self.router.sent(&flight.booking);
                    let cancel = Told::Cancel(transfer);
                    self.acts.extend(neighbour.session.map(|session| Act::Tell(session, cancel)));
                }
            }
        }
    }

    /// What the node learns of contacts.
    pub(super) fn learn(&mut self, change: &ChangeSpec) {
        for at in &change.remove {
            if let Some(id) = self.said_at.remove(at) {
                self.plan.remove_contact(id);
            }
        }
        for contact in &change.add {
            // One that contradicts what is known changes nothing.
            if let Ok(id) = self.plan.add_contact(contact) {
                self.said_at.insert(contact.at.clone(), id);
            }
        }
    }

    /// The plan has changed: what waits is decided on again, what had no way too.
    pub(super) fn decide_again(&mut self, now: Time) {
        let mut again: Vec<u64> = Vec::new();
        let mut unqueued: Vec<(u64, NodeId)> = Vec::new();
        for (id, neighbour) in &mut self.neighbours {
            for (place, copy) in neighbour.unqueue_all() {
                self.router.withdraw(&copy.booking);
                if let Some(kept) = self.kept.get_mut(&copy.key) {
                    kept.uncopied(*id, Spot::Waits(place));
                }
                again.push(copy.key);
                unqueued.push((copy.key, *id));
            }
            neighbour.edge = now;
        }
        unqueued.into_iter().for_each(|(key, id)| self.unwaited(key, id));
        again.extend(std::mem::take(&mut self.stuck));
        again.sort_unstable();
        again.dedup();
        self.run_contacts(now);
        for key in again {
            self.dispatch(now, key);
        }
    }
}
