//! An LTP engine's side of one span (RFC 5326 sections 6 and 8): sessions both ways, and timers. What leaves when is in
//! `leaving`.

mod leaving;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use units::{Rate, Span, Time};

use super::incoming::{Came, Incoming};
use super::outgoing::{Outgoing, Reported};
use super::segment::{Body, Canceller, Data, Segment, SessionNumber, reason};
use super::timers::{Key, Timers};
use super::{Colour, LtpSpec, engine_id};
use crate::layers::assembly::Room;
use crate::layers::{First, Terms};
use crate::{Refusal, Said, Service, Transfer, Way};

/// Sessions of the peer's that are over and still known, so that what is late begins none.
const MOST_CLOSED: usize = 4096;

/// Answers that wait to leave: whoever provokes more gets none.
const MOST_ANSWERS: usize = 4096;

/// What goes before data (RFC 5326 section 5: the queue of internal operations).
enum Answer {
    /// As it is.
    Plain(Segment),
    Report(SessionNumber, u64),
    CancelOut(u64),
    CancelIn(SessionNumber),
}

/// A session that was cancelled here and of which the peer has not said that it knows.
struct Cancelled {
    why: u8,
    times: u32,
}

pub(super) struct Engine {
    spec: LtpSpec,
    /// This engine's number.
    own: u64,
    /// The peer's, where others have nothing to say.
    peer: Option<u64>,
    first: First,
    way: Way,
    timers: Timers,
    answers: VecDeque<Answer>,
    waiting: BTreeMap<(Reverse<u8>, u64), Transfer>,
    /// Where each of them stands, by the node's number.
    places: BTreeMap<u64, (Reverse<u8>, u64)>,
    given: u64,
    outgoing: BTreeMap<u64, Outgoing>,
    /// The block that is being sent for the first time.
    fresh: Option<u64>,
    /// Those of which something goes again.
    again: VecDeque<u64>,
    incoming: BTreeMap<SessionNumber, Incoming>,
    /// When something has come of each.
    heard: BTreeMap<SessionNumber, Time>,
    cancelled_out: BTreeMap<u64, Cancelled>,
    cancelled_in: BTreeMap<SessionNumber, Cancelled>,
    closed: BTreeSet<SessionNumber>,
    closed_order: VecDeque<SessionNumber>,
    /// Bundles that the node has not spoken of.
    received: BTreeMap<u64, SessionNumber>,
    next_received: u64,
    room: Room,
    /// The peer begins no more sessions.
    begins_none: bool,
    /// When the next segment may leave, and whether one has waited for that.
    free_at: Time,
    paced: bool,
    last_number: u64,
}

/// What the peer's reason means for the bundle.
fn refusal(why: u8) -> Refusal {
    match why {
        reason::CANCELLED | reason::UNREACHABLE => Refusal::NotAcceptable,
        reason::SYSTEM => Refusal::NoResources,
        _ => Refusal::Retransmit,
    }
}

/// A serial number to begin with, of 14 bits so that it is short: another one for every session and after every start.
fn serial(session: SessionNumber, now: Time, secret: u64) -> u64 {
    let mut mixed = session.engine ^ session.number.rotate_left(24) ^ now.nanos().rotate_left(48);
    mixed ^= secret;
    // SplitMix64's finalizer.
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % (1 << 14) + 1
}

impl Engine {
    pub fn new(spec: &LtpSpec, own: u64, terms: &Terms) -> Engine {
        Engine {
            spec: spec.clone(),
            own,
            peer: terms.peer.as_deref().map(engine_id),
            first: terms.first,
            way: Way::default(),
            timers: Timers::default(),
            answers: VecDeque::new(),
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            given: 0,
            outgoing: BTreeMap::new(),
            fresh: None,
            again: VecDeque::new(),
            incoming: BTreeMap::new(),
            heard: BTreeMap::new(),
            cancelled_out: BTreeMap::new(),
            cancelled_in: BTreeMap::new(),
            closed: BTreeSet::new(),
            closed_order: VecDeque::new(),
            received: BTreeMap::new(),
            next_received: 0,
            room: Room::new(spec.incoming_bytes, terms.room.clone()),
            begins_none: false,
            free_at: Time::ZERO,
            paced: false,
            last_number: 0,
        }
    }

    /// The peer begins no more sessions; those that are there go on.
    pub fn begin_none(&mut self) {
        self.begins_none = true;
    }

    /// Whether a bundle of this side has no answer.
    pub fn gives(&self) -> bool {
        !self.waiting.is_empty() || !self.outgoing.is_empty()
    }

    /// Whether a session of the peer's is open.
    pub fn takes(&self) -> bool {
        !self.incoming.is_empty()
    }

    fn rate(&self) -> Option<Rate> {
        let own = self.spec.rate_bit_s.map(Rate);
        self.way.rate.or(own).filter(|rate| rate.bits_per_second() > 0)
    }

    fn may_send(&self) -> bool {
        self.way.sends && self.rate().is_some()
    }

    fn has_data(&self) -> bool {
        let begins = !self.waiting.is_empty() && self.may_begin();
        !self.answers.is_empty() || !self.again.is_empty() || self.fresh.is_some() || begins
    }

    fn may_begin(&self) -> bool {
        self.outgoing.len() < self.spec.most_outgoing as usize
    }

    pub fn wake_at(&self) -> Time {
        let sends = self.may_send() && self.has_data();
        self.timers.wake_at().min(if sends { self.free_at } else { Time::MAX })
    }

    /// The plan's word on the way (section 6: link state cues).
    pub fn set_way(&mut self, now: Time, mut way: Way) {
        let light = Span(self.spec.owlt_ns);
        (way.there, way.back) = (way.there.max(light), way.back.max(light));
        let before = std::mem::replace(&mut self.way, way);
        if before.hears && !way.hears {
            self.timers.suspend(now);
        } else if !before.hears && way.hears {
            self.timers.resume(now, self.margin(), &way);
            // Nobody was silent who could not speak.
            self.heard.values_mut().for_each(|heard| *heard = now);
        }
        self.timers.bend(now, &before, &way);
        self.free_at = self.free_at.max(now);
    }

    fn margin(&self) -> Span {
        Span(self.spec.margin_ns)
    }

    /// How long the peer's next word may take, as long as it repeats it.
    fn silence(&self) -> Span {
        let round = self.way.there + self.way.back + self.margin();
        round * u64::from(self.spec.most_times + 2)
    }

    pub fn give(&mut self, transfer: Transfer, said: &mut Vec<Said>) {
        let red = self.spec.colour == Colour::Red;
        if red && transfer.service == Service::Notified || transfer.bytes() == 0 {
            return said.push(Said::Refused { id: transfer.id, why: Refusal::NoService });
        }
        self.given += 1;
        let place = (Reverse(transfer.priority), self.given);
        self.places.insert(transfer.id, place);
        self.waiting.insert(place, transfer);
    }

    /// The node does not want a bundle to be sent any more.
    pub fn cancel(&mut self, now: Time, id: u64, said: &mut Vec<Said>) {
        if let Some(place) = self.places.remove(&id) {
            self.waiting.remove(&place);
            return said.push(Said::Refused { id, why: Refusal::Unknown });
        }
        let number = self.fresh.filter(|number| {
            self.outgoing.get(number).is_some_and(|one| one.id == id && !one.has_left())
        });
        if let Some(number) = number {
            self.cancel_out(now, number, reason::CANCELLED, said);
        }
    }

    fn close_out(&mut self, number: u64) -> Option<Outgoing> {
        let one = self.outgoing.remove(&number)?;
        for serial in one.checkpoints() {
            self.timers.stop(Key::Checkpoint(number, serial));
        }
        if self.fresh == Some(number) {
            self.fresh = None;
        }
        if one.lined_up {
            self.again.retain(|other| *other != number);
        }
        Some(one)
    }

    /// This side gives a block up (section 6.19): the node decides on its bundle anew.
    fn cancel_out(&mut self, _: Time, number: u64, why: u8, said: &mut Vec<Said>) {
        let Some(one) = self.close_out(number) else { return };
        let refusal = if why == reason::CANCELLED { Refusal::Unknown } else { Refusal::Retransmit };
        said.push(Said::Refused { id: one.id, why: refusal });
        self.cancelled_out.insert(number, Cancelled { why, times: 0 });
        self.answers.push_back(Answer::CancelOut(number));
    }

    fn close_in(&mut self, session: SessionNumber) {
        let Some(one) = self.incoming.remove(&session) else { return };
        self.heard.remove(&session);
        self.room.give(one.room);
        for serial in one.reports.keys() {
            self.timers.stop(Key::Report(session, *serial));
        }
        self.timers.stop(Key::Silence(session));
        if self.closed.insert(session) {
            self.closed_order.push_back(session);
        }
        if self.closed_order.len() > MOST_CLOSED
            && let Some(oldest) = self.closed_order.pop_front()
        {
            self.closed.remove(&oldest);
        }
    }

    /// This side takes no more of a block (section 6.19).
    fn cancel_in(&mut self, session: SessionNumber, why: u8) {
        self.close_in(session);
        if self.cancelled_in.len() >= MOST_CLOSED {
            // Nothing is kept of it: it is said once.
            self.answer(session, Body::Cancel(Canceller::Receiver, why));
        } else if self.answers.len() < MOST_ANSWERS {
            self.cancelled_in.insert(session, Cancelled { why, times: 0 });
            self.answers.push_back(Answer::CancelIn(session));
        }
    }

    fn answer(&mut self, session: SessionNumber, body: Body) {
        if self.answers.len() < MOST_ANSWERS {
            self.answers.push_back(Answer::Plain(Segment { session, body }));
        }
    }

    /// A segment has come.
    pub fn hear(&mut self, now: Time, segment: &Segment, said: &mut Vec<Said>) {
        let session = segment.session;
        let own = session.engine == self.own;
        let theirs = !own && self.peer.is_none_or(|peer| peer == session.engine);
        match &segment.body {
            Body::Data(data) if theirs => self.data(now, session, data, said),
            Body::Report(report) if own => {
                self.answer(session, Body::ReportAck(report.serial));
                let Some(one) = self.outgoing.get_mut(&session.number) else { return };
                let (reported, checkpoint) = one.report(report);
                if let Some(serial) = checkpoint {
                    self.timers.stop(Key::Checkpoint(session.number, serial));
                }
                match reported {
                    Reported::Nothing => {}
                    Reported::Open => self.line_up(session.number),
                    Reported::Complete => {
                        if let Some(one) = self.close_out(session.number) {
                            said.push(Said::Accepted { id: one.id, durable: true });
                        }
                    }
                    Reported::Cycles => self.cancel_out(now, session.number, reason::CYCLES, said),
                }
            }
            Body::ReportAck(serial) if theirs => {
                let Some(one) = self.incoming.get_mut(&session) else { return };
                let Some(report) = one.reports.remove(serial) else { return };
                self.timers.stop(Key::Report(session, *serial));
                // A green part may follow.
                if report.whole && one.given.is_some() {
                    self.close_in(session);
                }
            }
            Body::Cancel(Canceller::Sender, _) if theirs => {
                self.answer(session, Body::CancelAck(Canceller::Sender));
                self.close_in(session);
            }
            Body::Cancel(Canceller::Receiver, why) if own => {
                self.answer(session, Body::CancelAck(Canceller::Receiver));
                if let Some(one) = self.close_out(session.number) {
                    said.push(Said::Refused { id: one.id, why: refusal(*why) });
                }
            }
            Body::CancelAck(Canceller::Sender) if own => {
                self.cancelled_out.remove(&session.number);
                self.timers.stop(Key::CancelOut(session.number));
            }
            Body::CancelAck(Canceller::Receiver) if theirs => {
                self.cancelled_in.remove(&session);
                self.timers.stop(Key::CancelIn(session));
            }
            // Of a session that the segment's sender cannot speak of so.
            _ => {}
        }
    }

    fn line_up(&mut self, number: u64) {
        let Some(one) = self.outgoing.get_mut(&number) else { return };
        if one.has_data() && !std::mem::replace(&mut one.lined_up, true) {
            self.again.push_back(number);
        }
    }

    fn data(&mut self, now: Time, session: SessionNumber, data: &Data, said: &mut Vec<Said>) {
        if self.closed.contains(&session) || self.cancelled_in.contains_key(&session) {
            return;
        }
        if !self.incoming.contains_key(&session) {
            if self.begins_none || self.incoming.len() >= self.spec.most_incoming as usize {
                // Nothing is kept of it: each of its segments has this answer.
                return self.answer(session, Body::Cancel(Canceller::Receiver, reason::SYSTEM));
            }
            let one = Incoming::new(serial(session, now, self.first.secret));
            self.room.overdraw(one.room);
            self.incoming.insert(session, one);
            self.timers.start(Key::Silence(session), now, self.silence(), &self.way);
        }
        let Some(one) = self.incoming.get_mut(&session) else { return };
        self.heard.insert(session, now);
        let before = one.room;
        let came = one.take(session, data, &self.spec);
        self.room.overdraw(one.room - before);
        if self.room.is_overdrawn() {
            return self.cancel_in(session, reason::SYSTEM);
        }
        if one.is_whole() {
            let id = self.next_received;
            self.next_received += 1;
            self.received.insert(id, session);
            let service = if one.is_red() { Service::Reliable } else { Service::Unreliable };
            let before = one.room;
            let data = one.give(id);
            self.room.give(before - one.room);
            said.push(Said::Received { id, data, service });
        }
        self.came(session, came);
    }

    fn came(&mut self, session: SessionNumber, came: Came) {
        match came {
            Came::Wrong(why) => self.cancel_in(session, why),
            Came::Reports(serials) => {
                self.answers.extend(serials.into_iter().map(|one| Answer::Report(session, one)));
            }
            Came::Again(serials) => {
                let room = MOST_ANSWERS.saturating_sub(self.answers.len());
                let again = serials.into_iter().map(|one| Answer::Report(session, one));
                self.answers.extend(again.take(room));
            }
        }
    }

    /// The node has stored a bundle, or has it.
    pub fn stored(&mut self, id: u64) {
        let Some(session) = self.received.remove(&id) else { return };
        let Some(one) = self.incoming.get_mut(&session) else { return };
        if !one.is_red() {
            return self.close_in(session);
        }
        let before = one.room;
        let came = one.stored(session, &self.spec);
        self.room.overdraw(one.room - before);
        self.came(session, came);
    }

    /// The node does not take a bundle.
    pub fn refuse(&mut self, id: u64, why: Refusal) {
        let Some(session) = self.received.get(&id).copied() else { return };
        let red = self.incoming.get(&session).is_some_and(Incoming::is_red);
        if why == Refusal::Completed || !red {
            return self.stored(id);
        }
        self.received.remove(&id);
        let code = match why {
            Refusal::TooLarge | Refusal::NotAcceptable => reason::CANCELLED,
            Refusal::NoService => reason::UNREACHABLE,
            Refusal::Retransmit | Refusal::Unknown => reason::RETRANSMISSIONS,
            _ => reason::SYSTEM,
        };
        self.cancel_in(session, code);
    }

    /// Timers that have run out by `now`.
    pub fn expire(&mut self, now: Time, said: &mut Vec<Said>) {
        let most = self.spec.most_times;
        while let Some(key) = self.timers.pop(now) {
            match key {
                Key::Checkpoint(number, serial) => {
                    let Some(one) = self.outgoing.get_mut(&number) else { continue };
                    match one.expired(serial, most) {
                        Ok(()) => self.line_up(number),
                        Err(why) => self.cancel_out(now, number, why, said),
                    }
                }
                Key::Report(session, serial) => {
                    let one = self.incoming.get(&session).and_then(|one| one.reports.get(&serial));
                    match one {
                        Some(one) if one.times > most => {
                            self.cancel_in(session, reason::RETRANSMISSIONS);
                        }
                        Some(_) => self.answers.push_back(Answer::Report(session, serial)),
                        None => {}
                    }
                }
                Key::CancelOut(number) => {
                    if self.cancelled_out.get(&number).is_some_and(|one| one.times > most) {
                        self.cancelled_out.remove(&number);
                    } else {
                        self.answers.push_back(Answer::CancelOut(number));
                    }
                }
                Key::CancelIn(session) => {
                    if self.cancelled_in.get(&session).is_some_and(|one| one.times > most) {
                        self.cancelled_in.remove(&session);
                    } else {
                        self.answers.push_back(Answer::CancelIn(session));
                    }
                }
                Key::Silence(session) => self.silent(now, session),
            }
        }
    }

    /// Nothing has come of a session for long, perhaps.
    fn silent(&mut self, now: Time, session: SessionNumber) {
        let Some(one) = self.incoming.get(&session) else { return };
        let heard = self.heard.get(&session).copied().unwrap_or(now);
        let waits = one.given.is_some() && !one.durable || !one.reports.is_empty();
        let since = if waits { now } else { heard };
        let silence = self.silence();
        if since + silence + self.way.there + self.way.back > now {
            self.timers.start(Key::Silence(session), since, silence, &self.way);
        } else if one.is_red() && one.given.is_none() {
            self.cancel_in(session, reason::SYSTEM);
        } else {
            // Of green data nobody is told; of a bundle that is here its sender has been, as far as it asked.
            self.close_in(session);
        }
    }
}
