//! Validation of queues, transmitters and link layers, and common checks for all stages.

use crate::stage_factory::ValidationResult;
use crate::time_slots::check_quantiles;
use crate::{
    CodeSpec, DecoderSpec, HarqCombining, LinkLayerSpec, QueueLimit, RadioSpec, ServiceSpec,
    StageUpdate,
};

/// Validates an update of a stage.
pub fn update(update: &StageUpdate) -> ValidationResult {
    match update {
        StageUpdate::Rate(rate) => above_zero("rate_bit_s", rate.bits_per_second()),
        StageUpdate::Loss(p) => probability("probability", *p),
        StageUpdate::Limit(l) => limit(*l),
        StageUpdate::Delay(_) | StageUpdate::InFlight(_) | StageUpdate::Enabled(_) => Ok(()),
    }
}

/// Validates the limit of a queue.
pub(crate) fn limit(limit: Option<QueueLimit>) -> ValidationResult {
    match limit {
        Some(QueueLimit::Packets(0) | QueueLimit::Bytes(0)) => Err("the queue's limit is 0".into()),
        _ => Ok(()),
    }
}

pub(crate) fn service(spec: &ServiceSpec) -> ValidationResult {
    match spec {
        ServiceSpec::Rate { rate_bit_s, changes } => {
            above_zero("rate_bit_s", *rate_bit_s)?;
            in_order("changes", changes.iter().map(|c| c.at_ns))?;
            changes.iter().try_for_each(|c| above_zero("changes: rate_bit_s", c.rate_bit_s))
        }
        ServiceSpec::Slots { slots, rate_bit_s } => {
            slots.validate()?;
            check_quantiles("rate_bit_s", rate_bit_s.iter().map(|rate| *rate as f64))?;
            above_zero("rate_bit_s", rate_bit_s[0])
        }
        ServiceSpec::Trace { slots_ns, slot_bytes, repeat_ns } => {
            not_empty("slots_ns", slots_ns)?;
            above_zero("slot_bytes", u64::from(*slot_bytes))?;
            above_zero("repeat_ns", *repeat_ns)?;
            if !slots_ns.is_sorted() {
                return Err("slots_ns run backwards".into());
            }
            match slots_ns.last() {
                Some(last) if last > repeat_ns => {
                    Err(format!("slots_ns end at {last}, after repeat_ns = {repeat_ns}"))
                }
                _ => Ok(()),
            }
        }
    }
}

pub(crate) fn radio(spec: &RadioSpec) -> ValidationResult {
    spec.queue.factory().validate()?;
    if let Some(channel) = &spec.channel {
        channel.validate().map_err(|message| format!("channel: {message}"))?;
    }
    link_layer(&spec.link_layer)?;
    match spec.reordering {
        Some(buffer) => above_zero("reordering: packets", buffer.packets),
        None => Ok(()),
    }
}

fn link_layer(spec: &LinkLayerSpec) -> ValidationResult {
    above_zero("rate_bit_s", spec.rate_bit_s)?;
    above_zero("frame_bytes", u64::from(spec.frame_bytes))?;
    if spec.attempts == Some(0) || spec.window == Some(0) {
        return Err("attempts and window are above 0, or none".into());
    }
    let information = f64::from(spec.frame_bytes) * 8.0;
    match &spec.code {
        CodeSpec::Given { coded_bits } => {
            not_empty("coded_bits", coded_bits)?;
            coded_bits.iter().try_for_each(|bits| above_zero("coded_bits", u64::from(*bits)))?;
            if spec.combining == HarqCombining::Chase && coded_bits.len() > 1 {
                return Err(
                    "Chase combining sends the same bits again: coded_bits has one entry".into()
                );
            }
        }
        CodeSpec::Adaptive { mother_rate, decoded } => {
            if !(*mother_rate > 0.0 && *mother_rate <= 1.0) {
                return Err(format!(
                    "mother_rate = {mother_rate} is no code rate above 0 and up to 1"
                ));
            }
            if information / mother_rate > f64::from(u32::MAX) {
                return Err(format!(
                    "mother_rate = {mother_rate}: more coded bits than can be counted"
                ));
            }
            decoded.iter().try_for_each(|share| probability("decoded", *share))?;
            if spec.attempts != u32::try_from(decoded.len() + 1).ok() {
                return Err(format!("decoded has {} shares, for one attempt more", decoded.len()));
            }
            if spec.feedback.is_none() || spec.combining != HarqCombining::Incremental {
                return Err("adaptive coded bits need feedback and incremental combining".into());
            }
        }
    }
    match &spec.decoder {
        DecoderSpec::Information { margin } if *margin < 1.0 || !margin.is_finite() => {
            return Err(format!("margin = {margin} is not at least 1"));
        }
        DecoderSpec::Information { .. } => {}
        DecoderSpec::BlockErrors { probabilities } => {
            not_empty("probabilities", probabilities)?;
            probabilities.iter().try_for_each(|p| probability("probabilities", *p))?;
        }
    }
    match spec.feedback {
        None if spec.attempts != Some(1) => Err("without feedback a packet has one attempt".into()),
        None => Ok(()),
        Some(feedback) => {
            above_zero("feedback: delay_ns", feedback.delay_ns)?;
            probability("feedback: loss", feedback.loss)?;
            match spec.time_out_ns {
                None if feedback.loss > 0.0 => {
                    Err("feedback that may be lost needs time_out_ns".into())
                }
                Some(after) if after < feedback.delay_ns => {
                    Err(format!("time_out_ns = {after} is shorter than the feedback's delay"))
                }
                _ => Ok(()),
            }
        }
    }
}

pub(crate) fn probability(key: &str, value: f64) -> ValidationResult {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(format!("{key} = {value} is no probability between 0 and 1"))
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
