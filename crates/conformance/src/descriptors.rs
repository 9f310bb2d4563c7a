//! Sample specifications from descriptors, for tests of every member of a kind.

use serde_json::{Map, Value, json};
use units::{DefaultValue, Descriptor, Opt, Quantity};

/// Returns the specification of a member with the default values of its options. `tag` is the key of the member's kind.
/// A required option has a value inside its range.
pub fn sample_spec(descriptor: &Descriptor, tag: &str) -> Value {
    let mut spec = Map::from_iter([(tag.to_owned(), json!(descriptor.spec_kind))]);
    let fields = descriptor.options.iter().filter(|option| {
        let is_absent = option.omitted && option.default == DefaultValue::Absent;
        !option.spec_field.is_empty() && !is_absent
    });
    for option in fields {
        if option.spec_field == "*" {
            spec.extend(several_fields(option));
            continue;
        }
        let mut table = &mut spec;
        let mut path = option.spec_field.split('.').peekable();
        while let Some(step) = path.next() {
            if path.peek().is_none() {
                table.insert(step.to_owned(), sample_value(option));
                break;
            }
            let inner = table.entry(step).or_insert_with(|| json!({}));
            let Value::Object(inner) = inner else { break };
            table = inner;
        }
    }
    Value::Object(spec)
}

/// Returns the fields that a hook returns together.
fn several_fields(option: &Opt) -> Map<String, Value> {
    let fields = match option.quantity {
        Quantity::Hook("three_states") => json!({
            "transitions": [[1.0]],
            "states": [{"mean_db": 0.0, "deviation_db": 1.0, "multipath_db": -20.0}],
            "frames_m": [5.0],
            "transition_m": 2.0,
            "correlation_m": 1.0,
        }),
        Quantity::Hook("link_layer") => json!({
            "rate_bit_s": 1_000_000,
            "code": {"kind": "given", "coded_bits": [10_000]},
            "decoder": {"kind": "block_errors", "probabilities": [0.1]},
            "attempts": 1,
            "window": null,
            "feedback": null,
            "timeout_ns": null,
        }),
        Quantity::Hook("queue_and_channel") => json!({
            "queue": {"kind": "drop_tail", "limit": null},
            "channel": {"kind": "fixed", "snr_db": 10.0},
        }),
        Quantity::Hook("bearer") => json!({
            "queue": {"kind": "drop_tail", "limit": null},
            "channel": null,
            "block_bytes": 1_000,
            "coded_bits": 8_000,
            "decoder": {"kind": "block_errors", "probabilities": [0.1]},
            "attempts": 1,
            "feedback": null,
            "reordering": null,
        }),
        _ => json!({}),
    };
    fields.as_object().cloned().unwrap_or_default()
}

fn sample_value(option: &Opt) -> Value {
    match (option.default, option.quantity) {
        (DefaultValue::Number(value), _) => json!(value),
        (DefaultValue::Integer(value), _) => json!(value),
        (DefaultValue::Flag(value), _) => json!(value),
        (DefaultValue::Word(word), _) => json!(word),
        (DefaultValue::Absent, Quantity::Hook("limit")) => Value::Null,
        (DefaultValue::Absent, Quantity::Hook(hook))
            if hook == "limit_packets" || hook.ends_with("_ns") =>
        {
            json!(1_000)
        }
        (DefaultValue::Absent, Quantity::Hook("rlc")) => json!({"kind": "unacknowledged"}),
        (DefaultValue::Absent, Quantity::Hook("elevation_deg")) => json!(40.0),
        (DefaultValue::Absent, Quantity::Hook(_)) => json!([]),
        (DefaultValue::Absent, Quantity::Probability) => json!(0.25),
        (DefaultValue::Absent, Quantity::Flag) => json!(true),
        (DefaultValue::Absent, Quantity::Choice(words) | Quantity::ByName(words)) => {
            json!(words.first())
        }
        (DefaultValue::Absent, _) => json!(option.min.unwrap_or(1.0) as u64),
    }
}
