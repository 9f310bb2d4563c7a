//! Checks of values for specifications.

use crate::QueueLimit;

/// The result of a validation: a message for the user, or success.
pub(crate) type ValidationResult = Result<(), String>;

pub(crate) fn probability(key: &str, value: f64) -> ValidationResult {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} = {value} is not a probability from 0 to 1"))
    }
}

pub(crate) fn above_zero(key: &str, value: u64) -> ValidationResult {
    if value > 0 { Ok(()) } else { Err(format!("{key} is 0")) }
}

pub(crate) fn not_empty<T>(key: &str, list: &[T]) -> ValidationResult {
    if list.is_empty() { Err(format!("{key} is empty")) } else { Ok(()) }
}

/// Requires strictly increasing values.
pub(crate) fn in_order(key: &str, mut values: impl Iterator<Item = u64>) -> ValidationResult {
    let Some(mut last) = values.next() else { return Ok(()) };
    for value in values {
        if value <= last {
            return Err(format!("{key}: {value} does not come after {last}"));
        }
        last = value;
    }
    Ok(())
}

pub(crate) fn within_repeat(
    key: &str,
    last: Option<u64>,
    repeat_ns: Option<u64>,
) -> ValidationResult {
    match (last, repeat_ns) {
        (_, Some(0)) => Err("repeat_ns is 0".into()),
        (Some(last), Some(repeat)) if last > repeat => {
            Err(format!("{key} end at {last}, after repeat_ns = {repeat}"))
        }
        _ => Ok(()),
    }
}

/// Validates quantiles.
pub(crate) fn check_quantiles(key: &str, values: impl Iterator<Item = f64>) -> ValidationResult {
    let mut before: Option<f64> = None;
    for value in values {
        if value.is_nan() || before.is_some_and(|before| value < before) {
            return Err(format!("{key}: found {value}, expected numbers in ascending order"));
        }
        before = Some(value);
    }
    if before.is_none() { Err(format!("{key} is empty")) } else { Ok(()) }
}

/// Validates the limit of a queue.
pub(crate) fn limit(limit: Option<QueueLimit>) -> ValidationResult {
    match limit {
        Some(QueueLimit::Packets(0) | QueueLimit::Bytes(0)) => Err("the queue's limit is 0".into()),
        _ => Ok(()),
    }
}

/// Validates a number in a closed range.
pub(crate) fn in_range(key: &str, value: f64, min: f64, max: f64) -> ValidationResult {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} = {value} is not between {min} and {max}"))
    }
}
