//! A Walker constellation on circles: t satellites, p planes, phase factor f (Walker, Satellite constellations, JBIS 37,
//! 1984), with the secular drifts that the Earth's oblateness gives them.

use libm::{cbrt, cos, fmod, sin, sqrt};

use crate::earth::{self, J2, MU, RADIUS, radians};
use crate::spec::{Height, Phasing, Propagation, Shell};
use crate::{OrbitError, Vector};

const TURN: f64 = std::f64::consts::TAU;

/// Right ascension of the ascending node of a plane and argument of latitude of one of its satellites at the epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    pub node: f64,
    pub argument: f64,
}

impl Shell {
    /// What cannot fly.
    pub(crate) fn check(&self) -> Result<(), OrbitError> {
        let wrong = |place: &str, message: String| Err(OrbitError::new(place, message));
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

    /// Semi-major axis, km: from revolutions by Kepler's third law.
    pub fn axis(&self) -> f64 {
        match self.height {
            Height::AltitudeKm(altitude) => RADIUS + altitude,
            Height::RevolutionsDay(revolutions) => {
                let motion = revolutions * TURN / 86_400.0;
                cbrt(MU / (motion * motion))
            }
        }
    }

    /// Above the equatorial radius, km.
    pub fn altitude(&self) -> f64 {
        self.axis() - RADIUS
    }

    /// Kepler's mean motion, rad/s.
    pub fn motion(&self) -> f64 {
        let axis = self.axis();
        sqrt(MU / (axis * axis * axis))
    }

    /// Time of one revolution by Kepler's third law, seconds.
    pub fn period_s(&self) -> f64 {
        TURN / self.motion()
    }

    /// Drift of the nodes and gain of the argument of latitude beside Kepler's motion, rad/s: first order in J2 on a
    /// circle (Vallado, equations 9-38 and 9-41; perigee and mean anomaly together).
    pub fn drifts(&self) -> (f64, f64) {
        if self.propagation != Propagation::J2 {
            return (0.0, 0.0);
        }
        let ratio = RADIUS / self.axis();
        let cosine = cos(radians(self.inclination_deg));
        let scale = self.motion() * J2 * ratio * ratio;
        (
            -1.5 * scale * cosine,
            0.75 * scale * ((5.0 * cosine * cosine - 1.0) + (3.0 * cosine * cosine - 1.0)),
        )
    }

    /// What lies between two satellites of a plane.
    pub(crate) fn slot(&self) -> f64 {
        TURN / f64::from(self.per_plane)
    }

    /// Argument of latitude of a plane's first satellite at the epoch.
    pub(crate) fn phase(&self, plane: u32) -> f64 {
        match self.phasing {
            Phasing::Factor(factor) => {
                factor * f64::from(plane) * TURN
                    / (f64::from(self.planes) * f64::from(self.per_plane))
            }
            Phasing::Alternate => f64::from(plane % 2) * self.slot() / 2.0,
        }
    }

    /// Right ascension of a plane's ascending node at the epoch.
    pub(crate) fn node(&self, plane: u32) -> f64 {
        radians(self.spread_deg) * f64::from(plane) / f64::from(self.planes)
    }

    /// Every satellite at the epoch, plane by plane.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        (0..self.planes).flat_map(move |plane| {
            (0..self.per_plane).map(move |number| Place {
                node: self.node(plane),
                argument: fmod(self.phase(plane) + f64::from(number) * self.slot(), TURN),
            })
        })
    }
}

/// A constellation on circles, ready to be asked where its satellites are.
#[derive(Clone, Debug)]
pub(crate) struct Circles {
    axis: f64,
    sine: f64,
    cosine: f64,
    motion: f64,
    drift: f64,
    epoch_ns: i64,
    /// Node and argument of the first satellite of each plane.
    planes: Vec<Place>,
    /// Cosine and sine from the first satellite of a plane to each.
    slots: Vec<(f64, f64)>,
}

impl Circles {
    pub fn new(shell: &Shell) -> Circles {
        let (drift, gain) = shell.drifts();
        let inclination = radians(shell.inclination_deg);
        Circles {
            axis: shell.axis(),
            sine: sin(inclination),
            cosine: cos(inclination),
            motion: shell.motion() + gain,
            drift,
            epoch_ns: shell.epoch_unix_ns,
            planes: (0..shell.planes)
                .map(|plane| Place { node: shell.node(plane), argument: shell.phase(plane) })
                .collect(),
            slots: (0..shell.per_plane)
                .map(|number| f64::from(number) * shell.slot())
                .map(|angle| (cos(angle), sin(angle)))
                .collect(),
        }
    }

    pub fn epoch_ns(&self) -> i64 {
        self.epoch_ns
    }

    pub fn len(&self) -> usize {
        self.planes.len() * self.slots.len()
    }

    /// Positions that turn with the Earth.
    pub fn fill(&self, unix_s: f64, out: &mut [Vector]) {
        let passed = unix_s - self.epoch_ns as f64 / 1e9;
        let turned = fmod(self.motion * passed, TURN);
        let drifted = self.drift * passed - earth::sidereal(unix_s);
        for (place, out) in self.planes.iter().zip(out.chunks_exact_mut(self.slots.len())) {
            let node = place.node + drifted;
            let (east, north) = (cos(node), sin(node));
            // the plane's axes: towards its ascending node, and a quarter of a turn on
            let first = Vector::new(east, north, 0.0) * self.axis;
            let second =
                Vector::new(-north * self.cosine, east * self.cosine, self.sine) * self.axis;
            let argument = place.argument + turned;
            let (cosine, sine) = (cos(argument), sin(argument));
            for ((slot_cosine, slot_sine), out) in self.slots.iter().zip(out) {
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
            let found = degrees(shell.drifts().0) * 86_400.0;
            assert!((found - drift).abs() < 0.0015, "{altitude} km: {found} degrees a day");
        }
    }

    #[test]
    fn satellites_are_on_their_circle_at_equal_distances() {
        let shell = shell(780.0, 86.4);
        let circles = Circles::new(&shell);
        let mut at = vec![Vector::default(); circles.len()];
        circles.fill(12_345.678, &mut at);
        for plane in at.chunks(11) {
            let between: Vec<f64> =
                (0..11).map(|k| plane[k].distance(plane[(k + 1) % 11])).collect();
            let chord = 2.0 * (RADIUS + 780.0) * sin(std::f64::consts::PI / 11.0);
            assert!(between.iter().all(|found| (found - chord).abs() < 1e-8), "{between:?}");
            assert!(plane.iter().all(|one| (one.length() - RADIUS - 780.0).abs() < 1e-8));
            let most = plane.iter().map(|one| one.z.abs()).fold(0.0, f64::max);
            assert!(most <= (RADIUS + 780.0) * sin(radians(86.4)) + 1e-8);
        }
    }

    #[test]
    fn a_plane_comes_back_after_its_draconitic_period() {
        let shell = shell(550.0, 53.0);
        let circles = Circles::new(&shell);
        let (_, gain) = shell.drifts();
        let period = TURN / (shell.motion() + gain);
        let (mut before, mut after) = (vec![Vector::default(); 66], vec![Vector::default(); 66]);
        circles.fill(1000.0, &mut before);
        circles.fill(1000.0 + period, &mut after);
        // the same heights over the equator; nodes have moved by the drift and the Earth
        assert!(before.iter().zip(&after).all(|(a, b)| (a.z - b.z).abs() < 1e-6));
    }
}
