//! Limits the number of concurrent TCP connections. A full server closes a slow connection to accept a new one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::Clock;
use tokio::task::AbortHandle;
use transport::eviction::{ActivityScore, Eviction, select_eviction};
use units::Time;

/// The activity of a connection, updated while it is served.
pub(super) struct ConnectionActivity {
    clock: Clock,
    /// The score, and the bytes transferred in both directions.
    score: Mutex<(ActivityScore, u64)>,
    /// The TLS handshake is complete.
    is_established: AtomicBool,
}

impl ConnectionActivity {
    fn new(clock: Clock) -> ConnectionActivity {
        let score = Mutex::new((ActivityScore::new(clock.now()), 0));
        ConnectionActivity { clock, score, is_established: AtomicBool::new(false) }
    }

    /// Adds transferred bytes.
    pub(super) fn add_bytes(&self, bytes: usize) {
        if bytes > 0 {
            self.update(self.clock.now(), bytes as u64);
        }
    }

    fn update(&self, now: Time, more: u64) -> ActivityScore {
        let mut inner = self.score.lock().unwrap_or_else(PoisonError::into_inner);
        let (score, moved) = &mut *inner;
        *moved += more;
        score.update(now, *moved);
        *score
    }

    /// Marks the TLS handshake as complete.
    pub(super) fn mark_established(&self) {
        self.is_established.store(true, Ordering::Relaxed);
    }
}

struct ServedConnection {
    activity: Arc<ConnectionActivity>,
    task: AbortHandle,
}

#[derive(Default)]
struct LimiterState {
    connections: BTreeMap<u64, ServedConnection>,
    next_number: u64,
}

/// The served connections and their limit.
pub(super) struct ConnectionLimiter {
    max_connections: usize,
    clock: Clock,
    inner: Mutex<LimiterState>,
}

/// The capacity for a new connection.
pub(super) enum Capacity {
    Available,
    /// Capacity is possible at this time.
    RetryAt(Time),
    Full,
}

/// The permit of a served connection; dropping it frees the capacity.
pub(super) struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    number: u64,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.lock().connections.remove(&self.number);
    }
}

impl ConnectionLimiter {
    /// Creates a limiter for at most `max_connections` concurrent connections.
    pub(super) fn new(max_connections: usize, clock: Clock) -> Arc<ConnectionLimiter> {
        Arc::new(ConnectionLimiter { max_connections, clock, inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, LimiterState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the capacity for one more connection, and closes a slow connection if necessary.
    pub(super) fn reserve_capacity(&self, now: Time) -> Capacity {
        let inner = &mut *self.lock();
        if inner.connections.len() < self.max_connections {
            return Capacity::Available;
        }
        let candidates = inner.connections.iter().map(|(number, member)| {
            let established = member.activity.is_established.load(Ordering::Relaxed);
            (*number, established, member.activity.update(now, 0))
        });
        match select_eviction(now, candidates) {
            Eviction::Evict(number) => {
                if let Some(member) = inner.connections.remove(&number) {
                    member.task.abort();
                }
                Capacity::Available
            }
            Eviction::RetryAt(until) => Capacity::RetryAt(until),
            Eviction::Full => Capacity::Full,
        }
    }

    /// Registers a connection; `serve` starts its task.
    pub(super) fn spawn_connection(
        self: &Arc<ConnectionLimiter>,
        serve: impl FnOnce(ConnectionPermit, Arc<ConnectionActivity>) -> AbortHandle,
    ) {
        let mut inner = self.lock();
        let number = inner.next_number;
        inner.next_number += 1;
        let activity = Arc::new(ConnectionActivity::new(self.clock));
        let task = serve(ConnectionPermit { limiter: self.clone(), number }, activity.clone());
        inner.connections.insert(number, ServedConnection { activity, task });
    }
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;

    #[test]
    fn transferred_bytes_count_from_their_transfer_time() {
        let clock = Clock::start();
        let activity = ConnectionActivity::new(clock);
        activity.add_bytes(20_000);
        let select = |after_ms: u64| {
            let now = clock.now() + Span::from_millis(after_ms);
            select_eviction(now, std::iter::once(((), true, activity.update(now, 0))))
        };
        assert_eq!(select(600), Eviction::Full);
        assert_eq!(select(2100), Eviction::Evict(()));
    }
}
