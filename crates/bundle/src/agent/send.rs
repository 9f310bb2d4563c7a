//! Bundles go to a neighbour while there is a contact with it, and come back when its layer has not brought them over.

use contacts::NodeId;
use units::{Span, Time};

use super::lasting::{AHEAD_BUNDLES, AHEAD_BYTES, Want};
use super::neighbour::{Copy, Flight, Place, Spot};
use super::{Act, Agent, Neighbour, SessionId, deliver};
use crate::record::{Happened, Name};
use crate::spec::ReturnSpec;
use crate::wire::ReasonCode;
use crate::{Refusal, Service, Told, Transfer, Way};

/// After a connection that failed the next is opened no sooner, nor a bundle offered again to who had no room for it.
const PATIENCE: Span = Span::from_secs(1);

impl Agent {
    /// Until when a neighbour can be sent to; none: not now. Where no contact was ever planned it always can.
    fn contact(&self, to: NodeId, now: Time) -> Option<Time> {
        let mut contacts = self.plan.between(self.local, to);
        let held = contacts.find(|(_, one)| one.start <= now && now < one.stop);
        let always = !self.plan.is_planned(self.local, to);
        held.map(|(_, contact)| contact.stop).or(always.then_some(Time::MAX))
    }

    /// What the plan says of the way to a neighbour, and when that changes. Where it never had a contact of a direction, there
    /// is always one.
    fn way(&self, to: NodeId, now: Time) -> (Way, Time) {
        let mut changes = Time::MAX;
        let mut edge = |start: Time, stop: Time| {
            for at in [start, stop].into_iter().filter(|at| *at > now) {
                changes = changes.min(at);
            }
            start <= now && now < stop
        };
        let mut direction = |from, to| {
            let (mut rate, mut most) = (None, None);
            for (_, contact) in self.plan.between(from, to) {
                most = most.max(Some(contact.rate));
                if edge(contact.start, contact.stop) {
                    rate = Some(contact.rate);
                }
            }
            (!self.plan.is_planned(from, to) || rate.is_some(), rate, most)
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
        while let Some(neighbour) = self.neighbours.get_mut(&id)
            && let Some(place) = neighbour.first_due(now)
        {
            if self.lasting.as_ref().is_some_and(|_| neighbour.unsent >= AHEAD_BYTES) {
                return;
            }
            let away =
                |copy: &Copy| self.kept.get(&copy.key).is_some_and(|kept| kept.bundle.is_away());
            if neighbour.queue.get(&place).is_some_and(away) {
                return self.fetch(id);
            }
            let Some(copy) = neighbour.unqueue(place) else { return };
            let Some(kept) = self.kept.get_mut(&copy.key) else { continue };
            let transfer = Transfer {
                id: self.next,
                data: kept.bundle.encode(&self.eid, now.since(kept.came)),
                service: Service::Reliable,
                priority: kept.bundle.class.priority as u8,
            };
            self.next += 1;
            let Copy { key, booking, .. } = copy;
            kept.uncopied(id, Spot::Waits(place));
            kept.copied(id, Spot::Flies(transfer.id));
            neighbour.fly(transfer.id, Flight { key, booking, left: false, bytes: kept.bytes });
            self.acts.push(Act::Tell(session, Told::Send(transfer)));
            if self.lasting.is_some() && kept.want.is_none() {
                kept.bundle.put_away();
            }
            let (bundle, kind) = (kept.bundle.clone(), kept.kind);
            self.gives(key, id);
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
        if !self.may_fetch() {
            return;
        }
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
        self.landed(flight.key, id, true);
        let Some(kept) = self.kept.get_mut(&flight.key) else { return };
        kept.uncopied(id, Spot::Flies(transfer));
        let (last, bundle, kind) = (kept.copies.is_empty(), kept.bundle.clone(), kept.kind);
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
        self.back(now, id, (transfer, flight), said);
    }

    fn back(
        &mut self,
        now: Time,
        id: NodeId,
        (transfer, flight): (u64, Flight),
        said: &'static str,
    ) {
        if flight.left {
            self.router.lost(&flight.booking);
        } else {
            self.router.withdraw(&flight.booking);
        }
        self.landed(flight.key, id, false);
        let Some(kept) = self.kept.get_mut(&flight.key) else { return };
        kept.uncopied(id, Spot::Flies(transfer));
        let (bundle, kind) = (kept.bundle.clone(), kept.kind);
        let peer = self.plan.name(id).to_owned();
        let others = !kept.copies.is_empty();
        self.note(now, Happened::Returned, &bundle, kind, Some(peer), Some(said));
        // Copies of a critical bundle are on all ways already; one that is flooded waits for this neighbour again.
        if !others || self.flood.is_some() {
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
        for flight in std::mem::take(&mut neighbour.flight) {
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
        let mut returned: Vec<(Place, Copy)> = Vec::new();
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
            let places = neighbour.queue.iter().filter(|(_, copy)| over(copy));
            let places: Vec<Place> = places.map(|(place, _)| *place).collect();
            let copy = |place: Place| Some((place, neighbour.unqueue(place)?));
            returned = places.into_iter().filter_map(copy).collect();
        }
        if neighbour.closes_at <= now {
            neighbour.closes_at = Time::MAX;
            self.acts.extend(neighbour.session.map(|session| Act::Tell(session, Told::Abort)));
        }
        let waits = neighbour.opens(now).unwrap_or(Time::MAX);
        let retry = if neighbour.retry > now { neighbour.retry } else { Time::MAX };
        neighbour.edge = until
            .filter(|until| *until < Time::MAX)
            .unwrap_or(Time::MAX)
            .min(begins)
            .min(waits)
            .min(neighbour.closes_at)
            .min(retry)
            .min(changes);
        for (place, copy) in returned {
            self.router.withdraw(&copy.booking);
            if let Some(kept) = self.kept.get_mut(&copy.key) {
                kept.uncopied(id, Spot::Waits(place));
            }
            self.dispatch(now, copy.key);
        }
        self.router.tidy(&self.plan, now);
        self.pump(now, id);
    }
}
