//! The congestion controller of the stack: it passes the stack's calls to the [`ControllerShim`].

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};
use units::Time;

use crate::quic::clock::Clock;
use crate::quic::controller_shim::ControllerShim;

/// The controller of a connection.
#[derive(Clone)]
pub(super) struct ShimController {
    shim: ControllerShim,
    clock: Clock,
    /// Instant of the ACK that the stack is reporting packet by packet, and its time.
    acked_at: Option<(Instant, Time)>,
    initial_window: u64,
}

impl ShimController {
    pub(super) fn new(shim: ControllerShim, clock: Clock, initial_window: u64) -> ShimController {
        ShimController { shim, clock, acked_at: None, initial_window }
    }
}

impl ControllerFactory for ShimController {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        Box::new(ShimController::clone(&self))
    }
}

impl Controller for ShimController {
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
        self.shim.with(|shared| shared.estimator.on_acked(now, sent, bytes));
    }

    fn on_end_acks(&mut self, _now: Instant, in_flight: u64, _limited: bool, largest: Option<u64>) {
        self.shim.with(|shared| {
            shared.estimator.set_in_flight(in_flight);
            shared.largest_acked = largest.unwrap_or(0);
        });
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        let (now, sent) = (self.clock.time(now), self.clock.time(sent));
        self.shim.with(|shared| {
            // The stack reports CE marks as a loss of 0 bytes.
            if lost == 0 {
                shared.estimator.on_ce(now, sent);
            } else {
                shared.estimator.on_lost(now, sent, lost, persistent);
            }
        });
    }

    fn on_mtu_update(&mut self, _mtu: u16) {}

    fn window(&self) -> u64 {
        self.shim.window()
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
