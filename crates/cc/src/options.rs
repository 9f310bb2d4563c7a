//! The options of a controller, with type, range and description. One list serves validation, documentation and
//! suggestions. The `Default` of the options type provides the default values.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::{CongestionControl, ControllerConfig};

/// The type and range of an option.
#[derive(Clone, Copy, Debug)]
pub enum OptionKind {
    /// A number in a closed range.
    Number(f64, f64),
    /// An integer in a closed range.
    Integer(u64, u64),
    /// True or false.
    Flag,
    /// One of these strings.
    Choice(&'static [&'static str]),
}

/// One option of a controller.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The key in the scenario.
    pub name: &'static str,
    /// The type and range of the value.
    pub kind: OptionKind,
    /// The effect and the unit, for the documentation.
    pub description: &'static str,
}

/// One controller of the catalogue.
pub struct CatalogueEntry {
    /// The name in the scenario.
    pub name: &'static str,
    /// An alternative name.
    pub alias: Option<&'static str>,
    /// A title of one line for users.
    pub title: &'static str,
    /// The specification of the algorithm.
    pub reference: &'static str,
    /// The options of the controller.
    pub options: &'static [OptionSpec],
    /// The equivalent controller of the Linux kernel.
    pub kernel: Option<KernelTwin>,
    /// Whether the controller uses random numbers.
    pub is_randomised: bool,
    pub(crate) defaults: fn() -> Value,
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
        let ours = (self.options)();
        match options {
            Value::Null => true,
            Value::Object(given) => given.iter().all(|(key, value)| ours.get(key) == Some(value)),
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

/// Parses options that [`CatalogueEntry::validate_options`] has accepted.
pub(crate) fn parse_options<O: DeserializeOwned>(options: &Value) -> Result<O, BuildError> {
    let options = if options.is_null() { json!({}) } else { options.clone() };
    serde_json::from_value(options).map_err(|error| BuildError {
        key: "options".into(),
        message: error.to_string(),
        suggestion: None,
    })
}

/// Returns the default options in the form of the scenario.
pub(crate) fn default_options<O: Default + Serialize>() -> Value {
    serde_json::to_value(O::default()).unwrap_or(Value::Null)
}

impl CatalogueEntry {
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
        let defaults = (self.defaults)();
        for (key, value) in given {
            let Some(option) = self.options.iter().find(|option| option.name == key) else {
                let names: Vec<&str> = self.options.iter().map(|option| option.name).collect();
                let expected = if names.is_empty() {
                    format!("{} has none", self.name)
                } else {
                    format!("{} has {}", self.name, names.join(", "))
                };
                return Err(BuildError {
                    key: key.clone(),
                    message: format!("no such option; {expected}"),
                    suggestion: suggest(key, &names),
                });
            };
            // An option with a null default accepts null.
            if value.is_null() && defaults[key].is_null() {
                continue;
            }
            option.validate_value(value)?;
        }
        Ok(())
    }

    /// Returns the entry in the form that Python reads.
    pub(crate) fn to_json(&self) -> Value {
        let defaults = (self.defaults)();
        let options: Vec<Value> =
            self.options.iter().map(|option| option.to_json(&defaults[option.name])).collect();
        json!({
            "name": self.name,
            "aliases": self.alias.into_iter().collect::<Vec<_>>(),
            "title": self.title,
            "reference": self.reference,
            "options": options,
            "kernel": self.kernel.map(|kernel| json!({
                "name": kernel.name, "title": kernel.title, "options": (kernel.options)(),
            })),
            "chance": self.is_randomised,
        })
    }
}

impl OptionSpec {
    fn validate_value(&self, value: &Value) -> Result<(), BuildError> {
        let fits = match self.kind {
            OptionKind::Number(low, high) => {
                value.as_f64().is_some_and(|x| (low..=high).contains(&x))
            }
            OptionKind::Integer(low, high) => {
                value.as_u64().is_some_and(|n| (low..=high).contains(&n))
            }
            OptionKind::Flag => value.is_boolean(),
            OptionKind::Choice(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        };
        if fits {
            return Ok(());
        }
        let suggestion = match (self.kind, value.as_str()) {
            (OptionKind::Choice(words), Some(word)) => suggest(word, words),
            _ => None,
        };
        Err(BuildError {
            key: self.name.into(),
            message: format!("found {value}, expected {}", self.expected_text()),
            suggestion,
        })
    }

    fn expected_text(&self) -> String {
        match self.kind {
            OptionKind::Number(low, high) => format!("a number from {low} to {high}"),
            OptionKind::Integer(low, high) => format!("a whole number from {low} to {high}"),
            OptionKind::Flag => "true or false".into(),
            OptionKind::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }

    fn to_json(self, default: &Value) -> Value {
        let mut entry = Map::new();
        entry.insert("name".into(), json!(self.name));
        let (kind, range) = match self.kind {
            OptionKind::Number(low, high) => ("number", Some((json!(low), json!(high)))),
            OptionKind::Integer(low, high) => ("integer", Some((json!(low), json!(high)))),
            OptionKind::Flag => ("boolean", None),
            OptionKind::Choice(words) => {
                entry.insert("allowed".into(), json!(words));
                ("string", None)
            }
        };
        entry.insert("type".into(), json!(kind));
        if let Some((low, high)) = range {
            entry.insert("minimum".into(), low);
            entry.insert("maximum".into(), high);
        }
        entry.insert("default".into(), default.clone());
        entry.insert("optional".into(), json!(default.is_null()));
        entry.insert("meaning".into(), json!(self.description));
        Value::Object(entry)
    }
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
