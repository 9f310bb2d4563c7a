//! The options of a controller: validation against its [`Descriptor`], default values and suggestions.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use units::{DefaultValue, Descriptor, Opt, Quantity};

use crate::{CongestionControl, ControllerConfig};

/// One controller of the catalogue.
pub struct CatalogueEntry {
    /// Names, title, reference and options.
    pub descriptor: Descriptor,
    /// The equivalent controller of the Linux kernel.
    pub kernel: Option<KernelTwin>,
    pub(crate) build: BuildFn,
}

/// An equivalent controller of Linux.
#[derive(Clone, Copy, Debug)]
pub struct KernelTwin {
    /// The name in Linux.
    pub name: &'static str,
    /// The title with version and file in net/ipv4.
    pub title: &'static str,
    /// The options that reproduce the kernel's behaviour.
    pub options: fn() -> Value,
}

impl KernelTwin {
    /// Returns whether each given option has the kernel's value.
    pub fn matches_options(&self, options: &Value) -> bool {
        let defaults = (self.options)();
        match options {
            Value::Null => true,
            Value::Object(given) => {
                given.iter().all(|(key, value)| defaults.get(key) == Some(value))
            }
            _ => false,
        }
    }
}

/// A function that builds a controller from validated options.
type BuildFn = fn(&Value, &ControllerConfig) -> Result<Box<dyn CongestionControl>, BuildError>;

/// The error of a failed build: the key, the expected value and a suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The invalid key: `congestion` for the controller's name, else the option's key.
    pub key: String,
    /// The found and the expected value.
    pub message: String,
    /// The valid word closest to the invalid one.
    pub suggestion: Option<String>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)?;
        match &self.suggestion {
            Some(word) => write!(f, "; did you mean \"{word}\"?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BuildError {}

/// Parses options that [`CatalogueEntry::complete_options`] has returned.
pub(crate) fn parse_options<O: DeserializeOwned>(options: &Value) -> Result<O, BuildError> {
    O::deserialize(options).map_err(|error| BuildError {
        key: "options".into(),
        message: error.to_string(),
        suggestion: None,
    })
}

impl CatalogueEntry {
    /// Returns the name in the scenario.
    pub const fn name(&self) -> &'static str {
        self.descriptor.scenario_name
    }

    /// Checks that all keys are known and all values in range.
    pub(crate) fn validate_options(&self, options: &Value) -> Result<(), BuildError> {
        let given = match options {
            Value::Null => return Ok(()),
            Value::Object(given) => given,
            other => {
                return Err(BuildError {
                    key: "options".into(),
                    message: format!("found {other}, expected a table of options"),
                    suggestion: None,
                });
            }
        };
        let Descriptor { scenario_name, options, .. } = self.descriptor;
        for (key, value) in given {
            let Some(option) = options.iter().find(|option| option.key == key) else {
                let names: Vec<&str> = options.iter().map(|option| option.key).collect();
                let message = if names.is_empty() {
                    format!("no such option; {scenario_name} has no options")
                } else {
                    format!("no option of {scenario_name}, expected one of: {}", names.join(", "))
                };
                return Err(BuildError {
                    key: key.clone(),
                    message,
                    suggestion: suggest(key, &names),
                });
            };
            // An option without a default accepts null.
            if value.is_null() && option.default == DefaultValue::Absent {
                continue;
            }
            validate_value(option, value)?;
        }
        Ok(())
    }

    /// Returns the options with the default values of the absent ones.
    pub(crate) fn complete_options(&self, given: &Value) -> Value {
        let default = |option: &Opt| match option.default {
            DefaultValue::Absent => Value::Null,
            DefaultValue::Number(value) => json!(value),
            DefaultValue::Integer(value) => json!(value),
            DefaultValue::Flag(value) => json!(value),
            DefaultValue::Word(value) => json!(value),
        };
        let defaults = self.descriptor.options.iter();
        let mut options: Map<String, Value> =
            defaults.map(|option| (option.key.to_owned(), default(option))).collect();
        options
            .extend(given.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
        Value::Object(options)
    }

    /// Returns the default options.
    #[cfg(test)]
    pub(crate) fn default_options<O: DeserializeOwned>(&self) -> O {
        parse_options(&self.complete_options(&Value::Null)).unwrap()
    }

    /// Returns the entry in the form that Python reads.
    pub(crate) fn to_json(&self) -> Value {
        let mut entry = serde_json::to_value(self.descriptor).unwrap_or_default();
        entry["kernel"] = json!(self.kernel.map(|kernel| json!({
            "name": kernel.name, "title": kernel.title, "options": (kernel.options)(),
        })));
        entry
    }
}

fn validate_value(option: &Opt, value: &Value) -> Result<(), BuildError> {
    let (low, high) =
        (option.min.unwrap_or(f64::NEG_INFINITY), option.max.unwrap_or(f64::INFINITY));
    let fits = match option.quantity {
        Quantity::Flag => value.is_boolean(),
        Quantity::Choice(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Quantity::Integer => value.as_u64().is_some_and(|n| (low..=high).contains(&(n as f64))),
        _ => value.as_f64().is_some_and(|x| (low..=high).contains(&x)),
    };
    if fits {
        return Ok(());
    }
    let (expected, suggestion) = match option.quantity {
        Quantity::Flag => ("true or false".into(), None),
        Quantity::Choice(words) => (
            format!("one of {}", words.join(", ")),
            value.as_str().and_then(|word| suggest(word, words)),
        ),
        Quantity::Integer => (format!("a whole number from {low} to {high}"), None),
        _ => (format!("a number from {low} to {high}"), None),
    };
    Err(BuildError {
        key: option.key.into(),
        message: format!("found {value}, expected {expected}"),
        suggestion,
    })
}

/// Returns the element of `words` closest to `wrong`, if the distance is small enough.
pub(crate) fn suggest(wrong: &str, words: &[&str]) -> Option<String> {
    let wrong = wrong.to_lowercase();
    words
        .iter()
        .map(|word| (edit_distance(&wrong, &word.to_lowercase()), *word))
        .filter(|(distance, word)| *distance <= word.len().max(3) / 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word.to_owned())
}

/// Returns the Levenshtein distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
