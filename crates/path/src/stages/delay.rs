//! A constant delay.

use units::{Packet, Span, Time};

use crate::departures::Fifo;
use crate::{Change, Cx, Stage};

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
