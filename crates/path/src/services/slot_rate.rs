//! A rate drawn per time slot.

use units::{Rate, Serializer, Time};

use crate::time_slots::{Quantiles, SlotStreams, SlotsSpec, TimeSlots};
use crate::{Channel, ServiceOutcome, ServiceProcess, StageOutput, Transmission};

/// Serves at the rate of the slot, independent per direction. The rate applies from the first packet that begins in the
/// slot.
#[derive(Debug)]
pub struct SlotRate {
    slots: TimeSlots,
    rates: Quantiles,
    streams: SlotStreams,
    /// The slot of the current rate.
    known_slot: Option<u64>,
    serializer: Serializer,
}

impl SlotRate {
    /// Creates the rate of simplex link `name` of run `seed`, by its quantiles.
    pub(crate) fn new(slots: SlotsSpec, rate_bit_s: &[u64], name: &str, seed: u64) -> SlotRate {
        SlotRate {
            slots: TimeSlots::new(slots, name, seed),
            rates: Quantiles::from_integers(rate_bit_s),
            streams: SlotStreams::for_simplex_link(name, seed),
            known_slot: None,
            serializer: Serializer::new(Rate(rate_bit_s[0])),
        }
    }
}

impl ServiceProcess for SlotRate {
    fn begin(
        &mut self,
        due: Time,
        transmission: &Transmission,
        _channel: &mut dyn Channel,
    ) -> Time {
        let slot = self.slots.at(due).number;
        if self.known_slot != Some(slot) {
            let rank = self.streams.stream("rate", slot).uniform();
            self.serializer.set_rate(Rate(self.rates.at(rank).round() as u64));
            self.known_slot = Some(slot);
        }
        self.serializer.begin(due, transmission.packet.bytes)
    }

    fn end(
        &mut self,
        _due: Time,
        _transmission: &Transmission,
        _out: &mut StageOutput,
    ) -> ServiceOutcome {
        ServiceOutcome::Deliver
    }
}
