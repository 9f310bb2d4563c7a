//! What is wrong with a specification, and where.

use std::fmt;

/// A specification that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The node, link direction or stage concerned, for example `satellite.up stage 1 (transmit)`.
    pub place: String,
    /// What is wrong with it.
    pub message: String,
}

impl SpecError {
    /// An error at `place`.
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> SpecError {
        SpecError { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for SpecError {}
