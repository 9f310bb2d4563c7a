//! The results of checks.

/// The result of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerCheckResult {
    /// The name of the check.
    pub name: &'static str,
    /// The source of the requirement.
    pub source: &'static str,
    /// Whether the controller met the requirement.
    pub has_passed: bool,
    /// The measured and the required values.
    pub detail: String,
    /// The reason why a failure is accepted.
    pub exemption: Option<&'static str>,
    /// The parts of a check at several RTTs; else empty.
    pub parts: Vec<CasePart>,
}

impl ControllerCheckResult {
    /// Returns whether the check passed or has an exemption.
    pub fn is_accepted(&self) -> bool {
        self.has_passed || self.exemption.is_some()
    }
}

/// The result of a part of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct CasePart {
    /// The RTT, or empty if the check has one part.
    pub label: &'static str,
    /// Whether the controller met the requirement.
    pub has_passed: bool,
    /// The measured and the required values.
    pub detail: String,
}

impl From<(bool, String)> for CasePart {
    fn from((has_passed, detail): (bool, String)) -> CasePart {
        CasePart { label: "", has_passed, detail }
    }
}
