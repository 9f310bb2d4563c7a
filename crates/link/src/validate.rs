//! Validation of updates and service processes.

use crate::checks::{
    ValidationResult, above_zero, check_quantiles, in_order, limit, not_empty, probability,
};
use crate::{ServiceSpec, StageUpdate};

/// Validates an update of a stage.
pub fn update(update: &StageUpdate) -> ValidationResult {
    match update {
        StageUpdate::Rate(rate) => above_zero("rate_bit_s", rate.bits_per_second()),
        StageUpdate::Loss(p) => probability("probability", *p),
        StageUpdate::Limit(l) => limit(*l),
        StageUpdate::Delay(_) | StageUpdate::InFlight(_) | StageUpdate::Enabled(_) => Ok(()),
    }
}

pub(crate) fn service(spec: &ServiceSpec) -> ValidationResult {
    match spec {
        ServiceSpec::Rate { rate_bit_s, changes } => {
            above_zero("rate_bit_s", *rate_bit_s)?;
            in_order("changes", changes.iter().map(|c| c.at_ns))?;
            changes.iter().try_for_each(|c| above_zero("changes: rate_bit_s", c.rate_bit_s))
        }
        ServiceSpec::Reconfiguration { reconfiguration, rate_bit_s } => {
            reconfiguration.validate()?;
            check_quantiles("rate_bit_s", rate_bit_s.iter().map(|rate| *rate as f64))?;
            above_zero("rate_bit_s", rate_bit_s[0])
        }
        ServiceSpec::Trace { opportunities_ns, opportunity_bytes, repeat_ns } => {
            not_empty("opportunities_ns", opportunities_ns)?;
            above_zero("opportunity_bytes", u64::from(*opportunity_bytes))?;
            above_zero("repeat_ns", *repeat_ns)?;
            if !opportunities_ns.is_sorted() {
                return Err("opportunities_ns are not in order of time".into());
            }
            match opportunities_ns.last() {
                Some(last) if last > repeat_ns => {
                    Err(format!("opportunities_ns end at {last}, after repeat_ns = {repeat_ns}"))
                }
                _ => Ok(()),
            }
        }
    }
}
