//! The Earth: size, gravity, rotation, points on the ground, and vectors. Vectors are in kilometres.

use std::ops::{Add, Mul, Sub};

use libm::{cos, sin, sqrt};

/// The gravitational parameter, km³/s² (WGS 84, the value of GPS and EGM96).
pub const MU: f64 = 398_600.441_8;
/// The equatorial radius, km (WGS 84). Orbit altitudes refer to it.
pub const EARTH_RADIUS: f64 = 6378.137;
/// The flattening (WGS 84).
pub const FLATTENING: f64 = 1.0 / 298.257_223_563;
/// The second zonal harmonic (WGS 84: 484.16685e-6 times the square root of 5).
pub const J2: f64 = 0.001_082_629_989_05;
/// The speed of light, km/s (SI).
pub const SPEED_OF_LIGHT: f64 = 299_792.458;

/// Seconds from 1970 to noon of 2000-01-01, in days of 86,400 s.
const J2000_UNIX: f64 = 946_728_000.0;

/// Converts an angle to radians.
pub fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

/// Converts an angle to degrees.
pub fn degrees(radians: f64) -> f64 {
    radians * (180.0 / std::f64::consts::PI)
}

/// Returns Greenwich mean sidereal time in radians by the IAU 1982 expression (Aoki et al. 1982; Vallado, Fundamentals
/// of Astrodynamics, equation 3-47). UTC replaces UT1.
pub fn sidereal_time(unix_seconds: f64) -> f64 {
    let days = (unix_seconds - J2000_UNIX) / 86_400.0;
    let t = days / 36_525.0;
    // Whole days of the 876,600 h term are whole turns. Their omission preserves digits.
    let turns = days - libm::floor(days);
    let seconds = 67_310.548_41 + (8_640_184.812_866 + (0.093_104 - 6.2e-6 * t) * t) * t;
    let whole = turns + seconds / 86_400.0;
    (whole - libm::floor(whole)) * std::f64::consts::TAU
}

/// A point on the ground or above it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroundPoint {
    /// The Earth-fixed position, km.
    pub position: Vector,
    /// The unit normal of the ellipsoid, the reference of elevations.
    pub up: Vector,
}

impl GroundPoint {
    /// Returns the point at a geodetic latitude and longitude (degrees, North and East) and an ellipsoidal height (km).
    pub fn new(latitude: f64, longitude: f64, height: f64) -> GroundPoint {
        let (phi, lambda) = (radians(latitude), radians(longitude));
        let squared = FLATTENING * (2.0 - FLATTENING);
        let normal = EARTH_RADIUS / sqrt(1.0 - squared * sin(phi) * sin(phi));
        let up = Vector::new(cos(phi) * cos(lambda), cos(phi) * sin(lambda), sin(phi));
        let flat = normal + height;
        let at = Vector::new(up.x * flat, up.y * flat, up.z * (normal * (1.0 - squared) + height));
        GroundPoint { position: at, up }
    }

    /// Returns the distance to `to` (km) and the sine of its elevation above the true horizon.
    pub fn range_and_elevation_sine(&self, to: Vector) -> (f64, f64) {
        let offset = to - self.position;
        let range = offset.length();
        (range, offset.dot(self.up) / range)
    }
}

/// A position or a displacement, km.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vector {
    /// The component towards longitude 0 on the equator.
    pub x: f64,
    /// The component towards longitude 90° East on the equator.
    pub y: f64,
    /// The component towards the North Pole.
    pub z: f64,
}

impl Vector {
    /// Creates a vector from its components.
    pub const fn new(x: f64, y: f64, z: f64) -> Vector {
        Vector { x, y, z }
    }

    /// Returns the scalar product.
    pub fn dot(self, other: Vector) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    /// Returns the length.
    pub fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// Returns the distance to `other`.
    pub fn distance(self, other: Vector) -> f64 {
        (self - other).length()
    }

    /// Rotates eastwards about the polar axis, by an angle with this sine and cosine.
    pub fn rotate_about_pole(self, sine: f64, cosine: f64) -> Vector {
        Vector::new(cosine * self.x - sine * self.y, sine * self.x + cosine * self.y, self.z)
    }
}

impl Add for Vector {
    type Output = Vector;
    fn add(self, other: Vector) -> Vector {
        Vector::new(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

impl Sub for Vector {
    type Output = Vector;
    fn sub(self, other: Vector) -> Vector {
        Vector::new(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}

impl Mul<f64> for Vector {
    type Output = Vector;
    fn mul(self, factor: f64) -> Vector {
        Vector::new(self.x * factor, self.y * factor, self.z * factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libm::{asin, atan2};

    /// Returns latitude and longitude (degrees) of the point below `at`, and its height above the ellipsoid (km).
    fn geodetic(at: Vector) -> (f64, f64, f64) {
        let squared = FLATTENING * (2.0 - FLATTENING);
        let flat = sqrt(at.x * at.x + at.y * at.y);
        let mut phi = asin(at.z / at.length());
        let mut normal = EARTH_RADIUS;
        // Each iteration reduces the error to about 1/150: 1e-13 rad after six.
        for _ in 0..6 {
            normal = EARTH_RADIUS / sqrt(1.0 - squared * sin(phi) * sin(phi));
            phi = atan2(at.z + squared * normal * sin(phi), flat);
        }
        // This form divides by no small number, neither at the pole nor at the equator.
        let height = flat * cos(phi) + at.z * sin(phi) - EARTH_RADIUS * EARTH_RADIUS / normal;
        (degrees(phi), degrees(atan2(at.y, at.x)), height)
    }

    /// Returns the slant range in km to a satellite at `altitude` km and `elevation` degrees over a spherical Earth.
    fn slant_range(altitude: f64, elevation: f64) -> f64 {
        let (sine, cosine) = (sin(radians(elevation)), cos(radians(elevation)));
        let orbit = EARTH_RADIUS + altitude;
        sqrt(orbit * orbit - EARTH_RADIUS * EARTH_RADIUS * cosine * cosine) - EARTH_RADIUS * sine
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
        // Example 3-5: 1992-08-20 12:14 UT1 is 152.578 787 886 degrees.
        let at = 714_312_840.0;
        assert!((degrees(sidereal_time(at)) - 152.578_787_886).abs() < 1e-6);
        // A day later it is 0.985 647 degrees more.
        let gained = degrees(sidereal_time(at + 86_400.0) - sidereal_time(at));
        assert!((gained - 0.985_647_4).abs() < 1e-6, "{gained}");
    }

    #[test]
    fn rotation_and_its_inverse_cancel() {
        for (latitude, longitude, height) in [
            (0.0, 0.0, 0.0),
            (59.93, 30.33, 0.0),
            (-22.9, -43.2, 550.0),
            (89.999, 10.0, 780.0),
            (90.0, 0.0, 1.0),
        ] {
            let (phi, lambda, above) =
                geodetic(GroundPoint::new(latitude, longitude, height).position);
            assert!((phi - latitude).abs() < 1e-9, "{latitude}: {phi}");
            assert!(latitude == 90.0 || (lambda - longitude).abs() < 1e-9, "{longitude}: {lambda}");
            assert!((above - height).abs() < 1e-6, "{height}: {above}");
        }
    }

    #[test]
    fn overhead_is_the_zenith_of_the_ellipsoid() {
        let point = GroundPoint::new(48.85, 2.35, 0.0);
        let (range, sine) =
            point.range_and_elevation_sine(GroundPoint::new(48.85, 2.35, 550.0).position);
        assert!((range - 550.0).abs() < 1e-9 && (sine - 1.0).abs() < 1e-12);
    }
}
