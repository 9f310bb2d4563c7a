//! A rate that is drawn anew in each slot.

use units::{Rate, Serializer, Time};

use crate::slots::{Chance, Quantiles, Slots, SlotsSpec};
use crate::{Channel, Cx, Fate, Job, Service};

/// Serves at the slot's rate, each direction of a link at its own; it holds from the first packet on that begins in
/// the slot.
#[derive(Debug)]
pub struct SlotRate {
    slots: Slots,
    rates: Quantiles,
    line: Chance,
    /// The slot whose rate the link has.
    known: Option<u64>,
    link: Serializer,
}

impl SlotRate {
    /// The rate of the line `name` of run `seed`, by its quantiles.
    pub(crate) fn new(slots: SlotsSpec, rate_bit_s: &[u64], name: &str, seed: u64) -> SlotRate {
        SlotRate {
            slots: Slots::new(slots, name, seed),
            rates: Quantiles::whole(rate_bit_s),
            line: Chance::of_line(name, seed),
            known: None,
            link: Serializer::new(Rate(rate_bit_s[0])),
        }
    }
}

impl Service for SlotRate {
    fn begin(&mut self, due: Time, job: &Job, _channel: &mut dyn Channel) -> Time {
        let slot = self.slots.at(due).number;
        if self.known != Some(slot) {
            let rank = self.line.stream("rate", slot).uniform();
            self.link.set_rate(Rate(self.rates.at(rank).round() as u64));
            self.known = Some(slot);
        }
        self.link.begin(due, job.packet.bytes)
    }

    fn end(&mut self, _due: Time, _job: &Job, _cx: &mut Cx) -> Fate {
        Fate::Deliver
    }
}
