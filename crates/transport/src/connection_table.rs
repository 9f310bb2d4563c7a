//! The connection table of an endpoint. The cost of an operation does not depend on the number of connections. The
//! table visits only connections with due work.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use units::{Time, TimerQueue};

use crate::FlowCounters;

/// Connections by index; indices are reused.
pub(crate) struct ConnectionTable<T> {
    entries: Vec<Option<(u64, T)>>,
    free_indices: Vec<usize>,
    /// Indices in the order of arrival.
    by_arrival: BTreeMap<u64, usize>,
    arrivals: u64,
    timers: TimerQueue,
    due_buffer: Vec<(u64, usize)>,
}

impl<T> Default for ConnectionTable<T> {
    fn default() -> ConnectionTable<T> {
        ConnectionTable {
            entries: Vec::new(),
            free_indices: Vec::new(),
            by_arrival: BTreeMap::new(),
            arrivals: 0,
            timers: TimerQueue::default(),
            due_buffer: Vec::new(),
        }
    }
}

impl<T> ConnectionTable<T> {
    /// Inserts a connection without a deadline. Returns its index.
    pub fn push(&mut self, connection: T) -> usize {
        let index = self.free_indices.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[index] = Some((self.arrivals, connection));
        self.by_arrival.insert(self.arrivals, index);
        self.arrivals += 1;
        index
    }

    /// Removes the connection at `index`.
    pub fn remove(&mut self, index: usize) -> T {
        let (serial, connection) = self.entries[index].take().expect("a slot that is taken");
        self.by_arrival.remove(&serial);
        self.free_indices.push(index);
        self.timers.set_deadline(index, Time::MAX);
        connection
    }

    /// Returns the connection at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.entries.get(index)?.as_ref().map(|(_, connection)| connection)
    }

    /// Returns the connection at `index` for changes, if there is one.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.entries.get_mut(index)?.as_mut().map(|(_, connection)| connection)
    }

    /// Sets the deadline of the connection at `index`.
    pub fn set_deadline(&mut self, index: usize, at: Time) {
        self.timers.set_deadline(index, at);
    }

    /// Returns the earliest deadline.
    pub fn poll_at(&mut self) -> Time {
        self.timers.earliest().0
    }

    /// Returns the indices with a deadline by `now` and those in `also`, in the order of arrival. Their deadlines are
    /// cleared. [`ConnectionTable::recycle_due`] takes the list back.
    pub fn take_due(&mut self, now: Time, also: &mut Vec<usize>) -> Vec<(u64, usize)> {
        let mut due = std::mem::take(&mut self.due_buffer);
        while let Some(index) = self.timers.pop_due(now) {
            due.extend(self.with_arrival(index));
        }
        due.extend(also.drain(..).filter_map(|index| self.with_arrival(index)));
        if due.len() > 1 {
            due.sort_unstable();
            due.dedup();
        }
        due
    }

    /// Takes back the memory of a list of due connections.
    pub fn recycle_due(&mut self, mut due: Vec<(u64, usize)>) {
        due.clear();
        self.due_buffer = due;
    }

    fn with_arrival(&self, index: usize) -> Option<(u64, usize)> {
        self.entries[index].as_ref().map(|(serial, _)| (*serial, index))
    }

    /// Returns all indices in use, in the order of arrival.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.by_arrival.values().copied()
    }

    /// Returns all connections, in the order of arrival.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.by_arrival.values().map(|index| &self[*index])
    }

    /// Returns the newest connection.
    pub fn newest(&self) -> Option<&T> {
        self.iter().next_back()
    }
}

impl<T> Index<usize> for ConnectionTable<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        self.get(index).expect("a slot that is taken")
    }
}

impl<T> IndexMut<usize> for ConnectionTable<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        self.entries[index]
            .as_mut()
            .map(|(_, connection)| connection)
            .expect("a slot that is taken")
    }
}

/// The sum of the counters of all connections. Only changed connections are read again.
#[derive(Default)]
pub(crate) struct CounterTotals(RefCell<CachedCounters>);

#[derive(Default)]
struct CachedCounters {
    total: FlowCounters,
    /// The part of each connection in the sum.
    per_connection: Vec<FlowCounters>,
    /// Marks of outdated parts; a separate list, because every packet reads it.
    is_stale: Vec<bool>,
    stale: Vec<usize>,
}

impl CounterTotals {
    /// Marks the counters of the connection at `index` as changed.
    pub fn mark_stale(&mut self, index: usize) {
        let counted = self.0.get_mut();
        if index >= counted.per_connection.len() {
            counted.per_connection.resize_with(index + 1, Default::default);
            counted.is_stale.resize(index + 1, false);
        }
        if !std::mem::replace(&mut counted.is_stale[index], true) {
            counted.stale.push(index);
        }
    }

    /// Removes the counters of the connection at `index` from the sum.
    pub fn remove(&mut self, index: usize) {
        let counted = self.0.get_mut();
        if let Some(before) = counted.per_connection.get_mut(index) {
            counted.total.apply_delta(&std::mem::take(before), &FlowCounters::default());
        }
    }

    /// Returns the sum. `counters_of` reads the counters of an index.
    pub fn total(&self, counters_of: impl Fn(usize) -> Option<FlowCounters>) -> FlowCounters {
        let CachedCounters { total, per_connection, is_stale, stale } = &mut *self.0.borrow_mut();
        for index in &*stale {
            is_stale[*index] = false;
            if let Some(now) = counters_of(*index) {
                total.apply_delta(&per_connection[*index], &now);
                per_connection[*index] = now;
            }
        }
        stale.clear();
        *total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_connections_are_in_order_of_arrival() {
        let mut table = ConnectionTable::default();
        let slots: Vec<usize> = ["a", "b", "c", "d"].map(|name| table.push(name)).into();
        table.remove(slots[0]);
        let again = table.push("e");
        assert_eq!(again, slots[0], "slots are used again");
        for slot in [again, slots[3], slots[1]] {
            table.set_deadline(slot, Time(5));
        }
        table.set_deadline(slots[2], Time(6));
        assert_eq!(table.poll_at(), Time(5));
        assert!(table.take_due(Time(4), &mut vec![]).is_empty());
        let names = |table: &mut ConnectionTable<&'static str>, now, mut also: Vec<usize>| {
            let due = table.take_due(now, &mut also);
            let names: Vec<_> = due.iter().map(|(_, slot)| table[*slot]).collect();
            table.recycle_due(due);
            names
        };
        // A connection that is both due and in `also` is returned once.
        assert_eq!(names(&mut table, Time(5), vec![slots[3], slots[2]]), ["b", "c", "d", "e"]);
        assert_eq!(names(&mut table, Time(9), vec![]), ["c"]);
        assert_eq!(names(&mut table, Time::MAX, vec![]), [""; 0]);
        assert_eq!(table.iter().copied().collect::<Vec<_>>(), ["b", "c", "d", "e"]);
        assert_eq!(table.newest(), Some(&"e"));
    }

    #[test]
    fn totals_read_stale_counters_again() {
        let count = |sent_bytes, cwnd_max_bytes| FlowCounters {
            sent_bytes,
            cwnd_max_bytes,
            ..FlowCounters::default()
        };
        let mut tally = CounterTotals::default();
        tally.mark_stale(0);
        tally.mark_stale(3);
        let mut now = [Some(count(5, 9)), None, None, Some(count(7, 4))];
        assert_eq!(tally.total(|slot| now[slot]), count(12, 9));
        now = [Some(count(6, 9)), None, None, Some(count(8, 4))];
        tally.mark_stale(3);
        assert_eq!(tally.total(|slot| now[slot]), count(13, 9), "the first was not touched");
        tally.mark_stale(0);
        tally.remove(0);
        now[0] = None;
        assert_eq!(tally.total(|slot| now[slot]), count(8, 9));
        now[0] = Some(count(1, 1));
        tally.mark_stale(0);
        assert_eq!(tally.total(|slot| now[slot]), count(9, 9));
    }
}
