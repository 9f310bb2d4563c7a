//! The catalogue: finds and builds controllers by their names in the scenario.

use serde_json::Value;

use crate::options::{BuildError, CatalogueEntry, suggest};
use crate::{CongestionControl, ControllerConfig, ENTRIES};

/// Returns the controller with the name or alias `name`.
pub fn find_entry(name: &str) -> Option<&'static CatalogueEntry> {
    ENTRIES.iter().find(|entry| entry.descriptor.has_name(name)).copied()
}

/// Returns the controller equivalent to the kernel's `name`.
pub fn find_kernel_twin(name: &str) -> Option<&'static CatalogueEntry> {
    ENTRIES.iter().find(|entry| entry.kernel.is_some_and(|kernel| kernel.name == name)).copied()
}

/// A controller with validated and complete options, from which many connections are served.
pub struct PreparedController {
    entry: &'static CatalogueEntry,
    options: Value,
}

impl PreparedController {
    /// Builds the controller of one connection.
    ///
    /// # Errors
    /// Options that exclude each other.
    pub fn build(
        &self,
        config: &ControllerConfig,
    ) -> Result<Box<dyn CongestionControl>, BuildError> {
        (self.entry.build)(&self.options, config)
    }
}

/// Finds the controller `name`, and validates and completes its `options` (an object, or null for defaults).
///
/// # Errors
/// An unknown name, or a defect of the options.
pub fn prepare_controller(name: &str, options: &Value) -> Result<PreparedController, BuildError> {
    let Some(entry) = find_entry(name) else {
        let names: Vec<&str> = ENTRIES.iter().flat_map(|entry| entry.descriptor.names()).collect();
        return Err(BuildError {
            key: "congestion".into(),
            message: format!("found \"{name}\", expected one of {}", names.join(", ")),
            suggestion: suggest(name, &names),
        });
    };
    entry.validate_options(options)?;
    Ok(PreparedController { entry, options: entry.complete_options(options) })
}

/// Builds the controller `name` with `options` for one connection.
///
/// # Errors
/// As [`prepare_controller`] and [`PreparedController::build`].
pub fn build_controller(
    name: &str,
    options: &Value,
    config: &ControllerConfig,
) -> Result<Box<dyn CongestionControl>, BuildError> {
    prepare_controller(name, options)?.build(config)
}

/// Returns the descriptors of all controllers and their equivalents in Linux, for validation and documentation.
pub fn catalogue_json() -> Value {
    Value::Array(ENTRIES.iter().map(|entry| entry.to_json()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use units::{Span, Time};

    fn config() -> ControllerConfig {
        ControllerConfig {
            mss: 1200,
            initial_window: 12_000,
            initial_rtt: Span::from_millis(333),
            seed: 1,
            is_paced: true,
        }
    }

    fn error(name: &str, options: Value) -> String {
        build_controller(name, &options, &config()).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn every_entry_builds_from_its_documented_defaults() {
        for entry in ENTRIES {
            let defaults = entry.complete_options(&Value::Null);
            for options in [Value::Null, json!({}), defaults] {
                let mut controller = build_controller(entry.name(), &options, &config())
                    .unwrap_or_else(|error| panic!("{}: {error}", entry.name()));
                assert!(controller.start(Time::ZERO).cwnd >= 2 * 1200);
            }
        }
    }

    /// The kernel's options must be known to the entry and in range.
    #[test]
    fn a_twin_is_built_from_the_kernels_options() {
        for entry in ENTRIES {
            let Some(kernel) = entry.kernel else { continue };
            let options = (kernel.options)();
            build_controller(entry.name(), &options, &config()).unwrap();
            assert!(
                kernel.matches_options(&options)
                    && kernel.matches_options(&Value::Null)
                    && kernel.matches_options(&json!({}))
            );
            assert_eq!(find_kernel_twin(kernel.name).unwrap().name(), entry.name());
            let known: Vec<&str> =
                entry.descriptor.options.iter().map(|option| option.key).collect();
            assert!(options.as_object().unwrap().keys().all(|key| known.contains(&&**key)));
        }
        let cubic = find_entry("cubic").unwrap().kernel.unwrap();
        assert!(
            !cubic.matches_options(&json!({"beta": 0.8})) && !cubic.matches_options(&json!([]))
        );
        // A name can denote different controllers here and in the kernel.
        assert_eq!(
            (find_entry("bbr").unwrap().name(), find_kernel_twin("bbr").unwrap().name()),
            ("bbr3", "bbr1")
        );
    }

    #[test]
    fn an_error_names_key_expected_value_and_suggestion() {
        let message = error("cubik", Value::Null);
        assert!(message.starts_with("congestion: found \"cubik\", expected one of newreno, reno"));
        assert!(message.ends_with("did you mean \"cubic\"?"), "{message}");
        let message = error("cubic", json!({"slow_start_exit": "hystart"}));
        assert!(message.contains("expected one of none, classic, hystart++"), "{message}");
        assert!(message.ends_with("did you mean \"hystart++\"?"), "{message}");
        let message = error("cubic", json!({"fast_convergance": true}));
        assert!(
            message.starts_with("fast_convergance: no option of cubic, expected one of: "),
            "{message}"
        );
        assert!(message.ends_with("did you mean \"fast_convergence\"?"), "{message}");
        let message = error("hybla", json!({"growth_cap": "x"}));
        assert!(message.contains("growth_cap: found \"x\", expected a number from"), "{message}");
        assert!(error("hybla", json!([1])).contains("expected a table"));
    }
}
