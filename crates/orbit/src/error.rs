//! What is wrong with a specification, and where.

use std::fmt;

/// A specification that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrbitError {
    /// The field concerned.
    pub place: String,
    /// What is wrong with it.
    pub message: String,
}

impl OrbitError {
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> OrbitError {
        OrbitError { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for OrbitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for OrbitError {}
