//! Given attenuation over time: measured, or a schedule of a fixed terminal's fades.

use units::Time;

use super::ChannelState;
use crate::{Channel, Interpolation};

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
