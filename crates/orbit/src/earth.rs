//! The Earth: its size, its gravity, its rotation, and what a place on it is.

use libm::{cos, sin, sqrt};

use crate::Vector;

/// Gravitational parameter, km³/s² (WGS 84, as GPS and EGM96 have it).
pub const MU: f64 = 398_600.441_8;
/// Equatorial radius, km (WGS 84). Altitudes of orbits are above it.
pub const RADIUS: f64 = 6378.137;
/// Flattening (WGS 84).
pub const FLATTENING: f64 = 1.0 / 298.257_223_563;
/// Second zonal harmonic (WGS 84: 484.16685e-6 times the square root of 5).
pub const J2: f64 = 0.001_082_629_989_05;
/// Speed of light, km/s (SI).
pub const LIGHT: f64 = 299_792.458;

/// Seconds from 1970 to noon of 2000-01-01, of days of 86,400 s.
const J2000_UNIX: f64 = 946_728_000.0;

/// An angle in radians.
pub fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

/// An angle in degrees.
pub fn degrees(radians: f64) -> f64 {
    radians * (180.0 / std::f64::consts::PI)
}

/// Greenwich mean sidereal time in radians, of the IAU 1982 expression (Aoki et al. 1982; Vallado, Fundamentals of
/// Astrodynamics, equation 3-47), with UT1 taken as UTC.
pub fn sidereal(unix_seconds: f64) -> f64 {
    let days = (unix_seconds - J2000_UNIX) / 86_400.0;
    let t = days / 36_525.0;
    // the whole days of the term of 876,600 h are whole turns: they are left out, so that the digits remain
    let turns = days - libm::floor(days);
    let seconds = 67_310.548_41 + (8_640_184.812_866 + (0.093_104 - 6.2e-6 * t) * t) * t;
    let whole = turns + seconds / 86_400.0;
    (whole - libm::floor(whole)) * std::f64::consts::TAU
}

/// A place on the ground or above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ground {
    /// Where it is, turning with the Earth, km.
    pub at: Vector,
    /// Away from the ellipsoid, of length 1: what elevations are counted from.
    pub up: Vector,
}

impl Ground {
    /// The place at a geodetic latitude and longitude (degrees, North and East) and a height above the ellipsoid (km).
    pub fn new(latitude: f64, longitude: f64, height: f64) -> Ground {
        let (phi, lambda) = (radians(latitude), radians(longitude));
        let squared = FLATTENING * (2.0 - FLATTENING);
        let normal = RADIUS / sqrt(1.0 - squared * sin(phi) * sin(phi));
        let up = Vector::new(cos(phi) * cos(lambda), cos(phi) * sin(lambda), sin(phi));
        let flat = normal + height;
        let at = Vector::new(up.x * flat, up.y * flat, up.z * (normal * (1.0 - squared) + height));
        Ground { at, up }
    }

    /// Distance to `to` (km) and the sine of its elevation above the true horizon.
    pub fn sees(&self, to: Vector) -> (f64, f64) {
        let way = to - self.at;
        let range = way.length();
        (range, way.dot(self.up) / range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libm::{asin, atan2};

    /// Latitude and longitude (degrees) of the point below `at`, and the height above the ellipsoid (km).
    fn geodetic(at: Vector) -> (f64, f64, f64) {
        let squared = FLATTENING * (2.0 - FLATTENING);
        let flat = sqrt(at.x * at.x + at.y * at.y);
        let mut phi = asin(at.z / at.length());
        let mut normal = RADIUS;
        // each round leaves some 1/150 of the error: 1e-13 rad after six
        for _ in 0..6 {
            normal = RADIUS / sqrt(1.0 - squared * sin(phi) * sin(phi));
            phi = atan2(at.z + squared * normal * sin(phi), flat);
        }
        // by the part that is not small, at the pole as at the equator
        let height = flat * cos(phi) + at.z * sin(phi) - RADIUS * RADIUS / normal;
        (degrees(phi), degrees(atan2(at.y, at.x)), height)
    }

    /// Distance to a satellite at `altitude` km over a sphere that is seen at `elevation` degrees, km.
    fn slant_range(altitude: f64, elevation: f64) -> f64 {
        let (sine, cosine) = (sin(radians(elevation)), cos(radians(elevation)));
        let orbit = RADIUS + altitude;
        sqrt(orbit * orbit - RADIUS * RADIUS * cosine * cosine) - RADIUS * sine
    }

    #[test]
    fn the_closed_forms_of_leo_reference() {
        for (altitude, near, far) in [
            (780.0, 1526.0, 2325.0),
            (550.0, 1123.0, 1816.0),
            (1200.0, 2205.0, 3132.0),
            (630.0, 1267.0, 2001.0),
        ] {
            assert!(
                (slant_range(altitude, 25.0) - near).abs() < 0.6,
                "{altitude} km at 25 degrees"
            );
            assert!((slant_range(altitude, 10.0) - far).abs() < 0.6, "{altitude} km at 10 degrees");
            assert!((slant_range(altitude, 90.0) - altitude).abs() < 1e-9);
        }
    }

    #[test]
    fn sidereal_time_of_vallados_example() {
        // example 3-5: 1992-08-20 12:14 UT1 is 152.578 787 886 degrees
        let at = 714_312_840.0;
        assert!((degrees(sidereal(at)) - 152.578_787_886).abs() < 1e-6);
        // a day later it is 0.985 647 degrees more
        let gained = degrees(sidereal(at + 86_400.0) - sidereal(at));
        assert!((gained - 0.985_647_4).abs() < 1e-6, "{gained}");
    }

    #[test]
    fn there_and_back() {
        for (latitude, longitude, height) in [
            (0.0, 0.0, 0.0),
            (59.93, 30.33, 0.0),
            (-22.9, -43.2, 550.0),
            (89.999, 10.0, 780.0),
            (90.0, 0.0, 1.0),
        ] {
            let (phi, lambda, above) = geodetic(Ground::new(latitude, longitude, height).at);
            assert!((phi - latitude).abs() < 1e-9, "{latitude}: {phi}");
            assert!(latitude == 90.0 || (lambda - longitude).abs() < 1e-9, "{longitude}: {lambda}");
            assert!((above - height).abs() < 1e-6, "{height}: {above}");
        }
    }

    #[test]
    fn overhead_is_the_zenith_of_the_ellipsoid() {
        let place = Ground::new(48.85, 2.35, 0.0);
        let (range, sine) = place.sees(Ground::new(48.85, 2.35, 550.0).at);
        assert!((range - 550.0).abs() < 1e-9 && (sine - 1.0).abs() < 1e-12);
    }
}
