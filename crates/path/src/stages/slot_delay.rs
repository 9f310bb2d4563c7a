//! A delay that is drawn anew in each slot, and has its own jitter within it.

use units::{Packet, Span, Time};

use crate::blueprint::{Blueprint, Place, Verdict};
use crate::departures::Departures;
use crate::slots::{Chance, Quantiles, Slots};
use crate::{Change, Cx, SlotDelaySpec, Stage};

/// Delays each packet by the slot's delay and by the jitter of the step in which it comes. Of a slot both directions
/// of a link have the same rank, so that the quantiles of a round trip are the sums of theirs; the jitter is each
/// direction's own, and correlated from step to step: a stationary Gaussian sequence of first order, of which the
/// ranks are taken (a Gaussian copula), begun anew in each slot.
#[derive(Debug)]
pub struct SlotDelay {
    slots: Slots,
    delay: Quantiles,
    jitter: Option<Jitter>,
    link: Chance,
    /// The slot whose delay is known, and that delay.
    known: Option<(u64, f64)>,
    inside: Departures,
}

#[derive(Debug)]
struct Jitter {
    quantiles: Quantiles,
    step_ns: u64,
    correlation: f64,
    line: Chance,
    /// The slot and the step in it that are known, the sequence's value there, its stream, and the jitter.
    slot: u64,
    step: u64,
    value: f64,
    random: units::RandomStream,
    extra: f64,
}

impl SlotDelay {
    /// The delay of the line `name` of run `seed`.
    pub(crate) fn new(spec: &SlotDelaySpec, name: &str, seed: u64) -> SlotDelay {
        let line = Chance::of_line(name, seed);
        SlotDelay {
            slots: Slots::new(spec.slots, name, seed),
            delay: Quantiles::whole(&spec.delay_ns),
            jitter: (!spec.jitter_ns.is_empty()).then(|| {
                let random = line.stream("jitter", 0);
                let quantiles = Quantiles::whole(&spec.jitter_ns);
                let mut jitter = Jitter {
                    quantiles,
                    step_ns: spec.step_ns,
                    correlation: spec.correlation,
                    line,
                    slot: 0,
                    step: 0,
                    value: 0.0,
                    random,
                    extra: 0.0,
                };
                jitter.begin(0);
                jitter
            }),
            link: Chance::of_link(name, seed),
            known: None,
            inside: Departures::new(false),
        }
    }

    /// The delay of a packet that comes at `at`.
    fn delay(&mut self, at: Time) -> Span {
        let slot = self.slots.at(at);
        let base = match self.known {
            Some((number, delay)) if number == slot.number => delay,
            _ => {
                let rank = self.link.stream("delay", slot.number).uniform();
                let delay = self.delay.at(rank);
                self.known = Some((slot.number, delay));
                delay
            }
        };
        let extra =
            self.jitter.as_mut().map_or(0.0, |jitter| jitter.at(slot.number, at.since(slot.begin)));
        Span((base + extra).round() as u64)
    }
}

impl Jitter {
    fn begin(&mut self, slot: u64) {
        (self.slot, self.step) = (slot, 0);
        self.random = self.line.stream("jitter", slot);
        self.value = self.random.normal();
        self.extra = self.quantile();
    }

    fn quantile(&self) -> f64 {
        self.quantiles.at(0.5 * libm::erfc(-self.value / std::f64::consts::SQRT_2))
    }

    /// The jitter `into` the slot.
    fn at(&mut self, slot: u64, into: Span) -> f64 {
        if slot != self.slot {
            self.begin(slot);
        }
        let step = into.nanos() / self.step_ns;
        if step > self.step {
            let fresh = libm::sqrt(1.0 - self.correlation * self.correlation);
            while self.step < step {
                self.step += 1;
                self.value = self.correlation * self.value + fresh * self.random.normal();
            }
            self.extra = self.quantile();
        }
        self.extra
    }
}

impl Stage for SlotDelay {
    fn push(&mut self, due: Time, packet: Packet, cx: &mut Cx) {
        let leaves = due + self.delay(due);
        self.inside.push(due, leaves, packet, cx);
    }

    fn poll(&mut self, now: Time, cx: &mut Cx) {
        self.inside.release(now, cx);
    }

    fn poll_at(&self) -> Time {
        self.inside.next()
    }

    fn change(&mut self, due: Time, change: &Change, cx: &mut Cx) {
        if let Change::InFlight(fate) = change {
            self.inside.hand_over(due, *fate, cx);
        }
    }
}

impl Blueprint for SlotDelaySpec {
    fn kind(&self) -> &'static str {
        "slot_delay"
    }

    fn check(&self) -> Verdict {
        SlotDelaySpec::check(self)
    }

    fn make(&self, place: &Place) -> Box<dyn Stage> {
        Box::new(SlotDelay::new(self, place.line, place.seed))
    }

    fn takes(&self, change: &Change) -> bool {
        matches!(change, Change::InFlight(_))
    }

    fn least_delay_ns(&self) -> Option<u64> {
        Some(self.least_ns())
    }
}
