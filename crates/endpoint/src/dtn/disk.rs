//! A store on disk beside a node: what it asks for in its turns is made durable by a thread of its own, as many turns at a time
//! as have come meanwhile; payloads are read by another one.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use bundle::{Agent, Answer, Asked, Store};
use depot::{Change, Depot, Shelf};
use nix::sys::eventfd::{EfdFlags, EventFd};
use units::Time;

/// Bytes that may wait for the disk; a node that takes more waits with them.
const WAITING_BYTES: u64 = 64 << 20;

/// How long a store that cannot do what it was asked for waits before it tries again.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Desk {
    changes: Vec<Change>,
    bytes: u64,
    /// The last turn whose wishes are in `changes`, and the last one whose are durable.
    turn: u64,
    settled: u64,
    loads: VecDeque<u64>,
    answers: Vec<Answer>,
    /// A batch is being written.
    busy: bool,
    over: bool,
}

struct Shared {
    desk: Mutex<Desk>,
    /// There is something to write, something to read, and something was written.
    writes: Condvar,
    reads: Condvar,
    written: Condvar,
    /// There are answers.
    any: AtomicBool,
    bell: EventFd,
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        if !self.any.swap(true, Ordering::AcqRel) {
            let _ = self.bell.write(1);
        }
    }
}

/// A store on disk.
pub struct Disk {
    shared: Arc<Shared>,
    /// What is asked for in this turn.
    asked: Vec<Change>,
    bytes: u64,
    turn: u64,
    sequence: u64,
    threads: Vec<JoinHandle<()>>,
}

impl Disk {
    /// Has the threads of `depot` work.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(depot: Depot, sequence: u64) -> io::Result<Disk> {
        let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        let shared = Arc::new(Shared {
            desk: Mutex::default(),
            writes: Condvar::new(),
            reads: Condvar::new(),
            written: Condvar::new(),
            any: AtomicBool::new(false),
            bell,
        });
        let (shelf, of_writer, of_reader) = (depot.shelf(), shared.clone(), shared.clone());
        let threads =
            vec![spawn(move || write(&of_writer, depot)), spawn(move || read(&of_reader, &shelf))];
        Ok(Disk { shared, asked: Vec::new(), bytes: 0, turn: 0, sequence, threads })
    }

    /// What can be read while it has answers.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bell(&self) -> io::Result<OwnedFd> {
        self.shared.bell.as_fd().try_clone_to_owned()
    }
}

impl Store for Disk {
    fn ask(&mut self, _now: Time, asked: Asked, agent: &Agent) {
        match asked {
            Asked::Keep(key) => {
                let Some((stored, payload)) = agent.stored_as(key) else { return };
                self.bytes += stored.payload_bytes;
                let (card, payload) = (stored.to_bytes(), payload.to_vec());
                self.asked.push(Change::Keep { key, card, payload });
            }
            Asked::Forget(key, unless) => self.asked.push(Change::Forget { key, unless }),
            Asked::Remember(id, until_ms) => {
                self.asked.push(Change::Remember { id: id.to_key().into_bytes(), until_ms });
            }
            Asked::Load(key) => {
                self.shared.desk().loads.push_back(key);
                self.shared.reads.notify_one();
            }
        }
    }

    fn end_turn(&mut self, _now: Time, agent: &Agent) {
        if self.sequence != agent.sequence() {
            self.sequence = agent.sequence();
            self.asked.push(Change::Sequence(self.sequence));
        }
        if self.asked.is_empty() {
            return;
        }
        self.turn += 1;
        let mut desk = self.shared.desk();
        desk.changes.append(&mut self.asked);
        desk.bytes += std::mem::take(&mut self.bytes);
        desk.turn = self.turn;
        self.shared.writes.notify_one();
        while desk.bytes > WAITING_BYTES {
            desk = self.shared.written.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn answers(&mut self, _now: Time, into: &mut Vec<Answer>) {
        if self.shared.any.swap(false, Ordering::AcqRel) {
            let _ = self.shared.bell.read();
            into.append(&mut self.shared.desk().answers);
        }
    }

    fn wake_at(&self) -> Time {
        if self.shared.any.load(Ordering::Acquire) { Time::ZERO } else { Time::MAX }
    }

    fn stop(&mut self) {
        self.asked.clear();
    }

    fn flush(&mut self) {
        let mut desk = self.shared.desk();
        while desk.busy || !desk.changes.is_empty() {
            desk = self.shared.written.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn turns(&self) -> (u64, u64) {
        (self.turn, self.shared.desk().settled)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.shared.desk().over = true;
        self.shared.writes.notify_all();
        self.shared.reads.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn write(shared: &Shared, mut depot: Depot) {
    let _over = Over(shared);
    loop {
        let mut desk = shared.desk();
        while desk.changes.is_empty() && !desk.over && depot.is_settled() {
            desk = shared.writes.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
        if desk.changes.is_empty() {
            if desk.over {
                return;
            }
            // It failed before.
            desk = shared
                .writes
                .wait_timeout(desk, PATIENCE)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let (changes, turn) = (std::mem::take(&mut desk.changes), desk.turn);
        (desk.bytes, desk.busy) = (0, true);
        drop(desk);
        shared.written.notify_all();
        let kept: Vec<u64> = changes
            .iter()
            .filter_map(|change| match change {
                Change::Keep { key, .. } => Some(*key),
                _ => None,
            })
            .collect();
        let refused = depot.apply(changes);
        let mut desk = shared.desk();
        desk.busy = false;
        if depot.is_settled() {
            desk.settled = turn;
        }
        let said = kept.into_iter().map(|key| {
            if refused.iter().any(|one| one.key == key) {
                Answer::Refused(key)
            } else {
                Answer::Durable(key)
            }
        });
        desk.answers.extend(said);
        drop(desk);
        shared.written.notify_all();
        shared.ring();
    }
}

fn read(shared: &Shared, shelf: &Shelf) {
    loop {
        let mut desk = shared.desk();
        let key = loop {
            if desk.over {
                return;
            }
            match desk.loads.pop_front() {
                Some(key) => break key,
                None => desk = shared.reads.wait(desk).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(desk);
        let payload = shelf.payload(key).map(|payload| vec![payload]);
        shared.desk().answers.push(Answer::Loaded(key, payload));
        shared.ring();
    }
}

/// A store whose thread is gone must not keep its node waiting.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let mut desk = self.0.desk();
        (desk.busy, desk.bytes) = (false, 0);
        desk.over = true;
        desk.changes.clear();
        self.0.written.notify_all();
    }
}
