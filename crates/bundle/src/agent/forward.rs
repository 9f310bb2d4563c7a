//! Which way a bundle goes, and when: decided when it comes and whenever that has come to nothing; sent while the contact
//! lasts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use contacts::{Booking, Decision, Forwarding, NodeId, Priority};
use units::{Span, Time};

use super::lasting::{AHEAD_BUNDLES, AHEAD_BYTES, Want};
use super::{Act, Agent, Door, SessionId, deliver, node_id};
use crate::record::{Happened, Name, RouteRecord};
use crate::spec::{ChangeSpec, ReturnSpec};
use crate::wire::ReasonCode;
use crate::{Asked, Refusal, Service, Told, Transfer, Way};

/// After a connection that failed the next is opened no sooner, nor a bundle offered again to who had no room for it.
const PATIENCE: Span = Span::from_secs(1);

/// A copy of a bundle that waits for a neighbour.
pub(super) struct Copy {
    pub key: u64,
    pub booking: Booking,
    /// Not before its contact begins.
    opens: Time,
}

/// A copy that a layer has.
pub(super) struct Flight {
    pub key: u64,
    pub booking: Booking,
    /// All its bytes were given to the transport.
    pub left: bool,
    bytes: u64,
}

/// Where a copy stands in its queue.
type Place = (Reverse<Priority>, u64);

/// What concerns a neighbour.
pub(super) struct Neighbour {
    pub door: Door,
    queue: BTreeMap<Place, Copy>,
    /// Places by when their contacts begin, and those whose contacts have begun; some of copies that are gone.
    waiting: BTreeSet<(Time, Place)>,
    due: BTreeSet<Place>,
    flight: BTreeMap<u64, Flight>,
    /// Bytes that the layer has and the transport not yet.
    unsent: u64,
    pub session: Option<SessionId>,
    opening: bool,
    /// No connection is opened before.
    retry: Time,
    /// There was a contact when it was last looked at.
    open: bool,
    /// When the session is to be closed.
    closes_at: Time,
    /// When to look again.
    pub edge: Time,
    /// What its session was told of the way.
    way: Way,
}

impl Neighbour {
    pub fn new(door: Door) -> Neighbour {
        Neighbour {
            door,
            queue: BTreeMap::new(),
            waiting: BTreeSet::new(),
            due: BTreeSet::new(),
            flight: BTreeMap::new(),
            unsent: 0,
            session: None,
            opening: false,
            retry: Time::ZERO,
            open: false,
            closes_at: Time::MAX,
            edge: Time::ZERO,
            way: Way::default(),
        }
    }

    fn queue(&mut self, place: Place, copy: Copy) {
        self.waiting.insert((copy.opens, place));
        self.queue.insert(place, copy);
    }

    /// The first copy that may go now.
    fn first_due(&mut self, now: Time) -> Option<Place> {
        while let Some((opens, place)) = self.waiting.first().copied().filter(|(at, _)| *at <= now)
        {
            self.waiting.remove(&(opens, place));
            self.due.insert(place);
        }
        while let Some(place) = self.due.first().copied() {
            if self.queue.contains_key(&place) {
                return Some(place);
            }
            self.due.remove(&place);
        }
        None
    }

    fn fly(&mut self, transfer: u64, flight: Flight) {
        self.unsent += flight.bytes;
        self.flight.insert(transfer, flight);
    }

    /// The transport has a transfer; whether that is new.
    fn has_left(&mut self, transfer: u64) -> Option<&Flight> {
        let flight = self.flight.get_mut(&transfer).filter(|flight| !flight.left)?;
        flight.left = true;
        self.unsent -= flight.bytes;
        Some(flight)
    }

    /// A transfer has its answer.
    fn land(&mut self, transfer: u64) -> Option<Flight> {
        let flight = self.flight.remove(&transfer)?;
        self.unsent -= if flight.left { 0 } else { flight.bytes };
        Some(flight)
    }

    /// The node stops: what the neighbour's layer had, and what waited.
    pub fn stop(&mut self) -> (Vec<Flight>, Vec<Copy>) {
        let fresh = Neighbour { edge: Time::MAX, ..Neighbour::new(self.door.clone()) };
        let was = std::mem::replace(self, fresh);
        (was.flight.into_values().collect(), was.queue.into_values().collect())
    }
}

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
            let order = self.next;
            self.next += 1;
            if let Some(kept) = self.kept.get_mut(&key) {
                kept.copies += 1;
            }
            if let Some(neighbour) = self.neighbours.get_mut(&way.to) {
                let place = (Reverse(wanted.priority), order);
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

    /// Until when a neighbour can be sent to; none: not now. Where no contact is planned at all it always can.
    fn contact(&self, to: NodeId, now: Time) -> Option<Time> {
        let mut any = false;
        for (_, contact) in self.plan.between(self.local, to) {
            any = true;
            if contact.start <= now && now < contact.stop {
                return Some(contact.stop);
            }
        }
        (!any).then_some(Time::MAX)
    }

    /// What the plan says of the way to a neighbour, and when that changes. Where it has no contact of a direction, there is
    /// always one.
    fn way(&self, to: NodeId, now: Time) -> (Way, Time) {
        let mut changes = Time::MAX;
        let mut edge = |start: Time, stop: Time| {
            for at in [start, stop].into_iter().filter(|at| *at > now) {
                changes = changes.min(at);
            }
            start <= now && now < stop
        };
        let mut direction = |from, to| {
            let (mut any, mut rate, mut most) = (false, None, None);
            for (_, contact) in self.plan.between(from, to) {
                any = true;
                most = most.max(Some(contact.rate));
                if edge(contact.start, contact.stop) {
                    rate = Some(contact.rate);
                }
            }
            (!any || rate.is_some(), rate, most)
        };
        let (sends, rate, _) = direction(self.local, to);
        let (hears, _, other) = direction(to, self.local);
        let mut light = |from, to| {
            let mut owlt = Span::ZERO;
            for range in self.plan.ranges(from, to) {
                if edge(range.start, range.stop) {
                    owlt = range.owlt;
                }
            }
            owlt
        };
        let (there, back) = (light(self.local, to), light(to, self.local));
        // A way back that nobody has planned is as the way there.
        let rate = if sends { rate.or(other) } else { None };
        (Way { sends, rate, hears, there, back }, changes)
    }

    /// Tells a neighbour's session what the plan says of the way, if that is new to it; when it changes.
    pub(super) fn tell_way(&mut self, now: Time, id: NodeId, afresh: bool) -> Time {
        if !self.neighbours.get(&id).is_some_and(|one| one.door.by_plan) {
            return Time::MAX;
        }
        let (way, changes) = self.way(id, now);
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return Time::MAX };
        let before = std::mem::replace(&mut neighbour.way, way);
        if before != way || afresh {
            self.acts.extend(neighbour.session.map(|session| Act::Tell(session, Told::Way(way))));
        }
        changes
    }

    /// Gives a neighbour's layer what may go now, and opens a connection if there is something to do.
    pub(super) fn pump(&mut self, now: Time, id: NodeId) {
        let open = self.contact(id, now).is_some();
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        if !open {
            return;
        }
        let due = neighbour.first_due(now).is_some();
        let Some(session) = neighbour.session else {
            let wanted = due || neighbour.door.with_contact;
            if wanted && neighbour.door.opens && !neighbour.opening {
                if neighbour.retry <= now {
                    neighbour.opening = true;
                    self.acts.push(Act::Open(neighbour.door.end));
                } else {
                    neighbour.edge = neighbour.edge.min(neighbour.retry);
                }
            }
            return;
        };
        neighbour.opening = false;
        while let Some(place) = neighbour.first_due(now) {
            if self.lasting.as_ref().is_some_and(|_| neighbour.unsent >= AHEAD_BYTES) {
                return;
            }
            let away =
                |copy: &Copy| self.kept.get(&copy.key).is_some_and(|kept| kept.bundle.is_away());
            if neighbour.queue.get(&place).is_some_and(away) {
                return self.fetch(id);
            }
            let Some(copy) = neighbour.queue.remove(&place) else { return };
            let Some(kept) = self.kept.get_mut(&copy.key) else { continue };
            let transfer = Transfer {
                id: self.next,
                data: kept.bundle.encode(&self.eid, now.since(kept.came)),
                service: Service::Reliable,
                priority: kept.bundle.class.priority as u8,
            };
            self.next += 1;
            let Copy { key, booking, .. } = copy;
            neighbour.fly(transfer.id, Flight { key, booking, left: false, bytes: kept.bytes });
            self.acts.push(Act::Tell(session, Told::Send(transfer)));
            if self.lasting.is_some() && kept.want.is_none() {
                kept.bundle.put_away();
            }
            let (bundle, kind) = (kept.bundle.clone(), kept.kind);
            let peer = Some(self.plan.name(id).to_owned());
            self.records.push(crate::record::Record {
                at: now,
                what: Happened::Sent,
                bundle: Name::of(&bundle),
                destination: bundle.destination.to_string(),
                payload_bytes: bundle.payload_bytes(),
                peer,
                reason: None,
                kind,
            });
        }
    }

    /// Asks for the payloads of what can go next to a neighbour.
    fn fetch(&mut self, id: NodeId) {
        let Some(neighbour) = self.neighbours.get(&id) else { return };
        let due = neighbour.due.iter().filter_map(|place| neighbour.queue.get(place));
        let due: Vec<u64> = due.map(|copy| copy.key).take(AHEAD_BUNDLES).collect();
        for key in due {
            if self.kept.get(&key).is_some_and(|kept| kept.bundle.is_away()) {
                if !self.may_fetch() {
                    return;
                }
                self.want(key, Want::Send);
            }
        }
    }

    fn neighbour_of(&self, session: SessionId) -> Option<NodeId> {
        let has = |(_, one): &(&NodeId, &Neighbour)| one.session == Some(session);
        self.neighbours.iter().find(has).map(|(id, _)| *id)
    }

    /// All bytes of a transfer were given to the transport: nothing waits behind it in this node any more.
    pub(super) fn left(&mut self, now: Time, session: SessionId, transfer: u64) {
        let Some(id) = self.neighbour_of(session) else { return };
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        if let Some(flight) = neighbour.has_left(transfer) {
            self.router.sent(&flight.booking);
            self.pump_more(now, id);
        }
    }

    /// A layer may have room for more of what a store has.
    fn pump_more(&mut self, now: Time, id: NodeId) {
        if self.lasting.is_some() {
            self.pump(now, id);
        }
    }

    /// A neighbour has a transfer.
    pub(super) fn taken(&mut self, now: Time, session: SessionId, transfer: u64) {
        let Some(id) = self.neighbour_of(session) else { return };
        let flight = self.neighbours.get_mut(&id).and_then(|one| one.land(transfer));
        let Some(flight) = flight else { return };
        if !flight.left {
            self.router.sent(&flight.booking);
        }
        self.pump_more(now, id);
        let Some(kept) = self.kept.get_mut(&flight.key) else { return };
        kept.copies = kept.copies.saturating_sub(1);
        let (last, bundle, kind) = (kept.copies == 0, kept.bundle.clone(), kept.kind);
        let peer = self.plan.name(id).to_owned();
        self.note(now, Happened::Forwarded, &bundle, kind, Some(peer), None);
        let code = ReasonCode::NoAdditionalInformation;
        if last {
            self.forget(flight.key);
        }
        self.report(now, &bundle, deliver::FORWARDED, code);
    }

    /// A neighbour has not taken a transfer, or will not.
    pub(super) fn refused(&mut self, now: Time, session: SessionId, transfer: u64, why: Refusal) {
        if why == Refusal::Completed {
            return self.taken(now, session, transfer);
        }
        let Some(id) = self.neighbour_of(session) else { return };
        let flight = self.neighbours.get_mut(&id).and_then(|one| one.land(transfer));
        let Some(flight) = flight else { return };
        let said = match why {
            Refusal::NoResources => "the neighbour's store is full",
            Refusal::TooLarge => "the neighbour takes no bundle so large",
            Refusal::NotAcceptable => "the neighbour does not want it",
            Refusal::NoService => "the layer has not the service",
            _ => "it was not taken",
        };
        if let Some(kept) = self.kept.get_mut(&flight.key) {
            match why {
                Refusal::TooLarge | Refusal::NotAcceptable | Refusal::NoService => {
                    kept.unwanted_by.push(id);
                }
                Refusal::NoResources | Refusal::Terminating => {
                    kept.later = Some((id, now + PATIENCE));
                }
                Refusal::Unknown | Refusal::Completed | Refusal::Retransmit => {}
            }
        }
        self.back(now, id, flight, said);
    }

    fn back(&mut self, now: Time, id: NodeId, flight: Flight, said: &'static str) {
        if flight.left {
            self.router.lost(&flight.booking);
        } else {
            self.router.withdraw(&flight.booking);
        }
        let Some(kept) = self.kept.get_mut(&flight.key) else { return };
        kept.copies = kept.copies.saturating_sub(1);
        let (bundle, kind) = (kept.bundle.clone(), kept.kind);
        let peer = self.plan.name(id).to_owned();
        let others = kept.copies > 0;
        self.note(now, Happened::Returned, &bundle, kind, Some(peer), Some(said));
        // Copies of a critical bundle are on all ways already.
        if !others {
            self.dispatch(now, flight.key);
        }
    }

    /// A session is over: what it had without an answer is decided on again.
    pub(super) fn over(
        &mut self,
        now: Time,
        session: SessionId,
        _end: usize,
        peer: Option<NodeId>,
    ) {
        let Some(id) = peer else { return };
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        if neighbour.session != Some(session) {
            return;
        }
        neighbour.session = None;
        neighbour.opening = false;
        neighbour.closes_at = Time::MAX;
        neighbour.retry = now + PATIENCE;
        neighbour.edge = neighbour.edge.min(neighbour.retry);
        self.flights_back(now, id, "the connection ended");
    }

    /// What a neighbour's layer had without an answer is decided on again.
    pub(super) fn flights_back(&mut self, now: Time, id: NodeId, said: &'static str) {
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        neighbour.unsent = 0;
        for (_, flight) in std::mem::take(&mut neighbour.flight) {
            self.back(now, id, flight, said);
        }
    }

    /// A contact begins while a connection is there from before.
    fn return_of(&mut self, now: Time, id: NodeId) {
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        let (Some(session), door) = (neighbour.session, &neighbour.door) else { return };
        match door.on_return {
            ReturnSpec::Alone => {}
            ReturnSpec::Cue => self.acts.push(Act::Tell(session, Told::Cue)),
            // The other side hears of it.
            ReturnSpec::Reopen | ReturnSpec::Resume if !door.opens => {}
            ReturnSpec::Reopen | ReturnSpec::Resume => {
                neighbour.session = None;
                (neighbour.opening, neighbour.retry) = (false, Time::ZERO);
                self.acts.push(Act::Tell(session, Told::Abort));
                self.flights_back(now, id, "the connection was opened again");
            }
        }
    }

    /// A bundle is gone: its copies wait no more.
    pub(super) fn unqueue(&mut self, key: u64) {
        for neighbour in self.neighbours.values_mut() {
            let waiting = neighbour.queue.extract_if(.., |_, copy| copy.key == key);
            for (_, copy) in waiting {
                self.router.withdraw(&copy.booking);
            }
            let flying = neighbour.flight.extract_if(.., |_, flight| flight.key == key);
            for (transfer, flight) in flying {
                if !flight.left {
                    neighbour.unsent -= flight.bytes;
                    self.router.sent(&flight.booking);
                    let cancel = Told::Cancel(transfer);
                    self.acts.extend(neighbour.session.map(|session| Act::Tell(session, cancel)));
                }
            }
        }
    }

    /// Contacts that have begun or are over by `now`.
    pub(super) fn run_contacts(&mut self, now: Time) {
        let ids: Vec<NodeId> = self.neighbours.keys().copied().collect();
        for id in ids {
            if self.neighbours.get(&id).is_some_and(|one| one.edge <= now) {
                self.run_contact(now, id);
            }
        }
    }

    fn run_contact(&mut self, now: Time, id: NodeId) {
        let until = self.contact(id, now);
        let changes = self.tell_way(now, id, false);
        let starts = self.plan.between(self.local, id).map(|(_, one)| one.start);
        let begins = starts.filter(|start| *start > now).min().unwrap_or(Time::MAX);
        let mut ranges = self.plan.ranges(self.local, id).into_iter();
        let light = ranges.rfind(|range| range.start <= now).map_or(Span::ZERO, |range| range.owlt);
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        let was = std::mem::replace(&mut neighbour.open, until.is_some());
        if until.is_some() {
            neighbour.closes_at = Time::MAX;
        }
        if !was && until.is_some() {
            self.return_of(now, id);
        }
        let Some(neighbour) = self.neighbours.get_mut(&id) else { return };
        let mut returned = Vec::new();
        if was && until.is_none() {
            // What has not left stays here; of what has, an answer may still come.
            for (transfer, _) in neighbour.flight.iter().filter(|(_, flight)| !flight.left) {
                let cancel = Told::Cancel(*transfer);
                self.acts.extend(neighbour.session.map(|session| Act::Tell(session, cancel)));
            }
            if neighbour.door.closes && neighbour.session.is_some() {
                neighbour.closes_at = now + Span(2 * light.nanos()) + PATIENCE;
            }
            let over = |copy: &Copy| copy.booking.legs.first().is_some_and(|leg| leg.stop <= now);
            returned = neighbour.queue.extract_if(.., |_, copy| over(copy)).collect();
        }
        if neighbour.closes_at <= now {
            neighbour.closes_at = Time::MAX;
            self.acts.extend(neighbour.session.map(|session| Act::Tell(session, Told::Abort)));
        }
        let waits = neighbour.queue.values().map(|copy| copy.opens).filter(|opens| *opens > now);
        let waits = waits.min().unwrap_or(Time::MAX);
        let retry = if neighbour.retry > now { neighbour.retry } else { Time::MAX };
        neighbour.edge = until
            .filter(|until| *until < Time::MAX)
            .unwrap_or(Time::MAX)
            .min(begins)
            .min(waits)
            .min(neighbour.closes_at)
            .min(retry)
            .min(changes);
        for (_, copy) in returned {
            self.router.withdraw(&copy.booking);
            if let Some(kept) = self.kept.get_mut(&copy.key) {
                kept.copies = kept.copies.saturating_sub(1);
            }
            self.dispatch(now, copy.key);
        }
        self.router.tidy(&self.plan, now);
        self.pump(now, id);
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
        for neighbour in self.neighbours.values_mut() {
            for (_, copy) in std::mem::take(&mut neighbour.queue) {
                self.router.withdraw(&copy.booking);
                if let Some(kept) = self.kept.get_mut(&copy.key) {
                    kept.copies = kept.copies.saturating_sub(1);
                }
                again.push(copy.key);
            }
            neighbour.edge = now;
        }
        again.extend(std::mem::take(&mut self.stuck));
        again.sort_unstable();
        again.dedup();
        self.run_contacts(now);
        for key in again {
            self.dispatch(now, key);
        }
    }
}
