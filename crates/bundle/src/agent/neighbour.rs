//! What an agent knows of a neighbour: what waits for it, what its layer has, and its session.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use contacts::{Booking, Priority};
use units::Time;

use super::{Door, SessionId};
use crate::Way;

/// A copy of a bundle that waits for a neighbour.
pub(super) struct Copy {
    pub key: u64,
    pub booking: Booking,
    /// Not before its contact begins.
    pub opens: Time,
}

/// A copy that a layer has.
pub(super) struct Flight {
    pub key: u64,
    pub booking: Booking,
    /// All its bytes were given to the transport.
    pub left: bool,
    pub bytes: u64,
}

/// Where a copy stands in its queue.
pub(super) type Place = (Reverse<Priority>, u64);

/// Where a copy is of those for a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spot {
    /// In the queue.
    Waits(Place),
    /// With the layer, as this transfer.
    Flies(u64),
}

/// What concerns a neighbour.
pub(super) struct Neighbour {
    pub door: Door,
    pub queue: BTreeMap<Place, Copy>,
    /// Places in the queue by when their contacts begin, and those whose contacts have begun.
    waiting: BTreeSet<(Time, Place)>,
    pub due: BTreeSet<Place>,
    pub flight: BTreeMap<u64, Flight>,
    /// Bytes that the layer has and the transport not yet.
    pub unsent: u64,
    pub session: Option<SessionId>,
    pub opening: bool,
    /// No connection is opened before.
    pub retry: Time,
    /// There was a contact when it was last looked at.
    pub open: bool,
    /// When the session is to be closed.
    pub closes_at: Time,
    /// When to look again.
    pub edge: Time,
    /// What its session was told of the way.
    pub way: Way,
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

    pub fn queue(&mut self, place: Place, copy: Copy) {
        self.waiting.insert((copy.opens, place));
        self.queue.insert(place, copy);
    }

    /// A copy that waits no more.
    pub fn unqueue(&mut self, place: Place) -> Option<Copy> {
        let copy = self.queue.remove(&place)?;
        if !self.waiting.remove(&(copy.opens, place)) {
            self.due.remove(&place);
        }
        Some(copy)
    }

    /// All copies, which wait no more.
    pub fn unqueue_all(&mut self) -> BTreeMap<Place, Copy> {
        self.waiting.clear();
        self.due.clear();
        std::mem::take(&mut self.queue)
    }

    /// When the next of the contacts begins that copies wait for.
    pub fn opens(&mut self, now: Time) -> Option<Time> {
        while let Some(next) = self.waiting.first().copied().filter(|(at, _)| *at <= now) {
            self.waiting.remove(&next);
            self.due.insert(next.1);
        }
        self.waiting.first().map(|(at, _)| *at)
    }

    /// The first copy that may go now.
    pub fn first_due(&mut self, now: Time) -> Option<Place> {
        self.opens(now);
        self.due.first().copied()
    }

    pub fn fly(&mut self, transfer: u64, flight: Flight) {
        self.unsent += flight.bytes;
        self.flight.insert(transfer, flight);
    }

    /// The transport has a transfer; whether that is new.
    pub fn has_left(&mut self, transfer: u64) -> Option<&Flight> {
        let flight = self.flight.get_mut(&transfer).filter(|flight| !flight.left)?;
        flight.left = true;
        self.unsent -= flight.bytes;
        Some(flight)
    }

    /// A transfer has its answer.
    pub fn land(&mut self, transfer: u64) -> Option<Flight> {
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
