//! The error of an invalid specification, with its field.

use std::fmt;

/// An invalid specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrbitError {
    /// The field concerned.
    pub field: String,
    /// The description of the error.
    pub message: String,
}

impl OrbitError {
    pub(crate) fn new(field: impl Into<String>, message: impl Into<String>) -> OrbitError {
        OrbitError { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for OrbitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for OrbitError {}
