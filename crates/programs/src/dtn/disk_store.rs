//! A store on disk for a node. One thread makes requests durable, all waiting batches at a time. Another thread reads
//! payloads.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, panicking, spawn};
use std::time::Duration;

use bundle::{BundleProtocolAgent, Store, StoreCompletion, StoreRequest};
use bundle_store::{DiskStore, PayloadReader, StoreBackend, StoreChange};
use bytes::Bytes;
use nix::sys::eventfd::{EfdFlags, EventFd};
use units::Time;

/// The maximum of bytes queued for the disk; beyond it the node waits.
const MAX_QUEUED_BYTES: u64 = 64 << 20;

/// The retry interval of a store after a failed request.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the approximate memory of a queued change in bytes, including the data it points to.
fn queued_bytes(change: &StoreChange) -> u64 {
    let held = match change {
        StoreChange::Put { metadata: card, payload, .. } => {
            card.len() + payload.iter().map(Bytes::len).sum::<usize>() + size_of_val(&payload[..])
        }
        StoreChange::Remove { replaced_by: unless, .. } => size_of_val(&unless[..]),
        StoreChange::RecordId { id, .. } | StoreChange::RemoveId(id) => id.len(),
        StoreChange::SetSequence(_) => 0,
    };
    (size_of::<StoreChange>() + held) as u64
}

#[derive(Default)]
struct WorkQueue {
    changes: Vec<StoreChange>,
    bytes: u64,
    /// The last batch with requests in `changes`, and the last durable batch.
    batch: u64,
    durable_batch: u64,
    loads: VecDeque<u64>,
    completions: Vec<StoreCompletion>,
    /// A batch is being written.
    is_writing: bool,
    /// The threads have to stop, or one has panicked: no further request becomes durable.
    has_stopped: bool,
}

struct SharedWorkQueue {
    queue: Mutex<WorkQueue>,
    /// Signals for requests to write, requests to read, and completed writes.
    write_ready: Condvar,
    read_ready: Condvar,
    written: Condvar,
    /// Completions are available.
    has_completions: AtomicBool,
    wakeup: EventFd,
}

impl SharedWorkQueue {
    fn queue(&self) -> MutexGuard<'_, WorkQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        if !self.has_completions.swap(true, Ordering::AcqRel) {
            let _ = self.wakeup.write(1);
        }
    }
}

/// A store on disk.
pub struct DiskStoreWorker {
    shared: Arc<SharedWorkQueue>,
    /// The requests of the current batch.
    pending: Vec<StoreChange>,
    batch: u64,
    sequence: u64,
    threads: Vec<JoinHandle<()>>,
}

impl DiskStoreWorker {
    /// Starts the threads of `store`.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn new<M: StoreBackend>(store: DiskStore<M>, sequence: u64) -> io::Result<DiskStoreWorker> {
        let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?;
        let shared = Arc::new(SharedWorkQueue {
            queue: Mutex::default(),
            write_ready: Condvar::new(),
            read_ready: Condvar::new(),
            written: Condvar::new(),
            has_completions: AtomicBool::new(false),
            wakeup: bell,
        });
        let (reader, of_writer, of_reader) =
            (store.payload_reader(), shared.clone(), shared.clone());
        let threads =
            vec![spawn(move || write(&of_writer, store)), spawn(move || read(&of_reader, &reader))];
        Ok(DiskStoreWorker { shared, pending: Vec::new(), batch: 0, sequence, threads })
    }

    /// Returns a descriptor that is readable while completions are available.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn wakeup_fd(&self) -> io::Result<OwnedFd> {
        self.shared.wakeup.as_fd().try_clone_to_owned()
    }
}

impl Store for DiskStoreWorker {
    fn submit(&mut self, _now: Time, request: StoreRequest, agent: &BundleProtocolAgent) {
        match request {
            StoreRequest::Put(key) => {
                let Some((stored, payload)) = agent.metadata_and_payload(key) else { return };
                let (card, payload) = (stored.to_bytes(), payload.to_vec());
                self.pending.push(StoreChange::Put { key, metadata: card, payload });
            }
            StoreRequest::Remove(key, unless) => {
                self.pending.push(StoreChange::Remove { key, replaced_by: unless })
            }
            StoreRequest::RecordDelivered(id, until_ms) => {
                self.pending.push(StoreChange::RecordId { id: id.to_key().into_bytes(), until_ms });
            }
            StoreRequest::RemoveDelivered(id) => {
                self.pending.push(StoreChange::RemoveId(id.to_key().into_bytes()));
            }
            StoreRequest::Load(key) => {
                self.shared.queue().loads.push_back(key);
                self.shared.read_ready.notify_one();
            }
        }
    }

    fn end_batch(&mut self, _now: Time, agent: &BundleProtocolAgent) {
        if self.sequence != agent.sequence() {
            self.sequence = agent.sequence();
            self.pending.push(StoreChange::SetSequence(self.sequence));
        }
        if self.pending.is_empty() {
            return;
        }
        self.batch += 1;
        let mut desk = self.shared.queue();
        if desk.has_stopped {
            // No thread writes any more: requests that are not durable get no completion.
            self.pending = Vec::new();
            return;
        }
        desk.bytes += self.pending.iter().map(queued_bytes).sum::<u64>();
        desk.changes.append(&mut self.pending);
        desk.batch = self.batch;
        self.shared.write_ready.notify_one();
        while desk.bytes > MAX_QUEUED_BYTES && !desk.has_stopped {
            desk = self.shared.written.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn poll_completions(&mut self, _now: Time, into: &mut Vec<StoreCompletion>) {
        if self.shared.has_completions.swap(false, Ordering::AcqRel) {
            let _ = self.shared.wakeup.read();
            into.append(&mut self.shared.queue().completions);
        }
    }

    fn poll_at(&self) -> Time {
        if self.shared.has_completions.load(Ordering::Acquire) { Time::ZERO } else { Time::MAX }
    }

    fn crash(&mut self) {
        self.pending.clear();
    }

    fn flush(&mut self) {
        let mut desk = self.shared.queue();
        while !desk.has_stopped && (desk.is_writing || !desk.changes.is_empty()) {
            desk = self.shared.written.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn batch_progress(&self) -> (u64, u64) {
        (self.batch, self.shared.queue().durable_batch)
    }

    fn has_failed(&self) -> bool {
        self.shared.queue().has_stopped
    }
}

impl Drop for DiskStoreWorker {
    fn drop(&mut self) {
        self.shared.queue().has_stopped = true;
        self.shared.write_ready.notify_all();
        self.shared.read_ready.notify_all();
        for thread in self.threads.drain(..) {
            // A panic has printed its message already.
            let _ = thread.join();
        }
    }
}

fn write<M: StoreBackend>(shared: &SharedWorkQueue, mut store: DiskStore<M>) {
    let _over = PanicGuard(shared);
    loop {
        let mut desk = shared.queue();
        while desk.changes.is_empty() && !desk.has_stopped && store.is_durable() {
            desk = shared.write_ready.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
        if desk.changes.is_empty() {
            if desk.has_stopped {
                return;
            }
            // The last attempt failed.
            desk = shared
                .write_ready
                .wait_timeout(desk, RETRY_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let (changes, turn) = (std::mem::take(&mut desk.changes), desk.batch);
        (desk.bytes, desk.is_writing) = (0, true);
        drop(desk);
        shared.written.notify_all();
        let stored: Vec<u64> = changes
            .iter()
            .filter_map(|change| match change {
                StoreChange::Put { key, .. } => Some(*key),
                _ => None,
            })
            .collect();
        let refused: BTreeSet<u64> = store.apply(changes).iter().map(|one| one.key).collect();
        let mut desk = shared.queue();
        desk.is_writing = false;
        if store.is_durable() {
            desk.durable_batch = turn;
        }
        let completions = stored.into_iter().map(|key| {
            if refused.contains(&key) {
                StoreCompletion::Rejected(key)
            } else {
                StoreCompletion::Durable(key)
            }
        });
        desk.completions.extend(completions);
        drop(desk);
        shared.written.notify_all();
        shared.notify();
    }
}

fn read<M: StoreBackend>(shared: &SharedWorkQueue, reader: &PayloadReader<M>) {
    let _over = PanicGuard(shared);
    loop {
        let mut desk = shared.queue();
        let key = loop {
            if desk.has_stopped {
                return;
            }
            match desk.loads.pop_front() {
                Some(key) => break key,
                None => desk = shared.read_ready.wait(desk).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(desk);
        let payload = reader.read_payload(key).map(|payload| vec![payload]);
        shared.queue().completions.push(StoreCompletion::Loaded(key, payload));
        shared.notify();
    }
}

/// Ends all waits for a store with a panicked thread, so that its node does not block.
struct PanicGuard<'a>(&'a SharedWorkQueue);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if !panicking() {
            return;
        }
        let mut desk = self.0.queue();
        (desk.is_writing, desk.bytes, desk.has_stopped) = (false, 0, true);
        desk.changes.clear();
        for waits in [&self.0.write_ready, &self.0.read_ready, &self.0.written] {
            waits.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use bundle::DtnSpec;
    use bundle_store::IoStep;
    use serde_json::json;

    use super::*;

    /// A backend that panics.
    struct Broken;

    impl StoreBackend for Broken {
        fn before_step(&self, step: IoStep<'_>) -> io::Result<()> {
            assert!(step != IoStep::Commit, "this test's writer panics");
            Ok(())
        }
    }

    fn agent() -> BundleProtocolAgent {
        let spec: DtnSpec = serde_json::from_value(json!({
            "epoch_ms": 0, "links": [], "plan": {"contacts": []},
            "nodes": [{"name": "1", "eid": "ipn:1.0"}],
        }))
        .unwrap();
        BundleProtocolAgent::new(&spec, "1", &[]).unwrap()
    }

    /// Requests one batch of `bytes` bytes.
    fn ask(disk: &mut DiskStoreWorker, key: u64, bytes: usize) {
        disk.pending.push(StoreChange::Put {
            key,
            metadata: vec![1],
            payload: vec![vec![0; bytes].into()],
        });
        disk.end_batch(Time::ZERO, &agent());
    }

    /// A slow disk: no batch completes before the gate opens.
    struct Slow(Arc<(Mutex<bool>, Condvar)>);

    impl StoreBackend for Slow {
        fn before_step(&self, step: IoStep<'_>) -> io::Result<()> {
            if step == IoStep::Commit {
                let (open, opened) = &*self.0;
                let mut open = open.lock().unwrap();
                while !*open {
                    open = opened.wait(open).unwrap();
                }
            }
            Ok(())
        }
    }

    /// Changes without a payload also take memory. A slow disk queues up to [`MAX_QUEUED_BYTES`] of them, then the node
    /// waits.
    #[test]
    fn a_node_waits_for_a_slow_disk_with_requests_of_any_kind() {
        const IDS: usize = 100;
        let folder = std::env::temp_dir().join(format!("bentpipe-slow-{}", std::process::id()));
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let (store, _) =
            DiskStore::open_with_backend(&folder, "ipn:1.0", 0, Slow(gate.clone())).unwrap();
        let mut disk = DiskStoreWorker::new(store, 0).unwrap();
        let shared = disk.shared.clone();
        let id = vec![7; 4000];
        let remember = StoreChange::RecordId { id: id.clone(), until_ms: 1 << 40 };
        let max_changes = MAX_QUEUED_BYTES / queued_bytes(&remember) + 2 * IDS as u64;
        let thread = spawn(move || {
            for _ in 0..2 * max_changes as usize / IDS {
                disk.pending.extend(vec![remember.clone(); IDS]);
                disk.end_batch(Time::ZERO, &agent());
            }
            disk
        });
        // The node waits, or has submitted all requests.
        while !thread.is_finished() && shared.queue().bytes <= MAX_QUEUED_BYTES {
            std::thread::sleep(Duration::from_millis(5));
        }
        let waiting = shared.queue().changes.len() as u64;
        assert!(
            !thread.is_finished() && waiting <= max_changes,
            "{waiting} changes, expected {max_changes}"
        );
        let (open, opened) = &*gate;
        *open.lock().unwrap() = true;
        opened.notify_all();
        let mut disk = thread.join().unwrap();
        disk.flush();
        drop(disk);
        let (_, found) = DiskStore::open(&folder, "ipn:1.0", 0).unwrap();
        assert_eq!(found.ids, [(id, 1 << 40)]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_node_does_not_wait_for_a_writer_that_has_panicked() {
        let folder = std::env::temp_dir().join(format!("bentpipe-disk-{}", std::process::id()));
        let (done, hears) = channel();
        let root = folder.clone();
        let thread = spawn(move || {
            let (store, _) = DiskStore::open_with_backend(&root, "ipn:1.0", 0, Broken).unwrap();
            let mut disk = DiskStoreWorker::new(store, 0).unwrap();
            assert!(!disk.has_failed());
            ask(&mut disk, 1, 1000);
            disk.flush();
            assert!(disk.has_failed());
            for key in 2..4 {
                ask(&mut disk, key, MAX_QUEUED_BYTES as usize + 1);
                disk.flush();
            }
            let mut answers = Vec::new();
            disk.poll_completions(Time::ZERO, &mut answers);
            // No completion is reported, and no request is durable.
            done.send((answers, disk.batch_progress())).unwrap();
        });
        let found = hears.recv_timeout(Duration::from_secs(300)).expect("it does not wait");
        thread.join().unwrap();
        assert_eq!(found, (vec![], (3, 0)));
        let (_, found) = DiskStore::open(&folder, "ipn:1.0", 0).expect("the store is whole");
        assert_eq!(found.entries.len(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
