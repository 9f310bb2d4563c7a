//! Errors of specifications and their locations.

use std::fmt;

/// A specification that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    /// The affected node, link direction or stage, for example `satellite.up stage 1 (transmit)`.
    pub location: String,
    /// The description of the error.
    pub message: String,
}

impl SpecError {
    /// Returns an error at `location`.
    pub fn new(location: impl Into<String>, message: impl Into<String>) -> SpecError {
        SpecError { location: location.into(), message: message.into() }
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

impl std::error::Error for SpecError {}
