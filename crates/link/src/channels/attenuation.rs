//! Given attenuation over time: measured, or a schedule of a fixed terminal's fades.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{Descriptor, Opt, Time};

use super::terminal::{SNR, SNR_ERROR};
use super::{ChannelFactory, ChannelSpec, ChannelState, ReferenceSnr};
use crate::checks::{ValidationResult, in_range};
use crate::{Channel, Interpolation};

/// Attenuation over time, equal for all users.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct MeasuredAttenuationSpec {
    /// Es/N0 without attenuation.
    pub reference: ReferenceSnr,
    /// Times in ns and attenuation in dB, in order.
    pub points: Vec<(u64, f64)>,
    /// The interpolation between two points.
    pub interpolation: Interpolation,
    /// Period after which the series repeats; without it, the last point continues to apply.
    pub repeat_ns: Option<u64>,
}

impl MeasuredAttenuationSpec {
    /// The descriptor of the member.
    pub const DESCRIPTOR: Descriptor = Descriptor {
        scenario_name: "attenuation",
        spec_kind: "measured",
        aliases: &[],
        title: "Attenuation over time, equal for all users",
        reference: "",
        options: &[
            SNR,
            SNR_ERROR,
            Opt::hook("trace", "", "attenuation_trace", "file of `time_s,attenuation_dB`"),
            Opt::hook(
                "schedule",
                "",
                "attenuation_schedule",
                "points in the scenario, such as `{ at = \"10 s\", attenuation = \"3 dB\" }`",
            ),
            Opt::hook("", "points", "points", "points of `trace` or `schedule`"),
            Opt::choice("interpolation", &["step", "linear"], "interpolation between two points")
                .default_word("linear"),
            Opt::duration(
                "repeat",
                "repeat_ns",
                "period of the points; the default is none: the last value holds",
            )
            .min(1.0),
        ],
        draws: false,
        live_name: "",
    };
}

impl ChannelFactory for MeasuredAttenuationSpec {
    fn validate(&self) -> ValidationResult {
        self.reference.validate()?;
        let last = check_series("points", &self.points)?;
        if self.repeat_ns.is_some_and(|repeat| repeat <= last) {
            return Err("repeat_ns must come after the last point".into());
        }
        Ok(())
    }

    fn build(&self, _: &str, _: u64) -> Box<dyn Channel> {
        let attenuation = AttenuationSeries::new(&self.points, self.interpolation, self.repeat_ns);
        Box::new(MeasuredAttenuation::new(self.reference.snr_db, attenuation))
    }

    fn with_estimate(&self) -> ChannelSpec {
        Self { reference: self.reference.estimate(), ..self.clone() }.into()
    }

    fn estimate_error_db(&self) -> f64 {
        self.reference.error_db
    }
}

/// Validates the times and the levels in dB; returns the last time.
pub(super) fn check_series(key: &str, points: &[(u64, f64)]) -> Result<u64, String> {
    let Some((last, _)) = points.last() else { return Err(format!("{key} is empty")) };
    if points.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return Err(format!("{key} are not in order of time"));
    }
    points.iter().try_for_each(|(_, db)| in_range(key, *db, -200.0, 200.0))?;
    Ok(*last)
}

/// Attenuation in dB over time.
#[derive(Debug)]
pub(super) struct AttenuationSeries {
    /// Times and dB, in order.
    points: Vec<(u64, f64)>,
    interpolation: Interpolation,
    repeat_ns: Option<u64>,
}

impl AttenuationSeries {
    /// Creates a series; the first and last values extend beyond its ends, unless it repeats every `repeat_ns`.
    pub fn new(
        points: &[(u64, f64)],
        interpolation: Interpolation,
        repeat_ns: Option<u64>,
    ) -> AttenuationSeries {
        AttenuationSeries { points: points.to_vec(), interpolation, repeat_ns }
    }

    /// Returns the attenuation in dB at a time in ns.
    pub fn at(&self, at: u64) -> f64 {
        let at = self.repeat_ns.map_or(at, |repeat| at % repeat);
        let next = self.points.partition_point(|point| point.0 <= at);
        let Some(&(from, before)) = next.checked_sub(1).and_then(|last| self.points.get(last))
        else {
            return self.points.first().map_or(0.0, |point| point.1);
        };
        match (self.interpolation, self.points.get(next)) {
            (Interpolation::Linear, Some(&(to, after))) => {
                before + (after - before) * ((at - from) as f64 / (to - from) as f64)
            }
            _ => before,
        }
    }
}

/// A channel with the same attenuation for all users.
#[derive(Debug)]
pub(super) struct MeasuredAttenuation {
    snr_db: f64,
    attenuation: AttenuationSeries,
}

impl MeasuredAttenuation {
    pub fn new(snr_db: f64, attenuation: AttenuationSeries) -> MeasuredAttenuation {
        MeasuredAttenuation { snr_db, attenuation }
    }
}

impl Channel for MeasuredAttenuation {
    fn at(&mut self, _user: u32, at: Time) -> ChannelState {
        ChannelState::from_db(self.snr_db - self.attenuation.at(at.nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn db(interpolation: Interpolation, repeat_ns: Option<u64>, at: u64) -> f64 {
        let points = [(10, 0.0), (20, 10.0), (40, 4.0)];
        let mut channel = MeasuredAttenuation::new(
            20.0,
            AttenuationSeries::new(&points, interpolation, repeat_ns),
        );
        10.0 * libm::log10(channel.at(0, Time(at)).es_n0)
    }

    #[test]
    fn attenuation_is_interpolated() {
        use Interpolation::{Linear, Step};
        for (interpolation, repeat, at, expected) in [
            (Linear, None, 0, 20.0),
            (Linear, None, 10, 20.0),
            (Linear, None, 15, 15.0),
            (Linear, None, 30, 13.0),
            (Linear, None, 40, 16.0),
            (Linear, None, 1_000, 16.0),
            (Step, None, 19, 20.0),
            (Step, None, 20, 10.0),
            (Linear, Some(50), 115, 15.0),
            (Linear, Some(50), 149, 16.0),
            (Linear, Some(50), 150, 20.0),
        ] {
            let found = db(interpolation, repeat, at);
            assert!((found - expected).abs() < 1e-12, "{at}: {found}, expected {expected}");
        }
    }
}
