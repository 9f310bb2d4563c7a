//! A Walker constellation on circular orbits, with the secular drifts of the Earth's oblateness. It has t satellites, p
//! planes and the phase factor f (Walker, Satellite constellations, JBIS 37, 1984).

use libm::{cbrt, cos, fmod, sin, sqrt};

use crate::earth::{self, EARTH_RADIUS, J2, MU, radians};
use crate::spec::{Height, Phasing, Propagation, Shell};
use crate::{OrbitError, Vector};

const TURN: f64 = std::f64::consts::TAU;

/// Right ascension of a plane's ascending node and argument of latitude of one of its satellites at the epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OrbitalPosition {
    pub raan: f64,
    pub argument_of_latitude: f64,
}

impl Shell {
    /// Validates the parameters.
    pub(crate) fn validate(&self) -> Result<(), OrbitError> {
        let wrong = |field: &str, message: String| Err(OrbitError::new(field, message));
        let count = u64::from(self.planes) * u64::from(self.per_plane);
        if count == 0 || count > 100_000 {
            return wrong("planes", format!("found {count} satellites, expected 1 to 100,000"));
        }
        if !(0.0..=180.0).contains(&self.inclination_deg) {
            return wrong(
                "inclination_deg",
                format!("found {}, expected 0 to 180", self.inclination_deg),
            );
        }
        if !(0.0..=360.0).contains(&self.spread_deg) {
            return wrong("spread_deg", format!("found {}, expected 0 to 360", self.spread_deg));
        }
        let altitude = self.altitude();
        if !(100.0..=100_000.0).contains(&altitude) {
            return wrong("height", format!("found {altitude:.1} km, expected 100 to 100,000 km"));
        }
        match self.phasing {
            Phasing::Factor(factor) if !(0.0..f64::from(self.planes)).contains(&factor) => wrong(
                "phasing",
                format!("found {factor}, expected 0 or more and less than {} planes", self.planes),
            ),
            _ => Ok(()),
        }
    }

    /// Returns the semi-major axis in km; revolutions are converted by Kepler's third law.
    pub fn semi_major_axis(&self) -> f64 {
        match self.height {
            Height::AltitudeKm(altitude) => EARTH_RADIUS + altitude,
            Height::RevolutionsDay(revolutions) => {
                let motion = revolutions * TURN / 86_400.0;
                cbrt(MU / (motion * motion))
            }
        }
    }

    /// Returns the altitude above the equatorial radius in km.
    pub fn altitude(&self) -> f64 {
        self.semi_major_axis() - EARTH_RADIUS
    }

    /// Returns Kepler's mean motion in rad/s.
    pub fn mean_motion(&self) -> f64 {
        let axis = self.semi_major_axis();
        sqrt(MU / (axis * axis * axis))
    }

    /// Returns the period by Kepler's third law in seconds.
    pub fn period_s(&self) -> f64 {
        TURN / self.mean_motion()
    }

    /// Returns the drift of the nodes and the additional rate of the argument of latitude in rad/s. Both are first
    /// order in J2 on a circle (Vallado, equations 9-38 and 9-41; perigee and mean anomaly together).
    pub fn secular_drifts(&self) -> (f64, f64) {
        if self.propagation != Propagation::J2 {
            return (0.0, 0.0);
        }
        let ratio = EARTH_RADIUS / self.semi_major_axis();
        let cosine = cos(radians(self.inclination_deg));
        let scale = self.mean_motion() * J2 * ratio * ratio;
        (
            -1.5 * scale * cosine,
            0.75 * scale * ((5.0 * cosine * cosine - 1.0) + (3.0 * cosine * cosine - 1.0)),
        )
    }

    /// Returns the angle between two satellites of a plane.
    pub(crate) fn in_plane_spacing(&self) -> f64 {
        TURN / f64::from(self.per_plane)
    }

    /// Returns the argument of latitude of a plane's first satellite at the epoch.
    pub(crate) fn phase(&self, plane: u32) -> f64 {
        match self.phasing {
            Phasing::Factor(factor) => {
                factor * f64::from(plane) * TURN
                    / (f64::from(self.planes) * f64::from(self.per_plane))
            }
            Phasing::Alternate => f64::from(plane % 2) * self.in_plane_spacing() / 2.0,
        }
    }

    /// Returns the right ascension of a plane's ascending node at the epoch.
    pub(crate) fn raan(&self, plane: u32) -> f64 {
        radians(self.spread_deg) * f64::from(plane) / f64::from(self.planes)
    }

    /// Returns every satellite at the epoch, plane by plane.
    pub(crate) fn orbital_positions(&self) -> impl Iterator<Item = OrbitalPosition> + '_ {
        (0..self.planes).flat_map(move |plane| {
            (0..self.per_plane).map(move |number| OrbitalPosition {
                raan: self.raan(plane),
                argument_of_latitude: fmod(
                    self.phase(plane) + f64::from(number) * self.in_plane_spacing(),
                    TURN,
                ),
            })
        })
    }
}

/// A constellation on circular orbits, prepared for propagation.
#[derive(Clone, Debug)]
pub(crate) struct WalkerConstellation {
    semi_major_axis: f64,
    sine: f64,
    cosine: f64,
    argument_rate: f64,
    raan_rate: f64,
    epoch_ns: i64,
    /// Node and argument of the first satellite of each plane.
    planes: Vec<OrbitalPosition>,
    /// Cosine and sine of the angle from the first satellite of a plane to each satellite.
    in_plane_offsets: Vec<(f64, f64)>,
}

impl WalkerConstellation {
    pub fn new(shell: &Shell) -> WalkerConstellation {
        let (drift, gain) = shell.secular_drifts();
        let inclination = radians(shell.inclination_deg);
        WalkerConstellation {
            semi_major_axis: shell.semi_major_axis(),
            sine: sin(inclination),
            cosine: cos(inclination),
            argument_rate: shell.mean_motion() + gain,
            raan_rate: drift,
            epoch_ns: shell.epoch_unix_ns,
            planes: (0..shell.planes)
                .map(|plane| OrbitalPosition {
                    raan: shell.raan(plane),
                    argument_of_latitude: shell.phase(plane),
                })
                .collect(),
            in_plane_offsets: (0..shell.per_plane)
                .map(|number| f64::from(number) * shell.in_plane_spacing())
                .map(|angle| (cos(angle), sin(angle)))
                .collect(),
        }
    }

    pub fn epoch_ns(&self) -> i64 {
        self.epoch_ns
    }

    pub fn len(&self) -> usize {
        self.planes.len() * self.in_plane_offsets.len()
    }

    /// Writes Earth-fixed positions.
    pub fn fill_positions(&self, unix_s: f64, out: &mut [Vector]) {
        let passed = unix_s - self.epoch_ns as f64 / 1e9;
        let turned = fmod(self.argument_rate * passed, TURN);
        let drifted = self.raan_rate * passed - earth::sidereal_time(unix_s);
        for (plane, out) in
            self.planes.iter().zip(out.chunks_exact_mut(self.in_plane_offsets.len()))
        {
            let node = plane.raan + drifted;
            let (east, north) = (cos(node), sin(node));
            // The axes of the plane: towards its ascending node, and a quarter turn ahead.
            let first = Vector::new(east, north, 0.0) * self.semi_major_axis;
            let second = Vector::new(-north * self.cosine, east * self.cosine, self.sine)
                * self.semi_major_axis;
            let argument = plane.argument_of_latitude + turned;
            let (cosine, sine) = (cos(argument), sin(argument));
            for ((slot_cosine, slot_sine), out) in self.in_plane_offsets.iter().zip(out) {
                let along = cosine * slot_cosine - sine * slot_sine;
                let across = sine * slot_cosine + cosine * slot_sine;
                *out = first * along + second * across;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::earth::degrees;

    fn shell(altitude: f64, inclination: f64) -> Shell {
        Shell {
            planes: 6,
            per_plane: 11,
            inclination_deg: inclination,
            height: Height::AltitudeKm(altitude),
            spread_deg: 180.0,
            phasing: Phasing::Factor(3.0),
            propagation: Propagation::J2,
            epoch_unix_ns: 0,
        }
    }

    #[test]
    fn the_closed_forms_of_leo_reference() {
        for (altitude, inclination, minutes, drift) in [
            (780.0, 86.4, 100.45, -0.418),
            (550.0, 53.0, 95.65, -4.489),
            (1200.0, 87.9, 109.42, -0.200),
            (630.0, 51.9, 97.31, -4.421),
        ] {
            let shell = shell(altitude, inclination);
            assert!((shell.period_s() / 60.0 - minutes).abs() < 0.006, "{altitude} km: period");
            let found = degrees(shell.secular_drifts().0) * 86_400.0;
            assert!((found - drift).abs() < 0.0015, "{altitude} km: {found} degrees a day");
        }
    }

    #[test]
    fn satellites_are_on_their_circle_at_equal_distances() {
        let shell = shell(780.0, 86.4);
        let circles = WalkerConstellation::new(&shell);
        let mut at = vec![Vector::default(); circles.len()];
        circles.fill_positions(12_345.678, &mut at);
        for plane in at.chunks(11) {
            let between: Vec<f64> =
                (0..11).map(|k| plane[k].distance(plane[(k + 1) % 11])).collect();
            let chord = 2.0 * (EARTH_RADIUS + 780.0) * sin(std::f64::consts::PI / 11.0);
            assert!(between.iter().all(|found| (found - chord).abs() < 1e-8), "{between:?}");
            assert!(plane.iter().all(|one| (one.length() - EARTH_RADIUS - 780.0).abs() < 1e-8));
            let max_z = plane.iter().map(|one| one.z.abs()).fold(0.0, f64::max);
            assert!(max_z <= (EARTH_RADIUS + 780.0) * sin(radians(86.4)) + 1e-8);
        }
    }

    #[test]
    fn a_plane_comes_back_after_its_draconitic_period() {
        let shell = shell(550.0, 53.0);
        let circles = WalkerConstellation::new(&shell);
        let (_, gain) = shell.secular_drifts();
        let period = TURN / (shell.mean_motion() + gain);
        let (mut before, mut after) = (vec![Vector::default(); 66], vec![Vector::default(); 66]);
        circles.fill_positions(1000.0, &mut before);
        circles.fill_positions(1000.0 + period, &mut after);
        // The heights above the equatorial plane are equal; the nodes have moved by the drift and the Earth's rotation.
        assert!(before.iter().zip(&after).all(|(a, b)| (a.z - b.z).abs() < 1e-6));
    }
}
