//! Adaptive coding and modulation: the rate follows the channel (DVB-S2, ETSI EN 302 307-1, section 4.1 and annex D).

use std::collections::BTreeMap;

use units::{Rate, Serializer, Time};

use crate::{
    AcmSpec, Channel, DropReason, ServiceOutcome, ServiceProcess, StageOutput, Transmission,
};

/// Serves each packet in the fastest mode that the latest report of its user permits: the reported Es/N0 minus the
/// margin. A faster mode also requires the hysteresis. Reports are sampled on a time grid and arrive after a delay,
/// independent of the traffic; the initial report is known at the start. The slowest mode is the minimum, even if the
/// report is below it. A packet is lost if the Es/N0 at its begin is below that of its mode.
#[derive(Debug)]
pub struct Acm {
    spec: AcmSpec,
    serializer: Serializer,
    users: BTreeMap<u32, User>,
    /// The mode of the packet in service.
    mode: usize,
    is_decoded: bool,
}

/// The state of a user.
#[derive(Clone, Copy, Debug, Default)]
struct User {
    mode: usize,
    /// Number of reports that have arrived.
    reports: u64,
}

impl Acm {
    /// Creates the service process of a valid specification.
    pub fn new(spec: &AcmSpec) -> Acm {
        let link = Serializer::new(Rate(spec.max_rate_bit_s()));
        Acm {
            spec: spec.clone(),
            serializer: link,
            users: BTreeMap::new(),
            mode: 0,
            is_decoded: true,
        }
    }

    /// Returns the mode for `user` at `due`, from all reports that have arrived by then.
    fn mode(&mut self, due: Time, user: u32, channel: &mut dyn Channel) -> usize {
        let known = self.users.entry(user).or_default();
        loop {
            let made = known.reports.saturating_mul(self.spec.report_interval_ns);
            let arrives = made.saturating_add(self.spec.report_delay_ns);
            if known.reports > 0 && arrives > due.nanos() {
                return known.mode;
            }
            let reported = decibels(channel.at(user, Time(made)).es_n0)
                + self.spec.channel.factory().estimate_error_db()
                - self.spec.margin_db;
            // Before the first report no mode was in use, so the hysteresis does not apply.
            let before = if known.reports == 0 { usize::MAX } else { known.mode };
            known.mode = select_mode(&self.spec, before, reported);
            known.reports += 1;
        }
    }
}

/// Returns the mode after `mode` when `reported` dB remain after the margin.
fn select_mode(spec: &AcmSpec, mode: usize, reported: f64) -> usize {
    let fastest =
        |more: f64| spec.modes.iter().rposition(|one| one.es_n0_db + more <= reported).unwrap_or(0);
    let allowed = fastest(0.0);
    if allowed <= mode { allowed } else { fastest(spec.hysteresis_db).max(mode) }
}

fn decibels(ratio: f64) -> f64 {
    10.0 * libm::log10(ratio)
}

impl ServiceProcess for Acm {
    fn begin(&mut self, due: Time, transmission: &Transmission, channel: &mut dyn Channel) -> Time {
        self.mode = self.mode(due, transmission.packet.user, channel);
        let mode = self.spec.modes[self.mode];
        self.is_decoded =
            decibels(channel.at(transmission.packet.user, due).es_n0) >= mode.es_n0_db;
        let rate = Rate(self.spec.rate_bit_s(&mode));
        if rate != self.serializer.rate() {
            self.serializer.set_rate(rate);
        }
        self.serializer.begin(due, transmission.packet.bytes)
    }

    fn end(
        &mut self,
        _due: Time,
        _transmission: &Transmission,
        _out: &mut StageOutput,
    ) -> ServiceOutcome {
        if self.is_decoded {
            ServiceOutcome::Deliver
        } else {
            ServiceOutcome::Drop(DropReason::LinkLayer)
        }
    }

    fn coded_bits(&self, transmission: &Transmission) -> u64 {
        let mode = self.spec.modes[self.mode];
        (u64::from(transmission.packet.bytes) * 8 * mode.coded_bits).div_ceil(mode.data_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DropTailSpec, FixedChannelSpec, ModcodSpec, QueueSpec};

    #[test]
    fn only_a_faster_mode_needs_the_hysteresis() {
        let mode = |es_n0_db, data_bits| ModcodSpec {
            es_n0_db,
            data_bits,
            coded_bits: 64_800,
            symbols: 32_490,
        };
        let spec = AcmSpec {
            queue: QueueSpec::DropTail(DropTailSpec { limit: None }),
            channel: FixedChannelSpec { snr_db: 0.0 }.into(),
            symbols_s: 1,
            modes: vec![mode(0.0, 1), mode(2.0, 2), mode(3.0, 3)],
            margin_db: 0.0,
            hysteresis_db: 1.5,
            report_interval_ns: 1,
            report_delay_ns: 0,
        };
        for (mode, reported, expected) in [
            (0, -5.0, 0),
            (0, 2.0, 0),
            (0, 3.4, 0),
            (0, 3.5, 1),
            (0, 4.4, 1),
            (0, 4.5, 2),
            (1, 3.5, 1),
            (1, 1.9, 0),
            (2, 3.0, 2),
            (2, 2.9, 1),
            (2, -50.0, 0),
        ] {
            assert_eq!(select_mode(&spec, mode, reported), expected, "{mode}, {reported} dB");
        }
    }
}
