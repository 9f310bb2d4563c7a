//! A constant rate.

use units::{Rate, Serializer, Time};

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
