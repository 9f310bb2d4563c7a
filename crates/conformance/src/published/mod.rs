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
mod case;
mod exemptions;
mod recurrences;
mod s2n_quic;

use cc::find_entry;
use serde_json::Value;

pub use self::case::{BuildWithOptionsFn, PublishedCheck};
pub use self::exemptions::published_exemptions;
use crate::check_result::ControllerCheckResult;

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
