//! A published case, and the combination of its parts.

use cc::{CongestionControl, ControllerConfig};
use serde_json::Value;

use crate::check_result::{CasePart, ControllerCheckResult};

/// A function that builds the controller of a flow with these options in addition to its own.
pub type BuildWithOptionsFn<'a> =
    &'a mut dyn FnMut(&ControllerConfig, &Value) -> Box<dyn CongestionControl>;

pub(super) type CheckOutcome = (bool, String);

/// A published case.
pub struct PublishedCheck {
    /// The name of the check.
    pub name: &'static str,
    /// The source.
    pub source: &'static str,
    /// The controller to which it applies.
    pub controller: &'static str,
    pub(super) run: fn(BuildWithOptionsFn) -> Vec<CasePart>,
}

impl PublishedCheck {
    /// Runs the check on the controllers that `make` builds and returns its parts.
    pub fn run(&self, make: BuildWithOptionsFn) -> Vec<CasePart> {
        (self.run)(make)
    }

    /// Combines the parts of the check. `exempts` returns the reason why a part may fail.
    pub fn combine(
        &self,
        parts: Vec<CasePart>,
        exempts: &dyn Fn(&CasePart) -> Option<&'static str>,
    ) -> ControllerCheckResult {
        let failed = parts.iter().filter(|part| !part.has_passed);
        let reasons: Option<Vec<_>> = failed.clone().map(exempts).collect();
        let texts = parts.iter().map(|part| match part.label {
            "" => part.detail.clone(),
            label => format!("{label}: {}", part.detail),
        });
        ControllerCheckResult {
            name: self.name,
            source: self.source,
            has_passed: failed.count() == 0,
            detail: texts.collect::<Vec<_>>().join("; "),
            exemption: reasons.and_then(|reasons| reasons.first().copied()),
            parts: parts.into_iter().filter(|part| !part.label.is_empty()).collect(),
        }
    }
}
