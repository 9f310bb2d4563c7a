//! Packets that wait for an instant: in order of arrival ([`Fifo`]) or of departure ([`Heap`]).

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use units::{Packet, Time};

use crate::{Cause, Cx, InFlight};

/// Packets in order of departure, which is that of arrival: none leaves before the one before it,
/// unless that was on its way when it was said that it may be overtaken.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    packets: VecDeque<(Time, Packet)>,
    /// Who comes now leaves no earlier than this.
    floor: Time,
    /// When the last of all leaves.
    last: Time,
}

impl Fifo {
    /// Takes in a packet that arrives at `now` and leaves at `due`, or with the packet before it if
    /// that leaves later. A packet that leaves at once does not wait for a wake-up.
    #[inline]
    pub fn push(&mut self, now: Time, due: Time, packet: Packet, cx: &mut Cx) {
        if due.max(self.floor) <= now && self.packets.is_empty() {
            self.floor = now;
            cx.emit(now, packet);
        } else {
            self.wait(due, packet);
        }
    }

    /// As [`Fifo::push`], but the packet waits for [`Fifo::pop`] even if it leaves at once.
    pub fn wait(&mut self, due: Time, packet: Packet) {
        self.floor = self.floor.max(due);
        if self.floor < self.last {
            self.overtake(packet);
        } else {
            self.last = self.floor;
            self.packets.push_back((self.last, packet));
        }
    }

    /// `packet` leaves before some who came earlier.
    #[cold]
    #[inline(never)]
    fn overtake(&mut self, packet: Packet) {
        let place = self.packets.partition_point(|(due, _)| *due <= self.floor);
        self.packets.insert(place, (self.floor, packet));
    }

    /// What becomes at `now` of those inside.
    pub fn hand_over(&mut self, now: Time, fate: InFlight, cx: &mut Cx) {
        match fate {
            InFlight::InOrder => self.floor = self.floor.max(self.last),
            InFlight::Overtaken => self.floor = now,
            InFlight::Lost => {
                for (_, packet) in self.packets.drain(..) {
                    cx.drop(now, packet, Cause::Outage);
                }
                (self.floor, self.last) = (now, now);
            }
        }
    }

    /// When the next packet leaves.
    pub fn next(&self) -> Time {
        self.packets.front().map_or(Time::MAX, |(due, _)| *due)
    }

    /// Emits what leaves by `now`.
    pub fn release(&mut self, now: Time, cx: &mut Cx) {
        while let Some((due, packet)) = self.packets.front().copied() {
            if due > now {
                break;
            }
            self.packets.pop_front();
            cx.emit(due, packet);
        }
    }

    /// The packet that leaves after `others`.
    pub fn coming(&self, others: usize) -> Option<&Packet> {
        self.packets.get(others).map(|(_, packet)| packet)
    }

    /// Packets inside.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Removes and returns the next packet if it leaves by `now`.
    pub fn pop(&mut self, now: Time) -> Option<(Time, Packet)> {
        let due = self.packets.front()?.0;
        if due <= now { self.packets.pop_front() } else { None }
    }
}

/// Things in order of their instant; ties in order of arrival.
#[derive(Debug)]
pub(crate) struct Heap<T> {
    items: BinaryHeap<Reverse<Dated<T>>>,
    count: u64,
}

impl<T> Default for Heap<T> {
    fn default() -> Self {
        Heap { items: BinaryHeap::new(), count: 0 }
    }
}

impl<T> Heap<T> {
    /// Takes in `item`, due at `due`.
    pub fn push(&mut self, due: Time, item: T) {
        self.items.push(Reverse(Dated { due, order: self.count, item }));
        self.count += 1;
    }

    /// When the next item is due.
    pub fn next(&self) -> Time {
        self.items.peek().map_or(Time::MAX, |first| first.0.due)
    }

    /// Removes and returns the next item if it is due by `now`.
    pub fn pop(&mut self, now: Time) -> Option<(Time, T)> {
        if self.items.is_empty() || self.next() > now {
            return None;
        }
        self.items.pop().map(|Reverse(first)| (first.due, first.item))
    }
}

/// A delay line that keeps the order of arrival, or lets packets overtake each other.
#[derive(Debug)]
pub(crate) enum Departures {
    /// Each leaves no earlier than the one before it.
    InOrder(Fifo),
    /// Each leaves when it is due.
    Overtaking(Heap<Packet>),
}

impl Departures {
    /// A line that lets packets overtake each other if `reorder`.
    pub fn new(reorder: bool) -> Departures {
        if reorder {
            Departures::Overtaking(Heap::default())
        } else {
            Departures::InOrder(Fifo::default())
        }
    }

    /// As [`Fifo::push`].
    pub fn push(&mut self, now: Time, due: Time, packet: Packet, cx: &mut Cx) {
        match self {
            Departures::InOrder(fifo) => fifo.push(now, due, packet, cx),
            Departures::Overtaking(_) if due <= now => cx.emit(now, packet),
            Departures::Overtaking(heap) => heap.push(due, packet),
        }
    }

    /// What becomes at `now` of those inside. Who may overtake anyway is not held back.
    pub fn hand_over(&mut self, now: Time, fate: InFlight, cx: &mut Cx) {
        match self {
            Departures::InOrder(fifo) => fifo.hand_over(now, fate, cx),
            Departures::Overtaking(heap) if fate == InFlight::Lost => {
                while let Some((_, packet)) = heap.pop(Time::MAX) {
                    cx.drop(now, packet, Cause::Outage);
                }
            }
            Departures::Overtaking(_) => {}
        }
    }

    /// When the next packet leaves.
    pub fn next(&self) -> Time {
        match self {
            Departures::InOrder(fifo) => fifo.next(),
            Departures::Overtaking(heap) => heap.next(),
        }
    }

    /// Emits what leaves by `now`.
    pub fn release(&mut self, now: Time, cx: &mut Cx) {
        match self {
            Departures::InOrder(fifo) => fifo.release(now, cx),
            Departures::Overtaking(heap) => {
                while let Some((due, packet)) = heap.pop(now) {
                    cx.emit(due, packet);
                }
            }
        }
    }
}

#[derive(Debug)]
struct Dated<T> {
    due: Time,
    order: u64,
    item: T,
}

impl<T> PartialEq for Dated<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Dated<T> {}

impl<T> PartialOrd for Dated<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Dated<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}
