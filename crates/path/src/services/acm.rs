//! Adaptive coding and modulation: the rate follows the channel (DVB-S2, ETSI EN 302 307-1, section 4.1 and annex D).

use std::collections::BTreeMap;

use units::{Rate, Serializer, Time};

use crate::{AcmSpec, Cause, Channel, Cx, Fate, Job, Service};

/// Serves each packet in the mode that its user's latest report allows: the fastest that needs no more than was reported,
/// less the margin; a faster one than before only with the hysteresis beside it. Reports are made on a grid of time and take
/// theirs to arrive, whether packets are served or not; the one of the start is known at the start. When even the
/// slowest mode needs more, that is used. A packet is lost that begins while the channel gives its mode less than it needs.
#[derive(Debug)]
pub struct Acm {
    spec: AcmSpec,
    link: Serializer,
    users: BTreeMap<u32, User>,
    /// The packet in service.
    mode: usize,
    decodes: bool,
}

/// What is known of a user.
#[derive(Clone, Copy, Debug, Default)]
struct User {
    mode: usize,
    /// Reports that have arrived.
    reports: u64,
}

impl Acm {
    /// A link of a valid specification.
    pub fn new(spec: &AcmSpec) -> Acm {
        let link = Serializer::new(Rate(spec.most_rate_bit_s()));
        Acm { spec: spec.clone(), link, users: BTreeMap::new(), mode: 0, decodes: true }
    }

    /// The mode for `user` at `due`, by all reports that have arrived by then.
    fn mode(&mut self, due: Time, user: u32, channel: &mut dyn Channel) -> usize {
        let known = self.users.entry(user).or_default();
        loop {
            let made = known.reports.saturating_mul(self.spec.report_interval_ns);
            let arrives = made.saturating_add(self.spec.report_delay_ns);
            if known.reports > 0 && arrives > due.nanos() {
                return known.mode;
            }
            let reported = decibels(channel.at(user, Time(made)).es_n0)
                + self.spec.channel.estimate_error_db()
                - self.spec.margin_db;
            // No mode was in use before the first report: nothing for the hysteresis to keep.
            let before = if known.reports == 0 { usize::MAX } else { known.mode };
            known.mode = next(&self.spec, before, reported);
            known.reports += 1;
        }
    }
}

/// The mode after `mode` when `reported` dB are left for it.
fn next(spec: &AcmSpec, mode: usize, reported: f64) -> usize {
    let fastest =
        |more: f64| spec.modes.iter().rposition(|one| one.es_n0_db + more <= reported).unwrap_or(0);
    let allowed = fastest(0.0);
    if allowed <= mode { allowed } else { fastest(spec.hysteresis_db).max(mode) }
}

fn decibels(ratio: f64) -> f64 {
    10.0 * libm::log10(ratio)
}

impl Service for Acm {
    fn begin(&mut self, due: Time, job: &Job, channel: &mut dyn Channel) -> Time {
        self.mode = self.mode(due, job.packet.user, channel);
        let mode = self.spec.modes[self.mode];
        self.decodes = decibels(channel.at(job.packet.user, due).es_n0) >= mode.es_n0_db;
        let rate = Rate(self.spec.rate_bit_s(&mode));
        if rate != self.link.rate() {
            self.link.set_rate(rate);
        }
        self.link.begin(due, job.packet.bytes)
    }

    fn end(&mut self, _due: Time, _job: &Job, _cx: &mut Cx) -> Fate {
        if self.decodes { Fate::Deliver } else { Fate::Drop(Cause::Link) }
    }

    fn bits(&self, job: &Job) -> u64 {
        let mode = self.spec.modes[self.mode];
        (u64::from(job.packet.bytes) * 8 * mode.coded_bits).div_ceil(mode.data_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChannelSpec, ModeSpec, QueueSpec};

    #[test]
    fn a_faster_mode_needs_the_hysteresis_and_a_slower_one_comes_at_once() {
        let mode = |es_n0_db, data_bits| ModeSpec {
            es_n0_db,
            data_bits,
            coded_bits: 64_800,
            symbols: 32_490,
        };
        let spec = AcmSpec {
            queue: QueueSpec::DropTail { limit: None },
            channel: ChannelSpec::Fixed { snr_db: 0.0 },
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
            assert_eq!(next(&spec, mode, reported), expected, "{mode}, {reported} dB");
        }
    }
}
