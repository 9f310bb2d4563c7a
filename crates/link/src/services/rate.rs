//! A constant rate, and a rate drawn per time slot.

use units::{Rate, Serializer, Time};

use crate::time_slots::{Quantiles, ReconfigurationSpec, SlotStreams, TimeSlots};
use crate::{Channel, ServiceOutcome, ServiceProcess, StageOutput, StageUpdate, Transmission};

/// Serves at an exact rate: a busy period lasts its bits divided by the rate, without rounding per packet.
#[derive(Debug)]
pub struct RateService {
    serializer: Serializer,
}

impl RateService {
    /// Creates a service at `rate` until [`StageUpdate::Rate`], which applies from the next packet onwards.
    pub fn new(rate: Rate) -> RateService {
        RateService { serializer: Serializer::new(rate) }
    }
}

impl ServiceProcess for RateService {
    fn begin(
        &mut self,
        due: Time,
        transmission: &Transmission,
        _channel: &mut dyn Channel,
    ) -> Time {
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

    fn apply_update(&mut self, _due: Time, update: &StageUpdate) {
        if let StageUpdate::Rate(rate) = update {
            self.serializer.set_rate(*rate);
        }
    }
}

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
    pub(crate) fn new(
        slots: ReconfigurationSpec,
        rate_bit_s: &[u64],
        name: &str,
        seed: u64,
    ) -> SlotRate {
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
