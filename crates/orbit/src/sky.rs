//! Where every satellite is, at any instant, in kilometres and turning with the Earth.

use crate::earth::{MU, radians};
use crate::elements::Swarm;
use crate::shell::Circles;
use crate::spec::{ConstellationSpec, Propagation};
use crate::{OrbitError, Vector};

/// 2000-01-01.
const Y2000_NS: i64 = 946_684_800_000_000_000;

/// The satellites of a constellation.
pub struct Sky {
    source: Source,
    positions: Vec<Vector>,
    names: Vec<String>,
}

enum Source {
    Circles(Circles),
    Swarm(Swarm),
    /// They stay where they are.
    Rest,
}

impl Sky {
    /// Raises what is wrong with the constellation.
    pub fn new(spec: &ConstellationSpec) -> Result<Sky, OrbitError> {
        let swarm = |swarm: Swarm| {
            let (names, count) = (swarm.names(), swarm.len());
            Sky { source: Source::Swarm(swarm), positions: vec![Vector::default(); count], names }
        };
        Ok(match spec {
            ConstellationSpec::Walker(shell) => {
                shell.check()?;
                if shell.propagation == Propagation::Sgp4 {
                    return Ok(swarm(Swarm::of_shell(shell)?));
                }
                let circles = Circles::new(shell);
                let count = circles.len();
                let names = (0..count).map(|number| number.to_string()).collect();
                Sky {
                    source: Source::Circles(circles),
                    positions: vec![Vector::default(); count],
                    names,
                }
            }
            ConstellationSpec::Geostationary { longitudes_deg } => {
                if longitudes_deg.is_empty() {
                    return Err(OrbitError::new(
                        "longitudes_deg",
                        "found none, expected at least one",
                    ));
                }
                let positions: Vec<Vector> =
                    longitudes_deg.iter().map(|one| geostationary(*one)).collect();
                let names = longitudes_deg.iter().map(|one| format!("{one}° E")).collect();
                Sky { source: Source::Rest, positions, names }
            }
            ConstellationSpec::Tle { text } => swarm(Swarm::of_tle(text)?),
            ConstellationSpec::Omm { text } => swarm(Swarm::of_omm(text)?),
        })
    }

    /// How many satellites there are.
    #[allow(clippy::len_without_is_empty, reason = "a sky without satellites is refused")]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Every satellite at the instant last asked for.
    pub fn positions(&self) -> &[Vector] {
        &self.positions
    }

    /// What they are called, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The epoch, of the latest elements where there are several, in nanoseconds since 1970.
    pub fn epoch_ns(&self) -> i64 {
        self.epochs_ns().1
    }

    /// The earliest and the latest epoch.
    pub fn epochs_ns(&self) -> (i64, i64) {
        match &self.source {
            Source::Swarm(swarm) => swarm.epochs_ns(),
            Source::Circles(circles) => (circles.epoch_ns(), circles.epoch_ns()),
            Source::Rest => (Y2000_NS, Y2000_NS),
        }
    }

    /// Every satellite at an instant (nanoseconds since 1970), km, turning with the Earth.
    pub fn at(&mut self, unix_ns: i64) -> Result<&[Vector], OrbitError> {
        // seconds to 1e-7: a satellite moves by less than a millimetre
        let unix_s = unix_ns as f64 / 1e9;
        match &mut self.source {
            Source::Circles(circles) => circles.fill(unix_s, &mut self.positions),
            Source::Swarm(swarm) => swarm.fill(unix_s, &mut self.positions)?,
            Source::Rest => {}
        }
        Ok(&self.positions)
    }
}

/// Rotation of the Earth against the stars, rad/s (WGS 84).
const ROTATION: f64 = 7.292_115e-5;

/// Above the equator at a longitude (degrees, East), where a revolution takes a sidereal day.
fn geostationary(longitude: f64) -> Vector {
    let axis = libm::cbrt(MU / (ROTATION * ROTATION));
    let angle = radians(longitude);
    Vector::new(axis * libm::cos(angle), axis * libm::sin(angle), 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::earth::{Ground, LIGHT};

    #[test]
    fn the_round_trips_of_a_geostationary_satellite() {
        let mut sky =
            Sky::new(&ConstellationSpec::Geostationary { longitudes_deg: vec![13.0] }).unwrap();
        let at = sky.at(0).unwrap()[0];
        let bent_pipe = |ground: Ground| 4.0 * ground.sees(at).0 / LIGHT * 1e3;
        // leo-reference: 477 ms below it
        assert!((bent_pipe(Ground::new(0.0, 13.0, 0.0)) - 477.0).abs() < 1.0);
        // and 556.1 ms where it stands on the horizon, 81.3 degrees away
        let edge = crate::earth::degrees(libm::acos(crate::earth::RADIUS / at.length()));
        let found = bent_pipe(Ground::new(0.0, 13.0 + edge, 0.0));
        assert!((found - 556.1).abs() < 0.2, "{found}");
    }
}
