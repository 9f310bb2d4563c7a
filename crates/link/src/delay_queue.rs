//! Packets that wait for a departure time: in order of arrival ([`FifoDelayQueue`]) or of departure ([`DelayHeap`]).

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use units::{Packet, Time};

use crate::{DropReason, InFlightPolicy, StageOutput};

/// Packets that depart in order of arrival. No packet departs before the one in front, unless a policy permitted to
/// overtake the packets then in flight.
#[derive(Debug, Default)]
pub(crate) struct FifoDelayQueue {
    packets: VecDeque<(Time, Packet)>,
    /// The earliest departure time of new packets.
    min_due: Time,
    /// The departure time of the last packet.
    max_due: Time,
}

impl FifoDelayQueue {
    /// Accepts a packet that arrives at `now` and departs at `due`, or with the packet in front if that departs later.
    /// A packet that departs at once needs no wake-up.
    #[inline]
    pub fn push(&mut self, now: Time, due: Time, packet: Packet, out: &mut StageOutput) {
        if due.max(self.min_due) <= now && self.packets.is_empty() {
            self.min_due = now;
            out.emit(now, packet);
        } else {
            self.enqueue(due, packet);
        }
    }

    /// Enqueues like [`FifoDelayQueue::push`], but the packet waits for [`FifoDelayQueue::pop_due`] even if it is due.
    pub fn enqueue(&mut self, due: Time, packet: Packet) {
        self.min_due = self.min_due.max(due);
        if self.min_due < self.max_due {
            self.insert_earlier(packet);
        } else {
            self.max_due = self.min_due;
            self.packets.push_back((self.max_due, packet));
        }
    }

    /// Inserts `packet` before packets that arrived earlier.
    #[cold]
    #[inline(never)]
    fn insert_earlier(&mut self, packet: Packet) {
        let position = self.packets.partition_point(|(due, _)| *due <= self.min_due);
        self.packets.insert(position, (self.min_due, packet));
    }

    /// Applies `policy` at `now` to the packets in flight.
    pub fn apply_policy(&mut self, now: Time, policy: InFlightPolicy, out: &mut StageOutput) {
        match policy {
            InFlightPolicy::InOrder => self.min_due = self.min_due.max(self.max_due),
            InFlightPolicy::Reorder => self.min_due = now,
            InFlightPolicy::Drop => {
                for (_, packet) in self.packets.drain(..) {
                    out.drop(now, packet, DropReason::Outage);
                }
                (self.min_due, self.max_due) = (now, now);
            }
        }
    }

    /// Returns the next departure time.
    pub fn next_due(&self) -> Time {
        self.packets.front().map_or(Time::MAX, |(due, _)| *due)
    }

    /// Emits the packets that depart by `now`.
    pub fn release(&mut self, now: Time, out: &mut StageOutput) {
        while let Some((due, packet)) = self.packets.front().copied() {
            if due > now {
                break;
            }
            self.packets.pop_front();
            out.emit(due, packet);
        }
    }

    /// Returns the number of packets inside.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Removes and returns the next packet if it departs by `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, Packet)> {
        let due = self.packets.front()?.0;
        if due <= now { self.packets.pop_front() } else { None }
    }
}

/// Items in order of their due time; ties in order of arrival.
#[derive(Debug)]
pub(crate) struct DelayHeap<T> {
    items: BinaryHeap<Reverse<TimedEntry<T>>>,
    next_order: u64,
}

impl<T> Default for DelayHeap<T> {
    fn default() -> Self {
        DelayHeap { items: BinaryHeap::new(), next_order: 0 }
    }
}

impl<T> DelayHeap<T> {
    /// Accepts `item`, due at `due`.
    pub fn push(&mut self, due: Time, item: T) {
        self.items.push(Reverse(TimedEntry { due, order: self.next_order, item }));
        self.next_order += 1;
    }

    /// Returns the next due time.
    pub fn next_due(&self) -> Time {
        self.items.peek().map_or(Time::MAX, |first| first.0.due)
    }

    /// Removes and returns the next item if it is due by `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, T)> {
        if self.items.is_empty() || self.next_due() > now {
            return None;
        }
        self.items.pop().map(|Reverse(first)| (first.due, first.item))
    }
}

/// A delay line that preserves the order of arrival or permits overtaking.
#[derive(Debug)]
pub(crate) enum DelayQueue {
    /// Each packet departs no earlier than the one in front.
    InOrder(FifoDelayQueue),
    /// Each packet departs at its due time.
    Overtaking(DelayHeap<Packet>),
}

impl DelayQueue {
    /// Creates a delay line that permits overtaking if `reorder`.
    pub fn new(reorder: bool) -> DelayQueue {
        if reorder {
            DelayQueue::Overtaking(DelayHeap::default())
        } else {
            DelayQueue::InOrder(FifoDelayQueue::default())
        }
    }

    /// Accepts a packet like [`FifoDelayQueue::push`].
    pub fn push(&mut self, now: Time, due: Time, packet: Packet, out: &mut StageOutput) {
        match self {
            DelayQueue::InOrder(fifo) => fifo.push(now, due, packet, out),
            DelayQueue::Overtaking(_) if due <= now => out.emit(now, packet),
            DelayQueue::Overtaking(heap) => heap.push(due, packet),
        }
    }

    /// Applies `policy` at `now` to the packets in flight. Packets that may overtake anyway are not delayed.
    pub fn apply_policy(&mut self, now: Time, policy: InFlightPolicy, out: &mut StageOutput) {
        match self {
            DelayQueue::InOrder(fifo) => fifo.apply_policy(now, policy, out),
            DelayQueue::Overtaking(heap) if policy == InFlightPolicy::Drop => {
                while let Some((_, packet)) = heap.pop_due(Time::MAX) {
                    out.drop(now, packet, DropReason::Outage);
                }
            }
            DelayQueue::Overtaking(_) => {}
        }
    }

    /// Returns the next departure time.
    pub fn next_due(&self) -> Time {
        match self {
            DelayQueue::InOrder(fifo) => fifo.next_due(),
            DelayQueue::Overtaking(heap) => heap.next_due(),
        }
    }

    /// Emits the packets that depart by `now`.
    pub fn release(&mut self, now: Time, out: &mut StageOutput) {
        match self {
            DelayQueue::InOrder(fifo) => fifo.release(now, out),
            DelayQueue::Overtaking(heap) => {
                while let Some((due, packet)) = heap.pop_due(now) {
                    out.emit(due, packet);
                }
            }
        }
    }
}

#[derive(Debug)]
struct TimedEntry<T> {
    due: Time,
    order: u64,
    item: T,
}

impl<T> PartialEq for TimedEntry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for TimedEntry<T> {}

impl<T> PartialOrd for TimedEntry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for TimedEntry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.order).cmp(&(other.due, other.order))
    }
}
