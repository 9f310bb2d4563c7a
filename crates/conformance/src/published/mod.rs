//! Checks of built-in controllers against published cases, with exact values. Each file has one source.
//! - `bbr_startup`, `bbr_probe_bw`, `bbr_path`: the test cases of draft-ietf-ccwg-bbr-06 for BBRv3, on `bench`;
//! - `s2n_quic`: CUBIC round by round;
//! - `recurrences`: NewReno, Hybla and Westwood+ against recurrences over packets.
//!
//! A source is written for the default options. A failure with other options is exempt.

mod bbr_path;
mod bbr_probe_bw;
mod bbr_startup;
mod bench;
mod exemptions;
mod recurrences;
mod s2n_quic;

use cc::{CongestionControl, ControllerConfig, find_entry};
use serde_json::Value;

pub use self::exemptions::published_exemptions;
use crate::controllers::ControllerCheckResult;

/// A function that builds the controller of a flow with these options in addition to its own.
pub type BuildWithOptionsFn<'a> =
    &'a mut dyn FnMut(&ControllerConfig, &Value) -> Box<dyn CongestionControl>;

type CheckOutcome = (bool, String);

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

impl From<CheckOutcome> for CasePart {
    fn from((has_passed, detail): CheckOutcome) -> CasePart {
        CasePart { label: "", has_passed, detail }
    }
}

/// A published case.
pub struct PublishedCheck {
    /// The name of the check.
    pub name: &'static str,
    /// The source.
    pub source: &'static str,
    /// The controller to which it applies.
    pub controller: &'static str,
    run: fn(BuildWithOptionsFn) -> Vec<CasePart>,
}

/// A test case of the draft, at three RTTs.
macro_rules! bbr_case {
    ($name:literal, $number:literal, $case:path) => {
        $crate::published::PublishedCheck {
            name: $name,
            source: concat!("draft-ietf-ccwg-bbr-06, test case ", $number),
            controller: "bbr3",
            run: |make| $crate::published::bench::at_each_rtt(make, $case),
        }
    };
}
use bbr_case;

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

/// Returns the checks of the controller `name`, which is no alias. Numbered cases are in the order of their numbers.
pub fn published_checks(name: &str) -> impl Iterator<Item = &'static PublishedCheck> {
    let bbr = [bbr_startup::CHECKS, bbr_probe_bw::CHECKS, bbr_path::CHECKS];
    let sources = bbr.into_iter().chain([s2n_quic::CHECKS, recurrences::CHECKS]);
    let mut checks: Vec<_> = sources.flatten().filter(|check| check.controller == name).collect();
    let number = |name: &str| name.rsplit('-').next().and_then(|number| number.parse::<u32>().ok());
    checks.sort_by_key(|check| number(check.name));
    checks.into_iter()
}

/// Runs the checks of the controller of the catalogue with the name or alias `name`.
pub(crate) fn run_published_checks(name: &str, options: &Value) -> Vec<ControllerCheckResult> {
    let Some(entry) = find_entry(name) else { return Vec::new() };
    let has_options = options.as_object().is_some_and(|options| !options.is_empty());
    published_checks(entry.name())
        .map(|check| {
            let parts = check.run(&mut |config, more| {
                cc::build_controller(name, &combine_options(options, more), config)
                    .unwrap_or_else(|error| panic!("{error}"))
            });
            check.combine(parts, &|part| {
                let exemptions = published_exemptions(entry.name()).iter();
                let found = exemptions.filter(|exemption| exemption.applies_to(check.name, part));
                let reason = found.map(|exemption| exemption.reason).next();
                reason.or(has_options.then_some("the source is for the default options"))
            })
        })
        .collect()
}

/// Returns `options` with those of `more`, which a check requires.
pub fn combine_options(options: &Value, more: &Value) -> Value {
    let mut all = options.as_object().cloned().unwrap_or_default();
    all.extend(more.as_object().cloned().unwrap_or_default());
    Value::Object(all)
}
