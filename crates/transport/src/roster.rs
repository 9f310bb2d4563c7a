//! The live connections of one side. What concerns one of them costs the same however many there are: each has a slot
//! and a wake-up of its own, and none is looked at that has nothing to do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use units::{Time, TimerQueue, prefetch};

use crate::Counters;

/// So many bytes of connections are more than a processor's caches keep.
const CROWD: usize = 512 << 10;

/// Connections in slots, which are used again.
pub(crate) struct Roster<T> {
    slots: Vec<Option<(u64, T)>>,
    free: Vec<usize>,
    /// Slots in the order in which their connections came.
    order: BTreeMap<u64, usize>,
    came: u64,
    wakes: TimerQueue,
    due: Vec<(u64, usize)>,
    /// Slots by the last digits of their connections' numbers, as far as there is a crowd: guesses for
    /// [`Roster::expected`].
    guesses: Vec<u32>,
    /// The slot whose memory has been asked for since it is the next to wake.
    next: usize,
}

impl<T> Default for Roster<T> {
    fn default() -> Roster<T> {
        Roster {
            slots: Vec::new(),
            free: Vec::new(),
            order: BTreeMap::new(),
            came: 0,
            wakes: TimerQueue::default(),
            due: Vec::new(),
            guesses: Vec::new(),
            next: usize::MAX,
        }
    }
}

impl<T> Roster<T> {
    /// Takes in connection `number`, which never wakes until it is said; its slot.
    pub fn push(&mut self, number: u32, connection: T) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some((self.came, connection));
        self.order.insert(self.came, slot);
        self.came += 1;
        if self.is_crowd() {
            if self.guesses.len() < self.slots.len() {
                self.guesses.resize(self.slots.len().next_power_of_two(), 0);
            }
            let place = number as usize & (self.guesses.len() - 1);
            self.guesses[place] = slot as u32;
        }
        slot
    }

    /// Whether they are more than a processor's caches keep.
    pub fn is_crowd(&self) -> bool {
        self.slots.len() * size_of::<T>() > CROWD
    }

    /// Connection `number` will be asked for after `others`: its memory is brought, and after that it is returned. It may
    /// be another's, and none.
    pub fn expected(&self, number: u32, others: usize) -> Option<&T> {
        if self.guesses.is_empty() {
            return None;
        }
        let slot = self.guesses[number as usize & (self.guesses.len() - 1)] as usize;
        if others < 2 {
            return self.get(slot);
        }
        self.fetch(slot);
        None
    }

    /// Lets one go.
    pub fn remove(&mut self, slot: usize) -> T {
        let (serial, connection) = self.slots[slot].take().expect("a slot that is taken");
        self.order.remove(&serial);
        self.free.push(slot);
        self.wakes.set_deadline(slot, Time::MAX);
        connection
    }

    /// The one in this slot, if there is one.
    pub fn get(&self, slot: usize) -> Option<&T> {
        self.slots.get(slot)?.as_ref().map(|(_, connection)| connection)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.slots.get_mut(slot)?.as_mut().map(|(_, connection)| connection)
    }

    /// When the one in this slot is to wake from now on.
    pub fn wake(&mut self, slot: usize, at: Time) {
        self.wakes.set_deadline(slot, at);
    }

    /// When the first is to wake.
    pub fn wake_at(&mut self) -> Time {
        self.wakes.earliest().0
    }

    /// As [`Roster::expected`], for the one that is to wake next.
    pub fn waking(&mut self) -> Option<&T> {
        if !self.is_crowd() {
            return None;
        }
        let slot = self.wakes.earliest().1;
        let known = std::mem::replace(&mut self.next, slot) == slot;
        if known {
            return self.get(slot);
        }
        self.fetch(slot);
        None
    }

    /// Has the memory brought of the one in this slot, and nothing that it points to.
    pub fn fetch(&self, slot: usize) {
        if let Some(place) = self.slots.get(slot) {
            prefetch(place);
        }
    }

    /// Slots of those whose time has come by `now` and of those in `also`, in the order in which they came. They
    /// never wake again until it is said. Give the list back with [`Roster::done`].
    pub fn take_due(&mut self, now: Time, also: &mut Vec<usize>) -> Vec<(u64, usize)> {
        let mut due = std::mem::take(&mut self.due);
        while let Some(slot) = self.wakes.pop_due(now) {
            due.extend(self.dated(slot));
        }
        due.extend(also.drain(..).filter_map(|slot| self.dated(slot)));
        if due.len() > 1 {
            due.sort_unstable();
            due.dedup();
        }
        due
    }

    /// The memory of a list of those due.
    pub fn done(&mut self, mut due: Vec<(u64, usize)>) {
        due.clear();
        self.due = due;
    }

    fn dated(&self, slot: usize) -> Option<(u64, usize)> {
        self.slots[slot].as_ref().map(|(serial, _)| (*serial, slot))
    }

    /// All slots in use, in the order in which their connections came.
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.order.values().copied()
    }

    /// All, in the order in which they came.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.order.values().map(|slot| &self[*slot])
    }

    /// The newest.
    pub fn last(&self) -> Option<&T> {
        self.iter().next_back()
    }
}

impl<T> Index<usize> for Roster<T> {
    type Output = T;

    fn index(&self, slot: usize) -> &T {
        self.get(slot).expect("a slot that is taken")
    }
}

impl<T> IndexMut<usize> for Roster<T> {
    fn index_mut(&mut self, slot: usize) -> &mut T {
        self.slots[slot].as_mut().map(|(_, connection)| connection).expect("a slot that is taken")
    }
}

/// While the counters of one connection are read, those of so many after it are brought.
const AHEAD: usize = 2;

/// The sum of the counters of all connections, for which only those are read again that have worked.
#[derive(Default)]
pub(crate) struct Tally(RefCell<Counted>);

#[derive(Default)]
struct Counted {
    total: Counters,
    /// What is in it of each slot.
    slots: Vec<Counters>,
    /// Whether that is old: apart, since it is looked at for every packet.
    touched: Vec<bool>,
    old: Vec<usize>,
}

impl Tally {
    /// The counters of the connection in `slot` may have changed.
    pub fn touch(&mut self, slot: usize) {
        let counted = self.0.get_mut();
        if slot >= counted.slots.len() {
            counted.slots.resize_with(slot + 1, Default::default);
            counted.touched.resize(slot + 1, false);
        }
        if !std::mem::replace(&mut counted.touched[slot], true) {
            counted.old.push(slot);
        }
    }

    /// The connection in `slot` is gone, and its counters with it.
    pub fn leave(&mut self, slot: usize) {
        let counted = self.0.get_mut();
        if let Some(before) = counted.slots.get_mut(slot) {
            counted.total.change(&std::mem::take(before), &Counters::default());
        }
    }

    /// The sum, `of` being the counters of the connection in a slot if there is one, whose memory `expect` has brought.
    pub fn total(
        &self,
        expect: impl Fn(usize),
        of: impl Fn(usize) -> Option<Counters>,
    ) -> Counters {
        let Counted { total, slots, touched, old } = &mut *self.0.borrow_mut();
        for (place, slot) in old.iter().enumerate() {
            if let Some(later) = old.get(place + AHEAD) {
                prefetch(&slots[*later]);
                expect(*later);
            }
            touched[*slot] = false;
            if let Some(now) = of(*slot) {
                total.change(&slots[*slot], &now);
                slots[*slot] = now;
            }
        }
        old.clear();
        *total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_due_come_in_the_order_in_which_they_came() {
        let mut roster = Roster::default();
        let slots: Vec<usize> = ["a", "b", "c", "d"].map(|name| roster.push(0, name)).into();
        roster.remove(slots[0]);
        let again = roster.push(0, "e");
        assert_eq!(again, slots[0], "slots are used again");
        for slot in [again, slots[3], slots[1]] {
            roster.wake(slot, Time(5));
        }
        roster.wake(slots[2], Time(6));
        assert_eq!(roster.wake_at(), Time(5));
        assert!(roster.take_due(Time(4), &mut vec![]).is_empty());
        let names = |roster: &mut Roster<&'static str>, now, mut also: Vec<usize>| {
            let due = roster.take_due(now, &mut also);
            let names: Vec<_> = due.iter().map(|(_, slot)| roster[*slot]).collect();
            roster.done(due);
            names
        };
        // One that is due and asked for comes once.
        assert_eq!(names(&mut roster, Time(5), vec![slots[3], slots[2]]), ["b", "c", "d", "e"]);
        assert_eq!(names(&mut roster, Time(9), vec![]), ["c"]);
        assert_eq!(names(&mut roster, Time::MAX, vec![]), [""; 0]);
        assert_eq!(roster.iter().copied().collect::<Vec<_>>(), ["b", "c", "d", "e"]);
        assert_eq!(roster.last(), Some(&"e"));
    }

    #[test]
    fn of_a_crowd_those_who_are_next_are_known_before() {
        let mut few = Roster::default();
        few.push(7, [0; 1 << 10]);
        assert!(!few.is_crowd() && few.waking().is_none() && few.expected(7, 0).is_none());
        let mut crowd = Roster::default();
        let first = 1000;
        let slots: Vec<usize> =
            (0..2000).map(|place| crowd.push(first + place, [place; 1 << 8])).collect();
        assert!(crowd.is_crowd());
        for place in [1999, 1500] {
            assert!(crowd.expected(first + place, 2).is_none(), "it is on its way");
            assert_eq!(crowd.expected(first + place, 1), Some(&[place; 1 << 8]));
            assert_eq!(crowd.expected(first + place, 0), Some(&[place; 1 << 8]));
        }
        crowd.wake(slots[1500], Time(5));
        assert!(crowd.waking().is_none(), "it is on its way");
        assert_eq!(crowd.waking(), Some(&[1500; 1 << 8]));
        crowd.remove(slots[1500]);
        assert!(crowd.expected(first + 1500, 0).is_none());
        assert_ne!(crowd.waking(), Some(&[1500; 1 << 8]));
    }

    #[test]
    fn a_tally_reads_again_what_was_touched() {
        let count = |sent_bytes, largest_cwnd_bytes| Counters {
            sent_bytes,
            largest_cwnd_bytes,
            ..Counters::default()
        };
        let mut tally = Tally::default();
        tally.touch(0);
        tally.touch(3);
        let mut now = [Some(count(5, 9)), None, None, Some(count(7, 4))];
        assert_eq!(tally.total(|_| {}, |slot| now[slot]), count(12, 9));
        now = [Some(count(6, 9)), None, None, Some(count(8, 4))];
        tally.touch(3);
        assert_eq!(
            tally.total(|_| {}, |slot| now[slot]),
            count(13, 9),
            "the first was not touched"
        );
        tally.touch(0);
        tally.leave(0);
        now[0] = None;
        assert_eq!(tally.total(|_| {}, |slot| now[slot]), count(8, 9));
        now[0] = Some(count(1, 1));
        tally.touch(0);
        assert_eq!(tally.total(|_| {}, |slot| now[slot]), count(9, 9));
    }
}
