//! How window and pacing are taken out of the stack.
//!
//! quinn-proto asks its congestion controller for a window and paces by itself. The controller it
//! is given here is a gate: the window is either nothing or more than anyone can fill (above 4 GiB
//! the stack's own pacer switches off), and the driver decides how many datagrams may pass. What
//! the stack tells its controller goes to the [`Estimator`], which the driver flushes once per ACK
//! or timer, when RTT and losses are up to date.

use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use cc::Estimator;
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};
use units::{Time, prefetch};

use super::clock::Clock;

/// A window that never closes.
const OPEN: u64 = 1 << 40;

/// State shared by the stack's controller and the driver.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) estimator: Estimator,
    /// Whether data may pass.
    pub(super) open: bool,
    /// The largest number that the peer has acknowledged of the packets it acknowledged last.
    pub(super) acknowledged: u64,
}

/// [`Shared`], without the cost of a lock on every packet (there are some ten a packet).
struct SharedCell {
    busy: AtomicBool,
    /// Set when the stack asked for the window: it only does so when it has data that the window
    /// limits, so this tells data from pure ACKs.
    asked: AtomicBool,
    value: UnsafeCell<Shared>,
}

#[expect(unsafe_code, reason = "quinn-proto asks its controllers to be Sync")]
// SAFETY: `with` hands out one reference at a time. The cell is only reached through a connection
// and the gate inside its stack, both of which belong to one owner and are called with `&mut`, so
// no two threads are ever inside; `busy` turns a mistake into a panic.
unsafe impl Sync for SharedCell {}

/// The driver's and the stack's common handle.
#[derive(Clone)]
pub(super) struct Gate {
    shared: Arc<SharedCell>,
    clock: Clock,
    /// The instant of the ACK that is being told of, packet by packet, and its time.
    acked_at: Option<(Instant, Time)>,
    initial_window: u64,
}

impl Gate {
    pub(super) fn new(clock: Clock, initial_window: u64) -> Gate {
        let shared = Shared { estimator: Estimator::default(), open: true, acknowledged: 0 };
        let (busy, asked) = (AtomicBool::new(false), AtomicBool::new(false));
        let cell = SharedCell { busy, asked, value: UnsafeCell::new(shared) };
        Gate { shared: Arc::new(cell), clock, acked_at: None, initial_window }
    }

    /// Works on the shared state. Neither side calls the other from inside.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Shared) -> T) -> T {
        let cell = &*self.shared;
        // A plain load and a plain store: there is one thread, see `SharedCell`.
        assert!(!cell.busy.load(Ordering::Relaxed), "the gate is entered twice");
        cell.busy.store(true, Ordering::Relaxed);
        #[expect(unsafe_code, reason = "see SharedCell")]
        // SAFETY: `busy` was clear, so no other reference is alive.
        let result = work(unsafe { &mut *cell.value.get() });
        cell.busy.store(false, Ordering::Relaxed);
        result
    }

    /// Has the memory brought that a packet after `others` needs.
    pub(super) fn expect(&self, others: usize) {
        if others > 0 {
            prefetch(&*self.shared);
        } else {
            self.with(|shared| shared.estimator.prefetch_oldest());
        }
    }

    /// Whether the stack asked for the window since the last call.
    pub(super) fn take_asked(&self) -> bool {
        let asked = self.shared.asked.load(Ordering::Relaxed);
        self.shared.asked.store(false, Ordering::Relaxed);
        asked
    }
}

impl ControllerFactory for Gate {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        Box::new(Gate::clone(&self))
    }
}

impl Controller for Gate {
    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        let (_, now) = match self.acked_at {
            Some(same) if same.0 == now => same,
            _ => *self.acked_at.insert((now, self.clock.time(now))),
        };
        let sent = self.clock.time(sent);
        self.with(|shared| shared.estimator.on_acked(now, sent, bytes));
    }

    fn on_end_acks(&mut self, _now: Instant, in_flight: u64, _limited: bool, largest: Option<u64>) {
        self.with(|shared| {
            shared.estimator.set_in_flight(in_flight);
            shared.acknowledged = largest.unwrap_or(0);
        });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        let (now, sent) = (self.clock.time(now), self.clock.time(sent));
        self.with(|shared| {
            // The stack reports CE marks as a loss of nothing.
            if lost == 0 {
                shared.estimator.on_ce(now, sent);
            } else {
                shared.estimator.on_lost(now, sent, lost, persistent);
            }
        });
    }

    fn on_mtu_update(&mut self, _mtu: u16) {}

    fn window(&self) -> u64 {
        self.shared.asked.store(true, Ordering::Relaxed);
        if self.with(|shared| shared.open) { OPEN } else { 0 }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
