//! A store on disk beside a node: what it asks for in its turns is made durable by a thread of its own, as many turns at a time
//! as have come meanwhile; payloads are read by another one.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, panicking, spawn};
use std::time::Duration;

use bundle::{Agent, Answer, Asked, Store};
use bytes::Bytes;
use depot::{Change, Depot, Medium, Shelf};
use nix::sys::eventfd::{EfdFlags, EventFd};
use units::Time;

/// Bytes that may wait for the disk; a node that takes more waits with them.
const WAITING_BYTES: u64 = 64 << 20;

/// How long a store that cannot do what it was asked for waits before it tries again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of a change that waits, roughly: its own and what it points to.
fn memory_of(change: &Change) -> u64 {
    let held = match change {
        Change::Keep { card, payload, .. } => {
            card.len() + payload.iter().map(Bytes::len).sum::<usize>() + size_of_val(&payload[..])
        }
        Change::Forget { unless, .. } => size_of_val(&unless[..]),
        Change::Remember { id, .. } | Change::ForgetId(id) => id.len(),
        Change::Sequence(_) => 0,
    };
    (size_of::<Change>() + held) as u64
}

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
    /// The threads are to end, or one has panicked: nothing more becomes durable.
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
    turn: u64,
    sequence: u64,
    threads: Vec<JoinHandle<()>>,
}

impl Disk {
    /// Has the threads of `depot` work.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new<M: Medium>(depot: Depot<M>, sequence: u64) -> io::Result<Disk> {
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
        Ok(Disk { shared, asked: Vec::new(), turn: 0, sequence, threads })
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
                let (card, payload) = (stored.to_bytes(), payload.to_vec());
                self.asked.push(Change::Keep { key, card, payload });
            }
            Asked::Forget(key, unless) => self.asked.push(Change::Forget { key, unless }),
            Asked::Remember(id, until_ms) => {
                self.asked.push(Change::Remember { id: id.to_key().into_bytes(), until_ms });
            }
            Asked::ForgetDelivered(id) => {
                self.asked.push(Change::ForgetId(id.to_key().into_bytes()));
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
        if desk.over {
            // Nobody writes it: what is not durable gets no answer.
            self.asked = Vec::new();
            return;
        }
        desk.bytes += self.asked.iter().map(memory_of).sum::<u64>();
        desk.changes.append(&mut self.asked);
        desk.turn = self.turn;
        self.shared.writes.notify_one();
        while desk.bytes > WAITING_BYTES && !desk.over {
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
        while !desk.over && (desk.busy || !desk.changes.is_empty()) {
            desk = self.shared.written.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn turns(&self) -> (u64, u64) {
        (self.turn, self.shared.desk().settled)
    }

    fn is_over(&self) -> bool {
        self.shared.desk().over
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

fn write<M: Medium>(shared: &Shared, mut depot: Depot<M>) {
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
        let refused: BTreeSet<u64> = depot.apply(changes).iter().map(|one| one.key).collect();
        let mut desk = shared.desk();
        desk.busy = false;
        if depot.is_settled() {
            desk.settled = turn;
        }
        let said = kept.into_iter().map(|key| {
            if refused.contains(&key) { Answer::Refused(key) } else { Answer::Durable(key) }
        });
        desk.answers.extend(said);
        drop(desk);
        shared.written.notify_all();
        shared.ring();
    }
}

fn read<M: Medium>(shared: &Shared, shelf: &Shelf<M>) {
    let _over = Over(shared);
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

/// A store one of whose threads has panicked must not keep its node waiting.
struct Over<'a>(&'a Shared);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        if !panicking() {
            return;
        }
        let mut desk = self.0.desk();
        (desk.busy, desk.bytes, desk.over) = (false, 0, true);
        desk.changes.clear();
        for waits in [&self.0.writes, &self.0.reads, &self.0.written] {
            waits.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use bundle::DtnSpec;
    use depot::Step;
    use serde_json::json;

    use super::*;

    /// A medium whose driver has an error of its own.
    struct Broken;

    impl Medium for Broken {
        fn before(&self, step: Step<'_>) -> io::Result<()> {
            assert!(step != Step::Commit, "this test's writer panics");
            Ok(())
        }
    }

    fn agent() -> Agent {
        let spec: DtnSpec = serde_json::from_value(json!({
            "epoch_ms": 0, "links": [], "plan": {"contacts": []},
            "nodes": [{"name": "1", "eid": "ipn:1.0"}],
        }))
        .unwrap();
        Agent::new(&spec, "1", &[]).unwrap()
    }

    /// Asks for so many bytes in a turn.
    fn ask(disk: &mut Disk, key: u64, bytes: usize) {
        disk.asked.push(Change::Keep { key, card: vec![1], payload: vec![vec![0; bytes].into()] });
        disk.end_turn(Time::ZERO, &agent());
    }

    /// A disk that takes its time: a batch is not done before its gate opens.
    struct Slow(Arc<(Mutex<bool>, Condvar)>);

    impl Medium for Slow {
        fn before(&self, step: Step<'_>) -> io::Result<()> {
            if step == Step::Commit {
                let (open, opened) = &*self.0;
                let mut open = open.lock().unwrap();
                while !*open {
                    open = opened.wait(open).unwrap();
                }
            }
            Ok(())
        }
    }

    /// Changes without a payload take memory too: as many wait for a slow disk as [`WAITING_BYTES`] hold, and then the node
    /// does.
    #[test]
    fn a_node_waits_for_a_slow_disk_whatever_it_asks_for() {
        const IDS: usize = 100;
        let folder = std::env::temp_dir().join(format!("bentpipe-slow-{}", std::process::id()));
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let (depot, _) = Depot::open_on(&folder, "ipn:1.0", 0, Slow(gate.clone())).unwrap();
        let mut disk = Disk::new(depot, 0).unwrap();
        let shared = disk.shared.clone();
        let id = vec![7; 4000];
        let remember = Change::Remember { id: id.clone(), until_ms: 1 << 40 };
        let most = WAITING_BYTES / memory_of(&remember) + 2 * IDS as u64;
        let thread = spawn(move || {
            for _ in 0..2 * most as usize / IDS {
                disk.asked.extend(vec![remember.clone(); IDS]);
                disk.end_turn(Time::ZERO, &agent());
            }
            disk
        });
        // It waits, or has asked for all.
        while !thread.is_finished() && shared.desk().bytes <= WAITING_BYTES {
            std::thread::sleep(Duration::from_millis(5));
        }
        let waiting = shared.desk().changes.len() as u64;
        assert!(!thread.is_finished() && waiting <= most, "{waiting} changes, expected {most}");
        let (open, opened) = &*gate;
        *open.lock().unwrap() = true;
        opened.notify_all();
        let mut disk = thread.join().unwrap();
        disk.flush();
        drop(disk);
        let (_, found) = Depot::open(&folder, "ipn:1.0", 0).unwrap();
        assert_eq!(found.ids, [(id, 1 << 40)]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_node_does_not_wait_for_a_writer_that_has_panicked() {
        let folder = std::env::temp_dir().join(format!("bentpipe-disk-{}", std::process::id()));
        let (done, hears) = channel();
        let root = folder.clone();
        let thread = spawn(move || {
            let (depot, _) = Depot::open_on(&root, "ipn:1.0", 0, Broken).unwrap();
            let mut disk = Disk::new(depot, 0).unwrap();
            assert!(!disk.is_over());
            ask(&mut disk, 1, 1000);
            disk.flush();
            assert!(disk.is_over());
            for key in 2..4 {
                ask(&mut disk, key, WAITING_BYTES as usize + 1);
                disk.flush();
            }
            let mut answers = Vec::new();
            disk.answers(Time::ZERO, &mut answers);
            // None is said to be durable, and none is.
            done.send((answers, disk.turns())).unwrap();
        });
        let found = hears.recv_timeout(Duration::from_secs(300)).expect("it does not wait");
        thread.join().unwrap();
        assert_eq!(found, (vec![], (3, 0)));
        let (_, found) = Depot::open(&folder, "ipn:1.0", 0).expect("the store is whole");
        assert_eq!(found.entries.len(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
