//! `bentpipe._engine`: runs resolved plans. Thin: JSON comes in, bytes go out
//! (docs/manual/engine.md). The only crate that names PyO3.

mod controller;
mod scheduler;

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use sim::OwnSpec;
use spec::{CongestionSpec, RunSpec};

use controller::{Failure, Outside, PyConfig, PyControl, PyEvent};
use scheduler::{OutsideScheduler, PyPause, PySchedulerConfig, PyWaiting};

/// A stack allocates for every packet; see docs/manual/performance.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Version of the engine: its crate's and a hash of its sources (build.rs), so that it changes
/// whenever results may.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("ENGINE_SOURCES"));

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The key of a scheduler among the classes that come from outside: a controller may have its name.
fn scheduler_key(class: &str) -> String {
    format!("scheduler {class}")
}

/// Runs one resolved run and returns its measurements; of `controllers` schedulers are called "scheduler NAME".
#[pyfunction]
#[pyo3(signature = (spec_json, controllers=None))]
fn run<'py>(
    py: Python<'py>,
    spec_json: &str,
    controllers: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let spec = RunSpec::from_json(spec_json).map_err(invalid)?;
    let measurements = match controllers {
        None => py.detach(|| sim::run(&spec, &mut |_, _| None)).map_err(invalid)?,
        Some(classes) => {
            let failure = Arc::new(Failure::default());
            let make = &mut |congestion: &CongestionSpec, config: &cc::ControllerConfig| {
                let class = classes.get_item(&congestion.name).ok().flatten()?;
                Some(Outside::factory(class.unbind(), congestion, config, &failure))
            };
            let decide = |own: &OwnSpec, link: &str, seed: u64| {
                let class = classes.get_item(scheduler_key(&own.called)).ok().flatten()?;
                Some(OutsideScheduler::make(py, &class, own, (link, seed), &failure))
            };
            let measurements = sim::run_own(&spec, make, &decide, &failure.stop);
            if let Some(error) = failure.take() {
                return Err(error);
            }
            measurements.map_err(invalid)?
        }
    };
    let encoded = measurements.encoded(VERSION);
    PyBytes::new_with(py, encoded.len(), |out| {
        encoded.write(out);
        Ok(())
    })
}

/// The congestion controllers and their options, as JSON.
#[pyfunction]
fn catalogue() -> String {
    cc::catalogue_json().to_string()
}

/// What a resolved run looks like, as a JSON Schema: the planner's types are made from it.
#[pyfunction]
fn run_schema() -> String {
    RunSpec::schema().to_string()
}

/// Coded bits of a frame in each attempt of a radio link, given as JSON; the last holds for all that follow.
#[pyfunction]
fn coded_bits(py: Python<'_>, radio_json: &str) -> PyResult<Vec<u32>> {
    let spec = spec::radio(radio_json).map_err(invalid)?;
    py.detach(|| spec.coded_bits()).map_err(invalid)
}

/// Mean information per coded bit of a channel, given as JSON, to its first user at `count` instants `spacing_ns` apart.
#[pyfunction]
fn channel_information(
    py: Python<'_>,
    channel_json: &str,
    spacing_ns: u64,
    count: u64,
) -> PyResult<f64> {
    let spec = spec::channel(channel_json).map_err(invalid)?;
    py.detach(|| {
        let mut channel = spec.build("channel", 1).map_err(invalid)?;
        let at = |step: u64| units::Time(step * spacing_ns);
        let sum: f64 = (0..count).map(|step| channel.at(0, at(step)).information).sum();
        Ok(sum / count.max(1) as f64)
    })
}

/// Runs the conformance list on a controller of the catalogue (by name) or on a class; returns the
/// verdicts as JSON.
#[pyfunction]
#[pyo3(signature = (controller, options_json="{}"))]
fn check_controller(
    py: Python<'_>,
    controller: &Bound<'_, PyAny>,
    options_json: &str,
) -> PyResult<String> {
    let options: serde_json::Value = serde_json::from_str(options_json).map_err(invalid)?;
    let verdicts = if let Ok(name) = controller.extract::<String>() {
        py.detach(|| cc::conformance::run_catalogue_checks(&name, &options)).map_err(invalid)?
    } else {
        let failure = Arc::new(Failure::default());
        let class = controller.clone().unbind();
        let name = controller.getattr("__name__")?.extract()?;
        let congestion = CongestionSpec { name, options };
        let verdicts = cc::conformance::run_checks(&mut |config| {
            Outside::factory(class.clone_ref(py), &congestion, config, &failure)()
        });
        if let Some(error) = failure.take() {
            return Err(error);
        }
        verdicts
    };
    let rows: Vec<_> = verdicts
        .iter()
        .map(|verdict| {
            serde_json::json!({"name": verdict.name, "rfc_section": verdict.rfc_section,
                "passed": verdict.has_passed, "detail": verdict.detail, "exemption": verdict.exemption})
        })
        .collect();
    Ok(serde_json::Value::from(rows).to_string())
}

/// Runs the conformance list of schedulers on one of ours, by its name in scenarios, or on a class; returns the verdicts as
/// JSON, none where there is no such.
#[pyfunction]
#[pyo3(signature = (scheduler, options_json="{}"))]
fn check_scheduler(
    py: Python<'_>,
    scheduler: &Bound<'_, PyAny>,
    options_json: &str,
) -> PyResult<Option<String>> {
    let verdicts = if let Ok(name) = scheduler.extract::<String>() {
        let Some(verdicts) = py.detach(|| sim::scheduler_conformance::check_named(&name)) else {
            return Ok(None);
        };
        verdicts
    } else {
        let failure = Arc::new(Failure::default());
        let called = scheduler.getattr("__name__")?.extract()?;
        let spec = OwnSpec { called, options_json: options_json.to_owned() };
        let verdicts = sim::scheduler_conformance::check(&mut || {
            OutsideScheduler::make(py, scheduler, &spec, ("model.down", 1), &failure)
        });
        if let Some(error) = failure.take() {
            return Err(error);
        }
        verdicts
    };
    let rows: Vec<_> = verdicts
        .iter()
        .map(|verdict| {
            serde_json::json!({"name": verdict.name, "asks": verdict.asks, "passed": verdict.passed,
                "detail": verdict.detail, "exemption": verdict.exemption})
        })
        .collect();
    Ok(Some(serde_json::Value::from(rows).to_string()))
}

/// Follows a pair of places over a constellation; question and answer are JSON. Ctrl-C stops it.
#[pyfunction]
#[pyo3(name = "orbit")]
fn over_orbit(py: Python<'_>, question_json: &str) -> PyResult<String> {
    let mut signal = None;
    let mut going_on = || {
        signal = Python::attach(|py| py.check_signals()).err();
        signal.is_none()
    };
    let found = py.detach(|| orbit::answer(question_json, &mut going_on));
    match signal {
        Some(signal) => Err(signal),
        None => found.map_err(invalid),
    }
}

/// Every satellite's next hop to every ground station, step by step, as one number that changes with any of them.
#[pyfunction]
fn orbit_tables(py: Python<'_>, spec_json: &str) -> PyResult<u64> {
    py.detach(|| orbit::tables::fingerprint(spec_json)).map_err(invalid)
}

/// When which satellites are within reach of ground stations and of each other; specification and answer are JSON.
#[pyfunction]
fn orbit_passes(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    py.detach(|| orbit::passes::answer(spec_json)).map_err(invalid)
}

/// Reads ION's commands of a contact plan; the plan, notes and problems by line are JSON.
#[pyfunction]
fn read_contact_plan(py: Python<'_>, text: &str) -> String {
    py.detach(|| contacts::read_ion(text))
}

/// What is wrong with a contact plan and what is hardly meant; plan and answer are JSON.
#[pyfunction]
fn check_contact_plan(py: Python<'_>, plan_json: &str) -> PyResult<String> {
    py.detach(|| contacts::checked(plan_json)).map_err(invalid)
}

/// What a node does with a bundle by a contact plan, and why; question and answer are JSON.
#[pyfunction]
fn route_bundle(py: Python<'_>, question_json: &str) -> PyResult<String> {
    py.detach(|| contacts::route(question_json)).map_err(invalid)
}

/// What a destination can have at best by a contact plan; question and answer are JSON.
#[pyfunction]
fn best_delivery(py: Python<'_>, question_json: &str) -> PyResult<String> {
    py.detach(|| contacts::best_delivery(question_json)).map_err(invalid)
}

/// The profile of Cargo's that the engine is compiled with.
///
/// `guided` is a release that was compiled by what another one's runs were counted to do.
#[pyfunction]
fn profile() -> &'static str {
    env!("ENGINE_PROFILE")
}

/// The engine's version.
#[pyfunction]
fn version() -> &'static str {
    VERSION
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyConfig>()?;
    module.add_class::<PyControl>()?;
    module.add_class::<PyEvent>()?;
    module.add_class::<PyPause>()?;
    module.add_class::<PySchedulerConfig>()?;
    module.add_class::<PyWaiting>()?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(catalogue, module)?)?;
    module.add_function(wrap_pyfunction!(run_schema, module)?)?;
    module.add_function(wrap_pyfunction!(check_controller, module)?)?;
    module.add_function(wrap_pyfunction!(check_scheduler, module)?)?;
    module.add_function(wrap_pyfunction!(coded_bits, module)?)?;
    module.add_function(wrap_pyfunction!(channel_information, module)?)?;
    module.add_function(wrap_pyfunction!(over_orbit, module)?)?;
    module.add_function(wrap_pyfunction!(orbit_tables, module)?)?;
    module.add_function(wrap_pyfunction!(orbit_passes, module)?)?;
    module.add_function(wrap_pyfunction!(read_contact_plan, module)?)?;
    module.add_function(wrap_pyfunction!(check_contact_plan, module)?)?;
    module.add_function(wrap_pyfunction!(route_bundle, module)?)?;
    module.add_function(wrap_pyfunction!(best_delivery, module)?)?;
    module.add_function(wrap_pyfunction!(profile, module)?)?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    Ok(())
}
