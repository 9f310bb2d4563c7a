//! How window and pacing are taken out of the stack.
//!
//! quinn-proto asks its congestion controller for a window and paces by itself. The controller it
//! is given here is a gate: the window is either nothing or more than anyone can fill (above 4 GiB
//! the stack's own pacer switches off), and the driver decides how many datagrams may pass. What
//! the stack tells its controller goes to the [`Estimator`], which the driver flushes once per ACK
//! or timer, when RTT and losses are up to date.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cc::Estimator;
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

use super::clock::Clock;

/// A window that never closes.
const OPEN: u64 = 1 << 40;

/// State shared by the stack's controller and the driver.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) estimator: Estimator,
    /// Whether data may pass.
    pub(super) open: bool,
    /// Bytes that left since the driver last looked.
    pub(super) sent: u64,
    /// Events of congestion since the driver last looked: loss or CE.
    pub(super) signals: u64,
    /// Whether the peer's ACK reported persistent congestion.
    pub(super) persistent: u64,
}

/// The driver's and the stack's common handle.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    shared: Arc<Mutex<Shared>>,
    /// Set when the stack asked for the window: it only does so when it has data that the window
    /// limits, so this tells data from pure ACKs.
    asked: Arc<std::sync::atomic::AtomicBool>,
    clock: Clock,
    initial_window: u64,
}

impl Gate {
    pub(super) fn new(clock: Clock, initial_window: u64) -> Gate {
        let shared = Shared {
            estimator: Estimator::default(),
            open: true,
            sent: 0,
            signals: 0,
            persistent: 0,
        };
        Gate { shared: Arc::new(Mutex::new(shared)), asked: Arc::default(), clock, initial_window }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the stack asked for the window since the last call.
    pub(super) fn take_asked(&self) -> bool {
        self.asked.swap(false, std::sync::atomic::Ordering::Relaxed)
    }
}

impl ControllerFactory for Gate {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        Box::new(Gate::clone(&self))
    }
}

impl Controller for Gate {
    fn on_sent(&mut self, _now: Instant, bytes: u64, _last_packet: u64) {
        self.lock().sent += bytes;
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        let (now, sent) = (self.clock.time(now), self.clock.time(sent));
        self.lock().estimator.on_acked(now, sent, bytes);
    }

    fn on_end_acks(
        &mut self,
        _now: Instant,
        in_flight: u64,
        _limited: bool,
        _largest: Option<u64>,
    ) {
        self.lock().estimator.set_in_flight(in_flight);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        let (now, sent) = (self.clock.time(now), self.clock.time(sent));
        let mut shared = self.lock();
        shared.signals += 1;
        shared.persistent += u64::from(persistent);
        if lost == 0 {
            shared.estimator.on_ce(now, sent);
        } else {
            shared.estimator.on_lost(now, sent, lost, persistent);
        }
    }

    fn on_mtu_update(&mut self, _mtu: u16) {}

    fn window(&self) -> u64 {
        self.asked.store(true, std::sync::atomic::Ordering::Relaxed);
        if self.lock().open { OPEN } else { 0 }
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
