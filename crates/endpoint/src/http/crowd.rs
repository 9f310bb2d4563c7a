//! The connections over TCP that are served now: so many at once, and the slow ones give way to new ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;
use transport::places::{Place, Way, who_gives_way};
use units::Time;

use crate::Clock;

/// What a connection tells of itself while it is served.
pub(super) struct Signs {
    clock: Clock,
    /// With the bytes moved both ways so far.
    place: Mutex<(Place, u64)>,
    /// TLS's handshake is done.
    established: AtomicBool,
}

impl Signs {
    fn new(clock: Clock) -> Signs {
        let place = Mutex::new((Place::new(clock.now()), 0));
        Signs { clock, place, established: AtomicBool::new(false) }
    }

    /// So many bytes more were moved.
    pub(super) fn moved(&self, bytes: usize) {
        if bytes > 0 {
            self.note(self.clock.now(), bytes as u64);
        }
    }

    fn note(&self, now: Time, more: u64) -> Place {
        let mut inner = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let (place, moved) = &mut *inner;
        *moved += more;
        place.note(now, *moved);
        *place
    }

    /// TLS's handshake is done.
    pub(super) fn established(&self) {
        self.established.store(true, Ordering::Relaxed);
    }
}

struct Member {
    signs: Arc<Signs>,
    task: AbortHandle,
}

#[derive(Default)]
struct Inner {
    members: BTreeMap<u64, Member>,
    next: u64,
}

/// The connections.
pub(super) struct Crowd {
    most: usize,
    clock: Clock,
    inner: Mutex<Inner>,
}

/// Whether a newcomer can have a place.
pub(super) enum Room {
    Free,
    /// Perhaps then.
    At(Time),
    None,
}

/// A connection's place; given back when it is dropped.
pub(super) struct Seat {
    crowd: Arc<Crowd>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.crowd.lock().members.remove(&self.number);
    }
}

impl Crowd {
    /// At most `most` at once.
    pub(super) fn new(most: usize, clock: Clock) -> Arc<Crowd> {
        Arc::new(Crowd { most, clock, inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for room for one more, and makes it where somebody has to give way.
    pub(super) fn room(&self, now: Time) -> Room {
        let inner = &mut *self.lock();
        if inner.members.len() < self.most {
            return Room::Free;
        }
        let places = inner.members.iter().map(|(number, member)| {
            let established = member.signs.established.load(Ordering::Relaxed);
            (*number, established, member.signs.note(now, 0))
        });
        match who_gives_way(now, places) {
            Way::Gives(number) => {
                if let Some(member) = inner.members.remove(&number) {
                    member.task.abort();
                }
                Room::Free
            }
            Way::Wait(until) => Room::At(until),
            Way::Full => Room::None,
        }
    }

    /// Takes a connection in, which `serve` makes a task of.
    pub(super) fn take(self: &Arc<Crowd>, serve: impl FnOnce(Seat, Arc<Signs>) -> AbortHandle) {
        let mut inner = self.lock();
        let number = inner.next;
        inner.next += 1;
        let signs = Arc::new(Signs::new(self.clock));
        let task = serve(Seat { crowd: self.clone(), number }, signs.clone());
        inner.members.insert(number, Member { signs, task });
    }
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;

    #[test]
    fn what_is_moved_counts_from_when_it_moves() {
        let clock = Clock::start();
        let signs = Signs::new(clock);
        signs.moved(20_000);
        let way = |after_ms: u64| {
            let now = clock.now() + Span::from_millis(after_ms);
            who_gives_way(now, std::iter::once(((), true, signs.note(now, 0))))
        };
        assert_eq!(way(600), Way::Full);
        assert_eq!(way(2100), Way::Gives(()));
    }
}
