//! A delay drawn per time slot, with jitter within the slot.

use units::{Packet, Span, Time};

use crate::checks::ValidationResult;
use crate::delay_queue::DelayQueue;
use crate::stage_factory::{BuildContext, StageFactory};
use crate::time_slots::{Quantiles, SlotStreams, TimeSlots};
use crate::{ReconfigurationDelaySpec, Stage, StageOutput, StageUpdate};

/// Delays each packet by the slot's delay and by the jitter of the current step. Both directions of a link use the same
/// rank per slot, so that the quantiles of the round-trip time are the sums of both. The jitter of each direction is
/// independent and correlated from step to step: a stationary first-order Gaussian sequence, mapped to ranks (a
/// Gaussian copula). It restarts in each slot.
#[derive(Debug)]
pub struct SlotDelay {
    slots: TimeSlots,
    delay: Quantiles,
    jitter: Option<SlotJitter>,
    link_streams: SlotStreams,
    /// The slot with a known delay, and that delay.
    known_slot: Option<(u64, f64)>,
    queue: DelayQueue,
}

#[derive(Debug)]
struct SlotJitter {
    quantiles: Quantiles,
    step_ns: u64,
    correlation: f64,
    streams: SlotStreams,
    /// The current slot and step, the value of the sequence, its stream, and the jitter.
    slot: u64,
    step: u64,
    value: f64,
    random: units::RandomStream,
    extra: f64,
}

impl SlotDelay {
    /// Creates the delay of simplex link `name` of run `seed`.
    pub(crate) fn new(spec: &ReconfigurationDelaySpec, name: &str, seed: u64) -> SlotDelay {
        let line = SlotStreams::for_simplex_link(name, seed);
        SlotDelay {
            slots: TimeSlots::new(spec.reconfiguration, name, seed),
            delay: Quantiles::from_integers(&spec.delay_ns),
            jitter: (!spec.jitter_ns.is_empty()).then(|| {
                let random = line.stream("jitter", 0);
                let quantiles = Quantiles::from_integers(&spec.jitter_ns);
                let mut jitter = SlotJitter {
                    quantiles,
                    step_ns: spec.step_ns,
                    correlation: spec.correlation,
                    streams: line,
                    slot: 0,
                    step: 0,
                    value: 0.0,
                    random,
                    extra: 0.0,
                };
                jitter.start_slot(0);
                jitter
            }),
            link_streams: SlotStreams::for_link(name, seed),
            known_slot: None,
            queue: DelayQueue::new(false),
        }
    }

    /// Returns the delay of a packet that arrives at `at`.
    fn delay(&mut self, at: Time) -> Span {
        let slot = self.slots.at(at);
        let base = match self.known_slot {
            Some((number, delay)) if number == slot.number => delay,
            _ => {
                let rank = self.link_streams.stream("delay", slot.number).uniform();
                let delay = self.delay.at(rank);
                self.known_slot = Some((slot.number, delay));
                delay
            }
        };
        let extra =
            self.jitter.as_mut().map_or(0.0, |jitter| jitter.at(slot.number, at.since(slot.begin)));
        Span((base + extra).round() as u64)
    }
}

impl SlotJitter {
    fn start_slot(&mut self, slot: u64) {
        (self.slot, self.step) = (slot, 0);
        self.random = self.streams.stream("jitter", slot);
        self.value = self.random.normal();
        self.extra = self.quantile();
    }

    fn quantile(&self) -> f64 {
        self.quantiles.at(0.5 * libm::erfc(-self.value / std::f64::consts::SQRT_2))
    }

    /// Returns the jitter at offset `into` the slot.
    fn at(&mut self, slot: u64, into: Span) -> f64 {
        if slot != self.slot {
            self.start_slot(slot);
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
    fn push(&mut self, due: Time, packet: Packet, out: &mut StageOutput) {
        let leaves = due + self.delay(due);
        self.queue.push(due, leaves, packet, out);
    }

    fn poll(&mut self, now: Time, out: &mut StageOutput) {
        self.queue.release(now, out);
    }

    fn poll_at(&self) -> Time {
        self.queue.next_due()
    }

    fn apply_update(&mut self, due: Time, update: &StageUpdate, out: &mut StageOutput) {
        if let StageUpdate::InFlight(policy) = update {
            self.queue.apply_policy(due, *policy, out);
        }
    }
}

impl StageFactory for ReconfigurationDelaySpec {
    fn kind(&self) -> &'static str {
        "reconfiguration_delay"
    }

    fn validate(&self) -> ValidationResult {
        ReconfigurationDelaySpec::validate(self)
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Stage> {
        Box::new(SlotDelay::new(self, context.link_name, context.seed))
    }

    fn supports(&self, update: &StageUpdate) -> bool {
        matches!(update, StageUpdate::InFlight(_))
    }

    fn min_delay_ns(&self) -> Option<u64> {
        Some(self.min_ns())
    }

    fn max_delay_ns(&self) -> Option<u64> {
        Some(self.max_ns())
    }
}
