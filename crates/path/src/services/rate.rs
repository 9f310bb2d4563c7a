//! A rate.

use units::{Rate, Serializer, Time};

use crate::{Change, Channel, Cx, Fate, Job, Service};

/// Serves at a rate, exactly: a busy period lasts its bits over the rate, without rounding per
/// packet.
#[derive(Debug)]
pub struct RateService {
    link: Serializer,
}

impl RateService {
    /// Serves at `rate` until [`Change::Rate`], which holds from the next packet on.
    pub fn new(rate: Rate) -> RateService {
        RateService { link: Serializer::new(rate) }
    }
}

impl Service for RateService {
    fn begin(&mut self, due: Time, job: &Job, _channel: &mut dyn Channel) -> Time {
        self.link.begin(due, job.packet.bytes)
    }

    fn end(&mut self, _due: Time, _job: &Job, _cx: &mut Cx) -> Fate {
        Fate::Deliver
    }

    fn change(&mut self, _due: Time, change: &Change) {
        if let Change::Rate(rate) = change {
            self.link.set_rate(*rate);
        }
    }
}
