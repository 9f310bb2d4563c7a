//! A 5G link of one bearer: a queue, RLC and PDCP of both of its ends, HARQ in slots.

mod bearer;
mod harq;
mod order;
mod ranges;
mod receiver;
mod sender;

use std::collections::VecDeque;

use units::{Packet, RandomStream, Span, Time};

use crate::tally::Tallies;
use crate::{
    Cause, Change, Channel, Cx, Feedback, Gauge, Histogram, InFlight, NrSpec, Queue, RlcSpec,
    Stage, UserTally,
};
use bearer::{Bearer, Fate, Sdu};
use harq::{Attempt, Harq};
use order::Order;
use receiver::Receiver;
use sender::{Sender, Status, Upper};

/// A queue before a link that carries a transport block a slot.
///
/// What a slot carries is decided when it begins (or `offset_slots` before): a block that is to be sent again; else, if a HARQ
/// process is free, a new one, of what RLC is to send again and then of new packets, in segments. A packet that comes
/// during a slot is in the next one at the earliest. Both ends are modelled at the instants of the sending one: the
/// delay of the air lies behind the stage, and, there and back, in the feedback.
#[derive(Debug)]
pub struct NrLink<Q, C> {
    spec: NrSpec,
    queue: Q,
    channel: C,
    harq: Harq,
    bearer: Bearer,
    sender: Sender,
    /// None: unacknowledged mode.
    receiver: Option<Receiver>,
    order: Order,
    /// Status reports that are on their way or lost.
    reports: VecDeque<Status>,
    /// The first slot that is not decided yet, and the next one that there will be something for.
    next_slot: Time,
    slot: Time,
    tallies: Tallies,
    sent_bytes: u64,
    sojourn: Histogram,
}

/// The queue as RLC sees it.
struct Waiting<'a, Q, C> {
    now: Time,
    queue: &'a mut Q,
    channel: &'a mut C,
    cx: &'a mut Cx,
    sojourn: &'a mut Histogram,
}

impl<Q: Queue, C: Channel> Upper for Waiting<'_, Q, C> {
    fn take(&mut self) -> Option<Packet> {
        let packet = self.queue.dequeue(self.now, self.channel, self.cx)?;
        if let Some(arrival) = self.queue.last_arrival() {
            self.sojourn.record(self.now.since(arrival));
        }
        Some(packet)
    }

    fn is_empty(&self) -> bool {
        self.queue.ready_at() > self.now
    }
}

impl<Q: Queue, C: Channel> NrLink<Q, C> {
    /// The link over `channel`. `random` draws block errors.
    pub fn new(spec: &NrSpec, queue: Q, channel: C, random: RandomStream) -> NrLink<Q, C> {
        NrLink {
            harq: Harq::new(spec, random),
            bearer: Bearer::default(),
            sender: Sender::new(spec.rlc),
            receiver: match spec.rlc {
                RlcSpec::Acknowledged(spec) => Some(Receiver::new(spec)),
                RlcSpec::Unacknowledged => None,
            },
            order: Order::new(spec.order),
            spec: spec.clone(),
            queue,
            channel,
            reports: VecDeque::new(),
            next_slot: Time::ZERO,
            slot: Time::MAX,
            tallies: Tallies::default(),
            sent_bytes: 0,
            sojourn: Histogram::default(),
        }
    }

    /// When something else than a slot is due.
    fn event(&self) -> Time {
        let receiver = self.receiver.as_ref().map_or(Time::MAX, Receiver::wake);
        self.harq.wake().min(self.sender.timer).min(self.order.timer).min(receiver)
    }

    /// Sees which slot is the next that there will be something for, of those that begin at `from` or later.
    fn expect(&mut self, from: Time) {
        let ready = self.queue.ready_at();
        let waits = self.harq.is_free() && self.sender.has_work(&self.bearer, ready <= from);
        self.slot = if self.harq.has_work() || waits {
            self.slot_from(from)
        } else if self.harq.is_free() && self.sender.has_work(&self.bearer, ready != Time::MAX) {
            self.slot_from(from.max(ready))
        } else {
            Time::MAX
        };
    }

    /// The first slot that is not decided and begins at `from` or later.
    fn slot_from(&self, from: Time) -> Time {
        let slot = Time(from.nanos().div_ceil(self.spec.slot_ns) * self.spec.slot_ns);
        slot.max(self.next_slot)
    }

    /// Does what is due at `due` but the slot: the ends of transmissions, answers, timers, reports.
    fn work(&mut self, due: Time, cx: &mut Cx) {
        while let Some(attempt) = self.harq.end(due, &mut self.channel) {
            self.ended(&attempt, cx);
        }
        while self.harq.answer(due) {}
        if self.sender.timer <= due {
            let more = self.queue.ready_at() <= due;
            let given_up = self.sender.time_out(&mut self.bearer, more);
            self.give_up(due, given_up, cx);
        }
        if self.order.timer <= due {
            self.order.time_out(due, &mut self.bearer, cx);
        }
        self.report(due, cx);
    }

    /// A transmission has ended.
    fn ended(&mut self, attempt: &Attempt, cx: &mut Cx) {
        let Attempt { end: due, number, user, decoded, .. } = *attempt;
        let repetitions = u64::from(self.spec.repetitions);
        let air = Span(self.spec.slot_ns) * repetitions;
        let bits = u64::from(self.spec.coded_bits) * repetitions;
        self.tallies.sent(user, attempt.copy, air, bits);
        if attempt.answered {
            cx.tell(due, Feedback::Attempt { user, number, decoded });
        }
        for piece in &attempt.pieces {
            let Some(sdu) = self.bearer.get_mut(piece.number) else { continue };
            if !decoded {
                if self.receiver.is_none() && sdu.fate == Fate::Open {
                    sdu.fate = Fate::Lost { known: false };
                    cx.drop(due, sdu.packet, Cause::Link);
                    self.tallies.gave_up(sdu.packet.user);
                    self.order.given_up(due, &mut self.bearer, cx);
                }
                continue;
            }
            let whole_before = sdu.is_settled();
            if sdu.fate == Fate::Open {
                sdu.received.add(piece.from, piece.to);
                if sdu.received.are_all_of(sdu.bytes) {
                    let again = sdu.retransmissions.map_or(0, |count| count + 1);
                    let (packet, retransmissions) = (sdu.packet, again + attempt.attempts - 1);
                    if self.order.came(due, piece.number, &mut self.bearer, cx) {
                        self.tallies.decoded(&packet, retransmissions);
                        self.sent_bytes += u64::from(packet.bytes);
                    } else {
                        self.tallies.gave_up(packet.user);
                    }
                }
            }
            if let Some(receiver) = &mut self.receiver {
                receiver.placed(due, piece.number, &self.bearer);
                if piece.poll {
                    receiver.polled(piece.number, whole_before);
                }
            }
        }
    }

    /// RLC gives packets up at `due`.
    fn give_up(&mut self, due: Time, numbers: impl IntoIterator<Item = u64>, cx: &mut Cx) {
        for number in numbers {
            let Some(sdu) = self.bearer.get(number) else { continue };
            if sdu.fate == (Fate::Lost { known: true }) && !sdu.received.are_all_of(sdu.bytes) {
                cx.drop(due, sdu.packet, Cause::Link);
                self.tallies.gave_up(sdu.packet.user);
            }
            if let Some(receiver) = &mut self.receiver {
                receiver.placed(due, number, &self.bearer);
            }
            self.order.given_up(due, &mut self.bearer, cx);
        }
    }

    /// The receiver reports, if it is to and may; what both ends are done with is forgotten.
    fn report(&mut self, due: Time, cx: &mut Cx) {
        if let Some(status) = self.receiver.as_mut().and_then(|one| one.work(due, &self.bearer)) {
            cx.tell(due, Feedback::Status { number: status.number });
            self.reports.push_back(status);
        }
        self.sender.keep_asking(due, &self.bearer, self.queue.ready_at() != Time::MAX);
        let acknowledged = self.receiver.is_some();
        self.bearer.forget(self.order.deliver, |sdu| {
            let settled = matches!(sdu.fate, Fate::Left | Fate::Lost { .. });
            settled && if acknowledged { sdu.acknowledged } else { sdu.sent == sdu.bytes }
        });
    }

    /// The slot that begins at `slot` is decided.
    fn decide(&mut self, slot: Time, cx: &mut Cx) {
        let length = Span(self.spec.slot_ns);
        if self.harq.has_work() {
            self.harq.send_again(slot);
            self.next_slot = slot + length * u64::from(self.spec.repetitions);
            return;
        }
        let (queue, channel) = (&mut self.queue, &mut self.channel);
        let mut waiting = Waiting { now: slot, queue, channel, cx, sojourn: &mut self.sojourn };
        let pieces = self.sender.fill(slot, self.spec.block_bytes, &mut self.bearer, &mut waiting);
        let first = pieces.first().and_then(|piece| self.bearer.get(piece.number));
        if let Some(user) = first.map(|sdu| sdu.packet.user) {
            self.harq.send(slot, user, pieces);
            self.next_slot = slot + length * u64::from(self.spec.repetitions);
        } else {
            self.next_slot = slot + length;
            self.sender.keep_asking(slot, &self.bearer, self.queue.ready_at() != Time::MAX);
        }
    }

    /// All that is under way is lost at `due`, and the bearer begins anew.
    fn lose(&mut self, due: Time, cx: &mut Cx) {
        for Sdu { packet, fate, .. } in self.bearer.drain() {
            match fate {
                Fate::Here => cx.emit(due, packet),
                Fate::Open => cx.drop(due, packet, Cause::Outage),
                Fate::Left | Fate::Lost { .. } => {}
            }
        }
        let next = self.bearer.next();
        self.harq.reset();
        self.sender.reset(next);
        self.order.reset(next);
        self.reports.clear();
        if let Some(receiver) = &mut self.receiver {
            receiver.reset(next);
        }
    }
}

impl<Q: Queue, C: Channel> Stage for NrLink<Q, C> {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        self.queue.enqueue(due, packet, cx);
        // The slot that begins now has been decided.
        self.expect(due + Span(1));
    }

    fn poll(&mut self, now: Time, cx: &mut Cx) {
        loop {
            let due = self.poll_at();
            if due > now || due == Time::MAX {
                return;
            }
            self.work(due, cx);
            self.expect(due);
            if self.slot <= due {
                self.decide(due, cx);
                self.expect(due + Span(1));
            }
        }
    }

    fn poll_at(&self) -> Time {
        self.event().min(self.slot)
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        self.queue.change(due, change, cx);
        if *change == Change::InFlight(InFlight::Lost) {
            self.lose(due, cx);
        }
        self.expect(due);
    }

    fn feedback(&mut self, due: Time, feedback: &Feedback, cx: &mut Cx) {
        match *feedback {
            Feedback::Attempt { number, decoded, .. } => self.harq.hear(number, decoded),
            Feedback::Status { number } => {
                // Those before are lost.
                while self.reports.front().is_some_and(|one| one.number <= number) {
                    if let Some(status) = self.reports.pop_front()
                        && status.number == number
                    {
                        let given_up = self.sender.hear(&status, &mut self.bearer);
                        self.give_up(due, given_up, cx);
                        self.report(due, cx);
                    }
                }
            }
        }
        self.expect(due);
    }

    fn gauge(&self) -> Gauge {
        let ((packets, bytes), again) = (self.queue.backlog(), self.sender.backlog(&self.bearer));
        Gauge {
            queued_packets: packets + again.0,
            queued_bytes: bytes + again.1,
            sent_bytes: self.sent_bytes,
        }
    }

    fn users(&self) -> &[UserTally] {
        self.tallies.users()
    }

    fn sojourn(&self) -> Option<&Histogram> {
        Some(&self.sojourn)
    }
}
