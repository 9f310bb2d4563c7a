//! A constant delay.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Packet, Span, Time};

use crate::blueprint::{Blueprint, Place, Verdict};
use crate::departures::Fifo;
use crate::validate::in_order;
use crate::{Change, Cx, Stage};

/// A constant delay.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct DelaySpec {
    /// One-way delay.
    pub delay_ns: u64,
    /// Scheduled changes of the delay; departures stay in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<DelayChange>,
}

/// From `at_ns` on the delay is `delay_ns`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct DelayChange {
    /// Instant of the change.
    pub at_ns: u64,
    /// New one-way delay.
    pub delay_ns: u64,
}

/// Delays every packet by the same time and keeps the order. When the delay falls
/// ([`Change::Delay`]), a packet that would overtake leaves together with the one before it, unless
/// that may be overtaken ([`Change::InFlight`]).
#[derive(Debug)]
pub struct Delay {
    delay: Span,
    inside: Fifo,
}

impl Delay {
    /// A one-way delay.
    pub fn new(delay: Span) -> Delay {
        Delay { delay, inside: Fifo::default() }
    }
}

impl Stage for Delay {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        self.inside.push(due, due + self.delay, packet, cx);
    }

    fn poll(&mut self, now: Time, cx: &mut Cx) {
        self.inside.release(now, cx);
    }

    fn poll_at(&self) -> Time {
        self.inside.next()
    }

    fn coming(&self, others: usize) -> Option<&Packet> {
        self.inside.coming(others)
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        match change {
            Change::Delay(delay) => self.delay = *delay,
            Change::InFlight(fate) => self.inside.hand_over(due, *fate, cx),
            _ => {}
        }
    }
}

impl Blueprint for DelaySpec {
    fn kind(&self) -> &'static str {
        "delay"
    }

    fn check(&self) -> Verdict {
        in_order("changes", self.changes.iter().map(|c| c.at_ns))
    }

    fn make(&self, _place: &Place) -> Box<dyn Stage> {
        Box::new(Delay::new(Span(self.delay_ns)))
    }

    fn takes(&self, change: &Change) -> bool {
        matches!(change, Change::Delay(_) | Change::InFlight(_))
    }

    fn changes(&self) -> Vec<(Time, Change)> {
        self.changes.iter().map(|c| (Time(c.at_ns), Change::Delay(Span(c.delay_ns)))).collect()
    }

    fn least_delay_ns(&self) -> Option<u64> {
        Some(self.delay_ns)
    }
}
