//! The connections over TCP that are served now: so many at once, and the slow ones give way to new ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;
use transport::places::{Place, Way, who_gives_way};
use units::Time;

/// What a connection tells of itself while it is served.
#[derive(Default)]
pub(super) struct Signs {
    /// Bytes moved both ways.
    moved: AtomicU64,
    /// TLS's handshake is done.
    established: AtomicBool,
}

impl Signs {
    /// So many bytes more were moved.
    pub(super) fn moved(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// TLS's handshake is done.
    pub(super) fn established(&self) {
        self.established.store(true, Ordering::Relaxed);
    }
}

struct Member {
    signs: Arc<Signs>,
    place: Place,
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
    pub(super) fn new(most: usize) -> Arc<Crowd> {
        Arc::new(Crowd { most, inner: Mutex::default() })
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
        let places = inner.members.iter_mut().map(|(number, member)| {
            member.place.note(now, member.signs.moved.load(Ordering::Relaxed));
            (*number, member.signs.established.load(Ordering::Relaxed), member.place)
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
    pub(super) fn take(
        self: &Arc<Crowd>,
        now: Time,
        serve: impl FnOnce(Seat, Arc<Signs>) -> AbortHandle,
    ) {
        let mut inner = self.lock();
        let number = inner.next;
        inner.next += 1;
        let signs = Arc::new(Signs::default());
        let task = serve(Seat { crowd: self.clone(), number }, signs.clone());
        inner.members.insert(number, Member { signs, place: Place::new(now), task });
    }
}
