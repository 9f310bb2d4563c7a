//! The Earth-fixed positions of all satellites at any instant, in kilometres.

use crate::earth::{MU, radians};
use crate::sgp4::Sgp4Constellation;
use crate::spec::{ConstellationSpec, Propagation};
use crate::walker::WalkerConstellation;
use crate::{OrbitError, Vector};

/// 2000-01-01.
const Y2000_NS: i64 = 946_684_800_000_000_000;

/// The satellites of a constellation.
pub struct Constellation {
    propagator: Propagator,
    positions: Vec<Vector>,
    names: Vec<String>,
}

enum Propagator {
    Walker(WalkerConstellation),
    Sgp4(Sgp4Constellation),
    /// Satellites with fixed positions.
    Geostationary,
}

impl Constellation {
    /// Builds the constellation. An invalid specification is an error.
    pub fn new(spec: &ConstellationSpec) -> Result<Constellation, OrbitError> {
        let swarm = |swarm: Sgp4Constellation| {
            let (names, count) = (swarm.names(), swarm.len());
            Constellation {
                propagator: Propagator::Sgp4(swarm),
                positions: vec![Vector::default(); count],
                names,
            }
        };
        Ok(match spec {
            ConstellationSpec::Walker(shell) => {
                shell.validate()?;
                if shell.propagation == Propagation::Sgp4 {
                    return Ok(swarm(Sgp4Constellation::from_shell(shell)?));
                }
                let circles = WalkerConstellation::new(shell);
                let count = circles.len();
                let names = (0..count).map(|number| number.to_string()).collect();
                Constellation {
                    propagator: Propagator::Walker(circles),
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
                Constellation { propagator: Propagator::Geostationary, positions, names }
            }
            ConstellationSpec::Tle { text } => swarm(Sgp4Constellation::from_tle(text)?),
            ConstellationSpec::Omm { text } => swarm(Sgp4Constellation::from_omm(text)?),
        })
    }

    /// Returns the number of satellites.
    #[allow(clippy::len_without_is_empty, reason = "an empty constellation is refused")]
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns the positions at the last requested instant.
    pub fn positions(&self) -> &[Vector] {
        &self.positions
    }

    /// Returns the names of the satellites in sequence.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the epoch, or that of the latest elements, in nanoseconds since 1970.
    pub fn epoch_ns(&self) -> i64 {
        self.epochs_ns().1
    }

    /// Returns the earliest and the latest epoch.
    pub fn epochs_ns(&self) -> (i64, i64) {
        match &self.propagator {
            Propagator::Sgp4(swarm) => swarm.epochs_ns(),
            Propagator::Walker(circles) => (circles.epoch_ns(), circles.epoch_ns()),
            Propagator::Geostationary => (Y2000_NS, Y2000_NS),
        }
    }

    /// Returns the Earth-fixed positions at an instant (nanoseconds since 1970), km.
    pub fn positions_at(&mut self, unix_ns: i64) -> Result<&[Vector], OrbitError> {
        // The resolution of seconds is 1e-7: a satellite moves by less than a millimetre.
        let unix_s = unix_ns as f64 / 1e9;
        match &mut self.propagator {
            Propagator::Walker(circles) => circles.fill_positions(unix_s, &mut self.positions),
            Propagator::Sgp4(swarm) => swarm.fill_positions(unix_s, &mut self.positions)?,
            Propagator::Geostationary => {}
        }
        Ok(&self.positions)
    }
}

/// The rotation rate of the Earth relative to the stars, rad/s (WGS 84).
const ROTATION: f64 = 7.292_115e-5;

/// Returns the position above the equator at a longitude (degrees, East) with a period of a sidereal day.
fn geostationary(longitude: f64) -> Vector {
    let axis = libm::cbrt(MU / (ROTATION * ROTATION));
    let angle = radians(longitude);
    Vector::new(axis * libm::cos(angle), axis * libm::sin(angle), 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::earth::{GroundPoint, SPEED_OF_LIGHT};

    #[test]
    fn the_round_trips_of_a_geostationary_satellite() {
        let mut sky =
            Constellation::new(&ConstellationSpec::Geostationary { longitudes_deg: vec![13.0] })
                .unwrap();
        let at = sky.positions_at(0).unwrap()[0];
        let bent_pipe = |ground: GroundPoint| {
            4.0 * ground.range_and_elevation_sine(at).0 / SPEED_OF_LIGHT * 1e3
        };
        // leo-reference: 477 ms directly below the satellite.
        assert!((bent_pipe(GroundPoint::new(0.0, 13.0, 0.0)) - 477.0).abs() < 1.0);
        // 556.1 ms for a satellite on the horizon, 81.3 degrees away.
        let edge = crate::earth::degrees(libm::acos(crate::earth::EARTH_RADIUS / at.length()));
        let found = bent_pipe(GroundPoint::new(0.0, 13.0 + edge, 0.0));
        assert!((found - 556.1).abs() < 0.2, "{found}");
    }
}
