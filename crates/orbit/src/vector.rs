//! Three numbers with a direction, in kilometres.

use std::ops::{Add, Mul, Sub};

/// A position or a displacement, km.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vector {
    /// Towards longitude 0 on the equator.
    pub x: f64,
    /// Towards longitude 90° East on the equator.
    pub y: f64,
    /// Towards the North Pole.
    pub z: f64,
}

impl Vector {
    /// From its three parts.
    pub const fn new(x: f64, y: f64, z: f64) -> Vector {
        Vector { x, y, z }
    }

    /// Scalar product.
    pub fn dot(self, other: Vector) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    /// Length.
    pub fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// Distance to `other`.
    pub fn distance(self, other: Vector) -> f64 {
        (self - other).length()
    }

    /// Turned around the pole by an angle with this sine and cosine, eastwards.
    pub fn turned(self, sine: f64, cosine: f64) -> Vector {
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
