//! Vectors of three coordinates, in kilometres.

use std::ops::{Add, Mul, Sub};

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
