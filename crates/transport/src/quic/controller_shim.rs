//! Moves window and pacing out of the stack.
//!
//! A stack asks its congestion controller for a window and has a pacer. An adaptor of this shim is its controller. The
//! window is either zero or larger than any sender can fill (above 4 GiB the stack's pacer is off). The driver decides
//! how many datagrams may pass. The stack's calls go to the [`Estimator`], which the driver flushes once per ACK or
//! timer, when RTT and losses are up to date.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cc::Estimator;

/// A window that never closes.
const UNLIMITED_WINDOW: u64 = 1 << 40;

/// State shared by the stack's controller and the driver.
#[derive(Debug)]
pub(super) struct ShimState {
    pub(super) estimator: Estimator,
    /// Whether data may pass.
    pub(super) window_open: bool,
    /// Largest packet number among the packets that were acknowledged last.
    pub(super) largest_acked: u64,
}

/// [`ShimState`] without a lock, since every packet has about ten accesses.
struct ShimCell {
    busy: AtomicBool,
    /// Set when the stack queries the window. It does so only if the window limits its data, so this distinguishes data
    /// from pure ACKs.
    window_queried: AtomicBool,
    value: UnsafeCell<ShimState>,
}

#[expect(unsafe_code, reason = "stacks require controllers to be Sync")]
// SAFETY: `with` hands out one reference at a time. The cell is only reached through a connection and the shim inside
// its stack. Both belong to one owner and are called with `&mut`, so no two threads are ever inside. `busy` turns a
// mistake into a panic.
unsafe impl Sync for ShimCell {}

/// The common handle of the driver and the stack.
#[derive(Clone)]
pub struct ControllerShim {
    shared: Arc<ShimCell>,
}

impl ControllerShim {
    pub(super) fn new() -> ControllerShim {
        let shared =
            ShimState { estimator: Estimator::default(), window_open: true, largest_acked: 0 };
        let (busy, window_queried) = (AtomicBool::new(false), AtomicBool::new(false));
        let cell = ShimCell { busy, window_queried, value: UnsafeCell::new(shared) };
        ControllerShim { shared: Arc::new(cell) }
    }

    /// Runs `work` on the shared state. Neither side calls the other from inside.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut ShimState) -> T) -> T {
        let cell = &*self.shared;
        // A plain load and a plain store: there is one thread, see `ShimCell`.
        assert!(!cell.busy.load(Ordering::Relaxed), "the gate is entered twice");
        cell.busy.store(true, Ordering::Relaxed);
        #[expect(unsafe_code, reason = "see ShimCell")]
        // SAFETY: `busy` was clear, so no other reference is alive.
        let result = work(unsafe { &mut *cell.value.get() });
        cell.busy.store(false, Ordering::Relaxed);
        result
    }

    /// Returns the window for the stack, and records the query.
    #[inline]
    pub(super) fn window(&self) -> u64 {
        self.shared.window_queried.store(true, Ordering::Relaxed);
        if self.with(|shared| shared.window_open) { UNLIMITED_WINDOW } else { 0 }
    }

    /// Returns whether the stack has queried the window since the last call.
    pub(super) fn take_window_queried(&self) -> bool {
        let asked = self.shared.window_queried.load(Ordering::Relaxed);
        self.shared.window_queried.store(false, Ordering::Relaxed);
        asked
    }
}
