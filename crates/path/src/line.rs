//! One direction of a link: a chain of stages that works off its events in order of time.

use std::collections::VecDeque;

use units::{Packet, RandomStream, Time};

use crate::build::{self, Bounds};
use crate::departures::Heap;
use crate::wakes::{HEARD, LOSS, Wakes};
use crate::wires::{Told, Wire, Wires};
use crate::{
    Attempt, Cause, Change, Cx, Deciders, Gauge, Histogram, InFlight, SpecError, Stage, StageSpec,
    UserQueue, UserTally,
};

/// What left a line. The caller empties it; its memory is reused.
#[derive(Debug, Default)]
pub struct Output {
    /// Packets that reached the far end, each with the instant it did, in order of time.
    pub delivered: Vec<(Time, Packet)>,
    /// Packets dropped, each with the instant and the cause, in order of time.
    pub dropped: Vec<(Time, Packet, Cause)>,
}

impl Output {
    /// Whether nothing left.
    pub fn is_empty(&self) -> bool {
        self.delivered.is_empty() && self.dropped.is_empty()
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.delivered.clear();
        self.dropped.clear();
    }
}

/// A step of a packet within a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Time,
    /// The packet's payload.
    pub handle: u32,
    /// The stage it comes to, or is dropped in; their number: the far end.
    pub stage: u32,
    /// Why it is dropped there; none: it comes to it.
    pub dropped: Option<Cause>,
}

/// A step is made, which is kept if anybody asks.
#[inline]
fn keep(
    steps: &mut Option<Vec<Step>>,
    at: Time,
    packet: &Packet,
    stage: usize,
    dropped: Option<Cause>,
) {
    if let Some(steps) = steps {
        steps.push(Step { at, handle: packet.handle, stage: stage as u32, dropped });
    }
}

/// What passed a line since the start. Arrays are in the order of [`Cause::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets pushed.
    pub arrived_packets: u64,
    /// Bytes pushed.
    pub arrived_bytes: u64,
    /// Packets that reached the far end.
    pub delivered_packets: u64,
    /// Bytes that reached the far end.
    pub delivered_bytes: u64,
    /// Packets dropped, by cause.
    pub dropped_packets: [u64; Cause::ALL.len()],
    /// Bytes dropped, by cause.
    pub dropped_bytes: [u64; Cause::ALL.len()],
    /// Packets on which a stage has set congestion experienced.
    pub marked_packets: u64,
}

/// One direction of a link.
///
/// Work is done in order of its due time, whenever the caller comes, so that a late [`Line::poll`]
/// gives the same packets with the same stamps. At one instant: first scheduled changes, then what stages hear of each
/// other ([`Line::wire`]) in the order in which it was told, then own work from the first stage to the last, then
/// arrivals. Within the chain, too, a stage does its own work due at an instant before it takes a packet that arrives
/// at that instant. Feedback takes time: what is told at one instant is heard at a later one.
///
/// Call [`Line::push`] with instants that do not run backwards, [`Line::poll`] at or after
/// [`Line::poll_at`], and [`Line::change`] for a live change. Everything else is a getter.
pub struct Line {
    stages: Vec<Slot>,
    /// When there is work next, in the stages and [`Line::ahead`].
    wakes: Wakes,
    /// Packets that a stage has emitted with a due time in the future, and the place in the chain
    /// that they come to.
    ahead: Heap<(usize, Packet)>,
    /// Changes to come, in order of time.
    changes: VecDeque<(Time, usize, Change)>,
    /// When the first of them is due.
    change_at: Time,
    /// What stages tell each other; none: nobody listens.
    wires: Option<Box<Wires>>,
    counters: Counters,
    /// Instants at which there was work, and the last of them.
    instants: u64,
    worked: Time,
    bounds: Bounds,
    /// Every step since they were taken last; none: nobody asks.
    steps: Option<Vec<Step>>,
}

struct Slot {
    stage: Box<dyn Stage>,
    cx: Cx,
}

impl Line {
    /// The line `name` (`"<link>.up"` or `"<link>.down"`, the key of its random streams) of run
    /// `seed`. An empty list is a wire without length.
    pub fn build(stages: &[StageSpec], name: &str, seed: u64) -> Result<Line, SpecError> {
        Line::build_with(stages, name, seed, &|_, _, _| None)
    }

    /// The same, with schedulers that are given from outside.
    pub fn build_with(
        stages: &[StageSpec],
        name: &str,
        seed: u64,
        deciders: &Deciders<'_>,
    ) -> Result<Line, SpecError> {
        let mut line = build::line(stages, name, seed, deciders)?;
        line.changes = build::changes(stages).into();
        line.expect_change();
        line.bounds = build::bounds(stages);
        line.bound();
        Ok(line)
    }

    /// A line of stages made by hand, without scheduled changes and known bounds.
    pub fn of(stages: Vec<Box<dyn Stage>>) -> Line {
        let mut line = Line {
            wakes: Wakes::new(stages.iter().map(|stage| stage.poll_at()).collect()),
            stages: stages.into_iter().map(|stage| Slot { stage, cx: Cx::default() }).collect(),
            ahead: Heap::default(),
            changes: VecDeque::new(),
            change_at: Time::MAX,
            wires: None,
            counters: Counters::default(),
            instants: 0,
            worked: Time::MAX,
            bounds: Bounds::default(),
            steps: None,
        };
        line.settle();
        line
    }

    /// From now on every step of every packet is kept for [`Line::take_steps`], and every attempt of a radio link for
    /// [`Line::take_attempts`].
    pub fn keep_steps(&mut self) {
        self.steps = Some(Vec::new());
        for Slot { cx, .. } in &mut self.stages {
            cx.attempts = Some(Vec::new());
        }
    }

    /// The steps since the last call, in the order in which they were made.
    pub fn take_steps(&mut self) -> impl Iterator<Item = Step> {
        self.steps.iter_mut().flat_map(|steps| steps.drain(..))
    }

    /// The attempts since the last call, each with its stage; of a stage in the order in which they began.
    pub fn take_attempts(&mut self) -> impl Iterator<Item = (usize, Attempt)> {
        self.stages.iter_mut().enumerate().flat_map(|(index, Slot { cx, .. })| {
            let attempts = cx.attempts.iter_mut().flat_map(|attempts| attempts.drain(..));
            attempts.map(move |attempt| (index, attempt))
        })
    }

    /// A packet arrives at `due`, after all own work due by then.
    #[inline]
    pub fn push(&mut self, due: Time, packet: Packet, out: &mut Output) {
        if self.wakes.next().min(self.change_at) <= due {
            self.advance(due, out);
        }
        self.counters.arrived_packets += 1;
        self.counters.arrived_bytes += u64::from(packet.bytes);
        self.arrive(0, due, packet, out);
        self.collect();
        self.settle();
        if self.wakes.next() <= due {
            self.advance(due, out);
        }
    }

    /// Does all work due by `now`.
    #[inline]
    pub fn poll(&mut self, now: Time, out: &mut Output) {
        self.advance(now, out);
    }

    /// The packet that reaches the far end after `others`, where the last stage knows.
    pub fn coming(&self, others: usize) -> Option<&Packet> {
        self.stages.last()?.stage.coming(others)
    }

    /// `packet`, which the line has delivered, found no way on from the node at its end: it counts as dropped
    /// there, not as delivered.
    pub fn strand(&mut self, packet: &Packet) {
        self.counters.delivered_packets -= 1;
        self.counters.delivered_bytes -= u64::from(packet.bytes);
        self.counters.dropped_packets[Cause::Route as usize] += 1;
        self.counters.dropped_bytes[Cause::Route as usize] += u64::from(packet.bytes);
    }

    /// When there is work next; [`Time::MAX`]: nothing is inside. A scheduled change alone is no
    /// reason to come, unless packets are lost by it: it concerns packets and is applied before the
    /// first that it concerns.
    pub fn poll_at(&self) -> Time {
        self.wakes.next()
    }

    /// Until when nothing comes to the far end, whatever is inside: [`Line::poll_at`], or later, where work before only
    /// brings packets to a stage that keeps them for some time. Who comes then misses no delivery, and learns late of
    /// drops; counters and gauges are those of the last call until then.
    pub fn leaves_at(&self) -> Time {
        // Who wants every step comes at every step: those of all lines are then in order.
        if self.steps.is_some() { self.wakes.next() } else { self.wakes.leaves() }
    }

    /// The stages' smallest delays are known, or have become smaller.
    fn bound(&mut self) {
        self.wakes.bound(self.bounds.delays());
        self.settle();
    }

    /// Schedules `change` of the stage at `stage_index` for `due`, as if the specification had: it is
    /// applied after own work due earlier and before own work due at the same instant, unless that
    /// has been done already. Changes of one instant are applied in order of the calls.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn change(&mut self, due: Time, stage_index: usize, change: &Change) {
        assert!(stage_index < self.stages.len(), "no stage {stage_index} in this line");
        self.bounds.widen(stage_index, change);
        self.bound();
        let place = self.changes.partition_point(|(at, _, _)| *at <= due);
        self.changes.insert(place, (due, stage_index, *change));
        self.expect_change();
        if works(change) {
            self.await_work();
        }
    }

    fn expect_change(&mut self) {
        self.change_at = self.changes.front().map_or(Time::MAX, |(at, _, _)| *at);
    }

    /// Applies the first change.
    #[cold]
    fn apply_first(&mut self, out: &mut Output) {
        let Some((at, index, change)) = self.changes.pop_front() else { return };
        self.expect_change();
        self.apply(at, index, &change, out);
    }

    /// The next change that packets are lost by, or served again, is work.
    #[cold]
    #[inline(never)]
    fn await_work(&mut self) {
        let next = self.changes.iter().find(|(_, _, change)| works(change));
        let at = next.map_or(Time::MAX, |(at, _, _)| *at);
        self.wakes.set_besides(LOSS, at);
        self.settle();
    }

    /// From now on the stage `wire.to` hears what `wire.from` tells. `random` draws once for each, whatever the
    /// chance of loss.
    ///
    /// # Panics
    /// If there is no such stage, or the feedback would take no time.
    pub fn wire(&mut self, wire: Wire, random: RandomStream) {
        assert!(wire.spec.delay_ns > 0, "feedback takes time");
        for index in [wire.from, wire.to] {
            assert!(index < self.stages.len(), "no stage {index} in this line");
        }
        self.stages[wire.from].cx.told.get_or_insert_default();
        self.wires.get_or_insert_default().add(wire, random);
    }

    /// What its stages told each other since the start.
    pub fn told(&self) -> Told {
        self.wires.as_ref().map_or(Told::default(), |wires| wires.told())
    }

    /// Sends what the stages have told on its way.
    #[inline]
    fn collect(&mut self) {
        if self.wires.is_some() {
            self.collect_told();
        }
    }

    #[inline(never)]
    fn collect_told(&mut self) {
        let Some(wires) = &mut self.wires else { return };
        let stages = &mut self.stages;
        wires.collect(|from, list| {
            list.extend(stages[from].cx.told.iter_mut().flat_map(|told| told.drain(..)))
        });
        let next = wires.next();
        self.wakes.set_besides(HEARD, next);
    }

    /// The stages hear what is due at `due`.
    fn hear(&mut self, due: Time, out: &mut Output) {
        while let Some((index, feedback)) = self.wires.as_mut().and_then(|wires| wires.hear(due)) {
            let Slot { stage, cx } = &mut self.stages[index];
            stage.feedback(due, &feedback, cx);
            self.wakes.set(index, stage.poll_at());
            self.forward(index, due, out);
        }
        self.collect_told();
    }

    /// How many instants there were since the start at which it had work of its own.
    pub fn instants(&self) -> u64 {
        self.instants
    }

    /// What passed since the start.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The sum of what the stages hold.
    pub fn gauge(&self) -> Gauge {
        self.stages.iter().map(|slot| slot.stage.gauge()).fold(Gauge::default(), |sum, one| Gauge {
            queued_packets: sum.queued_packets + one.queued_packets,
            queued_bytes: sum.queued_bytes + one.queued_bytes,
            sent_bytes: sum.sent_bytes + one.sent_bytes,
        })
    }

    /// What each user had of the first radio link; empty without one.
    pub fn users(&self) -> &[UserTally] {
        let mut all = self.stages.iter().map(|slot| slot.stage.users());
        all.find(|users| !users.is_empty()).unwrap_or(&[])
    }

    /// What waited of each user in the first stage that has a queue for each; empty without one.
    pub fn user_queues(&self) -> Vec<UserQueue> {
        let mut all = self.stages.iter().map(|slot| slot.stage.user_queues());
        all.find(|queues| !queues.is_empty()).unwrap_or_default()
    }

    /// The waiting times of the first stage that has a transmitter.
    pub fn sojourn(&self) -> Option<&Histogram> {
        self.stages.iter().find_map(|slot| slot.stage.sojourn())
    }

    /// The rate, in bits per second, that the line cannot exceed: over the transmitters the
    /// smallest of each one's largest rate (a trace counts with its mean over a repeat). None: no
    /// transmitter, or a line made by hand.
    pub fn rate_bit_s(&self) -> Option<u64> {
        self.bounds.rate_bit_s()
    }

    /// The one-way delay, in nanoseconds, that no packet can be faster than: the sum of the stages'
    /// smallest delays, without serialisation. 0 for a line made by hand.
    pub fn propagation_ns(&self) -> u64 {
        self.bounds.propagation_ns()
    }

    /// Packets and bytes inside: neither delivered nor dropped.
    pub fn in_transit(&self) -> (u64, u64) {
        let c = &self.counters;
        (
            c.arrived_packets - c.delivered_packets - c.dropped_packets.iter().sum::<u64>(),
            c.arrived_bytes - c.delivered_bytes - c.dropped_bytes.iter().sum::<u64>(),
        )
    }

    /// Applies changes and does work, due by `now`, in order of time.
    fn advance(&mut self, now: Time, out: &mut Output) {
        loop {
            let work = self.wakes.next();
            if self.change_at <= work.min(now) && self.change_at != Time::MAX {
                self.apply_first(out);
                self.settle();
                continue;
            }
            if work > now || work == Time::MAX {
                return;
            }
            self.instants += u64::from(work != std::mem::replace(&mut self.worked, work));
            if self.wires.as_ref().is_some_and(|wires| wires.next() <= work) {
                self.hear(work, out);
            } else if let Some(index) = self.wakes.stage() {
                self.work(index, work, out);
                if self.wakes.at(index) <= work {
                    // The stage has not done all its work: the caller sees by `poll_at` that the line does
                    // not get past this instant.
                    self.settle();
                    return;
                }
            } else if let Some((_, (index, packet))) = self.ahead.pop(work) {
                self.arrive(index, work, packet, out);
            }
            self.collect();
            self.settle();
        }
    }

    fn apply(&mut self, due: Time, index: usize, change: &Change, out: &mut Output) {
        let Slot { stage, cx } = &mut self.stages[index];
        stage.change(due, change, cx);
        self.wakes.set(index, stage.poll_at());
        self.forward(index, due, out);
        self.collect();
        if works(change) {
            self.await_work();
        }
    }

    /// Stage `index` does its work due at `due`.
    fn work(&mut self, index: usize, due: Time, out: &mut Output) {
        let Slot { stage, cx } = &mut self.stages[index];
        stage.poll(due, cx);
        self.wakes.set(index, stage.poll_at());
        match self.straight_on(index, due) {
            Some((due, packet)) => self.arrive(index + 1, due, packet, out),
            None => self.forward(index, due, out),
        }
    }

    /// `packet` comes to the stage at `index`, or to the far end, at `due`, and as far as it gets at once.
    fn arrive(&mut self, mut index: usize, mut due: Time, mut packet: Packet, out: &mut Output) {
        while index < self.stages.len() {
            if self.wakes.at(index) <= due {
                self.work(index, due, out);
            }
            keep(&mut self.steps, due, &packet, index, None);
            let Slot { stage, cx } = &mut self.stages[index];
            stage.push(due, packet, cx);
            self.wakes.set(index, stage.poll_at());
            let Some(next) = self.straight_on(index, due) else {
                return self.forward(index, due, out);
            };
            (due, packet) = next;
            index += 1;
        }
        keep(&mut self.steps, due, &packet, index, None);
        self.counters.delivered_packets += 1;
        self.counters.delivered_bytes += u64::from(packet.bytes);
        out.delivered.push((due, packet));
    }

    /// What stage `index` did at `now`, if it is what stages mostly do: one packet leaves it, at once.
    #[inline]
    fn straight_on(&mut self, index: usize, now: Time) -> Option<(Time, Packet)> {
        let cx = &mut self.stages[index].cx;
        let [(due, packet)] = cx.emitted[..] else { return None };
        if due > now || !cx.dropped.is_empty() {
            return None;
        }
        cx.emitted.clear();
        self.counters.marked_packets += std::mem::take(&mut cx.marked);
        Some((due, packet))
    }

    /// Passes on what stage `index` emitted at `now`. Only later stages are touched meanwhile.
    #[inline]
    fn forward(&mut self, index: usize, now: Time, out: &mut Output) {
        let cx = &self.stages[index].cx;
        if !cx.emitted.is_empty() || !cx.dropped.is_empty() || cx.marked > 0 {
            self.pass_on(index, now, out);
        }
    }

    fn pass_on(&mut self, index: usize, now: Time, out: &mut Output) {
        let mut position = 0;
        while let Some((due, packet)) = self.stages[index].cx.emitted.get(position).copied() {
            position += 1;
            if due > now {
                self.ahead.push(due, (index + 1, packet));
            } else {
                self.arrive(index + 1, due, packet, out);
            }
        }
        let cx = &mut self.stages[index].cx;
        cx.emitted.clear();
        for (due, packet, cause) in cx.dropped.drain(..) {
            keep(&mut self.steps, due, &packet, index, Some(cause));
            self.counters.dropped_packets[cause as usize] += 1;
            self.counters.dropped_bytes[cause as usize] += u64::from(packet.bytes);
            out.dropped.push((due, packet, cause));
        }
        self.counters.marked_packets += std::mem::take(&mut cx.marked);
    }

    #[inline]
    fn settle(&mut self) {
        self.wakes.settle(self.ahead.next());
    }
}

/// Whether packets leave a line, or begin to be served on it, by `change` itself.
fn works(change: &Change) -> bool {
    matches!(change, Change::InFlight(InFlight::Lost) | Change::Serves(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for the same instant however often it is polled.
    struct Stuck;

    impl Stage for Stuck {
        fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
            cx.emit(due, packet);
        }

        fn poll(&mut self, _now: Time, _cx: &mut Cx) {}

        fn poll_at(&self) -> Time {
            Time(5)
        }
    }

    #[test]
    fn a_stage_that_does_not_progress_gives_the_turn_back() {
        let mut line = Line::of(vec![Box::new(Stuck)]);
        line.poll(Time(7), &mut Output::default());
        assert_eq!(line.poll_at(), Time(5), "the caller sees that the line holds time");
    }
}
