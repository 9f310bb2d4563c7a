//! Attenuation over time as it is given: measured, or a schedule of a fixed terminal's fades.

use units::Time;

use super::Quality;
use crate::{Channel, Interpolation};

/// dB over time.
#[derive(Debug)]
pub(super) struct Curve {
    /// Instants and dB, in order.
    points: Vec<(u64, f64)>,
    interpolation: Interpolation,
    repeat_ns: Option<u64>,
}

impl Curve {
    /// Before the first point holds its value, after the last one that one's, unless all comes again every `repeat_ns`.
    pub fn new(
        points: &[(u64, f64)],
        interpolation: Interpolation,
        repeat_ns: Option<u64>,
    ) -> Curve {
        Curve { points: points.to_vec(), interpolation, repeat_ns }
    }

    /// dB at an instant in ns.
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

/// The same attenuation for every user.
#[derive(Debug)]
pub(super) struct Measured {
    snr_db: f64,
    attenuation: Curve,
}

impl Measured {
    pub fn new(snr_db: f64, attenuation: Curve) -> Measured {
        Measured { snr_db, attenuation }
    }
}

impl Channel for Measured {
    fn at(&mut self, _user: u32, at: Time) -> Quality {
        Quality::of_db(self.snr_db - self.attenuation.at(at.nanos()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn db(interpolation: Interpolation, repeat_ns: Option<u64>, at: u64) -> f64 {
        let points = [(10, 0.0), (20, 10.0), (40, 4.0)];
        let mut channel = Measured::new(20.0, Curve::new(&points, interpolation, repeat_ns));
        10.0 * libm::log10(channel.at(0, Time(at)).es_n0)
    }

    #[test]
    fn attenuation_is_between_its_points() {
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
